/* One pointwise operator, applied to values that a thread holds in registers.
 *
 * The operators of most chains are inlined. Rare operators are functions, one copy in a kernel, placed after
 * the code that every call runs. A call that follows other kernels waits until its instructions come from
 * memory again, and waits less if they are contiguous: with every operator inlined, the launch after a
 * product was 320 KB of code and made a small call 1 to 4 us longer. */
#pragma once

#include "shared/pointwise.h"

/* ---- A list of operators ---- */

/* A kernel that is compiled for one call has functions of its own for these two (jit/known.h). */
#ifndef JIT_COMPILED

enum { STEPS_AT_ONCE = 1 };

static __forceinline__ __device__ int count_of(const struct operators *list, enum list which) {
    (void)which;
    return list->count;
}

static __forceinline__ __device__ fgn_pointwise step_of(const struct operators *list, enum list which,
                                                        int i) {
    (void)which;
    return list->step[i];
}

#endif

/* Ends an operator. Where a kernel is compiled for one call, the compiler would contract its last product and
 * the next operator's sum, which the library's kernel does not. */
static __forceinline__ __device__ void end_step(float *value, int count) {
#ifdef JIT_COMPILED
#pragma unroll
    for (int i = 0; i < count; i++)
        value[i] = rounded(value[i]);
#else
    (void)value, (void)count;
#endif
}

/* ---- One operator ---- */

/* How many values a function takes and returns in registers: enough to keep the arithmetic busy while some
 * wait for their exponential. */
#define FEW_VALUES 8

struct few_values {
    float value[FEW_VALUES];
};

/* Takes the first of `left` values, and repeats the last one if there are too few. */
static __forceinline__ __device__ struct few_values few_of(const float *value, int left) {
    struct few_values few;
#pragma unroll
    for (int i = 0; i < FEW_VALUES; i++)
        few.value[i] = value[i < left ? i : left - 1];
    return few;
}

static __forceinline__ __device__ void put_few(float *value, struct few_values few, int left) {
#pragma unroll
    for (int i = 0; i < FEW_VALUES; i++)
        if (i < left)
            value[i] = few.value[i];
}

static CALLED __device__ struct few_values called_rare_operator(fgn_pointwise_kind kind, float a, float b,
                                                                struct few_values few) {
    const fgn_pointwise step = {kind, a, b, NULL, NULL, 0};
    apply_rare_operator(&step, few.value, FEW_VALUES);
    return few;
}

static CALLED __device__ struct few_values
called_rare_operand(fgn_pointwise_kind kind, float a, struct few_values few, struct few_values operand) {
    apply_rare_operand(kind, a, few.value, FEW_VALUES, operand.value, evenly_spaced, 1);
    return few;
}

/* Whether the operator is this one, written so that the compiler makes no jump table: the table and its
 * targets would have to come from memory first. */
static __forceinline__ __device__ bool is_kind(const fgn_pointwise *step, fgn_pointwise_kind kind) {
    int of_step = (int)step->kind;
#if defined __CUDACC__ && !defined JIT_COMPILED
    asm volatile("" : "+r"(of_step));
#endif
    return of_step == (int)kind;
}

/* Applies an operator with a channel vector to `count` values: value[i] meets operand[place(i,
 * place_step)]. Callers pass a constant for `count`, here and below: the values stay in registers, the
 * operator is chosen once for all of them, and the others go on while one waits for its
 * exponential. */
static __forceinline__ __device__ void apply_operand(const fgn_pointwise *step, float *value, int count,
                                                     const float *operand, place_function place,
                                                     int place_step) {
    if (is_kind(step, FGN_ADD_CHANNEL)) {
        apply_with_operands(add, value, count, operand, place, place_step);
        return;
    }
    if (count < FEW_VALUES / 2) { /* a call would cost more than its code */
        apply_rare_operand(step->kind, step->a, value, count, operand, place, place_step);
        return;
    }
#pragma unroll
    for (int i = 0; i < count; i += FEW_VALUES) {
        struct few_values with;
#pragma unroll
        for (int j = 0; j < FEW_VALUES; j++)
            with.value[j] = operand[place(i + j < count ? i + j : count - 1, place_step)];
        put_few(value + i, called_rare_operand(step->kind, step->a, few_of(value + i, count - i), with),
                count - i);
    }
}

/* Applies one of the operators of most chains; otherwise does nothing and returns false. */
static __forceinline__ __device__ bool apply_common_operator(const fgn_pointwise *step, float *value,
                                                             int count) {
    if (is_kind(step, FGN_HARDTANH) || is_kind(step, FGN_CLAMP))
        apply_with_constants(hardtanh, step, value, count);
    else if (is_kind(step, FGN_LEAKY_RELU))
        apply_with_constants(leaky_relu, step, value, count);
    else if (is_kind(step, FGN_DOUBLE))
        apply_to_each(twice, value, count);
    else if (is_kind(step, FGN_RELU))
        apply_to_each(relu, value, count);
    else if (is_kind(step, FGN_MISH))
        apply_to_each(mish, value, count);
    else if (is_kind(step, FGN_SILU))
        apply_to_each(silu, value, count);
    else if (is_kind(step, FGN_GELU))
        apply_to_each(gelu, value, count);
    else if (is_kind(step, FGN_GELU_TANH))
        apply_to_each(gelu_tanh, value, count);
    else
        return false;
    return true;
}

/* Applies an operator without a channel vector. */
static __forceinline__ __device__ void apply_constants(const fgn_pointwise *step, float *value, int count) {
    if (apply_common_operator(step, value, count))
        return;
    if (count < FEW_VALUES / 2) {
        apply_rare_operator(step, value, count);
        return;
    }
#pragma unroll
    for (int i = 0; i < count; i += FEW_VALUES)
        put_few(value + i, called_rare_operator(step->kind, step->a, step->b, few_of(value + i, count - i)),
                count - i);
}

/* Applies an operator of one instruction per value; otherwise does nothing and returns false. The kernels of
 * the norm lack the registers for other operators' code, and call functions. */
static __forceinline__ __device__ bool apply_short_operator(const fgn_pointwise *step, float *value,
                                                            int count, const float *operand,
                                                            place_function place, int place_step) {
    if (is_kind(step, FGN_MULTIPLY))
        apply_with_constants(times, step, value, count);
    else if (is_kind(step, FGN_ADD))
        apply_with_constants(plus, step, value, count);
    else if (is_kind(step, FGN_DIVIDE) && has_reciprocal(step->a))
        multiply_by(value, count, 1.0f / step->a);
    else if (is_kind(step, FGN_MULTIPLY_CHANNEL))
        apply_with_operands(multiply, value, count, operand, place, place_step);
    else if (is_kind(step, FGN_SUBTRACT_CHANNEL))
        apply_with_operands(subtract, value, count, operand, place, place_step);
    else
        return false;
    return true;
}

/* Applies any operator except those with a tensor: see add_tensor() and apply_called(). */
static __forceinline__ __device__ void apply_operator_with(const fgn_pointwise *step, float *value, int count,
                                                           const float *operand, place_function place,
                                                           int place_step) {
    if (apply_short_operator(step, value, count, operand, place, place_step))
        return;
    switch (step->kind) {
    case FGN_ADD_CHANNEL:
    case FGN_SUBTRACT_CHANNEL:
    case FGN_MULTIPLY_CHANNEL:
    case FGN_DIVIDE_CHANNEL:
    case FGN_DIVIDE_DEVIATION:
    case FGN_PRELU:
    case FGN_MINIMUM_CHANNEL:
    case FGN_MAXIMUM_CHANNEL:
        apply_operand(step, value, count, operand, place, place_step);
        break;
    default:
        apply_constants(step, value, count);
        break;
    }
}
