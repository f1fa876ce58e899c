/* The slopes of the pointwise operators: their derivatives by the value, and by the operand where they have
 * one.
 *
 * At a corner each operator has the slope that torch's backward takes there. If torch's formula cancels or
 * overflows, like 1 - tanh(v)^2, this file has an equivalent one that does not. */
#pragma once

#include "shared/pointwise.h"

/* exp(-|v|) / (1 + exp(-|v|))^2, the slope of a sigmoid. */
static inline __device__ float sigmoid_slope(float v) {
    float e = fast_exp(-fabsf(v)), inverse = fast_reciprocal(1.0f + e);
    return e * inverse * inverse;
}

/* 1 - tanh(v)^2 */
static inline __device__ float tanh_slope(float v) {
    return 4.0f * sigmoid_slope(2.0f * v);
}

/* tanh(s) + v (1 - tanh(s)^2) sigmoid(v) with s = log(1 + exp(v)), in the terms of mish(). */
static inline __device__ float mish_slope(float v) {
    float e = fast_exp(fminf(v, 20.0f));
    float n = e * (e + 2.0f), inverse = fast_reciprocal(n + 2.0f);
    float slope = n * inverse + v * (4.0f * e * (e + 1.0f) * inverse * inverse);
    return v > 20.0f ? 1.0f : slope;
}

/* s + v times the slope of s, where s is the sigmoid of v: one exponential for both. */
static inline __device__ float silu_slope(float v) {
    float e = fast_exp(-fabsf(v)), inverse = fast_reciprocal(1.0f + e);
    return inverse * ((v < 0.0f ? e : 1.0f) + v * (e * inverse));
}

static inline __device__ float hardswish_slope(float v) {
    return v <= -3.0f ? 0.0f : v >= 3.0f ? 1.0f : v / 3.0f + 0.5f;
}

#define ONE_OVER_SQRT_2_PI 0.39894228040143268f

static inline __device__ float gelu_slope(float v) {
    return normal_below(v) + v * (ONE_OVER_SQRT_2_PI * fast_exp(-0.5f * v * v));
}

/* The slope of v s, where s is the sigmoid of 2 sqrt(2 / pi) (v + GELU_CUBIC v^3). Beyond 20, s is 1 or 0
 * with slope 0, and v^2 must not overflow. */
static inline __device__ float gelu_tanh_slope(float v) {
    float u = v < -20.0f ? -20.0f : v > 20.0f ? 20.0f : v;
    float inner = 2.0f * SQRT_2_OVER_PI * (u + GELU_CUBIC * (u * u * u));
    float inner_slope = 2.0f * SQRT_2_OVER_PI * (1.0f + 3.0f * GELU_CUBIC * (u * u));
    float e = fast_exp(-fabsf(inner)), inverse = fast_reciprocal(1.0f + e);
    return inverse * ((inner < 0.0f ? e : 1.0f) + u * inner_slope * (e * inverse));
}

/* The share of a minimum's gradient for its first value: half if both are equal. */
static inline __device__ float share_of_less(float v, float other) {
    return v > other ? 0.0f : v == other ? 0.5f : 1.0f;
}

/* The operator's derivative by v, at the value v and its operand, if it has one. */
static inline __device__ float slope_of(const fgn_pointwise *step, float v, float operand) {
    float a = step->a, b = step->b;
    switch (step->kind) {
    case FGN_MULTIPLY_CHANNEL:
    case FGN_MULTIPLY_TENSOR:
        return operand;
    case FGN_MINIMUM_CHANNEL:
        return share_of_less(v, operand);
    case FGN_MAXIMUM_CHANNEL:
        return share_of_less(operand, v);
    case FGN_DIVIDE_CHANNEL:
        return 1.0f / operand;
    case FGN_DIVIDE_DEVIATION:
        return one_over_deviation(operand, a);
    case FGN_PRELU:
        return v > 0.0f ? 1.0f : operand;
    case FGN_MULTIPLY:
        return a;
    case FGN_DIVIDE:
        return 1.0f / a;
    case FGN_NEG:
        return -1.0f;
    case FGN_DOUBLE:
        return 2.0f;
    case FGN_ABS:
        return v > 0.0f ? 1.0f : v < 0.0f ? -1.0f : 0.0f;
    case FGN_SQUARE:
        return 2.0f * v;
    case FGN_SQRT:
        return 0.5f / sqrtf(v);
    case FGN_EXP:
        return expf(v);
    case FGN_RELU:
        return v <= 0.0f ? 0.0f : 1.0f;
    case FGN_HARDTANH:
        return v <= a || v >= b ? 0.0f : 1.0f;
    case FGN_CLAMP:
        return v >= a && v <= b ? 1.0f : 0.0f;
    case FGN_LEAKY_RELU:
        return v > 0.0f ? 1.0f : a;
    case FGN_THRESHOLD:
        return v <= a ? 0.0f : 1.0f;
    case FGN_HARDSHRINK:
    case FGN_SOFTSHRINK:
        return v >= -a && v <= a ? 0.0f : 1.0f;
    case FGN_HARDSIGMOID:
        return v > -3.0f && v < 3.0f ? 1.0f / 6.0f : 0.0f;
    case FGN_HARDSWISH:
        return hardswish_slope(v);
    case FGN_SOFTSIGN:
        return 1.0f / ((1.0f + fabsf(v)) * (1.0f + fabsf(v)));
    case FGN_SIGMOID:
        return sigmoid_slope(v);
    case FGN_LOGSIGMOID:
        return sigmoid(-v);
    case FGN_TANH:
        return tanh_slope(v);
    case FGN_TANHSHRINK:
        return tanhf(v) * tanhf(v);
    case FGN_SOFTPLUS:
        return v * a > b ? 1.0f : sigmoid(v * a);
    case FGN_ELU:
        return v > 0.0f ? 1.0f : a * expf(v);
    case FGN_CELU:
        return v > 0.0f ? 1.0f : expf(v / a);
    case FGN_SELU:
        return v > 0.0f ? SELU_SCALE : SELU_NEGATIVE_SCALE * expf(v);
    case FGN_MISH:
        return mish_slope(v);
    case FGN_SILU:
        return silu_slope(v);
    case FGN_GELU:
        return gelu_slope(v);
    case FGN_GELU_TANH:
        return gelu_tanh_slope(v);
    default: /* the sums and the differences */
        return 1.0f;
    }
}

/* The derivative of the operator by its operand; 0 where it has none. */
static inline __device__ float operand_slope_of(const fgn_pointwise *step, float v, float operand) {
    switch (step->kind) {
    case FGN_ADD_CHANNEL:
    case FGN_ADD_TENSOR:
        return 1.0f;
    case FGN_SUBTRACT_CHANNEL:
        return -1.0f;
    case FGN_MULTIPLY_CHANNEL:
    case FGN_MULTIPLY_TENSOR:
        return v;
    case FGN_MINIMUM_CHANNEL:
        return share_of_less(operand, v);
    case FGN_MAXIMUM_CHANNEL:
        return share_of_less(v, operand);
    case FGN_DIVIDE_CHANNEL:
        return -v / operand / operand;
    case FGN_DIVIDE_DEVIATION:
        return -0.5f * divide_deviation(v, operand, step->a) / (operand + step->a);
    case FGN_PRELU:
        return v > 0.0f ? 0.0f : v;
    default:
        return 0.0f;
    }
}
