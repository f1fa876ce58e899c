/* Kernels that do one thing only, as fast as a GPU can: what fgn/ceilings.py times. Part of no chain.
 *
 * Each returns the CUDA runtime's status, 0 for success, and writes something of its result to `out`, so
 * that no compiler leaves the work out. Python's cffi reads this file as it stands. */
#pragma once

/* `blocks` blocks of 256 threads read `span` floats each, `rounds` times over, 16 bytes in every access.
 * Block b begins at b * step, modulo `size`, which is the length of `data`. size and span are powers of two,
 * and the span is at least 4096. With a span beyond the L1 cache and a size within the L2 cache this is the
 * bandwidth of L2; with a small span, that of L1. out: (blocks * 256,). */
int ceiling_read(const float *data, float *out, int size, int span, int step, int blocks, int rounds,
                 void *stream);

/* The same from shared memory: each block reads 32 KiB of it `rounds` times. out: (blocks * 256,). */
int ceiling_shared(float *out, int blocks, int rounds, void *stream);

/* Multiply-adds of registers: each thread does 16 * rounds of them, with the factor out[0] and the term
 * out[1]. out: (2 + blocks * 256,). */
int ceiling_multiply_add(float *out, int blocks, int rounds, void *stream);

/* `count` launches, one after the other, of a kernel that does next to nothing. out: (1,). */
int ceiling_launches(float *out, int count, void *stream);
