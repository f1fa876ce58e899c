/* GroupNorm where a tensor core leaves its sums: in registers.
 *
 * A row of the tile lives in four neighbouring lanes (a quad), each with two of every eight columns, so the
 * statistics of a group are additions in registers and two shuffles.
 *
 * Mean and variance in two passes. All is relative to a pivot, the group's first value, so nothing large is
 * subtracted from anything large. */
#pragma once

#include "portable.h"

#define QUAD 4
#define CHUNK 8 /* columns, of which each lane of a quad has two */

/* A unit is one group in one of the thread's two rows: columns * 2 values, which are not neighbours. */
#define MOST_UNITS 16

/* Where in a thread's sums value `i` of a unit is. */
static __device__ __forceinline__ int at_unit(int unit, int columns, int i) {
    return unit / 2 * (columns / 2) + unit % 2 * 2 + i / 2 * 4 + i % 2;
}

/* Sums over the quad, of `units` values at once: a shuffle need not wait for the one before. */
static __device__ __forceinline__ void quad_sums(float *v, int units) {
#pragma unroll
    for (int distance = 1; distance < QUAD; distance *= 2)
#pragma unroll
        for (int i = 0; i < units; i++)
            v[i] += __shfl_xor_sync(0xffffffffu, v[i], distance);
}

/* The mean of each of `units` units of `columns` columns, and the sum of the squares of the differences from
 * it. Leaves the differences in `sum`. `units` and `columns` are constants here. */
static __device__ __forceinline__ void moments_of_units(float *sum, int units, int columns, float *mean,
                                                        float *squares) {
    float pivot[MOST_UNITS];
#pragma unroll
    for (int unit = 0; unit < units; unit++) {
        pivot[unit] =
            __shfl_sync(0xffffffffu, sum[at_unit(unit, columns, 0)], threadIdx.x % 32 / QUAD * QUAD);
        mean[unit] = squares[unit] = 0.0f;
    }
    /* the units take turns: an addition need not wait for the one before */
#pragma unroll
    for (int i = 0; i < columns / QUAD; i++) {
#pragma unroll
        for (int unit = 0; unit < units; unit++) {
            sum[at_unit(unit, columns, i)] -= pivot[unit];
            mean[unit] += sum[at_unit(unit, columns, i)];
        }
    }
    quad_sums(mean, units);
#pragma unroll
    for (int unit = 0; unit < units; unit++)
        mean[unit] *= 1.0f / columns;
#pragma unroll
    for (int i = 0; i < columns / QUAD; i++) {
#pragma unroll
        for (int unit = 0; unit < units; unit++) {
            float *v = &sum[at_unit(unit, columns, i)];
            *v -= mean[unit];
            squares[unit] += *v * *v;
        }
    }
    quad_sums(squares, units);
#pragma unroll
    for (int unit = 0; unit < units; unit++)
        mean[unit] += pivot[unit];
}

/* Normalises groups of `columns` columns in two rows of `all_columns`, both constants here, as many groups at
 * once as registers allow. */
static __device__ __forceinline__ void normalise_groups(float *sum, int all_columns, int columns, float eps) {
    int all_units = 2 * all_columns / columns;
    int units = all_units < MOST_UNITS ? all_units : MOST_UNITS;
    float one_over_columns = 1.0f / columns;
#pragma unroll
    for (int first = 0; first < all_units; first += units) {
        float *part = sum + first / 2 * (columns / 2);
        float mean[MOST_UNITS], factor[MOST_UNITS];
        moments_of_units(part, units, columns, mean, factor);
#pragma unroll
        for (int unit = 0; unit < units; unit++)
            factor[unit] = rsqrtf(factor[unit] * one_over_columns + eps);
#pragma unroll
        for (int unit = 0; unit < units; unit++)
#pragma unroll
            for (int i = 0; i < columns / QUAD; i++)
                part[at_unit(unit, columns, i)] *= factor[unit];
    }
}
