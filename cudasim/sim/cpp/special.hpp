/* CUDA's mathematical functions that C++ lacks, and double arithmetic with a rounding. CUDA Math API.
 */
#pragma once
#include "intrinsics.hpp"
#include <cfenv>

/* ---- With a rounding: the processor's own, switched for one operation ---- */

/* Forces the compiler to compute the value here, and hides it from here on. */
template <class T> SIM_INLINE void sim_opaque(T &value) {
    __asm__ volatile("" : "+m"(value) : : "memory");
}
/* Returns the previous rounding. fesetround() also sets the rounding of x86's old floating-point unit, which
 * takes ten times as long as the operation. */
SIM_INLINE int sim_round_as(int rounding) {
#ifdef __x86_64__
    enum { SHIFT = 3, ROUNDING = FE_TOWARDZERO << SHIFT }; /* of the bits, between the two units' registers */
    unsigned control = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr((control & ~(unsigned)ROUNDING) | (unsigned)rounding << SHIFT);
    return (int)(control & ROUNDING) >> SHIFT;
#else
    int before = std::fegetround();
    std::fesetround(rounding);
    return before;
#endif
}
template <class T, class F, class... Operands>
SIM_INLINE T sim_rounded(int rounding, F f, Operands... operands) {
    int before = sim_round_as(rounding);
    (sim_opaque(operands), ...);
    T result = f(operands...);
    sim_opaque(result);
    sim_round_as(before);
    return result;
}
SIM_INLINE double sim_sum_rounded(int rounding, double x, double y) {
    return sim_rounded<double>(rounding, [](double a, double b) { return a + b; }, x, y);
}
SIM_INLINE double sim_product_rounded(int rounding, double x, double y) {
    return sim_rounded<double>(rounding, [](double a, double b) { return a * b; }, x, y);
}
SIM_INLINE double sim_quotient_rounded(int rounding, double x, double y) {
    return sim_rounded<double>(rounding, [](double a, double b) { return a / b; }, x, y);
}
SIM_INLINE double sim_root_rounded(int rounding, double x) {
    return sim_rounded<double>(rounding, [](double a) { return sqrt(a); }, x);
}
SIM_INLINE double sim_fma_rounded(int rounding, double x, double y, double z) {
    return sim_rounded<double>(rounding, [](double a, double b, double c) { return fma(a, b, c); }, x, y, z);
}
/* Towards zero, down and up: __dadd_rz(), _rd and _ru. */
#define SIM_ROUNDED(name, T, parameters, function, ...)                                                      \
    SIM_INLINE T name##_rz parameters {                                                                      \
        return function(FE_TOWARDZERO, __VA_ARGS__);                                                         \
    }                                                                                                        \
    SIM_INLINE T name##_rd parameters {                                                                      \
        return function(FE_DOWNWARD, __VA_ARGS__);                                                           \
    }                                                                                                        \
    SIM_INLINE T name##_ru parameters {                                                                      \
        return function(FE_UPWARD, __VA_ARGS__);                                                             \
    }
SIM_ROUNDED(__dadd, double, (double x, double y), sim_sum_rounded, x, y)
SIM_ROUNDED(__dsub, double, (double x, double y), sim_sum_rounded, x, -y)
SIM_ROUNDED(__dmul, double, (double x, double y), sim_product_rounded, x, y)
SIM_ROUNDED(__ddiv, double, (double x, double y), sim_quotient_rounded, x, y)
SIM_ROUNDED(__drcp, double, (double x), sim_quotient_rounded, 1.0, x)
SIM_ROUNDED(__dsqrt, double, (double x), sim_root_rounded, x)
SIM_ROUNDED(__fma, double, (double x, double y, double z), sim_fma_rounded, x, y, z)

template <class To, class From> SIM_INLINE To sim_converted_rounded(int rounding, From v) {
    return sim_rounded<To>(rounding, [](From of) { return (To)of; }, v);
}
SIM_ROUNDED(__ll2float, float, (long long v), sim_converted_rounded<float>, v)
SIM_ROUNDED(__ull2float, float, (unsigned long long v), sim_converted_rounded<float>, v)
SIM_ROUNDED(__ll2double, double, (long long v), sim_converted_rounded<double>, v)
SIM_ROUNDED(__ull2double, double, (unsigned long long v), sim_converted_rounded<double>, v)

/* ---- Norms ---- */

SIM_INLINE double norm(int count, const double *x) {
    double length = 0;
    for (int i = 0; i < count; i++)
        length = hypot(length, x[i]);
    return length;
}
SIM_INLINE float normf(int count, const float *x) {
    double length = 0;
    for (int i = 0; i < count; i++)
        length = hypot(length, (double)x[i]);
    return (float)length;
}
SIM_INLINE double rnorm(int count, const double *x) {
    return 1.0 / norm(count, x);
}
SIM_INLINE float rnormf(int count, const float *x) {
    return 1.0f / normf(count, x);
}
SIM_INLINE double norm4d(double a, double b, double c, double d) {
    return hypot(hypot(a, b), hypot(c, d));
}
SIM_INLINE double rnorm3d(double a, double b, double c) {
    return 1.0 / norm3d(a, b, c);
}
SIM_INLINE double rnorm4d(double a, double b, double c, double d) {
    return 1.0 / norm4d(a, b, c, d);
}
SIM_INLINE float rnorm4df(float a, float b, float c, float d) {
    return (float)rnorm4d(a, b, c, d);
}

/* ---- The error function's relatives ---- */

/* exp(x^2) erfc(x): for large x by its continued fraction, 1/sqrt(pi) / (x + (1/2)/(x + 1/(x + ...))).
 * Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.14. */
SIM_INLINE double erfcx(double x) {
    enum { TERMS = 60 };
    if (x < 5)
        return exp(x * x) * erfc(x);
    double tail = x;
    for (int k = TERMS; k > 0; k--)
        tail = x + 0.5 * k / tail;
    return 1 / (sqrt(M_PI) * tail);
}
SIM_INLINE float erfcxf(float x) {
    return (float)erfcx(x);
}
/* The inverses, by Newton's method: for erf with |y| <= 1/2 and the slope 2/sqrt(pi) exp(-x^2); for erfc with
 * y < 1/2 on the logarithms, with the slope -2/sqrt(pi) / erfcx(x). */
enum { SIM_NEWTON_STEPS = 60 };
SIM_INLINE double sim_erfinv_near_0(double y) {
    double x = y * sqrt(M_PI) / 2, step = x;
    for (int i = 0; i < SIM_NEWTON_STEPS && fabs(step) > 1e-16 * fabs(x); i++) {
        step = (y - erf(x)) * sqrt(M_PI) / 2 * exp(x * x);
        x += step;
    }
    return x;
}
SIM_INLINE double sim_erfcinv_near_0(double y) {
    double x = sqrt(-log(y)), step = x;
    for (int i = 0; i < SIM_NEWTON_STEPS && fabs(step) > 1e-16 * x; i++) {
        step = (log(erfc(x)) - log(y)) * sqrt(M_PI) / 2 * erfcx(x);
        x += step;
    }
    return x;
}
SIM_INLINE double erfcinv(double y) {
    if (!(y > 0 && y < 2))
        return y == 0 ? INFINITY : y == 2 ? -INFINITY : NAN;
    return y < 0.5 ? sim_erfcinv_near_0(y) : y > 1.5 ? -sim_erfcinv_near_0(2 - y) : sim_erfinv_near_0(1 - y);
}
SIM_INLINE double erfinv(double y) {
    return fabs(y) <= 0.5 ? sim_erfinv_near_0(y) : y > 0 ? erfcinv(1 - y) : -erfcinv(1 + y);
}
SIM_INLINE float erfcinvf(float y) {
    return (float)erfcinv(y);
}
SIM_INLINE float erfinvf(float y) {
    return (float)erfinv(y);
}
SIM_INLINE double normcdfinv(double p) {
    return -sqrt(2.0) * erfcinv(2 * p);
}
SIM_INLINE float normcdfinvf(float p) {
    return (float)normcdfinv(p);
}

/* ---- Modified Bessel functions ---- */

/* A power series of positive terms; for a large x the expansion at infinity, whose smallest term is about
 * e^(-2 x). Half of the exponent at a time, since e^x overflows before the result does. */
SIM_INLINE double sim_bessel_i(int order, double x) {
    if (x > 1000)
        return INFINITY;
    bool is_large = x > 30;
    double term = is_large || order == 0 ? 1 : x / 2, sum = term;
    for (int k = 1; fabs(term) > 1e-17 * sum; k++) {
        double odd = 2 * k - 1;
        term *= is_large ? (odd * odd - 4 * order) / (8 * k * x) : x / 2 * (x / 2) / (k * (k + order));
        sum += term;
    }
    return is_large ? exp(x / 2) / sqrt(2 * M_PI * x) * sum * exp(x / 2) : sum;
}
SIM_INLINE double cyl_bessel_i0(double x) {
    return sim_bessel_i(0, fabs(x));
}
SIM_INLINE double cyl_bessel_i1(double x) {
    return copysign(sim_bessel_i(1, fabs(x)), x);
}
SIM_INLINE float cyl_bessel_i0f(float x) {
    return (float)cyl_bessel_i0(x);
}
SIM_INLINE float cyl_bessel_i1f(float x) {
    return (float)cyl_bessel_i1(x);
}

/* ---- Two products of 16 bits by 8 bits, and their sum: the first or the last two bytes of b (PTX ISA,
 * "dp2a") */

template <class Half, class Byte> SIM_INLINE int sim_dp2a(int a, int b, int c) {
    return c + (int)(Half)a * (int)(Byte)b + (int)(Half)(a >> 16) * (int)(Byte)(b >> 8);
}
SIM_INLINE int __dp2a_lo(int a, int b, int c) {
    return sim_dp2a<short, signed char>(a, b, c);
}
SIM_INLINE int __dp2a_hi(int a, int b, int c) {
    return sim_dp2a<short, signed char>(a, b >> 16, c);
}
SIM_INLINE unsigned __dp2a_lo(unsigned a, unsigned b, unsigned c) {
    return (unsigned)sim_dp2a<unsigned short, unsigned char>((int)a, (int)b, (int)c);
}
SIM_INLINE unsigned __dp2a_hi(unsigned a, unsigned b, unsigned c) {
    return (unsigned)sim_dp2a<unsigned short, unsigned char>((int)a, (int)(b >> 16), (int)c);
}
SIM_INLINE unsigned __urhadd(unsigned a, unsigned b) {
    return (unsigned)(((unsigned long long)a + b + 1) >> 1);
}
