/* Arithmetic that CUDA has and C++ lacks. Functions that a GPU approximates are exact here. */
#pragma once
#include "../hopper/hopper.h"
#include "conversions.hpp"
#include <cmath>

/* glibc 2.41 and later have functions of these names, too. */
#ifdef __GLIBC_PREREQ
#if __GLIBC_PREREQ(2, 41)
#define rsqrtf sim_rsqrtf
#define rsqrt sim_rsqrt
#define sinpif sim_sinpif
#define sinpi sim_sinpi
#define cospif sim_cospif
#define cospi sim_cospi
#endif
#endif

/* ---- min and max: of floats, the one that is not NaN (PTX ISA, "min" and "max") ---- */

template <class A, class B>
using sim_common =
    std::enable_if_t<std::is_arithmetic<A>::value && std::is_arithmetic<B>::value, std::common_type_t<A, B>>;

template <class A, class B> SIM_INLINE constexpr sim_common<A, B> min(A a, B b) {
    using T = sim_common<A, B>;
    if constexpr (std::is_floating_point<T>::value)
        return fmin((T)a, (T)b);
    else
        return (T)b < (T)a ? (T)b : (T)a;
}
template <class A, class B> SIM_INLINE constexpr sim_common<A, B> max(A a, B b) {
    using T = sim_common<A, B>;
    if constexpr (std::is_floating_point<T>::value)
        return fmax((T)a, (T)b);
    else
        return (T)a < (T)b ? (T)b : (T)a;
}
SIM_INLINE unsigned umin(unsigned a, unsigned b) {
    return min(a, b);
}
SIM_INLINE unsigned umax(unsigned a, unsigned b) {
    return max(a, b);
}
SIM_INLINE long long llmin(long long a, long long b) {
    return min(a, b);
}
SIM_INLINE long long llmax(long long a, long long b) {
    return max(a, b);
}
SIM_INLINE unsigned long long ullmin(unsigned long long a, unsigned long long b) {
    return min(a, b);
}
SIM_INLINE unsigned long long ullmax(unsigned long long a, unsigned long long b) {
    return max(a, b);
}

/* ---- Floats ---- */

#define __expf(x) expf(x)
#define __exp10f(x) exp10f(x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __log10f(x) log10f(x)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
#define __tanf(x) tanf(x)
#define __tanhf(x) tanhf(x)
#define __powf(x, y) powf(x, y)
#define __exp2f(x) exp2f(x)
#define __sincosf(x, sine, cosine) sincosf(x, sine, cosine)
/* 0 for a divisor between 2^126 and 2^128 (CUDA C++ programming guide, "Intrinsic Functions"). */
SIM_INLINE float __fdividef(float x, float y) {
    float size = fabsf(y);
    return size > 0x1p126f && size <= FLT_MAX ? (isinf(x) ? NAN : 0.0f * x) : x / y;
}
/* Rounded in each direction: __fadd_rn(), _rz, _rd and _ru. */
SIM_FLOAT_ROUNDED(__fadd, (float x, float y), x + y, (double)x + (double)y)
SIM_FLOAT_ROUNDED(__fsub, (float x, float y), x - y, (double)x - (double)y)
SIM_FLOAT_ROUNDED(__fmul, (float x, float y), x *y, (double)x *(double)y)
SIM_FLOAT_ROUNDED(__fdiv, (float x, float y), x / y, (double)x / (double)y)
SIM_FLOAT_ROUNDED(__fmaf, (float x, float y, float z), fmaf(x, y, z), (double)x *(double)y + (double)z)
SIM_FLOAT_ROUNDED(__fsqrt, (float x), sqrtf(x), sqrt((double)x))
SIM_FLOAT_ROUNDED(__frcp, (float x), 1.0f / x, 1.0 / (double)x)
SIM_INLINE double __dadd_rn(double x, double y) {
    return x + y;
}
SIM_INLINE double __dsub_rn(double x, double y) {
    return x - y;
}
SIM_INLINE double __dmul_rn(double x, double y) {
    return x * y;
}
SIM_INLINE double __ddiv_rn(double x, double y) {
    return x / y;
}
SIM_INLINE double __fma_rn(double x, double y, double z) {
    return fma(x, y, z);
}
SIM_INLINE double __drcp_rn(double x) {
    return 1.0 / x;
}
SIM_INLINE double __dsqrt_rn(double x) {
    return sqrt(x);
}
SIM_INLINE float __frsqrt_rn(float x) {
    return (float)(1.0 / sqrt((double)x));
}
SIM_INLINE float rsqrtf(float x) {
    return 1.0f / sqrtf(x);
}
SIM_INLINE double rsqrt(double x) {
    return 1.0 / sqrt(x);
}
SIM_INLINE float rsqrt(float x) {
    return 1.0f / sqrtf(x);
}
SIM_INLINE float rcbrtf(float x) {
    return 1.0f / cbrtf(x);
}
SIM_INLINE double rcbrt(double x) {
    return 1.0 / cbrt(x);
}
SIM_INLINE float __saturatef(float x) {
    return fminf(fmaxf(x, 0.0f), 1.0f);
}
SIM_INLINE float fdividef(float x, float y) {
    return x / y;
}
SIM_INLINE float sinpif(float x) {
    return (float)sin(M_PI * remainder((double)x, 2.0));
}
SIM_INLINE float cospif(float x) {
    return (float)cos(M_PI * remainder((double)x, 2.0));
}
SIM_INLINE double sinpi(double x) {
    return sin(M_PI * remainder(x, 2.0));
}
SIM_INLINE double cospi(double x) {
    return cos(M_PI * remainder(x, 2.0));
}
SIM_INLINE void sincospif(float x, float *sine, float *cosine) {
    *sine = sinpif(x);
    *cosine = cospif(x);
}
SIM_INLINE void sincospi(double x, double *sine, double *cosine) {
    *sine = sinpi(x);
    *cosine = cospi(x);
}
SIM_INLINE float rhypotf(float x, float y) {
    return 1.0f / hypotf(x, y);
}
SIM_INLINE float norm3df(float x, float y, float z) {
    return sqrtf(x * x + y * y + z * z);
}
SIM_INLINE float rnorm3df(float x, float y, float z) {
    return 1.0f / norm3df(x, y, z);
}
SIM_INLINE float norm4df(float x, float y, float z, float w) {
    return sqrtf(x * x + y * y + z * z + w * w);
}
SIM_INLINE double norm3d(double x, double y, double z) {
    return sqrt(x * x + y * y + z * z);
}
SIM_INLINE double rhypot(double x, double y) {
    return 1.0 / hypot(x, y);
}
SIM_INLINE float normcdff(float x) {
    return 0.5f * erfcf(-x * (float)M_SQRT1_2);
}
SIM_INLINE double normcdf(double x) {
    return 0.5 * erfc(-x * M_SQRT1_2);
}

/* ---- Integers ---- */

SIM_INLINE int __popc(unsigned v) {
    return __builtin_popcount(v);
}
SIM_INLINE int __popcll(unsigned long long v) {
    return __builtin_popcountll(v);
}
SIM_INLINE int __ffs(int v) {
    return __builtin_ffs(v);
}
SIM_INLINE int __ffsll(long long v) {
    return __builtin_ffsll(v);
}
SIM_INLINE int __clz(int v) {
    return v ? __builtin_clz((unsigned)v) : 32;
}
SIM_INLINE int __clzll(long long v) {
    return v ? __builtin_clzll((unsigned long long)v) : 64;
}
SIM_INLINE int __fns(unsigned mask, unsigned base, int offset) {
    return [=]() mutable {
        int step = offset < 0 ? -1 : 1, left = offset < 0 ? -offset : offset;
        if (left == 0)
            return mask >> base & 1 ? (int)base : -1;
        for (int bit = (int)base; bit >= 0 && bit < 32; bit += step)
            if (mask >> bit & 1 && --left == 0)
                return bit;
        return -1;
    }();
}
SIM_INLINE unsigned __umulhi(unsigned a, unsigned b) {
    return (unsigned)((uint64_t)a * b >> 32);
}
SIM_INLINE int __mulhi(int a, int b) {
    return (int)((int64_t)a * b >> 32);
}
SIM_INLINE unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
SIM_INLINE long long __mul64hi(long long a, long long b) {
    return (long long)((__int128)a * b >> 64);
}
SIM_INLINE int __mul24(int a, int b) {
    return (int)((unsigned)(a << 8 >> 8) * (unsigned)(b << 8 >> 8));
}
SIM_INLINE unsigned __umul24(unsigned a, unsigned b) {
    return (a & 0xffffffu) * (b & 0xffffffu);
}
SIM_INLINE unsigned __usad(unsigned a, unsigned b, unsigned c) {
    return (a > b ? a - b : b - a) + c;
}
SIM_INLINE unsigned __sad(int a, int b, unsigned c) {
    return (unsigned)(a > b ? (unsigned)a - (unsigned)b : (unsigned)b - (unsigned)a) + c;
}
SIM_INLINE int __hadd(int a, int b) {
    return (int)(((long long)a + b) >> 1);
}
SIM_INLINE int __rhadd(int a, int b) {
    return (int)(((long long)a + b + 1) >> 1);
}
SIM_INLINE unsigned __uhadd(unsigned a, unsigned b) {
    return (unsigned)(((unsigned long long)a + b) >> 1);
}
SIM_INLINE unsigned __brev(unsigned v) {
    v = (v >> 1 & 0x55555555u) | (v & 0x55555555u) << 1;
    v = (v >> 2 & 0x33333333u) | (v & 0x33333333u) << 2;
    v = (v >> 4 & 0x0f0f0f0fu) | (v & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(v);
}
SIM_INLINE unsigned long long __brevll(unsigned long long v) {
    return (unsigned long long)__brev((unsigned)v) << 32 | __brev((unsigned)(v >> 32));
}
/* Bytes of y:x that the digits of s choose (PTX ISA, "prmt"). */
SIM_INLINE unsigned __byte_perm(unsigned x, unsigned y, unsigned s) {
    unsigned long long both = (unsigned long long)y << 32 | x;
    unsigned result = 0;
    for (int i = 0; i < 4; i++) {
        unsigned chosen = s >> 4 * i & 0xf, byte = (unsigned)(both >> 8 * (chosen & 7)) & 0xff;
        if (chosen & 8)
            byte = byte & 0x80 ? 0xff : 0;
        result |= byte << 8 * i;
    }
    return result;
}
SIM_INLINE unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(((unsigned long long)high << 32 | low) << (shift & 31) >> 32);
}
SIM_INLINE unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(((unsigned long long)high << 32 | low) >> (shift & 31));
}
SIM_INLINE unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned shift) {
    return shift >= 32 ? low : __funnelshift_l(low, high, shift);
}
SIM_INLINE unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned shift) {
    return shift >= 32 ? high : __funnelshift_r(low, high, shift);
}

/* Four products of bytes and their sum (PTX ISA, "dp4a"). */
template <class T> SIM_INLINE int sim_dp4a(int a, int b, int c) {
    for (int i = 0; i < 4; i++)
        c += (int)(T)(a >> 8 * i) * (int)(T)(b >> 8 * i);
    return c;
}
SIM_INLINE int __dp4a(int a, int b, int c) {
    return sim_dp4a<signed char>(a, b, c);
}
SIM_INLINE unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    return (unsigned)sim_dp4a<unsigned char>((int)a, (int)b, (int)c);
}
SIM_INLINE int __dp4a(char4 a, char4 b, int c) {
    return sim_dp4a<signed char>(sim_bits<int>(a), sim_bits<int>(b), c);
}

/* ---- Loads and stores with a cache hint, which changes nothing here ---- */

#define SIM_LOAD(name)                                                                                       \
    template <class T> SIM_INLINE T name(const T *address) {                                                 \
        return *address;                                                                                     \
    }
SIM_LOAD(__ldg)
SIM_LOAD(__ldcg)
SIM_LOAD(__ldca)
SIM_LOAD(__ldcs)
SIM_LOAD(__ldlu)
SIM_LOAD(__ldcv)
#define SIM_STORE(name)                                                                                      \
    template <class T> SIM_INLINE void name(T *address, sim_given<T> value) {                                \
        *address = value;                                                                                    \
    }
SIM_STORE(__stwb)
SIM_STORE(__stcg)
SIM_STORE(__stcs)
SIM_STORE(__stwt)
SIM_INLINE unsigned __isGlobal(const void *) {
    return 1;
}
SIM_INLINE size_t __cvta_generic_to_shared(const void *address, SIM_CALLED_FROM) {
    return sim_shared_address(SIM_CALLER, address);
}
SIM_INLINE void *__cvta_shared_to_generic(size_t address, SIM_CALLED_FROM) {
    return sim_shared_pointer(SIM_CALLER, (uint32_t)address);
}
SIM_INLINE size_t __cvta_generic_to_global(const void *address) {
    return (size_t)address;
}
