/* The pointwise operators, defined once for every rung and both machines.
 *
 * Each follows torch's CUDA kernels for special floats: NaN passes through, infinities give what torch gives.
 * An operator is a function of the value v and the constants a and b here, a case below it, and its slope in
 * shared/pointwise_slopes.h; its name is in fgn.h and in fgn/operators.py.
 *
 * The number of an operator's instructions bounds the kernels, so the activations of most models use the
 * hardware's exponential and reciprocal. With u = 2^-24, exp(v) as 2^(v log2(e)) has a relative error of u
 * |v|, from rounding the product, plus 4 u from the hardware. In mish and silu, for negative v, that is u v^2
 * exp(v), below u |v| / 2: relative to v as accurate as torch. Relative to the result, which is much smaller
 * than v, it is still u |v|: up to 20 units in the last place at v = -20. */
#pragma once

#include "shared/element.h"
#include "sim/portable.h"
#include "shared/rung.h"

/* ---- One value ---- */

/* min(max(v, low), high), but NaN stays NaN; fminf and fmaxf would drop it. */
static inline __device__ float hardtanh(float v, float low, float high) {
    return min_or_nan(max_or_nan(v, low), high);
}

static inline __device__ float relu(float v) {
    return max_or_nan(v, 0.0f);
}

static inline __device__ float leaky_relu(float v, float negative_slope, float unused) {
    (void)unused;
    return v > 0.0f ? v : v * negative_slope;
}

#define LOG2_OF_E 1.4426950408889634f

/* exp(v) in two instructions, with a relative error of (|v| + 4) 2^-24; it is 0 below 2^-126. */
static inline __device__ float fast_exp(float v) {
    return fast_exp2(v * LOG2_OF_E);
}

/* tanh(log(1 + exp(v))) is n / (n + 2) with e = exp(v) and n = e (e + 2), since tanh(log(t)) is
 * (t^2 - 1) / (t^2 + 1): one exponential, and sums of positive terms only, so nothing cancels. From 20 on the
 * tanh is 1 to the last bit of a float; stopping e there keeps e^2 from overflowing. */
static inline __device__ float mish(float v) {
    float e = fast_exp(fminf(v, 20.0f));
    float n = e * (e + 2.0f);
    return v * (n * fast_reciprocal(n + 2.0f));
}

static inline __device__ float silu(float v) {
    return v * fast_reciprocal(1.0f + fast_exp(-v));
}

static inline __device__ float twice(float v) {
    return v + v;
}

static inline __device__ float plus(float v, float a, float unused) {
    (void)unused;
    return v + a;
}

static inline __device__ float times(float v, float a, float unused) {
    (void)unused;
    return v * a;
}

/* Whether 1 / a is a normal float with all its digits. Then v / a is v (1 / a), as in torch's CUDA kernels:
 * one instruction for a value, and nearer than two roundings of v / a. */
static inline __device__ bool has_reciprocal(float a) {
    return fabsf(a) >= 0x1p-126f && fabsf(a) <= 0x1p126f;
}

static inline __device__ float divided_by(float v, float a, float unused) {
    (void)unused;
    return v / a;
}

/* The factor of BatchNorm with given statistics. rsqrtf errs by at most 2 units in the last
 * place. */
static inline __device__ float one_over_deviation(float variance, float eps) {
    return rsqrtf(variance + eps);
}

static inline __device__ float divide_deviation(float v, float variance, float eps) {
    return v * one_over_deviation(variance, eps);
}

static inline __device__ float negative(float v) {
    return -v;
}

static inline __device__ float magnitude(float v) {
    return fabsf(v);
}

static inline __device__ float square(float v) {
    return v * v;
}

static inline __device__ float square_root(float v) {
    return sqrtf(v);
}

static inline __device__ float exponential(float v) {
    return expf(v);
}

static inline __device__ float threshold(float v, float limit, float otherwise) {
    return v <= limit ? otherwise : v;
}

static inline __device__ float hardshrink(float v, float a, float unused) {
    (void)unused;
    return v >= -a && v <= a ? 0.0f : v;
}

static inline __device__ float softshrink(float v, float a, float unused) {
    (void)unused;
    float otherwise = v != v ? v : 0.0f;
    return v > a ? v - a : v < -a ? v + a : otherwise;
}

static inline __device__ float hardsigmoid(float v) {
    return hardtanh(v + 3.0f, 0.0f, 6.0f) * (1.0f / 6.0f);
}

static inline __device__ float hardswish(float v) {
    return v * hardtanh(v + 3.0f, 0.0f, 6.0f) * (1.0f / 6.0f);
}

static inline __device__ float softsign(float v) {
    return v / (fabsf(v) + 1.0f);
}

/* 1 / (1 + exp(-v)), without the exponential's overflow. */
static inline __device__ float sigmoid(float v) {
    float e = expf(-fabsf(v));
    return (v < 0.0f ? e : 1.0f) * fast_reciprocal(1.0f + e);
}

/* log(1 + exp(-|v|)), which neither overflows nor loses what is small beside 1. */
static inline __device__ float log_of_one_and_exp(float v) {
    return log1pf(expf(-fabsf(v)));
}

static inline __device__ float logsigmoid(float v) {
    return min_or_nan(v, 0.0f) - log_of_one_and_exp(v);
}

static inline __device__ float hyperbolic_tangent(float v) {
    return tanhf(v);
}

static inline __device__ float tanhshrink(float v) {
    return v - tanhf(v);
}

static inline __device__ float softplus(float v, float beta, float linear_from) {
    float scaled = v * beta;
    return scaled > linear_from
               ? v
               : (max_or_nan(scaled, 0.0f) + log_of_one_and_exp(scaled)) * fast_reciprocal(beta);
}

static inline __device__ float elu(float v, float alpha, float unused) {
    (void)unused;
    return v > 0.0f ? v : alpha * expm1f(v);
}

static inline __device__ float celu(float v, float alpha, float unused) {
    (void)unused;
    return v > 0.0f ? v : alpha * expm1f(v / alpha);
}

#define SELU_SCALE 1.0507009873554805f
#define SELU_NEGATIVE_SCALE 1.7580993408473769f /* the scale times 1.6732632423543773 */

static inline __device__ float selu(float v) {
    return v > 0.0f ? SELU_SCALE * v : SELU_NEGATIVE_SCALE * expm1f(v);
}

/* The part of a normal distribution below v, P(v) = 1/2 erfc(-v / sqrt(2)). Below 0 that is Q(|v|), above it
 * 1 - Q(|v|), and log2(Q) is nearly a parabola: the polynomial, a minimax fit of Q on 0 to 6.5, leaves
 * 0.13 2^-24 of error in Q, and goes to minus infinity beyond. Like torch's 1 + erf() the product with v is
 * within one unit in the last place of v, for one exponential and no choice between polynomials. */
static inline __device__ float normal_below(float v) {
    float a = fabsf(v), log2_of_tail = -2.7720555e-6f;
    log2_of_tail = log2_of_tail * a + 3.8620823e-5f;
    log2_of_tail = log2_of_tail * a - 1.8254797e-4f;
    log2_of_tail = log2_of_tail * a - 1.4586923e-4f;
    log2_of_tail = log2_of_tail * a + 7.0754704e-3f;
    log2_of_tail = log2_of_tail * a - 5.2505028e-2f;
    log2_of_tail = log2_of_tail * a - 0.45920491f;
    log2_of_tail = log2_of_tail * a - 1.1511058f;
    log2_of_tail = log2_of_tail * a - 1.0f;
    float tail = fast_exp2(log2_of_tail);
    return v > 0.0f ? 1.0f - tail : tail;
}

static inline __device__ float gelu(float v) {
    return v * normal_below(v);
}

#define SQRT_2_OVER_PI 0.79788456080286536f
#define GELU_CUBIC 0.044715f

/* 0.5 v (1 + tanh(u)) is v / (1 + exp(-2 u)), with u = sqrt(2 / pi) (v + GELU_CUBIC v^3). */
static inline __device__ float gelu_tanh(float v) {
    const float linear = -2.0f * SQRT_2_OVER_PI * LOG2_OF_E, cubic = linear * GELU_CUBIC;
    return v * fast_reciprocal(1.0f + fast_exp2(v * (cubic * (v * v) + linear)));
}

/* ---- One value and its operand ---- */

static inline __device__ float add(float v, float operand) {
    return v + operand;
}

static inline __device__ float subtract(float v, float operand) {
    return v - operand;
}

static inline __device__ float multiply(float v, float operand) {
    return v * operand;
}

static inline __device__ float divide(float v, float operand) {
    return v / operand;
}

/* The maximum or minimum of two values; NaN if one of them is. */
static inline __device__ float found_or_nan(float found, float v) {
#if __CUDA_ARCH__ >= 800 /* one instruction, which keeps the NaN of either */
    (void)v;
    return found;
#else
    return v != v ? v : found;
#endif
}

static inline __device__ float minimum(float v, float operand) {
    return found_or_nan(min_or_nan(operand, v), v);
}

static inline __device__ float maximum(float v, float operand) {
    return found_or_nan(max_or_nan(operand, v), v);
}

static inline __device__ float prelu(float v, float operand) {
    return v > 0.0f ? v : v * operand;
}

/* ---- Values in a thread's registers ---- */

/* Functions that are passed as constants, so that the compiler inlines them. place: the distance of
 * value[i]'s operand from the first value's, a constant where i is one. */
typedef float (*value_function)(float v);
typedef float (*constants_function)(float v, float a, float b);
typedef float (*operand_function)(float v, float operand);
typedef int (*place_function)(int i, int step);

static __forceinline__ __device__ int evenly_spaced(int i, int step) {
    return i * step;
}

static __forceinline__ __device__ void apply_to_each(value_function function, float *value, int count) {
#pragma unroll
    for (int i = 0; i < count; i++)
        value[i] = function(value[i]);
}

static __forceinline__ __device__ void multiply_by(float *value, int count, float factor) {
#pragma unroll
    for (int i = 0; i < count; i++)
        value[i] *= factor;
}

static __forceinline__ __device__ void
apply_with_constants(constants_function function, const fgn_pointwise *step, float *value, int count) {
#pragma unroll
    for (int i = 0; i < count; i++)
        value[i] = function(value[i], step->a, step->b);
}

static __forceinline__ __device__ void apply_with_operands(operand_function function, float *value, int count,
                                                           const float *operand, place_function place,
                                                           int place_step) {
#pragma unroll
    for (int i = 0; i < count; i++)
        value[i] = function(value[i], operand[place(i, place_step)]);
}

/* Rare operators with a channel vector. */
static __forceinline__ __device__ void apply_rare_operand(fgn_pointwise_kind kind, float a, float *value,
                                                          int count, const float *operand,
                                                          place_function place, int place_step) {
    switch (kind) {
    case FGN_SUBTRACT_CHANNEL:
        apply_with_operands(subtract, value, count, operand, place, place_step);
        break;
    case FGN_MULTIPLY_CHANNEL:
        apply_with_operands(multiply, value, count, operand, place, place_step);
        break;
    case FGN_DIVIDE_CHANNEL:
        apply_with_operands(divide, value, count, operand, place, place_step);
        break;
    case FGN_DIVIDE_DEVIATION:
#pragma unroll
        for (int i = 0; i < count; i++)
            value[i] = divide_deviation(value[i], operand[place(i, place_step)], a);
        break;
    case FGN_MINIMUM_CHANNEL:
        apply_with_operands(minimum, value, count, operand, place, place_step);
        break;
    case FGN_MAXIMUM_CHANNEL:
        apply_with_operands(maximum, value, count, operand, place, place_step);
        break;
    default:
        apply_with_operands(prelu, value, count, operand, place, place_step);
        break;
    }
}

/* Operators that are long or rare. */
static __forceinline__ __device__ void apply_rare_operator(const fgn_pointwise *step, float *value,
                                                           int count) {
    switch (step->kind) {
    case FGN_ADD:
        apply_with_constants(plus, step, value, count);
        break;
    case FGN_MULTIPLY:
        apply_with_constants(times, step, value, count);
        break;
    case FGN_DIVIDE:
        apply_with_constants(divided_by, step, value, count);
        break;
    case FGN_NEG:
        apply_to_each(negative, value, count);
        break;
    case FGN_ABS:
        apply_to_each(magnitude, value, count);
        break;
    case FGN_SQUARE:
        apply_to_each(square, value, count);
        break;
    case FGN_SQRT:
        apply_to_each(square_root, value, count);
        break;
    case FGN_EXP:
        apply_to_each(exponential, value, count);
        break;
    case FGN_THRESHOLD:
        apply_with_constants(threshold, step, value, count);
        break;
    case FGN_HARDSHRINK:
        apply_with_constants(hardshrink, step, value, count);
        break;
    case FGN_SOFTSHRINK:
        apply_with_constants(softshrink, step, value, count);
        break;
    case FGN_HARDSIGMOID:
        apply_to_each(hardsigmoid, value, count);
        break;
    case FGN_HARDSWISH:
        apply_to_each(hardswish, value, count);
        break;
    case FGN_SOFTSIGN:
        apply_to_each(softsign, value, count);
        break;
    case FGN_SIGMOID:
        apply_to_each(sigmoid, value, count);
        break;
    case FGN_LOGSIGMOID:
        apply_to_each(logsigmoid, value, count);
        break;
    case FGN_TANH:
        apply_to_each(hyperbolic_tangent, value, count);
        break;
    case FGN_TANHSHRINK:
        apply_to_each(tanhshrink, value, count);
        break;
    case FGN_SOFTPLUS:
        apply_with_constants(softplus, step, value, count);
        break;
    case FGN_ELU:
        apply_with_constants(elu, step, value, count);
        break;
    case FGN_CELU:
        apply_with_constants(celu, step, value, count);
        break;
    case FGN_SELU:
        apply_to_each(selu, value, count);
        break;
    default:
        break;
    }
}
