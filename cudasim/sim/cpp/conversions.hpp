/* Conversions between numbers as in PTX (ISA, "cvt"): a number too large for an integer becomes the largest;
 * NaN becomes 0 or, if one of the two types has 64 bits, the integer with only the first bit set. C++ leaves
 * this undefined. */
#pragma once
#include "language.hpp"

template <class To, class From>
SIM_INLINE constexpr __attribute__((no_sanitize("float-cast-overflow"))) To sim_to_integer(From v) {
    constexpr bool is_signed = std::is_signed<To>::value;
    constexpr int bits = 8 * sizeof(To) - is_signed;
    constexpr From past = (From)(bits < 63 ? (double)(1ull << bits) : bits == 63 ? 0x1p63 : 0x1p64);
    constexpr To first_bit = (To)((To)1 << (8 * sizeof(To) - 1));
    if (v != v)
        return sizeof(From) == 8 || sizeof(To) == 8 ? first_bit : (To)0;
    if (v >= past)
        return (To) ~(is_signed ? first_bit : (To)0);
    if (v < (is_signed ? -past : (From)0))
        return is_signed ? first_bit : (To)0;
    return (To)v;
}

/* A cast that a kernel writes: from a float to an integer as above, by way of 32 bits if it has fewer; any
 * other cast as in C++. */
template <class To, class From> SIM_INLINE constexpr To sim_cast(From from) {
    if constexpr (std::is_integral<To>::value && !std::is_same<To, bool>::value) {
        using Wide = std::conditional_t<std::is_signed<To>::value, int, unsigned>;
        if constexpr (std::is_floating_point<From>::value)
            return (To)sim_to_integer<std::conditional_t<(sizeof(To) < sizeof(Wide)), Wide, To>>(from);
        else if constexpr (sim_is_float16<From>::value)
            return sim_cast<To>((float)from);
        else
            return (To)from;
    } else {
        return (To)from;
    }
}

/* ---- By name, with a rounding: to nearest even, towards zero, down, up ---- */

SIM_INLINE int __float2int_rn(float v) {
    return sim_to_integer<int>(rintf(v));
}
SIM_INLINE int __float2int_rz(float v) {
    return sim_to_integer<int>(truncf(v));
}
SIM_INLINE int __float2int_rd(float v) {
    return sim_to_integer<int>(floorf(v));
}
SIM_INLINE int __float2int_ru(float v) {
    return sim_to_integer<int>(ceilf(v));
}
SIM_INLINE unsigned __float2uint_rn(float v) {
    return sim_to_integer<unsigned>(rintf(v));
}
SIM_INLINE unsigned __float2uint_rz(float v) {
    return sim_to_integer<unsigned>(truncf(v));
}
SIM_INLINE unsigned __float2uint_rd(float v) {
    return sim_to_integer<unsigned>(floorf(v));
}
SIM_INLINE unsigned __float2uint_ru(float v) {
    return sim_to_integer<unsigned>(ceilf(v));
}
SIM_INLINE long long __float2ll_rn(float v) {
    return sim_to_integer<long long>(rintf(v));
}
SIM_INLINE long long __float2ll_rz(float v) {
    return sim_to_integer<long long>(truncf(v));
}
SIM_INLINE long long __float2ll_rd(float v) {
    return sim_to_integer<long long>(floorf(v));
}
SIM_INLINE long long __float2ll_ru(float v) {
    return sim_to_integer<long long>(ceilf(v));
}
SIM_INLINE unsigned long long __float2ull_rn(float v) {
    return sim_to_integer<unsigned long long>(rintf(v));
}
SIM_INLINE unsigned long long __float2ull_rz(float v) {
    return sim_to_integer<unsigned long long>(truncf(v));
}
SIM_INLINE unsigned long long __float2ull_rd(float v) {
    return sim_to_integer<unsigned long long>(floorf(v));
}
SIM_INLINE unsigned long long __float2ull_ru(float v) {
    return sim_to_integer<unsigned long long>(ceilf(v));
}
SIM_INLINE int __double2int_rn(double v) {
    return sim_to_integer<int>(rint(v));
}
SIM_INLINE int __double2int_rz(double v) {
    return sim_to_integer<int>(trunc(v));
}
SIM_INLINE int __double2int_rd(double v) {
    return sim_to_integer<int>(floor(v));
}
SIM_INLINE int __double2int_ru(double v) {
    return sim_to_integer<int>(ceil(v));
}
SIM_INLINE unsigned __double2uint_rn(double v) {
    return sim_to_integer<unsigned>(rint(v));
}
SIM_INLINE unsigned __double2uint_rz(double v) {
    return sim_to_integer<unsigned>(trunc(v));
}
SIM_INLINE unsigned __double2uint_rd(double v) {
    return sim_to_integer<unsigned>(floor(v));
}
SIM_INLINE unsigned __double2uint_ru(double v) {
    return sim_to_integer<unsigned>(ceil(v));
}
SIM_INLINE long long __double2ll_rn(double v) {
    return sim_to_integer<long long>(rint(v));
}
SIM_INLINE long long __double2ll_rz(double v) {
    return sim_to_integer<long long>(trunc(v));
}
SIM_INLINE long long __double2ll_rd(double v) {
    return sim_to_integer<long long>(floor(v));
}
SIM_INLINE long long __double2ll_ru(double v) {
    return sim_to_integer<long long>(ceil(v));
}
SIM_INLINE unsigned long long __double2ull_rn(double v) {
    return sim_to_integer<unsigned long long>(rint(v));
}
SIM_INLINE unsigned long long __double2ull_rz(double v) {
    return sim_to_integer<unsigned long long>(trunc(v));
}
SIM_INLINE unsigned long long __double2ull_rd(double v) {
    return sim_to_integer<unsigned long long>(floor(v));
}
SIM_INLINE unsigned long long __double2ull_ru(double v) {
    return sim_to_integer<unsigned long long>(ceil(v));
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

/* The next float on one side of v. */
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
