/* Four neighbouring floats moved as one 16-byte access, or one by one where they do not allow it. */
#pragma once

#include "shared/portable.h"

/* Whether the rows of a matrix with `columns` columns can be read in quads: each must start on 16 bytes. */
static inline __host__ __device__ bool rows_hold_quads(const float *matrix, int64_t columns) {
    return columns % 4 == 0 && (uintptr_t)matrix % sizeof(float4) == 0;
}

/* The first `count` of the four values at `from`, and zeros for the rest. */
static inline __device__ float4 load_quad(const float *from, int64_t count, bool as_quad) {
    if (as_quad && count >= 4)
        return *(const float4 *)from;
    float4 quad;
    quad.x = count > 0 ? from[0] : 0.0f;
    quad.y = count > 1 ? from[1] : 0.0f;
    quad.z = count > 2 ? from[2] : 0.0f;
    quad.w = count > 3 ? from[3] : 0.0f;
    return quad;
}

static inline __device__ void store_quad(float *to, float4 quad, int64_t count, bool as_quad) {
    if (as_quad && count >= 4) {
        store_16(to, quad);
        return;
    }
    if (count > 0)
        to[0] = quad.x;
    if (count > 1)
        to[1] = quad.y;
    if (count > 2)
        to[2] = quad.z;
    if (count > 3)
        to[3] = quad.w;
}
