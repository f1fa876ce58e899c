/* GroupNorm where a tensor core leaves its sums: in registers.
 *
 * A row of the tile lives in four neighbouring lanes (a quad), each with two of every eight columns, so
 * the statistics of a group are additions in registers and two shuffles. If the columns are ordered so
 * that a lane has neighbours (hopper/tensor_maps.h), a small group is in fewer lanes and needs fewer
 * shuffles.
 *
 * Mean and variance take two passes, relative to a pivot, the group's first value, so that no two large
 * numbers are subtracted. */
#pragma once

#include "sim/portable.h"
#include "shared/team.h"

/* A fragment is a lane's part of one group in one of its two rows: columns / 4 values, if the quad has
 * `columns` columns there. `lanes` neighbouring lanes of the quad share a group. */
#define MOST_FRAGMENTS 16

/* The index of value `i` of a fragment in a thread's sums. */
static __device__ __forceinline__ int at_fragment(int fragment, int columns, int i) {
    return fragment / 2 * (columns / 2) + fragment % 2 * 2 + i / 2 * 4 + i % 2;
}

/* Sums `count` values over the lanes at once: a shuffle need not wait for the one before. */
static __device__ __forceinline__ void lane_sums(float *v, int count, int lanes) {
#pragma unroll
    for (int distance = 1; distance < lanes; distance *= 2)
#pragma unroll
        for (int i = 0; i < count; i++)
            v[i] += __shfl_xor_sync(0xffffffffu, v[i], distance);
}

/* Finds the mean of each group of `fragments` fragments, and the sum of the squared differences from it.
 * Leaves the differences in `sum`. All numbers are constants here. */
static __device__ __forceinline__ void moments_of_fragments(float *sum, int fragments, int columns, int lanes,
                                                            float *mean, float *squares) {
    float pivot[MOST_FRAGMENTS];
#pragma unroll
    for (int fragment = 0; fragment < fragments; fragment++) {
        pivot[fragment] = sum[at_fragment(fragment, columns, 0)];
        if (lanes > 1)
            pivot[fragment] = __shfl_sync(0xffffffffu, pivot[fragment], threadIdx.x % 32 / lanes * lanes);
        mean[fragment] = squares[fragment] = 0.0f;
    }
    /* the fragments take turns: an addition need not wait for the one before */
#pragma unroll
    for (int i = 0; i < columns / QUAD; i++) {
#pragma unroll
        for (int fragment = 0; fragment < fragments; fragment++) {
            sum[at_fragment(fragment, columns, i)] -= pivot[fragment];
            mean[fragment] += sum[at_fragment(fragment, columns, i)];
        }
    }
    lane_sums(mean, fragments, lanes);
#pragma unroll
    for (int fragment = 0; fragment < fragments; fragment++)
        mean[fragment] *= 1.0f / (columns / QUAD * lanes);
#pragma unroll
    for (int i = 0; i < columns / QUAD; i++) {
#pragma unroll
        for (int fragment = 0; fragment < fragments; fragment++) {
            float *v = &sum[at_fragment(fragment, columns, i)];
            *v -= mean[fragment];
            squares[fragment] += *v * *v;
        }
    }
    lane_sums(squares, fragments, lanes);
#pragma unroll
    for (int fragment = 0; fragment < fragments; fragment++)
        mean[fragment] += pivot[fragment];
}

/* Normalises the groups in two rows of `all_columns`, as many at once as registers allow. All numbers are
 * constants here. */
static __device__ __forceinline__ void normalise_groups(float *sum, int all_columns, int columns, int lanes,
                                                        float eps) {
    int all_fragments = 2 * all_columns / columns;
    int fragments = all_fragments < MOST_FRAGMENTS ? all_fragments : MOST_FRAGMENTS;
    float one_over_size = 1.0f / (columns / QUAD * lanes);
#pragma unroll
    for (int first = 0; first < all_fragments; first += fragments) {
        float *part = sum + first / 2 * (columns / 2);
        float mean[MOST_FRAGMENTS], factor[MOST_FRAGMENTS];
        moments_of_fragments(part, fragments, columns, lanes, mean, factor);
#pragma unroll
        for (int fragment = 0; fragment < fragments; fragment++)
            factor[fragment] = rsqrtf(factor[fragment] * one_over_size + eps);
#pragma unroll
        for (int fragment = 0; fragment < fragments; fragment++)
#pragma unroll
            for (int i = 0; i < columns / QUAD; i++)
                part[at_fragment(fragment, columns, i)] *= factor[fragment];
    }
}
