/* The 16-bit element types, as the bits that memory holds, for both machines. Arithmetic is in float. */
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

#include <string.h>

static inline uint16_t float16_bits(float v) {
    _Float16 half = (_Float16)v;
    uint16_t bits;
    memcpy(&bits, &half, sizeof bits);
    return bits;
}

static inline float float_of_float16(uint16_t bits) {
    _Float16 half;
    memcpy(&half, &bits, sizeof half);
    return (float)half;
}

/* To the nearest, ties to even; NaN stays NaN. */
static inline uint16_t bfloat16_bits(float v) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    if (v != v)
        return 0x7fff;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float float_of_bfloat16(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float v;
    memcpy(&v, &wide, sizeof v);
    return v;
}

static inline uint32_t float16_pair(float low, float high) {
    return float16_bits(low) | (uint32_t)float16_bits(high) << 16;
}

static inline uint32_t bfloat16_pair(float low, float high) {
    return bfloat16_bits(low) | (uint32_t)bfloat16_bits(high) << 16;
}

#endif

/* ---- Elements of any type ---- */

/* One element of the type, as float. */
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
