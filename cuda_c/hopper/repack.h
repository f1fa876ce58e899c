/* Copies of matrices with rows at multiples of 16 bytes, which TMA needs, for matrices without such rows. */
#pragma once

#include "shared/plan.h"

/* Elements from one row to the next of a matrix whose rows begin at multiples of 16 bytes. */
static inline int64_t aligned_pitch(int64_t columns, int element_bytes) {
    int64_t values = 16 / element_bytes;
    return (columns + values - 1) / values * values;
}

static inline bool needs_repacking(int64_t columns, int element_bytes) {
    return columns * element_bytes % 16 != 0;
}

/* Bytes of a repacked matrix, a multiple of 256. */
unsigned long long repacked_bytes(int64_t rows, int64_t columns, int element_bytes);

cudaError_t repack(const void *matrix, int64_t rows, int64_t columns, int element_bytes, void *repacked,
                   cudaStream_t stream);

/* A launch that repacks a matrix into the workspace. */
void plan_repacking(int64_t rows, int64_t columns, int element_bytes, fgn_plan *plan);
