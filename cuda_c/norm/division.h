/* How the kernels of the norm and of the backward divide a tensor among blocks and threads: the host's half
 * of channels.h. */
#pragma once

#include "shared/rung.h"
#include "shared/team.h"

#define VALUES 8 /* of a thread, side by side */
#define THREADS 256
#define WARPS (THREADS / LANES)
#define SEGMENT (THREADS * VALUES)
#define MULTIPROCESSORS 132 /* of a large GPU, for which blocks are counted */

/* The division of a tensor: segments of a group, threads of a team, and how many of these work on a row of a
 * block, in a strip of the tensor's columns. */
struct division {
    int group_size; /* without a norm: all channels */
    int groups;
    int parts; /* segments of a group */
    int team;
    int across; /* threads of a block beside each other in a row; the others have the next rows */
    int width;  /* neighbours in a vector */
};

/* aligned: all of the tensors and vectors begin at multiples of 16 bytes. */
static inline struct division division_of(int64_t channels, int64_t groups, bool aligned) {
    struct division division;
    division.groups = groups > 0 ? (int)groups : 1;
    division.group_size = (int)channels / division.groups;
    division.parts = (int)tiles(division.group_size, SEGMENT);
    division.width = 1;
    while (aligned && division.width < VALUES && division.group_size % (2 * division.width) == 0)
        division.width *= 2;
    division.team = power_of_two_above(tiles(division.group_size, VALUES), THREADS);
    int64_t useful = (int64_t)division.groups * division.parts * division.team;
    int widest = division.team > LANES ? division.team : LANES;
    division.across = power_of_two_above(useful, widest);
    return division;
}

static inline int rows_at_once(const struct division *division) {
    return THREADS / division->across;
}

static inline int strips_of(const struct division *division) {
    return (int)tiles((int64_t)division->groups * division->parts, division->across / division->team);
}

/* How many blocks divide the rows of a strip. All strips together have at most `at_once` blocks: any block
 * more than the GPU holds would wait until others have ended. */
static inline int most_row_blocks(int at_once, const struct division *division) {
    int row_blocks = at_once / strips_of(division);
    return row_blocks > 1 ? row_blocks : 1;
}

static inline bool is_aligned_16(const void *pointer) {
    return (uintptr_t)pointer % 16 == 0;
}

static inline bool operands_are_aligned(const struct operators *list) {
    bool aligned = true;
    for (int i = 0; i < list->count; i++)
        aligned = aligned && is_aligned_16(list->step[i].channel) && is_aligned_16(list->step[i].tensor);
    return aligned;
}

static inline bool vectors_are_aligned(const void *scale, const void *shift, const struct operators *before,
                                       const struct operators *after) {
    return is_aligned_16(scale) && is_aligned_16(shift) && operands_are_aligned(before) &&
           operands_are_aligned(after);
}
