/* IEEE's binary16, with the names of cuda_fp16.h. */
#pragma once
#include "conversions.hpp"
#include "float16_functions.hpp"

using __half = sim_float16<sim_binary16>;
using __half2 = sim_float16x2<sim_binary16>;
using __half_raw = sim_raw16;
using half = __half;
using half2 = __half2;

SIM_INLINE __half __float2half(float v) {
    return v;
}
SIM_INLINE __half __float2half_rn(float v) {
    return v;
}
SIM_INLINE __half __double2half(double v) {
    return v;
}
SIM_INLINE float __half2float(__half v) {
    return v;
}
SIM_INLINE __half2 __float2half2_rn(float v) {
    return {v, v};
}
SIM_INLINE __half2 __floats2half2_rn(float a, float b) {
    return {a, b};
}
SIM_INLINE __half2 __float22half2_rn(float2 v) {
    return {v.x, v.y};
}
SIM_INLINE float2 __half22float2(__half2 v) {
    return {(float)v.x, (float)v.y};
}
SIM_INLINE __half __low2half(__half2 v) {
    return v.x;
}
SIM_INLINE __half __high2half(__half2 v) {
    return v.y;
}
SIM_INLINE __half2 __low2half2(__half2 v) {
    return {v.x, v.x};
}
SIM_INLINE __half2 __high2half2(__half2 v) {
    return {v.y, v.y};
}
SIM_INLINE __half2 __lows2half2(__half2 a, __half2 b) {
    return {a.x, b.x};
}
SIM_INLINE __half2 __highs2half2(__half2 a, __half2 b) {
    return {a.y, b.y};
}
SIM_INLINE __half2 __half2half2(__half v) {
    return {v, v};
}
SIM_INLINE __half2 __halves2half2(__half a, __half b) {
    return {a, b};
}
SIM_INLINE __half2 make_half2(__half a, __half b) {
    return {a, b};
}
SIM_INLINE unsigned short __half_as_ushort(__half v) {
    return v.__x;
}
SIM_INLINE short __half_as_short(__half v) {
    return (short)v.__x;
}
SIM_INLINE __half __ushort_as_half(unsigned short v) {
    return sim_raw16{v};
}
SIM_INLINE __half __short_as_half(short v) {
    return sim_raw16{(unsigned short)v};
}
SIM_INLINE int __half2int_rn(__half v) {
    return sim_to_integer<int>(rintf((float)v));
}
SIM_INLINE int __half2int_rz(__half v) {
    return sim_to_integer<int>(truncf((float)v));
}
SIM_INLINE int __half2int_rd(__half v) {
    return sim_to_integer<int>(floorf((float)v));
}
SIM_INLINE int __half2int_ru(__half v) {
    return sim_to_integer<int>(ceilf((float)v));
}
SIM_INLINE __half __int2half_rn(int v) {
    return v;
}
SIM_INLINE unsigned __half2uint_rn(__half v) {
    return sim_to_integer<unsigned>(rintf((float)v));
}
SIM_INLINE unsigned __half2uint_rz(__half v) {
    return sim_to_integer<unsigned>(truncf((float)v));
}
SIM_INLINE unsigned __half2uint_rd(__half v) {
    return sim_to_integer<unsigned>(floorf((float)v));
}
SIM_INLINE unsigned __half2uint_ru(__half v) {
    return sim_to_integer<unsigned>(ceilf((float)v));
}
SIM_INLINE __half __uint2half_rn(unsigned v) {
    return v;
}
SIM_INLINE short __half2short_rn(__half v) {
    return sim_to_integer<short>(rintf((float)v));
}
SIM_INLINE short __half2short_rz(__half v) {
    return sim_to_integer<short>(truncf((float)v));
}
SIM_INLINE short __half2short_rd(__half v) {
    return sim_to_integer<short>(floorf((float)v));
}
SIM_INLINE short __half2short_ru(__half v) {
    return sim_to_integer<short>(ceilf((float)v));
}
SIM_INLINE __half __short2half_rn(short v) {
    return v;
}
SIM_INLINE unsigned short __half2ushort_rn(__half v) {
    return sim_to_integer<unsigned short>(rintf((float)v));
}
SIM_INLINE unsigned short __half2ushort_rz(__half v) {
    return sim_to_integer<unsigned short>(truncf((float)v));
}
SIM_INLINE unsigned short __half2ushort_rd(__half v) {
    return sim_to_integer<unsigned short>(floorf((float)v));
}
SIM_INLINE unsigned short __half2ushort_ru(__half v) {
    return sim_to_integer<unsigned short>(ceilf((float)v));
}
SIM_INLINE __half __ushort2half_rn(unsigned short v) {
    return v;
}
SIM_INLINE long long __half2ll_rn(__half v) {
    return sim_to_integer<long long>(rintf((float)v));
}
SIM_INLINE long long __half2ll_rz(__half v) {
    return sim_to_integer<long long>(truncf((float)v));
}
SIM_INLINE long long __half2ll_rd(__half v) {
    return sim_to_integer<long long>(floorf((float)v));
}
SIM_INLINE long long __half2ll_ru(__half v) {
    return sim_to_integer<long long>(ceilf((float)v));
}
SIM_INLINE __half __ll2half_rn(long long v) {
    return v;
}
SIM_INLINE unsigned long long __half2ull_rn(__half v) {
    return sim_to_integer<unsigned long long>(rintf((float)v));
}
SIM_INLINE unsigned long long __half2ull_rz(__half v) {
    return sim_to_integer<unsigned long long>(truncf((float)v));
}
SIM_INLINE unsigned long long __half2ull_rd(__half v) {
    return sim_to_integer<unsigned long long>(floorf((float)v));
}
SIM_INLINE unsigned long long __half2ull_ru(__half v) {
    return sim_to_integer<unsigned long long>(ceilf((float)v));
}
SIM_INLINE __half __ull2half_rn(unsigned long long v) {
    return v;
}
