/* GroupNorm of groups of 4, 8, 16, 32, 64 or 128 channels in sorted strips, see shared/fragment_norm.h: the
 * compiler knows which sums belong to a group. */
#pragma once

#include "hopper/arguments.h"
#include "shared/fragment_norm.h"

/* A group that is smaller than a block of quad_columns() is in fewer lanes than a quad. A lane with enough
 * neighbours holds one group alone, or two. */
static __device__ __forceinline__ void normalise_groups_of(float *sum, int size, float eps,
                                                           struct configuration config) {
    int block = quad_columns(config);
    int lanes = size <= config.lane_columns ? 1 : size < block ? size / config.lane_columns : QUAD;
    int columns = size < config.lane_columns ? QUAD * size : size < block ? block : size;
    normalise_groups(sum, config.width, columns, lanes, eps);
}

static __device__ __forceinline__ void normalise_powers_of_two(float *sum, int size, float eps,
                                                               struct configuration config) {
    switch (size) {
    case 4:
        normalise_groups_of(sum, 4, eps, config);
        break;
    case 8:
        normalise_groups_of(sum, 8, eps, config);
        break;
    case 16:
        normalise_groups_of(sum, 16, eps, config);
        break;
    case 32:
        normalise_groups_of(sum, 32, eps, config);
        break;
    case 64:
        normalise_groups_of(sum, 64, eps, config);
        break;
    case 128:
        normalise_groups_of(sum, 128, eps, config);
        break;
    }
}
