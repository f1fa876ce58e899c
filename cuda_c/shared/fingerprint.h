/* Tells whether a matrix in the device's memory has changed, by a fingerprint of 122 bits.
 *
 * The halves of a weight can be kept only as long as the weight stays the same. But its writers (an
 * optimizer's fused kernel, another library, a copy) need not tell fgn. So the device reads the weight at the
 * speed of memory and compares its fingerprint with that of the weight from which the halves were made. The
 * host does not wait: the next kernels on the stream read `changed`.
 *
 * The fingerprint. The matrix is a row of 32-bit words, cut into chunks of 32. Each chunk has two digests,
 * with keys k (NH; Black, Halevi, Krawczyk, Krovetz and Rogaway, "UMAC: Fast and secure message
 * authentication", 1999):
 *     digest = sum over pairs of words a, b of ((a + k) mod 2^32) ((b + k') mod 2^32)   mod 2^64
 * and each half of a digest is multiplied by a key of its chunk and added up over all chunks:
 *     sum = sum over chunks of (A_c low(digest) + B_c high(digest))                      mod 2^61 - 1
 * The two sums, one for each digest, are the fingerprint.
 *
 * What it misses. Take two different matrices and random keys. The digests of a chunk that differs are equal
 * with a probability of at most 2^-32; if they are not, the sums are equal with a probability of 2^-61. So
 * one sum misses a change with less than 2^-31.99, and both, whose keys differ, with less than 2^-63. The
 * keys here are fixed numbers that look random (splitmix64), so this holds for matrices that were not made to
 * deceive these very keys. A value's place counts too: each place has its own keys. */
#pragma once

#include "shared/rung.h"

/* Each block has one partial result. Four blocks per multiprocessor of an H200 keep memory busy. */
#define FINGERPRINT_BLOCKS 528

struct fingerprint {
    uint64_t sum[2];
};

/* Stored beside the kept halves. All zeros: nothing is kept yet. */
struct upkeep {
    struct fingerprint kept; /* the fingerprint of the matrix from which the kept halves were made */
    struct fingerprint partial[FINGERPRINT_BLOCKS]; /* of each block */
    unsigned fingerprinted;                         /* blocks that have written their sums */
    unsigned remade;                                /* blocks that have made their part of the halves anew */
    int changed; /* set by this launch, cleared by the launch that has made the halves anew */
};

/* The blocks of the launch. */
int64_t fingerprint_blocks(int64_t elements);

/* Sets `changed` if the matrix has another fingerprint than `kept`, stores the new fingerprint there, and
 * clears `cleared`. `changed` stays set until the halves have been made again. Calls for one struct upkeep
 * must follow each other on one stream. */
cudaError_t take_fingerprint(const float *matrix, int64_t elements, struct upkeep *upkeep, int *cleared,
                             cudaStream_t stream);
