/* A team: the neighbouring lanes of a warp that work on one group. */
#pragma once

#include "sim/portable.h"

#define LANES 32
#define QUAD 4 /* lanes that share a row of what a tensor core has summed up */

/* The smallest power of two that is at least `count`, but at most `limit`: how many threads `count` items
 * keep busy. */
static inline __host__ __device__ int power_of_two_above(int64_t count, int limit) {
    int power = 1;
    while (power < limit && power < count)
        power *= 2;
    return power;
}

/* The base 2 logarithm of `number`, rounded up. */
static inline int log2_of(int number) {
    int log2 = 0;
    while (1 << log2 < number)
        log2++;
    return log2;
}

/* Gives every lane the sum over its team. All 32 lanes of the warp must call it together. */
static inline __device__ float team_sum(float v, int lanes) {
    for (int distance = lanes / 2; distance > 0; distance /= 2)
        v += __shfl_xor_sync(0xffffffffu, v, distance);
    return v;
}

/* team_sum of `count` values at once: their shuffles do not wait for each other. */
static __forceinline__ __device__ void team_sums(float *v, int count, int lanes) {
#pragma unroll 1
    for (int distance = lanes / 2; distance > 0; distance /= 2)
#pragma unroll
        for (int i = 0; i < count; i++)
            v[i] += __shfl_xor_sync(0xffffffffu, v[i], distance);
}
