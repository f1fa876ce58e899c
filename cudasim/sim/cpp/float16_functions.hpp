/* CUDA's functions of 16-bit floats, for one and for two at a time. */
#pragma once
#include "float16.hpp"

/* ---- Arithmetic ---- */

template <class F> SIM_INLINE sim_float16<F> __hadd(sim_float16<F> a, sim_given<sim_float16<F>> b) {
    return a + b;
}
template <class F> SIM_INLINE sim_float16x2<F> __hadd2(sim_float16x2<F> a, sim_given<sim_float16x2<F>> b) {
    return a + b;
}
template <class F> SIM_INLINE sim_float16<F> __hadd_rn(sim_float16<F> a, sim_given<sim_float16<F>> b) {
    return a + b;
}
template <class F> SIM_INLINE sim_float16x2<F> __hadd2_rn(sim_float16x2<F> a, sim_given<sim_float16x2<F>> b) {
    return a + b;
}
template <class F> SIM_INLINE sim_float16<F> __hadd_sat(sim_float16<F> a, sim_given<sim_float16<F>> b) {
    return sim_float16<F>(fmin(fmax(sim_double(a) + sim_double(b), 0.0), 1.0));
}
template <class F>
SIM_INLINE sim_float16x2<F> __hadd2_sat(sim_float16x2<F> a, sim_given<sim_float16x2<F>> b) {
    return {__hadd_sat(a.x, b.x), __hadd_sat(a.y, b.y)};
}
template <class F> SIM_INLINE sim_float16<F> __hsub(sim_float16<F> a, sim_given<sim_float16<F>> b) {
    return a - b;
}
template <class F> SIM_INLINE sim_float16x2<F> __hsub2(sim_float16x2<F> a, sim_given<sim_float16x2<F>> b) {
    return a - b;
}
template <class F> SIM_INLINE sim_float16<F> __hsub_rn(sim_float16<F> a, sim_given<sim_float16<F>> b) {
    return a - b;
}
template <class F> SIM_INLINE sim_float16x2<F> __hsub2_rn(sim_float16x2<F> a, sim_given<sim_float16x2<F>> b) {
    return a - b;
}
template <class F> SIM_INLINE sim_float16<F> __hsub_sat(sim_float16<F> a, sim_given<sim_float16<F>> b) {
    return sim_float16<F>(fmin(fmax(sim_double(a) - sim_double(b), 0.0), 1.0));
}
template <class F>
SIM_INLINE sim_float16x2<F> __hsub2_sat(sim_float16x2<F> a, sim_given<sim_float16x2<F>> b) {
    return {__hsub_sat(a.x, b.x), __hsub_sat(a.y, b.y)};
}
template <class F> SIM_INLINE sim_float16<F> __hmul(sim_float16<F> a, sim_given<sim_float16<F>> b) {
    return a * b;
}
template <class F> SIM_INLINE sim_float16x2<F> __hmul2(sim_float16x2<F> a, sim_given<sim_float16x2<F>> b) {
    return a * b;
}
template <class F> SIM_INLINE sim_float16<F> __hmul_rn(sim_float16<F> a, sim_given<sim_float16<F>> b) {
    return a * b;
}
template <class F> SIM_INLINE sim_float16x2<F> __hmul2_rn(sim_float16x2<F> a, sim_given<sim_float16x2<F>> b) {
    return a * b;
}
template <class F> SIM_INLINE sim_float16<F> __hmul_sat(sim_float16<F> a, sim_given<sim_float16<F>> b) {
    return sim_float16<F>(fmin(fmax(sim_double(a) * sim_double(b), 0.0), 1.0));
}
template <class F>
SIM_INLINE sim_float16x2<F> __hmul2_sat(sim_float16x2<F> a, sim_given<sim_float16x2<F>> b) {
    return {__hmul_sat(a.x, b.x), __hmul_sat(a.y, b.y)};
}
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
template <class F> SIM_INLINE int __hisinf(sim_float16<F> a) {
    return isinf((float)a) ? ((float)a > 0 ? 1 : -1) : 0;
}
template <class F> SIM_INLINE sim_float16<F> __hmax(sim_float16<F> a, sim_given<sim_float16<F>> b) {
    return sim_float16<F>(fmax(sim_double(a), sim_double(b)));
}
template <class F> SIM_INLINE sim_float16<F> __hmax_nan(sim_float16<F> a, sim_given<sim_float16<F>> b) {
    return __hisnan(a) ? a : __hisnan(b) ? b : __hmax(a, b);
}
template <class F> SIM_INLINE sim_float16x2<F> __hmax2(sim_float16x2<F> a, sim_given<sim_float16x2<F>> b) {
    return {__hmax(a.x, b.x), __hmax(a.y, b.y)};
}
template <class F>
SIM_INLINE sim_float16x2<F> __hmax2_nan(sim_float16x2<F> a, sim_given<sim_float16x2<F>> b) {
    return {__hmax_nan(a.x, b.x), __hmax_nan(a.y, b.y)};
}
template <class F> SIM_INLINE sim_float16<F> __hmin(sim_float16<F> a, sim_given<sim_float16<F>> b) {
    return sim_float16<F>(fmin(sim_double(a), sim_double(b)));
}
template <class F> SIM_INLINE sim_float16<F> __hmin_nan(sim_float16<F> a, sim_given<sim_float16<F>> b) {
    return __hisnan(a) ? a : __hisnan(b) ? b : __hmin(a, b);
}
template <class F> SIM_INLINE sim_float16x2<F> __hmin2(sim_float16x2<F> a, sim_given<sim_float16x2<F>> b) {
    return {__hmin(a.x, b.x), __hmin(a.y, b.y)};
}
template <class F>
SIM_INLINE sim_float16x2<F> __hmin2_nan(sim_float16x2<F> a, sim_given<sim_float16x2<F>> b) {
    return {__hmin_nan(a.x, b.x), __hmin_nan(a.y, b.y)};
}
template <class F> SIM_INLINE bool __heq(sim_float16<F> a, sim_given<sim_float16<F>> b) {
    return a == b;
}
template <class F> SIM_INLINE bool __hequ(sim_float16<F> a, sim_given<sim_float16<F>> b) {
    return __hisnan(a) || __hisnan(b) || a == b;
}
template <class F> SIM_INLINE sim_float16x2<F> __heq2(sim_float16x2<F> a, sim_given<sim_float16x2<F>> b) {
    return {sim_float16<F>(a.x == b.x), sim_float16<F>(a.y == b.y)};
}
template <class F> SIM_INLINE bool __hbeq2(sim_float16x2<F> a, sim_given<sim_float16x2<F>> b) {
    return a.x == b.x && a.y == b.y;
}
template <class F> SIM_INLINE bool __hne(sim_float16<F> a, sim_given<sim_float16<F>> b) {
    return a != b;
}
template <class F> SIM_INLINE bool __hneu(sim_float16<F> a, sim_given<sim_float16<F>> b) {
    return __hisnan(a) || __hisnan(b) || a != b;
}
template <class F> SIM_INLINE sim_float16x2<F> __hne2(sim_float16x2<F> a, sim_given<sim_float16x2<F>> b) {
    return {sim_float16<F>(a.x != b.x), sim_float16<F>(a.y != b.y)};
}
template <class F> SIM_INLINE bool __hbne2(sim_float16x2<F> a, sim_given<sim_float16x2<F>> b) {
    return a.x != b.x && a.y != b.y;
}
template <class F> SIM_INLINE bool __hlt(sim_float16<F> a, sim_given<sim_float16<F>> b) {
    return a < b;
}
template <class F> SIM_INLINE bool __hltu(sim_float16<F> a, sim_given<sim_float16<F>> b) {
    return __hisnan(a) || __hisnan(b) || a < b;
}
template <class F> SIM_INLINE sim_float16x2<F> __hlt2(sim_float16x2<F> a, sim_given<sim_float16x2<F>> b) {
    return {sim_float16<F>(a.x < b.x), sim_float16<F>(a.y < b.y)};
}
template <class F> SIM_INLINE bool __hblt2(sim_float16x2<F> a, sim_given<sim_float16x2<F>> b) {
    return a.x < b.x && a.y < b.y;
}
template <class F> SIM_INLINE bool __hle(sim_float16<F> a, sim_given<sim_float16<F>> b) {
    return a <= b;
}
template <class F> SIM_INLINE bool __hleu(sim_float16<F> a, sim_given<sim_float16<F>> b) {
    return __hisnan(a) || __hisnan(b) || a <= b;
}
template <class F> SIM_INLINE sim_float16x2<F> __hle2(sim_float16x2<F> a, sim_given<sim_float16x2<F>> b) {
    return {sim_float16<F>(a.x <= b.x), sim_float16<F>(a.y <= b.y)};
}
template <class F> SIM_INLINE bool __hble2(sim_float16x2<F> a, sim_given<sim_float16x2<F>> b) {
    return a.x <= b.x && a.y <= b.y;
}
template <class F> SIM_INLINE bool __hgt(sim_float16<F> a, sim_given<sim_float16<F>> b) {
    return a > b;
}
template <class F> SIM_INLINE bool __hgtu(sim_float16<F> a, sim_given<sim_float16<F>> b) {
    return __hisnan(a) || __hisnan(b) || a > b;
}
template <class F> SIM_INLINE sim_float16x2<F> __hgt2(sim_float16x2<F> a, sim_given<sim_float16x2<F>> b) {
    return {sim_float16<F>(a.x > b.x), sim_float16<F>(a.y > b.y)};
}
template <class F> SIM_INLINE bool __hbgt2(sim_float16x2<F> a, sim_given<sim_float16x2<F>> b) {
    return a.x > b.x && a.y > b.y;
}
template <class F> SIM_INLINE bool __hge(sim_float16<F> a, sim_given<sim_float16<F>> b) {
    return a >= b;
}
template <class F> SIM_INLINE bool __hgeu(sim_float16<F> a, sim_given<sim_float16<F>> b) {
    return __hisnan(a) || __hisnan(b) || a >= b;
}
template <class F> SIM_INLINE sim_float16x2<F> __hge2(sim_float16x2<F> a, sim_given<sim_float16x2<F>> b) {
    return {sim_float16<F>(a.x >= b.x), sim_float16<F>(a.y >= b.y)};
}
template <class F> SIM_INLINE bool __hbge2(sim_float16x2<F> a, sim_given<sim_float16x2<F>> b) {
    return a.x >= b.x && a.y >= b.y;
}

/* ---- Functions ---- */

template <class F> SIM_INLINE sim_float16<F> hexp(sim_float16<F> a) {
    return sim_float16<F>(exp(sim_double(a)));
}
template <class F> SIM_INLINE sim_float16x2<F> h2exp(sim_float16x2<F> a) {
    return {hexp(a.x), hexp(a.y)};
}
template <class F> SIM_INLINE sim_float16<F> hexp2(sim_float16<F> a) {
    return sim_float16<F>(exp2(sim_double(a)));
}
template <class F> SIM_INLINE sim_float16x2<F> h2exp2(sim_float16x2<F> a) {
    return {hexp2(a.x), hexp2(a.y)};
}
template <class F> SIM_INLINE sim_float16<F> hexp10(sim_float16<F> a) {
    return sim_float16<F>(pow(10.0, sim_double(a)));
}
template <class F> SIM_INLINE sim_float16x2<F> h2exp10(sim_float16x2<F> a) {
    return {hexp10(a.x), hexp10(a.y)};
}
template <class F> SIM_INLINE sim_float16<F> hlog(sim_float16<F> a) {
    return sim_float16<F>(log(sim_double(a)));
}
template <class F> SIM_INLINE sim_float16x2<F> h2log(sim_float16x2<F> a) {
    return {hlog(a.x), hlog(a.y)};
}
template <class F> SIM_INLINE sim_float16<F> hlog2(sim_float16<F> a) {
    return sim_float16<F>(log2(sim_double(a)));
}
template <class F> SIM_INLINE sim_float16x2<F> h2log2(sim_float16x2<F> a) {
    return {hlog2(a.x), hlog2(a.y)};
}
template <class F> SIM_INLINE sim_float16<F> hlog10(sim_float16<F> a) {
    return sim_float16<F>(log10(sim_double(a)));
}
template <class F> SIM_INLINE sim_float16x2<F> h2log10(sim_float16x2<F> a) {
    return {hlog10(a.x), hlog10(a.y)};
}
template <class F> SIM_INLINE sim_float16<F> hsqrt(sim_float16<F> a) {
    return sim_float16<F>(sqrt(sim_double(a)));
}
template <class F> SIM_INLINE sim_float16x2<F> h2sqrt(sim_float16x2<F> a) {
    return {hsqrt(a.x), hsqrt(a.y)};
}
template <class F> SIM_INLINE sim_float16<F> hrsqrt(sim_float16<F> a) {
    return sim_float16<F>(1.0 / sqrt(sim_double(a)));
}
template <class F> SIM_INLINE sim_float16x2<F> h2rsqrt(sim_float16x2<F> a) {
    return {hrsqrt(a.x), hrsqrt(a.y)};
}
template <class F> SIM_INLINE sim_float16<F> hrcp(sim_float16<F> a) {
    return sim_float16<F>(1.0 / sim_double(a));
}
template <class F> SIM_INLINE sim_float16x2<F> h2rcp(sim_float16x2<F> a) {
    return {hrcp(a.x), hrcp(a.y)};
}
template <class F> SIM_INLINE sim_float16<F> hsin(sim_float16<F> a) {
    return sim_float16<F>(sin(sim_double(a)));
}
template <class F> SIM_INLINE sim_float16x2<F> h2sin(sim_float16x2<F> a) {
    return {hsin(a.x), hsin(a.y)};
}
template <class F> SIM_INLINE sim_float16<F> hcos(sim_float16<F> a) {
    return sim_float16<F>(cos(sim_double(a)));
}
template <class F> SIM_INLINE sim_float16x2<F> h2cos(sim_float16x2<F> a) {
    return {hcos(a.x), hcos(a.y)};
}
template <class F> SIM_INLINE sim_float16<F> htanh(sim_float16<F> a) {
    return sim_float16<F>(tanh(sim_double(a)));
}
template <class F> SIM_INLINE sim_float16x2<F> h2tanh(sim_float16x2<F> a) {
    return {htanh(a.x), htanh(a.y)};
}
template <class F> SIM_INLINE sim_float16<F> hceil(sim_float16<F> a) {
    return sim_float16<F>(ceil(sim_double(a)));
}
template <class F> SIM_INLINE sim_float16x2<F> h2ceil(sim_float16x2<F> a) {
    return {hceil(a.x), hceil(a.y)};
}
template <class F> SIM_INLINE sim_float16<F> hfloor(sim_float16<F> a) {
    return sim_float16<F>(floor(sim_double(a)));
}
template <class F> SIM_INLINE sim_float16x2<F> h2floor(sim_float16x2<F> a) {
    return {hfloor(a.x), hfloor(a.y)};
}
template <class F> SIM_INLINE sim_float16<F> htrunc(sim_float16<F> a) {
    return sim_float16<F>(trunc(sim_double(a)));
}
template <class F> SIM_INLINE sim_float16x2<F> h2trunc(sim_float16x2<F> a) {
    return {htrunc(a.x), htrunc(a.y)};
}
template <class F> SIM_INLINE sim_float16<F> hrint(sim_float16<F> a) {
    return sim_float16<F>(rint(sim_double(a)));
}
template <class F> SIM_INLINE sim_float16x2<F> h2rint(sim_float16x2<F> a) {
    return {hrint(a.x), hrint(a.y)};
}
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
