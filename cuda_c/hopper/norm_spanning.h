/* GroupNorm of groups that span strips: both strips of a tile, or the strips of all blocks of a cluster.
 *
 * Each strip computes the moments of its part of the group and stores them in the shared memory of all blocks
 * that take part, its own included (distributed shared memory; an mbarrier counts the bytes). All strips then
 * combine the moments of all parts in the same order (shared/epilogue.h), so they agree to the last bit. */
#pragma once

#include "hopper/arguments.h"
#include "shared/epilogue.h"
#include "shared/fragment_norm.h"

/* The group that a strip has a part of, as the strip sees it. */
struct spanning_group {
    int number; /* of this strip, among those of the group */
    int count;
    int columns;          /* of this strip */
    int most_columns;     /* of every strip but the last */
    int size;             /* of the group */
    uint32_t first_block; /* of the cluster's, that have parts of the group */
    int blocks;
    float2 *moments; /* of the lane's first row, strip by strip; its second row is 8 further */
    uint32_t exchanged;
};

/* Gives every lane the mean of the strip's columns and the squares of the differences from it. Leaves the
 * differences in `sum`. All values are relative to a pivot, the row's first value. */
static __device__ __forceinline__ void moments_of_strip(float *sum, int columns, float *mean, float *squares,
                                                        struct configuration config) {
    float pivot[2], one_over_columns = __fdividef(1.0f, columns);
#pragma unroll
    for (int row = 0; row < 2; row++) {
        pivot[row] = __shfl_sync(0xffffffffu, sum[2 * row], threadIdx.x % 32 / QUAD * QUAD);
        mean[row] = squares[row] = 0.0f;
    }
#pragma unroll
    for (int slab = 0; slab < config.width / SLAB; slab++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float *v = &sum[4 * slab + i];
            *v -= pivot[i / 2];
            if (is_sorted(config) || slab * SLAB + (int)(threadIdx.x % QUAD) * 2 + i % 2 < columns)
                mean[i / 2] += *v;
        }
    }
    lane_sums(mean, 2, QUAD);
    mean[0] *= one_over_columns;
    mean[1] *= one_over_columns;
#pragma unroll
    for (int slab = 0; slab < config.width / SLAB; slab++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float *v = &sum[4 * slab + i];
            *v -= mean[i / 2];
            if (is_sorted(config) || slab * SLAB + (int)(threadIdx.x % QUAD) * 2 + i % 2 < columns)
                squares[i / 2] += *v * *v;
        }
    }
    lane_sums(squares, 2, QUAD);
    mean[0] += pivot[0];
    mean[1] += pivot[1];
}

/* Leaves the differences from the strip's mean in `sum` and sends its moments. */
static __device__ __forceinline__ void send_moments(float *sum, const struct spanning_group *group,
                                                    struct configuration config) {
    float mean[2], squares[2];
    moments_of_strip(sum, group->columns, mean, squares, config);
    int lane = threadIdx.x % QUAD;
#pragma unroll
    for (int row = 0; row < 2; row++) {
        uint32_t to = shared_address(&group->moments[group->number * WARPGROUP_ROWS + 8 * row]);
        for (int i = lane; i < group->blocks; i += QUAD) {
            uint32_t block = group->first_block + i;
            st_async(mapa(to, block), mean[row], squares[row], mapa(group->exchanged, block));
        }
    }
}

/* Runs after the moments of all parts have arrived. */
static __device__ __forceinline__ void normalise_spanning(float *sum, const struct spanning_group *group,
                                                          float eps, struct configuration config) {
    struct partial_moments first = {group->moments, WARPGROUP_ROWS, group->count, group->most_columns,
                                    group->size};
    struct partial_moments second = first;
    second.moments += 8;
    float2 by[2] = {from_part_to_group(&first, group->number, eps),
                    from_part_to_group(&second, group->number, eps)};
#pragma unroll
    for (int i = 0; i < strip_sums(config); i++)
        sum[i] = sum[i] * by[i / 2 % 2].x + by[i / 2 % 2].y;
}
