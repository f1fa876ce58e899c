/* cuda_fp8.h: floats of 8 bits, e4m3 (4 bits of exponent, no infinity, NaN is 0x7f and 0xff) and e5m2 (as
 * IEEE 754 would have it). Open Compute Project, "8-bit Floating Point Specification"; CUDA Math API, "FP8
 * Intrinsics". */
#pragma once
#include "bfloat16.hpp"
#include "half.hpp"

typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned __nv_fp8x4_storage_t;
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };

SIM_INLINE float sim_float_of_fp8(unsigned bits, __nv_fp8_interpretation_t kind) {
    int mantissa_bits = kind == __NV_E4M3 ? 3 : 2, bias = kind == __NV_E4M3 ? 7 : 15;
    int exponent = (int)(bits & 0x7f) >> mantissa_bits, mantissa = (int)bits & ((1 << mantissa_bits) - 1);
    float sign = bits & 0x80 ? -1.0f : 1.0f;
    if (kind == __NV_E4M3 ? (bits & 0x7f) == 0x7f : exponent == 31 && mantissa != 0)
        return NAN;
    if (kind == __NV_E5M2 && exponent == 31)
        return sign * INFINITY;
    if (exponent == 0)
        return sign * ldexpf((float)mantissa, 1 - bias - mantissa_bits);
    return sign * ldexpf((float)(mantissa + (1 << mantissa_bits)), exponent - bias - mantissa_bits);
}
/* Rounds to nearest even; a number too large becomes the largest, or NaN or infinity. */
SIM_INLINE __nv_fp8_storage_t sim_fp8_of_double(double v, __nv_saturation_t saturation,
                                                __nv_fp8_interpretation_t kind) {
    int mantissa_bits = kind == __NV_E4M3 ? 3 : 2, lowest = (kind == __NV_E4M3 ? -6 : -14) - mantissa_bits;
    double largest = kind == __NV_E4M3 ? 448.0 : 57344.0, size = fabs(v);
    unsigned sign = signbit(v) ? 0x80 : 0;
    unsigned most = kind == __NV_E4M3 ? 0x7e : 0x7b, past = kind == __NV_E4M3 ? 0x7f : 0x7c;
    if (v != v)
        return (__nv_fp8_storage_t)(sign | 0x7f);
    if (size == 0)
        return (__nv_fp8_storage_t)sign;
    int exponent = ilogb(size) - mantissa_bits;
    exponent = exponent < lowest ? lowest : exponent;
    double rounded = isinf(size) ? size : rint(ldexp(size, -exponent));
    if (isinf(size) || ldexp(rounded, exponent) > largest)
        return (__nv_fp8_storage_t)(sign | (saturation == __NV_SATFINITE ? most : past));
    /* Consecutive bits are consecutive numbers, also across exponents and for denormals. */
    return (__nv_fp8_storage_t)(sign | (unsigned)((int)rounded + ((exponent - lowest) << mantissa_bits)));
}

SIM_INLINE __nv_fp8_storage_t __nv_cvt_float_to_fp8(float v, __nv_saturation_t saturation,
                                                    __nv_fp8_interpretation_t kind) {
    return sim_fp8_of_double(v, saturation, kind);
}
SIM_INLINE __nv_fp8_storage_t __nv_cvt_double_to_fp8(double v, __nv_saturation_t saturation,
                                                     __nv_fp8_interpretation_t kind) {
    return sim_fp8_of_double(v, saturation, kind);
}
SIM_INLINE __nv_fp8_storage_t __nv_cvt_halfraw_to_fp8(sim_raw16 v, __nv_saturation_t saturation,
                                                      __nv_fp8_interpretation_t kind) {
    return sim_fp8_of_double(sim_float_of_half(v.x), saturation, kind);
}
SIM_INLINE __nv_fp8x2_storage_t __nv_cvt_float2_to_fp8x2(float2 v, __nv_saturation_t saturation,
                                                         __nv_fp8_interpretation_t kind) {
    return (__nv_fp8x2_storage_t)(sim_fp8_of_double(v.x, saturation, kind) |
                                  sim_fp8_of_double(v.y, saturation, kind) << 8);
}
SIM_INLINE sim_raw16 __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t v, __nv_fp8_interpretation_t kind) {
    return {sim_half_of_double(sim_float_of_fp8(v, kind))};
}

template <__nv_fp8_interpretation_t kind> struct sim_float8 {
    __nv_fp8_storage_t __x;
    sim_float8() = default;
    template <class T>
    explicit sim_float8(T v) : __x(sim_fp8_of_double((double)(float)v, __NV_SATFINITE, kind)) {}
    explicit sim_float8(double v) : __x(sim_fp8_of_double(v, __NV_SATFINITE, kind)) {}
    explicit operator float() const {
        return sim_float_of_fp8(__x, kind);
    }
    explicit operator double() const {
        return (float)*this;
    }
    explicit operator __half() const {
        return __half((float)*this);
    }
    explicit operator __nv_bfloat16() const {
        return __nv_bfloat16((float)*this);
    }
};
typedef sim_float8<__NV_E4M3> __nv_fp8_e4m3;
typedef sim_float8<__NV_E5M2> __nv_fp8_e5m2;

template <__nv_fp8_interpretation_t kind> struct __align__(2) sim_float8x2 {
    __nv_fp8x2_storage_t __x;
    sim_float8x2() = default;
    explicit sim_float8x2(float2 v) : __x(__nv_cvt_float2_to_fp8x2(v, __NV_SATFINITE, kind)) {}
    explicit operator float2() const {
        return {sim_float_of_fp8(__x & 0xff, kind), sim_float_of_fp8(__x >> 8, kind)};
    }
};
typedef sim_float8x2<__NV_E4M3> __nv_fp8x2_e4m3;
typedef sim_float8x2<__NV_E5M2> __nv_fp8x2_e5m2;

template <__nv_fp8_interpretation_t kind> struct __align__(4) sim_float8x4 {
    __nv_fp8x4_storage_t __x;
    sim_float8x4() = default;
    explicit sim_float8x4(float4 v)
        : __x(__nv_cvt_float2_to_fp8x2({v.x, v.y}, __NV_SATFINITE, kind) |
              (unsigned)__nv_cvt_float2_to_fp8x2({v.z, v.w}, __NV_SATFINITE, kind) << 16) {}
    explicit operator float4() const {
        return {sim_float_of_fp8(__x & 0xff, kind), sim_float_of_fp8(__x >> 8 & 0xff, kind),
                sim_float_of_fp8(__x >> 16 & 0xff, kind), sim_float_of_fp8(__x >> 24, kind)};
    }
};
typedef sim_float8x4<__NV_E4M3> __nv_fp8x4_e4m3;
typedef sim_float8x4<__NV_E5M2> __nv_fp8x4_e5m2;
