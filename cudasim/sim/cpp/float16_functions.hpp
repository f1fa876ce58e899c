/* CUDA's functions of 16-bit floats, for one and for two at a time. */
#pragma once
#include "float16.hpp"

/* ---- Arithmetic ---- */

/* Of one number and of two: __hadd(), __hadd2(); rounded once also where the compiler could fuse it with
 * another (_rn), as it is here anyway; and between 0 and 1 (_sat). */
#define SIM_ARITHMETIC(name, operation)                                                                      \
    template <class F> SIM_INLINE sim_float16<F> name(sim_float16<F> a, sim_given<sim_float16<F>> b) {       \
        return a operation b;                                                                                \
    }                                                                                                        \
    template <class F>                                                                                       \
    SIM_INLINE sim_float16x2<F> name##2(sim_float16x2<F> a, sim_given<sim_float16x2<F>> b) {                 \
        return a operation b;                                                                                \
    }                                                                                                        \
    template <class F> SIM_INLINE sim_float16<F> name##_rn(sim_float16<F> a, sim_given<sim_float16<F>> b) {  \
        return a operation b;                                                                                \
    }                                                                                                        \
    template <class F>                                                                                       \
    SIM_INLINE sim_float16x2<F> name##2_rn(sim_float16x2<F> a, sim_given<sim_float16x2<F>> b) {              \
        return a operation b;                                                                                \
    }                                                                                                        \
    template <class F> SIM_INLINE sim_float16<F> name##_sat(sim_float16<F> a, sim_given<sim_float16<F>> b) { \
        return sim_float16<F>(fmin(fmax(sim_double(a) operation sim_double(b), 0.0), 1.0));                  \
    }                                                                                                        \
    template <class F>                                                                                       \
    SIM_INLINE sim_float16x2<F> name##2_sat(sim_float16x2<F> a, sim_given<sim_float16x2<F>> b) {             \
        return {name##_sat(a.x, b.x), name##_sat(a.y, b.y)};                                                 \
    }
SIM_ARITHMETIC(__hadd, +)
SIM_ARITHMETIC(__hsub, -)
SIM_ARITHMETIC(__hmul, *)
template <class F> SIM_INLINE sim_float16<F> __hdiv(sim_float16<F> a, sim_given<sim_float16<F>> b) {
    return a / b;
}
template <class F> SIM_INLINE sim_float16x2<F> __h2div(sim_float16x2<F> a, sim_given<sim_float16x2<F>> b) {
    return a / b;
}
template <class F>
SIM_INLINE sim_float16<F> __hfma(sim_float16<F> a, sim_given<sim_float16<F>> b, sim_given<sim_float16<F>> c) {
    return sim_float16<F>(fma(sim_double(a), sim_double(b), sim_double(c)));
}
template <class F>
SIM_INLINE sim_float16x2<F> __hfma2(sim_float16x2<F> a, sim_given<sim_float16x2<F>> b,
                                    sim_given<sim_float16x2<F>> c) {
    return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}
template <class F>
SIM_INLINE sim_float16<F> __hfma_sat(sim_float16<F> a, sim_given<sim_float16<F>> b,
                                     sim_given<sim_float16<F>> c) {
    return sim_float16<F>(fmin(fmax(fma(sim_double(a), sim_double(b), sim_double(c)), 0.0), 1.0));
}
template <class F>
SIM_INLINE sim_float16x2<F> __hfma2_sat(sim_float16x2<F> a, sim_given<sim_float16x2<F>> b,
                                        sim_given<sim_float16x2<F>> c) {
    return {__hfma_sat(a.x, b.x, c.x), __hfma_sat(a.y, b.y, c.y)};
}
template <class F>
SIM_INLINE sim_float16<F> __hfma_relu(sim_float16<F> a, sim_given<sim_float16<F>> b,
                                      sim_given<sim_float16<F>> c) {
    return sim_float16<F>(fmax(fma(sim_double(a), sim_double(b), sim_double(c)), 0.0));
}
template <class F>
SIM_INLINE sim_float16x2<F> __hfma2_relu(sim_float16x2<F> a, sim_given<sim_float16x2<F>> b,
                                         sim_given<sim_float16x2<F>> c) {
    return {__hfma_relu(a.x, b.x, c.x), __hfma_relu(a.y, b.y, c.y)};
}
/* Of complex numbers, with the rounding of four fused products. */
template <class F>
SIM_INLINE sim_float16x2<F> __hcmadd(sim_float16x2<F> a, sim_given<sim_float16x2<F>> b,
                                     sim_given<sim_float16x2<F>> c) {
    sim_float16<F> real = __hfma(a.x, b.x, c.x), imaginary = __hfma(a.x, b.y, c.y);
    return {__hfma(-a.y, b.y, real), __hfma(a.y, b.x, imaginary)};
}
template <class F> SIM_INLINE sim_float16<F> __hneg(sim_float16<F> a) {
    return -a;
}
/* For types that only convert to them, like PyTorch's. */
SIM_INLINE sim_float16<sim_binary16> __hneg(sim_float16<sim_binary16> a) {
    return -a;
}
SIM_INLINE sim_float16<sim_bfloat16> __hneg(sim_float16<sim_bfloat16> a) {
    return -a;
}
template <class F> SIM_INLINE sim_float16x2<F> __hneg2(sim_float16x2<F> a) {
    return -a;
}
template <class F> SIM_INLINE sim_float16<F> __habs(sim_float16<F> a) {
    return sim_float16<F>(sim_raw16{(unsigned short)(a.__x & 0x7fff)});
}
template <class F> SIM_INLINE sim_float16x2<F> __habs2(sim_float16x2<F> a) {
    return {__habs(a.x), __habs(a.y)};
}

/* ---- Comparisons ---- */

template <class F> SIM_INLINE bool __hisnan(sim_float16<F> a) {
    return (float)a != (float)a;
}
template <class F> SIM_INLINE sim_float16x2<F> __hisnan2(sim_float16x2<F> a) {
    return {sim_float16<F>(__hisnan(a.x)), sim_float16<F>(__hisnan(a.y))};
}
template <class F> SIM_INLINE int __hisinf(sim_float16<F> a) {
    return isinf((float)a) ? ((float)a > 0 ? 1 : -1) : 0;
}
/* __hmax(), and where one that is NaN is the result (_nan). */
#define SIM_CHOICE(name, chosen)                                                                             \
    template <class F> SIM_INLINE sim_float16<F> name(sim_float16<F> a, sim_given<sim_float16<F>> b) {       \
        return sim_float16<F>(chosen(sim_double(a), sim_double(b)));                                         \
    }                                                                                                        \
    template <class F> SIM_INLINE sim_float16<F> name##_nan(sim_float16<F> a, sim_given<sim_float16<F>> b) { \
        return __hisnan(a) ? a : __hisnan(b) ? b : name(a, b);                                               \
    }                                                                                                        \
    template <class F>                                                                                       \
    SIM_INLINE sim_float16x2<F> name##2(sim_float16x2<F> a, sim_given<sim_float16x2<F>> b) {                 \
        return {name(a.x, b.x), name(a.y, b.y)};                                                             \
    }                                                                                                        \
    template <class F>                                                                                       \
    SIM_INLINE sim_float16x2<F> name##2_nan(sim_float16x2<F> a, sim_given<sim_float16x2<F>> b) {             \
        return {name##_nan(a.x, b.x), name##_nan(a.y, b.y)};                                                 \
    }
SIM_CHOICE(__hmax, fmax)
SIM_CHOICE(__hmin, fmin)
/* __heq(), false for NaN, and true for it (__hequ); 1 or 0 for each of two (__heq2), all bits or none
 * (__heq2_mask), and whether it holds for both (__hbeq2). */
#define SIM_COMPARISON_OF_TWO(name)                                                                          \
    template <class F>                                                                                       \
    SIM_INLINE sim_float16x2<F> __h##name##2(sim_float16x2<F> a, sim_given<sim_float16x2<F>> b) {            \
        return {sim_float16<F>(__h##name(a.x, b.x)), sim_float16<F>(__h##name(a.y, b.y))};                   \
    }                                                                                                        \
    template <class F>                                                                                       \
    SIM_INLINE unsigned __h##name##2_mask(sim_float16x2<F> a, sim_given<sim_float16x2<F>> b) {               \
        return (__h##name(a.x, b.x) ? 0xffffu : 0) | (__h##name(a.y, b.y) ? 0xffff0000u : 0);                \
    }                                                                                                        \
    template <class F> SIM_INLINE bool __hb##name##2(sim_float16x2<F> a, sim_given<sim_float16x2<F>> b) {    \
        return __h##name(a.x, b.x) && __h##name(a.y, b.y);                                                   \
    }
#define SIM_COMPARISON(name, is)                                                                             \
    template <class F> SIM_INLINE bool __h##name(sim_float16<F> a, sim_given<sim_float16<F>> b) {            \
        return !__hisnan(a) && !__hisnan(b) && a is b;                                                       \
    }                                                                                                        \
    template <class F> SIM_INLINE bool __h##name##u(sim_float16<F> a, sim_given<sim_float16<F>> b) {         \
        return __hisnan(a) || __hisnan(b) || a is b;                                                         \
    }                                                                                                        \
    SIM_COMPARISON_OF_TWO(name)                                                                              \
    SIM_COMPARISON_OF_TWO(name##u)
SIM_COMPARISON(eq, ==)
SIM_COMPARISON(ne, !=)
SIM_COMPARISON(lt, <)
SIM_COMPARISON(le, <=)
SIM_COMPARISON(gt, >)
SIM_COMPARISON(ge, >=)

/* ---- Functions ---- */

/* hexp() of one number and h2exp() of two; v: the number as a double. */
#define SIM_FUNCTION(name, value)                                                                            \
    template <class F> SIM_INLINE sim_float16<F> h##name(sim_float16<F> a) {                                 \
        const double v = sim_double(a);                                                                      \
        return sim_float16<F>(value);                                                                        \
    }                                                                                                        \
    template <class F> SIM_INLINE sim_float16x2<F> h2##name(sim_float16x2<F> a) {                            \
        return {h##name(a.x), h##name(a.y)};                                                                 \
    }
SIM_FUNCTION(exp, exp(v))
SIM_FUNCTION(exp2, exp2(v))
SIM_FUNCTION(exp10, pow(10.0, v))
SIM_FUNCTION(log, log(v))
SIM_FUNCTION(log2, log2(v))
SIM_FUNCTION(log10, log10(v))
SIM_FUNCTION(sqrt, sqrt(v))
SIM_FUNCTION(rsqrt, 1.0 / sqrt(v))
SIM_FUNCTION(rcp, 1.0 / v)
SIM_FUNCTION(sin, sin(v))
SIM_FUNCTION(cos, cos(v))
SIM_FUNCTION(tanh, tanh(v))
SIM_FUNCTION(ceil, ceil(v))
SIM_FUNCTION(floor, floor(v))
SIM_FUNCTION(trunc, trunc(v))
SIM_FUNCTION(rint, rint(v))
template <class F> SIM_INLINE sim_float16<F> htanh_approx(sim_float16<F> a) {
    return htanh(a);
}
template <class F> SIM_INLINE sim_float16x2<F> h2tanh_approx(sim_float16x2<F> a) {
    return h2tanh(a);
}

/* ---- Halves of a pair ---- */

template <class F> SIM_INLINE float __low2float(sim_float16x2<F> v) {
    return (float)v.x;
}
template <class F> SIM_INLINE float __high2float(sim_float16x2<F> v) {
    return (float)v.y;
}
template <class F> SIM_INLINE sim_float16x2<F> __lowhigh2highlow(sim_float16x2<F> v) {
    return {v.y, v.x};
}

/* ---- Rounding in a direction ---- */

/* The next number away from zero, or towards it. */
template <class T> SIM_INLINE T sim_next16(T v, bool is_away) {
    return sim_raw16{(unsigned short)(v.__x + (is_away ? 1 : -1))};
}
enum sim_direction16 { SIM_TOWARDS_ZERO, SIM_DOWN, SIM_UP };
template <class T> SIM_INLINE T sim_rounded16(long double v, sim_direction16 direction) {
    T nearest = (double)v;
    long double made = (long double)sim_double(nearest);
    bool is_down = direction == SIM_DOWN || (direction == SIM_TOWARDS_ZERO && v > 0);
    bool is_wrong = is_down ? made > v : made < v;
    if (!is_wrong)
        return nearest;
    if (made == 0) /* the smallest number below or above it */
        return sim_raw16{(unsigned short)(is_down ? 0x8001 : 0x0001)};
    return sim_next16(nearest, is_down == (made < 0));
}
