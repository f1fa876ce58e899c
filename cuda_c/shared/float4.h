/* Moves four neighbouring floats in one 16-byte access, or one by one if they are not aligned. */
#pragma once

#include "sim/portable.h"

/* Whether the rows of a matrix with `columns` columns can be read in float4s: each must start on 16 bytes. */
static inline __host__ __device__ bool rows_hold_float4(const float *matrix, int64_t columns) {
    return columns % 4 == 0 && (uintptr_t)matrix % sizeof(float4) == 0;
}

/* The first `count` of the four values at `from`, and zeros for the rest. */
static inline __device__ float4 load_float4(const float *from, int64_t count, bool as_float4) {
    if (as_float4 && count >= 4)
        return *(const float4 *)from;
    float4 four;
    four.x = count > 0 ? from[0] : 0.0f;
    four.y = count > 1 ? from[1] : 0.0f;
    four.z = count > 2 ? from[2] : 0.0f;
    four.w = count > 3 ? from[3] : 0.0f;
    return four;
}

static inline __device__ void store_float4(float *to, float4 four, int64_t count, bool as_float4) {
    if (as_float4 && count >= 4) {
        store_16(to, four);
        return;
    }
    if (count > 0)
        to[0] = four.x;
    if (count > 1)
        to[1] = four.y;
    if (count > 2)
        to[2] = four.z;
    if (count > 3)
        to[3] = four.w;
}
