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

/* To the nearest integer, towards zero, down and up: __float2int_rn(), _rz, _rd and _ru. */
#define SIM_TO_INTEGER(name, To, From, real)                                                                 \
    SIM_INLINE To name##_rn(From v) {                                                                        \
        return sim_to_integer<To>(std::rint((real)v));                                                       \
    }                                                                                                        \
    SIM_INLINE To name##_rz(From v) {                                                                        \
        return sim_to_integer<To>(std::trunc((real)v));                                                      \
    }                                                                                                        \
    SIM_INLINE To name##_rd(From v) {                                                                        \
        return sim_to_integer<To>(std::floor((real)v));                                                      \
    }                                                                                                        \
    SIM_INLINE To name##_ru(From v) {                                                                        \
        return sim_to_integer<To>(std::ceil((real)v));                                                       \
    }
SIM_TO_INTEGER(__float2int, int, float, float)
SIM_TO_INTEGER(__float2uint, unsigned, float, float)
SIM_TO_INTEGER(__float2ll, long long, float, float)
SIM_TO_INTEGER(__float2ull, unsigned long long, float, float)
SIM_TO_INTEGER(__double2int, int, double, double)
SIM_TO_INTEGER(__double2uint, unsigned, double, double)
SIM_TO_INTEGER(__double2ll, long long, double, double)
SIM_TO_INTEGER(__double2ull, unsigned long long, double, double)
SIM_INLINE double __int2double_rn(int v) {
    return (double)v;
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
/* Floats rounded to the nearest, towards zero, down and up: _rn, _rz, _rd and _ru. nearest: the first one's
 * value; of_doubles: what the others round. */
#define SIM_FLOAT_ROUNDED(name, parameters, nearest, of_doubles)                                             \
    SIM_INLINE float name##_rn parameters {                                                                  \
        return nearest;                                                                                      \
    }                                                                                                        \
    SIM_INLINE float name##_rz parameters {                                                                  \
        return sim_float_towards_zero(of_doubles);                                                           \
    }                                                                                                        \
    SIM_INLINE float name##_rd parameters {                                                                  \
        return sim_float_not_above(of_doubles);                                                              \
    }                                                                                                        \
    SIM_INLINE float name##_ru parameters {                                                                  \
        return sim_float_not_below(of_doubles);                                                              \
    }
SIM_FLOAT_ROUNDED(__double2float, (double v), (float)v, v)
SIM_FLOAT_ROUNDED(__int2float, (int v), (float)v, (double)v)
SIM_FLOAT_ROUNDED(__uint2float, (unsigned v), (float)v, (double)v)

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
