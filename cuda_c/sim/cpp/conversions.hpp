/* Conversions between numbers, as PTX has them (ISA, "cvt"): to an integer, what is too large becomes the
 * largest and NaN becomes 0. C++ leaves both undefined, and x86 makes the smallest of them. */
#pragma once
#include "language.hpp"

template <class To> SIM_INLINE To sim_to_integer(double v) {
    constexpr bool is_signed = std::is_signed<To>::value;
    constexpr int bits = 8 * sizeof(To) - is_signed;
    constexpr double past = bits < 63 ? (double)(1ull << bits) : bits == 63 ? 0x1p63 : 0x1p64;
    if (v != v)
        return 0;
    if (v >= past)
        return (To) ~(is_signed ? (To)1 << (8 * sizeof(To) - 1) : (To)0);
    if (v < (is_signed ? -past : 0.0))
        return is_signed ? (To)((To)1 << (8 * sizeof(To) - 1)) : (To)0;
    return (To)v;
}

/* A cast that a kernel writes: from a float to an integer as above, any other as C++ has it. */
template <class To, class From> SIM_INLINE To sim_cast(From from) {
    if constexpr (std::is_floating_point<From>::value && std::is_integral<To>::value &&
                  !std::is_same<To, bool>::value)
        return sim_to_integer<To>((double)from);
    else
        return (To)from;
}

/* ---- By name, with a rounding: to nearest even, towards zero, down, up ---- */

SIM_INLINE int __float2int_rn(float v) {
    return sim_to_integer<int>(rint((double)v));
}
SIM_INLINE int __float2int_rz(float v) {
    return sim_to_integer<int>(trunc((double)v));
}
SIM_INLINE int __float2int_rd(float v) {
    return sim_to_integer<int>(floor((double)v));
}
SIM_INLINE int __float2int_ru(float v) {
    return sim_to_integer<int>(ceil((double)v));
}
SIM_INLINE unsigned __float2uint_rn(float v) {
    return sim_to_integer<unsigned>(rint((double)v));
}
SIM_INLINE unsigned __float2uint_rz(float v) {
    return sim_to_integer<unsigned>(trunc((double)v));
}
SIM_INLINE unsigned __float2uint_rd(float v) {
    return sim_to_integer<unsigned>(floor((double)v));
}
SIM_INLINE unsigned __float2uint_ru(float v) {
    return sim_to_integer<unsigned>(ceil((double)v));
}
SIM_INLINE long long __float2ll_rn(float v) {
    return sim_to_integer<long long>(rint((double)v));
}
SIM_INLINE long long __float2ll_rz(float v) {
    return sim_to_integer<long long>(trunc((double)v));
}
SIM_INLINE long long __float2ll_rd(float v) {
    return sim_to_integer<long long>(floor((double)v));
}
SIM_INLINE long long __float2ll_ru(float v) {
    return sim_to_integer<long long>(ceil((double)v));
}
SIM_INLINE unsigned long long __float2ull_rn(float v) {
    return sim_to_integer<unsigned long long>(rint((double)v));
}
SIM_INLINE unsigned long long __float2ull_rz(float v) {
    return sim_to_integer<unsigned long long>(trunc((double)v));
}
SIM_INLINE unsigned long long __float2ull_rd(float v) {
    return sim_to_integer<unsigned long long>(floor((double)v));
}
SIM_INLINE unsigned long long __float2ull_ru(float v) {
    return sim_to_integer<unsigned long long>(ceil((double)v));
}
SIM_INLINE int __double2int_rn(double v) {
    return sim_to_integer<int>(rint((double)v));
}
SIM_INLINE int __double2int_rz(double v) {
    return sim_to_integer<int>(trunc((double)v));
}
SIM_INLINE int __double2int_rd(double v) {
    return sim_to_integer<int>(floor((double)v));
}
SIM_INLINE int __double2int_ru(double v) {
    return sim_to_integer<int>(ceil((double)v));
}
SIM_INLINE unsigned __double2uint_rn(double v) {
    return sim_to_integer<unsigned>(rint((double)v));
}
SIM_INLINE unsigned __double2uint_rz(double v) {
    return sim_to_integer<unsigned>(trunc((double)v));
}
SIM_INLINE unsigned __double2uint_rd(double v) {
    return sim_to_integer<unsigned>(floor((double)v));
}
SIM_INLINE unsigned __double2uint_ru(double v) {
    return sim_to_integer<unsigned>(ceil((double)v));
}
SIM_INLINE long long __double2ll_rn(double v) {
    return sim_to_integer<long long>(rint((double)v));
}
SIM_INLINE long long __double2ll_rz(double v) {
    return sim_to_integer<long long>(trunc((double)v));
}
SIM_INLINE long long __double2ll_rd(double v) {
    return sim_to_integer<long long>(floor((double)v));
}
SIM_INLINE long long __double2ll_ru(double v) {
    return sim_to_integer<long long>(ceil((double)v));
}
SIM_INLINE unsigned long long __double2ull_rn(double v) {
    return sim_to_integer<unsigned long long>(rint((double)v));
}
SIM_INLINE unsigned long long __double2ull_rz(double v) {
    return sim_to_integer<unsigned long long>(trunc((double)v));
}
SIM_INLINE unsigned long long __double2ull_rd(double v) {
    return sim_to_integer<unsigned long long>(floor((double)v));
}
SIM_INLINE unsigned long long __double2ull_ru(double v) {
    return sim_to_integer<unsigned long long>(ceil((double)v));
}
SIM_INLINE float __int2float_rn(int v) {
    return (float)v;
}
SIM_INLINE double __int2double_rn(int v) {
    return (double)v;
}
SIM_INLINE float __uint2float_rn(unsigned v) {
    return (float)v;
}
SIM_INLINE double __uint2double_rn(unsigned v) {
    return (double)v;
}
SIM_INLINE float __ll2float_rn(long long v) {
    return (float)v;
}
SIM_INLINE double __ll2double_rn(long long v) {
    return (double)v;
}
SIM_INLINE float __ull2float_rn(unsigned long long v) {
    return (float)v;
}
SIM_INLINE double __ull2double_rn(unsigned long long v) {
    return (double)v;
}

/* A float next to v on one side. */
SIM_INLINE float sim_float_not_above(double v) {
    float f = (float)v;
    return (double)f > v ? nextafterf(f, -INFINITY) : f;
}
SIM_INLINE float sim_float_not_below(double v) {
    float f = (float)v;
    return (double)f < v ? nextafterf(f, INFINITY) : f;
}
SIM_INLINE float sim_float_towards_zero(double v) {
    return v < 0 ? sim_float_not_below(v) : sim_float_not_above(v);
}
SIM_INLINE float __double2float_rn(double v) {
    return (float)v;
}
SIM_INLINE float __double2float_rz(double v) {
    return sim_float_towards_zero((double)v);
}
SIM_INLINE float __double2float_rd(double v) {
    return sim_float_not_above((double)v);
}
SIM_INLINE float __double2float_ru(double v) {
    return sim_float_not_below((double)v);
}
SIM_INLINE float __int2float_rz(int v) {
    return sim_float_towards_zero((double)v);
}
SIM_INLINE float __int2float_rd(int v) {
    return sim_float_not_above((double)v);
}
SIM_INLINE float __int2float_ru(int v) {
    return sim_float_not_below((double)v);
}
SIM_INLINE float __uint2float_rz(unsigned v) {
    return sim_float_towards_zero((double)v);
}
SIM_INLINE float __uint2float_rd(unsigned v) {
    return sim_float_not_above((double)v);
}
SIM_INLINE float __uint2float_ru(unsigned v) {
    return sim_float_not_below((double)v);
}

/* ---- The same bits as another type ---- */

SIM_INLINE int __float_as_int(float v) {
    return sim_bits<int>(v);
}
SIM_INLINE unsigned __float_as_uint(float v) {
    return sim_bits<unsigned>(v);
}
SIM_INLINE float __int_as_float(int v) {
    return sim_bits<float>(v);
}
SIM_INLINE float __uint_as_float(unsigned v) {
    return sim_bits<float>(v);
}
SIM_INLINE long long __double_as_longlong(double v) {
    return sim_bits<long long>(v);
}
SIM_INLINE double __longlong_as_double(long long v) {
    return sim_bits<double>(v);
}
SIM_INLINE int __double2hiint(double v) {
    return (int)(sim_bits<unsigned long long>(v) >> 32);
}
SIM_INLINE int __double2loint(double v) {
    return (int)sim_bits<unsigned long long>(v);
}
SIM_INLINE double __hiloint2double(int high, int low) {
    return sim_bits<double>((unsigned long long)(unsigned)high << 32 | (unsigned)low);
}
