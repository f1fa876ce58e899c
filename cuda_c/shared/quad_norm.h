/* GroupNorm where a tensor core leaves its sums: in registers.
 *
 * A row of the tile lives in four neighbouring lanes (a quad), each with two of every eight columns, so the
 * statistics of a group are additions in registers and two shuffles. Where the columns are in an order that
 * gives a lane neighbours (hopper/tensor_maps.h), a small group lives in fewer lanes, and takes fewer.
 *
 * Mean and variance in two passes. All is relative to a pivot, the group's first value, so nothing large is
 * subtracted from anything large. */
#pragma once

#include "shared/portable.h"
#include "shared/team.h"

#define CHUNK 8 /* columns, of which each lane of a quad has two */

/* A unit is what a lane has of one group in one of its two rows: columns / 4 values, where `columns` is what
 * the quad has at those places. Of the quad's lanes, `lanes` neighbours share a group. */
#define MOST_UNITS 16

/* Where in a thread's sums value `i` of a unit is. */
static __device__ __forceinline__ int at_unit(int unit, int columns, int i) {
    return unit / 2 * (columns / 2) + unit % 2 * 2 + i / 2 * 4 + i % 2;
}

/* Sums over the lanes, of `units` values at once: a shuffle need not wait for the one before. */
static __device__ __forceinline__ void lane_sums(float *v, int units, int lanes) {
#pragma unroll
    for (int distance = 1; distance < lanes; distance *= 2)
#pragma unroll
        for (int i = 0; i < units; i++)
            v[i] += __shfl_xor_sync(0xffffffffu, v[i], distance);
}

/* The mean of each group of `units` units, and the sum of the squares of the differences from it. Leaves the
 * differences in `sum`. All numbers are constants here. */
static __device__ __forceinline__ void moments_of_units(float *sum, int units, int columns, int lanes,
                                                        float *mean, float *squares) {
    float pivot[MOST_UNITS];
#pragma unroll
    for (int unit = 0; unit < units; unit++) {
        pivot[unit] = sum[at_unit(unit, columns, 0)];
        if (lanes > 1)
            pivot[unit] = __shfl_sync(0xffffffffu, pivot[unit], threadIdx.x % 32 / lanes * lanes);
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
    lane_sums(mean, units, lanes);
#pragma unroll
    for (int unit = 0; unit < units; unit++)
        mean[unit] *= 1.0f / (columns / QUAD * lanes);
#pragma unroll
    for (int i = 0; i < columns / QUAD; i++) {
#pragma unroll
        for (int unit = 0; unit < units; unit++) {
            float *v = &sum[at_unit(unit, columns, i)];
            *v -= mean[unit];
            squares[unit] += *v * *v;
        }
    }
    lane_sums(squares, units, lanes);
#pragma unroll
    for (int unit = 0; unit < units; unit++)
        mean[unit] += pivot[unit];
}

/* Normalises the groups in two rows of `all_columns`, as many at once as registers allow. All numbers are
 * constants here. */
static __device__ __forceinline__ void normalise_groups(float *sum, int all_columns, int columns, int lanes,
                                                        float eps) {
    int all_units = 2 * all_columns / columns;
    int units = all_units < MOST_UNITS ? all_units : MOST_UNITS;
    float one_over_size = 1.0f / (columns / QUAD * lanes);
#pragma unroll
    for (int first = 0; first < all_units; first += units) {
        float *part = sum + first / 2 * (columns / 2);
        float mean[MOST_UNITS], factor[MOST_UNITS];
        moments_of_units(part, units, columns, lanes, mean, factor);
#pragma unroll
        for (int unit = 0; unit < units; unit++)
            factor[unit] = rsqrtf(factor[unit] * one_over_size + eps);
#pragma unroll
        for (int unit = 0; unit < units; unit++)
#pragma unroll
            for (int i = 0; i < columns / QUAD; i++)
                part[at_unit(unit, columns, i)] *= factor[unit];
    }
}
