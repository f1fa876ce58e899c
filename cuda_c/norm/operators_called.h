/* Operators for kernels that apply them in many places, each to a few values of a thread. */
#pragma once

#include "norm/channels.h"

/* Operators of more than an instruction, even common ones, are function calls here. A kernel of functions of
 * rows applies them in six places to 32 values each; inlined, that was 330 KB of code, for which a small call
 * waits. */
static CALLED __device__ struct few_values called_operator(fgn_pointwise_kind kind, float a, float b,
                                                           struct few_values few) {
    const fgn_pointwise step = {kind, a, b, NULL, NULL, 0};
    if (!apply_common_operator(&step, few.value, FEW_VALUES))
        apply_rare_operator(&step, few.value, FEW_VALUES);
    return few;
}

/* The place of value i's operand where each vector of VALUES meets the same operands. */
static __forceinline__ __device__ int in_vector(int i, int step) {
    return i % VALUES * step;
}

/* value = step(value) for `count` values, vectors of VALUES. operand: of each value, or of each in a vector
 * with the place in_vector(). Callers pass constants for `count` and `place`. */
static __forceinline__ __device__ void apply_called_to(const fgn_pointwise *step, float *value, int count,
                                                       const float *operand, place_function place) {
    if (is_kind(step, FGN_MULTIPLY_TENSOR))
        apply_with_operands(multiply, value, count, operand, place, 1);
    else if (is_kind(step, FGN_ADD_TENSOR) || is_kind(step, FGN_ADD_CHANNEL))
        apply_with_operands(add, value, count, operand, place, 1);
    else if (apply_short_operator(step, value, count, operand, place, 1))
        return;
    else if (is_kind(step, FGN_HARDTANH) || is_kind(step, FGN_CLAMP))
        apply_with_constants(hardtanh, step, value, count);
    else if (is_kind(step, FGN_DOUBLE))
        apply_to_each(twice, value, count);
    else if (is_kind(step, FGN_RELU))
        apply_to_each(relu, value, count);
    else if (step->channel)
        apply_operand(step, value, count, operand, place, 1);
    else
#pragma unroll
        for (int i = 0; i < count; i += FEW_VALUES)
            put_few(value + i, called_operator(step->kind, step->a, step->b, few_of(value + i, FEW_VALUES)),
                    FEW_VALUES);
}

/* value = step(value) for a thread's values, with the operand of each. */
static __forceinline__ __device__ void apply_called(const fgn_pointwise *step, float *value,
                                                    const float *operand) {
    apply_called_to(step, value, VALUES, operand, evenly_spaced);
}
