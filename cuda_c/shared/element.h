/* The 16-bit element types as bits in memory, for both machines. Arithmetic is in float. */
#pragma once

#include "shared/rung.h"

#ifdef __CUDACC__

#include <cuda_bf16.h>
#include <cuda_fp16.h>

static __forceinline__ __device__ uint16_t float16_bits(float v) {
    return __half_as_ushort(__float2half_rn(v));
}

static __forceinline__ __device__ float float_of_float16(uint16_t bits) {
    return __half2float(__ushort_as_half(bits));
}

static __forceinline__ __device__ uint16_t bfloat16_bits(float v) {
    return __bfloat16_as_ushort(__float2bfloat16_rn(v));
}

static __forceinline__ __device__ float float_of_bfloat16(uint16_t bits) {
    return __uint_as_float((uint32_t)bits << 16);
}

/* Two floats in one word, the first in the lower half. */
static __forceinline__ __device__ uint32_t float16_pair(float low, float high) {
    __half2 pair = __floats2half2_rn(low, high);
    return *(uint32_t *)&pair;
}

static __forceinline__ __device__ uint32_t bfloat16_pair(float low, float high) {
    __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *(uint32_t *)&pair;
}

#else

#include "sim/ptx/cvt.h"

#endif

/* ---- Elements of any type ---- */

/* Loads one element of the type as float. */
static __forceinline__ __device__ float element_at(const void *matrix, int64_t at, fgn_type type) {
    if (type == FGN_FLOAT32)
        return ((const float *)matrix)[at];
    uint16_t bits = ((const uint16_t *)matrix)[at];
    return type == FGN_FLOAT16 ? float_of_float16(bits) : float_of_bfloat16(bits);
}

static __forceinline__ __device__ void store_element(void *matrix, int64_t at, float value, fgn_type type) {
    if (type == FGN_FLOAT32)
        ((float *)matrix)[at] = value;
    else
        ((uint16_t *)matrix)[at] = type == FGN_FLOAT16 ? float16_bits(value) : bfloat16_bits(value);
}
