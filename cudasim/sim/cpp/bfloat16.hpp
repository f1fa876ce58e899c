/* bfloat16, with the names of cuda_bf16.h. */
#pragma once
#include "conversions.hpp"
#include "float16_functions.hpp"

using __nv_bfloat16 = sim_float16<sim_bfloat16>;
using __nv_bfloat162 = sim_float16x2<sim_bfloat16>;
using __nv_bfloat16_raw = sim_raw16;
using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;

SIM_INLINE __nv_bfloat16 __float2bfloat16(float v) {
    return v;
}
SIM_INLINE __nv_bfloat16 __float2bfloat16_rn(float v) {
    return v;
}
SIM_INLINE __nv_bfloat16 __double2bfloat16(double v) {
    return v;
}
SIM_INLINE float __bfloat162float(__nv_bfloat16 v) {
    return v;
}
SIM_INLINE __nv_bfloat162 __float2bfloat162_rn(float v) {
    return {v, v};
}
SIM_INLINE __nv_bfloat162 __floats2bfloat162_rn(float a, float b) {
    return {a, b};
}
SIM_INLINE __nv_bfloat162 __float22bfloat162_rn(float2 v) {
    return {v.x, v.y};
}
SIM_INLINE float2 __bfloat1622float2(__nv_bfloat162 v) {
    return {(float)v.x, (float)v.y};
}
SIM_INLINE __nv_bfloat16 __low2bfloat16(__nv_bfloat162 v) {
    return v.x;
}
SIM_INLINE __nv_bfloat16 __high2bfloat16(__nv_bfloat162 v) {
    return v.y;
}
SIM_INLINE __nv_bfloat162 __low2bfloat162(__nv_bfloat162 v) {
    return {v.x, v.x};
}
SIM_INLINE __nv_bfloat162 __high2bfloat162(__nv_bfloat162 v) {
    return {v.y, v.y};
}
SIM_INLINE __nv_bfloat162 __lows2bfloat162(__nv_bfloat162 a, __nv_bfloat162 b) {
    return {a.x, b.x};
}
SIM_INLINE __nv_bfloat162 __highs2bfloat162(__nv_bfloat162 a, __nv_bfloat162 b) {
    return {a.y, b.y};
}
SIM_INLINE __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 v) {
    return {v, v};
}
SIM_INLINE __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) {
    return {a, b};
}
SIM_INLINE __nv_bfloat162 make_bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) {
    return {a, b};
}
SIM_INLINE unsigned short __bfloat16_as_ushort(__nv_bfloat16 v) {
    return v.__x;
}
SIM_INLINE short __bfloat16_as_short(__nv_bfloat16 v) {
    return (short)v.__x;
}
SIM_INLINE __nv_bfloat16 __ushort_as_bfloat16(unsigned short v) {
    return sim_raw16{v};
}
SIM_INLINE __nv_bfloat16 __short_as_bfloat16(short v) {
    return sim_raw16{(unsigned short)v};
}
SIM_INLINE int __bfloat162int_rn(__nv_bfloat16 v) {
    return sim_to_integer<int>(rintf((float)v));
}
SIM_INLINE int __bfloat162int_rz(__nv_bfloat16 v) {
    return sim_to_integer<int>(truncf((float)v));
}
SIM_INLINE int __bfloat162int_rd(__nv_bfloat16 v) {
    return sim_to_integer<int>(floorf((float)v));
}
SIM_INLINE int __bfloat162int_ru(__nv_bfloat16 v) {
    return sim_to_integer<int>(ceilf((float)v));
}
SIM_INLINE __nv_bfloat16 __int2bfloat16_rn(int v) {
    return v;
}
SIM_INLINE unsigned __bfloat162uint_rn(__nv_bfloat16 v) {
    return sim_to_integer<unsigned>(rintf((float)v));
}
SIM_INLINE unsigned __bfloat162uint_rz(__nv_bfloat16 v) {
    return sim_to_integer<unsigned>(truncf((float)v));
}
SIM_INLINE unsigned __bfloat162uint_rd(__nv_bfloat16 v) {
    return sim_to_integer<unsigned>(floorf((float)v));
}
SIM_INLINE unsigned __bfloat162uint_ru(__nv_bfloat16 v) {
    return sim_to_integer<unsigned>(ceilf((float)v));
}
SIM_INLINE __nv_bfloat16 __uint2bfloat16_rn(unsigned v) {
    return v;
}
SIM_INLINE short __bfloat162short_rn(__nv_bfloat16 v) {
    return sim_to_integer<short>(rintf((float)v));
}
SIM_INLINE short __bfloat162short_rz(__nv_bfloat16 v) {
    return sim_to_integer<short>(truncf((float)v));
}
SIM_INLINE short __bfloat162short_rd(__nv_bfloat16 v) {
    return sim_to_integer<short>(floorf((float)v));
}
SIM_INLINE short __bfloat162short_ru(__nv_bfloat16 v) {
    return sim_to_integer<short>(ceilf((float)v));
}
SIM_INLINE __nv_bfloat16 __short2bfloat16_rn(short v) {
    return v;
}
SIM_INLINE unsigned short __bfloat162ushort_rn(__nv_bfloat16 v) {
    return sim_to_integer<unsigned short>(rintf((float)v));
}
SIM_INLINE unsigned short __bfloat162ushort_rz(__nv_bfloat16 v) {
    return sim_to_integer<unsigned short>(truncf((float)v));
}
SIM_INLINE unsigned short __bfloat162ushort_rd(__nv_bfloat16 v) {
    return sim_to_integer<unsigned short>(floorf((float)v));
}
SIM_INLINE unsigned short __bfloat162ushort_ru(__nv_bfloat16 v) {
    return sim_to_integer<unsigned short>(ceilf((float)v));
}
SIM_INLINE __nv_bfloat16 __ushort2bfloat16_rn(unsigned short v) {
    return v;
}
SIM_INLINE long long __bfloat162ll_rn(__nv_bfloat16 v) {
    return sim_to_integer<long long>(rintf((float)v));
}
SIM_INLINE long long __bfloat162ll_rz(__nv_bfloat16 v) {
    return sim_to_integer<long long>(truncf((float)v));
}
SIM_INLINE long long __bfloat162ll_rd(__nv_bfloat16 v) {
    return sim_to_integer<long long>(floorf((float)v));
}
SIM_INLINE long long __bfloat162ll_ru(__nv_bfloat16 v) {
    return sim_to_integer<long long>(ceilf((float)v));
}
SIM_INLINE __nv_bfloat16 __ll2bfloat16_rn(long long v) {
    return v;
}
SIM_INLINE unsigned long long __bfloat162ull_rn(__nv_bfloat16 v) {
    return sim_to_integer<unsigned long long>(rintf((float)v));
}
SIM_INLINE unsigned long long __bfloat162ull_rz(__nv_bfloat16 v) {
    return sim_to_integer<unsigned long long>(truncf((float)v));
}
SIM_INLINE unsigned long long __bfloat162ull_rd(__nv_bfloat16 v) {
    return sim_to_integer<unsigned long long>(floorf((float)v));
}
SIM_INLINE unsigned long long __bfloat162ull_ru(__nv_bfloat16 v) {
    return sim_to_integer<unsigned long long>(ceilf((float)v));
}
SIM_INLINE __nv_bfloat16 __ull2bfloat16_rn(unsigned long long v) {
    return v;
}
