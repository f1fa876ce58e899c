/* The 16-bit element types as bits in memory, for both machines. Arithmetic is in float. */
#pragma once

#include "shared/rung.h"

#ifdef __CUDACC__

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

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

#ifdef __CUDACC__

/* Two floats of magnitude at most 448 as e4m3, the first in the lower byte; NaN where one is no finite
 * number.
 */
static __forceinline__ __device__ uint16_t e4m3_pair(float low, float high) {
    float2 pair = make_float2(low + (low - low), high + (high - high)); /* infinities become NaN */
    return __nv_cvt_float2_to_fp8x2(pair, __NV_SATFINITE, __NV_E4M3);
}

#else

/* The bits of the nearest e4m3 (4 bits of exponent, 3 of fraction), of two as near the even one, for |v| <=
 * 448; NaN where v is no finite number. Below 2^-6 values are multiples of 2^-9, to which a sum with 2^14
 * rounds. */
static __forceinline__ __device__ uint8_t e4m3_bits(float v) {
    uint32_t bits = __float_as_uint(v), sign = bits >> 24 & 0x80, magnitude = bits & 0x7fffffff;
    if (magnitude >= 0x7f800000)
        return 0x7f;
    if (magnitude < 0x3c800000)
        return (uint8_t)(sign | (__float_as_uint(fabsf(v) + 16384.0f) - __float_as_uint(16384.0f)));
    uint32_t rounded = magnitude + 0x7ffff + (magnitude >> 20 & 1);
    return (uint8_t)(sign | ((rounded >> 20) - (120 << 3)));
}

static inline uint16_t e4m3_pair(float low, float high) {
    return (uint16_t)(e4m3_bits(low) | e4m3_bits(high) << 8);
}

#endif

/* ---- Elements of any type ---- */

/* Loads one element's bits. Code that converts them later does not wait for them here. */
static __forceinline__ __device__ uint32_t element_bits(const void *matrix, int64_t at, fgn_type type) {
    return type == FGN_FLOAT32 ? ((const uint32_t *)matrix)[at] : ((const uint16_t *)matrix)[at];
}

static __forceinline__ __device__ float float_of_bits(uint32_t bits, fgn_type type) {
    if (type == FGN_FLOAT32)
        return __uint_as_float(bits);
    return type == FGN_FLOAT16 ? float_of_float16((uint16_t)bits) : float_of_bfloat16((uint16_t)bits);
}

/* Loads one element of the type as float. */
static __forceinline__ __device__ float element_at(const void *matrix, int64_t at, fgn_type type) {
    return float_of_bits(element_bits(matrix, at, type), type);
}

static __forceinline__ __device__ void store_element(void *matrix, int64_t at, float value, fgn_type type) {
    if (type == FGN_FLOAT32)
        ((float *)matrix)[at] = value;
    else
        ((uint16_t *)matrix)[at] = type == FGN_FLOAT16 ? float16_bits(value) : bfloat16_bits(value);
}
