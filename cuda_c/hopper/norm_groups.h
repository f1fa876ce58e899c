/* GroupNorm of whole groups, of any size, in the registers of one warpgroup.
 *
 * wgmma leaves a row in the four lanes of a quad: each lane has two of every eight columns (a slab). A group
 * ends at the same column in all rows, so all lanes of a warp walk through their slabs together and add up
 * the current group. At its end the quad adds its lanes' parts by shuffles. There are three walks: for each
 * group's mean, for the differences from it and their squares, and for the normalised values. Between the
 * walks each (row, group) has two floats in shared memory.
 *
 * The mean of the differences is the rounding error of the first walk: the second walk finds it and the third
 * subtracts it (the corrected two-pass algorithm of shared/moments.h). So no two large numbers are
 * subtracted. */
#pragma once

#include "hopper/arguments.h"
#include "shared/fragment_norm.h"

/* Whether a column belongs to the group of `size` columns from `first` on. */
static __device__ __forceinline__ bool belongs(int column, int first, int size) {
    return (uint32_t)(column - first) < (uint32_t)size;
}

/* Whether all columns of a slab do, which saves a test for each. */
static __device__ __forceinline__ bool has_slab(int slab, int first, int size) {
    return first <= slab * SLAB && first + size >= (slab + 1) * SLAB;
}

/* The groups of a strip. of_rows: shared memory of the lane's first row, group by group; its second row is 8
 * further on. */
struct groups {
    int size;
    int count;
    float one_over_size;
    float eps;
    float2 *of_rows;
};

static __device__ __forceinline__ float2 *of_group(const struct groups *groups, int group, int row) {
    return groups->of_rows + group * WARPGROUP_ROWS + 8 * row;
}

static __device__ __forceinline__ void means_of_groups(const float *sum, const struct groups *groups,
                                                       struct configuration config) {
    int first = 0, group = 0;
    float total[2] = {0.0f, 0.0f};
#pragma unroll
    for (int slab = 0; slab < config.width / SLAB; slab++) {
        const float *v = sum + 4 * slab;
        int column = slab * SLAB + threadIdx.x % QUAD * 2;
#pragma unroll 1
        do {
            if (has_slab(slab, first, groups->size)) {
                total[0] += v[0] + v[1];
                total[1] += v[2] + v[3];
            } else {
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    bool here = belongs(column + i, first, groups->size);
                    total[0] += here ? v[i] : 0.0f;
                    total[1] += here ? v[2 + i] : 0.0f;
                }
            }
            if (first + groups->size > (slab + 1) * SLAB || group == groups->count)
                break; /* the group goes on in the next slab */
            lane_sums(total, 2, QUAD);
            if (threadIdx.x % QUAD == 0) {
                of_group(groups, group, 0)->x = total[0] * groups->one_over_size;
                of_group(groups, group, 1)->x = total[1] * groups->one_over_size;
            }
            total[0] = total[1] = 0.0f;
            first += groups->size;
            group++;
        } while (first < (slab + 1) * SLAB);
    }
    __syncwarp();
}

/* Leaves the differences from the means in `sum`, and in shared memory the factor and the addend that
 * normalise them. */
static __device__ __forceinline__ void differences_of_groups(float *sum, const struct groups *groups,
                                                             struct configuration config) {
    int first = 0, group = 0;
    float mean[2] = {of_group(groups, 0, 0)->x, of_group(groups, 0, 1)->x};
    float total[4] = {0.0f, 0.0f, 0.0f, 0.0f}; /* of the differences of both rows, and of their squares */
#pragma unroll
    for (int slab = 0; slab < config.width / SLAB; slab++) {
        float *v = sum + 4 * slab;
        int column = slab * SLAB + threadIdx.x % QUAD * 2;
#pragma unroll 1
        do {
            bool all = has_slab(slab, first, groups->size);
#pragma unroll
            for (int i = 0; i < 2; i++) {
                if (all || belongs(column + i, first, groups->size)) {
#pragma unroll
                    for (int row = 0; row < 2; row++) {
                        float difference = v[2 * row + i] - mean[row];
                        v[2 * row + i] = difference;
                        total[row] += difference;
                        total[2 + row] += difference * difference;
                    }
                }
            }
            if (first + groups->size > (slab + 1) * SLAB || group == groups->count)
                break;
            lane_sums(total, 4, QUAD);
#pragma unroll
            for (int row = 0; row < 2; row++) {
                float rest = total[row] * groups->one_over_size;
                float variance = total[2 + row] * groups->one_over_size - rest * rest;
                float factor = rsqrtf((variance < 0.0f ? 0.0f : variance) + groups->eps);
                if (threadIdx.x % QUAD == 0)
                    *of_group(groups, group, row) = make_float2(factor, -rest * factor);
                total[row] = total[2 + row] = 0.0f;
            }
            first += groups->size;
            if (++group < groups->count) {
                mean[0] = of_group(groups, group, 0)->x;
                mean[1] = of_group(groups, group, 1)->x;
            }
        } while (first < (slab + 1) * SLAB);
    }
    __syncwarp();
}

static __device__ __forceinline__ void normalise_differences(float *sum, const struct groups *groups,
                                                             struct configuration config) {
    int first = 0, group = 0;
    float2 by[2] = {*of_group(groups, 0, 0), *of_group(groups, 0, 1)};
#pragma unroll
    for (int slab = 0; slab < config.width / SLAB; slab++) {
        float *v = sum + 4 * slab;
        int column = slab * SLAB + threadIdx.x % QUAD * 2;
#pragma unroll 1
        do {
            bool all = has_slab(slab, first, groups->size);
#pragma unroll
            for (int i = 0; i < 2; i++) {
                if (all || belongs(column + i, first, groups->size)) {
                    v[i] = v[i] * by[0].x + by[0].y;
                    v[2 + i] = v[2 + i] * by[1].x + by[1].y;
                }
            }
            if (first + groups->size > (slab + 1) * SLAB || group == groups->count)
                break;
            first += groups->size;
            if (++group < groups->count) {
                by[0] = *of_group(groups, group, 0);
                by[1] = *of_group(groups, group, 1);
            }
        } while (first < (slab + 1) * SLAB);
    }
    __syncwarp(); /* the next strip's means may be written */
}

static __device__ __forceinline__ void normalise_any_groups(float *sum, const struct groups *groups,
                                                            struct configuration config) {
    means_of_groups(sum, groups, config);
    differences_of_groups(sum, groups, config);
    normalise_differences(sum, groups, config);
}
