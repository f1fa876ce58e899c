/* The pointwise operators, defined once for every rung and both machines.
 *
 * Each follows torch where floats are awkward: NaN passes through, infinities go where torch sends them. */
#pragma once

#include "shared/portable.h"
#include "shared/rung.h"

/* min(max(v, low), high), but NaN stays NaN: fminf and fmaxf would drop it. */
static inline __device__ float hardtanh(float v, float low, float high) {
    return min_or_nan(max_or_nan(v, low), high);
}

static inline __device__ float leaky_relu(float v, float negative_slope) {
    return v > 0.0f ? v : v * negative_slope;
}

/* v * tanh(log(1 + e)) with e = exp(v). Since tanh(log(t)) = (t^2 - 1) / (t^2 + 1), the tanh is
 * n / (n + 2) with n = e (e + 2): one exponential, and sums of positive terms only, so nothing cancels.
 * From 20 on the tanh is 1 to the last bit of a float; stopping e there keeps e^2 from overflowing. */
static inline __device__ float mish(float v) {
    float e = expf(fminf(v, 20.0f));
    float n = e * (e + 2.0f);
    return v * (n * fast_reciprocal(n + 2.0f));
}

static inline __device__ float silu(float v) {
    return v / (1.0f + expf(-v));
}

/* Where value[i]'s operand is, from the first value's. A constant function where it is passed on, so the
 * compiler knows each place where it knows i. */
typedef int (*place_function)(int i, int step);

static __forceinline__ __device__ int evenly_spaced(int i, int step) {
    return i * step;
}

/* One operator on `count` values, of which value[i] meets operand[place(i, step)] where the operator has one.
 * `count` is a constant where this is called: the values stay in registers, the choice of the operator is
 * made once for all of them, and while one waits for its exponential the others go on. */
static __forceinline__ __device__ void apply_operator_with(const fgn_pointwise *pointwise_step, float *value,
                                                           int count, const float *operand,
                                                           place_function place, int step) {
    switch (pointwise_step->kind) {
    case FGN_ADD_CHANNEL:
#pragma unroll
        for (int i = 0; i < count; i++)
            value[i] += operand[place(i, step)];
        break;
    case FGN_MULTIPLY_CHANNEL:
#pragma unroll
        for (int i = 0; i < count; i++)
            value[i] *= operand[place(i, step)];
        break;
    case FGN_HARDTANH:
#pragma unroll
        for (int i = 0; i < count; i++)
            value[i] = hardtanh(value[i], pointwise_step->a, pointwise_step->b);
        break;
    case FGN_LEAKY_RELU:
#pragma unroll
        for (int i = 0; i < count; i++)
            value[i] = leaky_relu(value[i], pointwise_step->a);
        break;
    case FGN_MISH:
#pragma unroll
        for (int i = 0; i < count; i++)
            value[i] = mish(value[i]);
        break;
    case FGN_SILU:
#pragma unroll
        for (int i = 0; i < count; i++)
            value[i] = silu(value[i]);
        break;
    case FGN_DOUBLE:
#pragma unroll
        for (int i = 0; i < count; i++)
            value[i] += value[i];
        break;
    }
}

/* The same for value[i] of output channel `channel` + i * channel_step. */
static __forceinline__ __device__ void apply_operator(const fgn_pointwise *step, float *value, int count,
                                                      int64_t channel, int channel_step) {
    apply_operator_with(step, value, count, (const float *)step->channel + channel, evenly_spaced,
                        channel_step);
}

static __forceinline__ __device__ void apply_operators(const struct operators *list, float *value, int count,
                                                       int64_t channel, int channel_step) {
#pragma unroll 1
    for (int step = 0; step < list->count; step++)
        apply_operator(&list->step[step], value, count, channel, channel_step);
}
