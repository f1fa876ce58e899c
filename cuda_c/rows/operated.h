/* Operators and accesses of a thread's values, for the kernels of functions of rows.
 *
 * A small call that follows other kernels waits until its instructions come from memory. So an operator is
 * one function here, which loads its operands too: a kernel has one copy of all operators, however many
 * places apply them. lab/README.md has what that gained ("Functions of rows"). */
#pragma once

#include "norm/channels.h"
#include "rows/rows.h"

/* A thread's vector of VALUES in a matrix whose threads take its vectors in turns. */
struct turn {
    int64_t row;
    unsigned vector;
    unsigned rows_on; /* to the thread's next one */
    unsigned vectors_on;
};

/* The thread's first turn and the next one: a division for each thread, none for each vector. `vectors`: of a
 * row. */
static __forceinline__ __device__ struct turn first_turn(unsigned vectors) {
    unsigned at = blockIdx.x * THREADS + threadIdx.x, step = gridDim.x * THREADS;
    struct turn turn = {at / vectors, at % vectors, step / vectors, step % vectors};
    return turn;
}

static __forceinline__ __device__ void take_turn(struct turn *turn, unsigned vectors) {
    turn->row += turn->rows_on;
    turn->vector += turn->vectors_on;
    if (turn->vector >= vectors) {
        turn->vector -= vectors;
        turn->row++;
    }
}

/* step(value) for a thread's values at a place, with their operands. */
static CALLED __device__ struct few_values operated(fgn_pointwise step, struct channels channels,
                                                    int64_t row_start, fgn_type type, fgn_type vector_type,
                                                    struct few_values few) {
    const void *from = step.tensor ? step.tensor : step.channel;
    if (!from) {
        if (is_kind(&step, FGN_MULTIPLY))
            apply_with_constants(times, &step, few.value, VALUES);
        else if (is_kind(&step, FGN_DIVIDE) && has_reciprocal(step.a))
            multiply_by(few.value, VALUES, 1.0f / step.a);
        else if (is_kind(&step, FGN_SIGMOID))
            apply_to_each(sigmoid, few.value, VALUES);
        else if (!apply_common_operator(&step, few.value, VALUES))
            apply_rare_operator(&step, few.value, VALUES);
        return few;
    }
    const fgn_type of = step.tensor ? type : vector_type;
    const int64_t start = step.tensor ? row_start : 0;
    float operand[VALUES];
    if (step.one)
        load_of_step(operand, &step, &channels, vector_type, type);
    else if (of == FGN_BFLOAT16)
        load_values(operand, from, start, &channels, FGN_BFLOAT16);
    else if (of == FGN_FLOAT16)
        load_values(operand, from, start, &channels, FGN_FLOAT16);
    else
        load_values(operand, from, start, &channels, FGN_FLOAT32);
    if (is_kind(&step, FGN_ADD_TENSOR) || is_kind(&step, FGN_ADD_CHANNEL))
        apply_with_operands(add, few.value, VALUES, operand, evenly_spaced, 1);
    else if (is_kind(&step, FGN_MULTIPLY_TENSOR))
        apply_with_operands(multiply, few.value, VALUES, operand, evenly_spaced, 1);
    else
        apply_rare_operand(step.kind, step.a, few.value, VALUES, operand, evenly_spaced, 1);
    return few;
}

static __forceinline__ __device__ void operate(fgn_pointwise step, float *value,
                                               const struct gradient_row *place) {
    put_few(value,
            operated(step, place->channels, place->row_start, place->type, place->vector_type,
                     few_of(value, VALUES)),
            VALUES);
    end_step(value, VALUES);
}

static __forceinline__ __device__ void operate_all(const struct operators *list, enum list which,
                                                   float *value, const struct gradient_row *place) {
    end_step(value, VALUES);
#pragma unroll STEPS_AT_ONCE
    for (int i = 0; i < count_of(list, which); i++)
        operate(step_of(list, which, i), value, place);
}

/* Applies a list of operators to the values of `slots` slots. A warp leaves out a slot that has none: rows of
 * 5120 fill only 20 of 32 values of a thread. */
static __forceinline__ __device__ void operate_on_slots(const struct operators *list, enum list which,
                                                        float *value, const struct gradient_row *place,
                                                        int slots) {
    end_step(value, slots * VALUES);
#pragma unroll STEPS_AT_ONCE
    for (int i = 0; i < count_of(list, which); i++)
#pragma unroll
        for (int slot = 0; slot < slots; slot++)
            if (place[slot].channels.count > 0)
                operate(step_of(list, which, i), value + slot * VALUES, &place[slot]);
}

/* step(value) for a function's one result, which meets element `at` of a tensor and element `channel` of a
 * vector. */
static CALLED __device__ float operated_once(fgn_pointwise step, float value, int64_t at, int64_t channel,
                                             fgn_type type, fgn_type vector_type) {
    float operand = 0.0f;
    if (step.tensor)
        operand = element_at(step.tensor, at, type);
    else if (step.channel)
        operand = element_at(step.channel, step.one ? 0 : channel, vector_type);
    if (is_kind(&step, FGN_ADD_TENSOR) || is_kind(&step, FGN_ADD_CHANNEL))
        value = add(value, operand);
    else if (is_kind(&step, FGN_MULTIPLY_TENSOR))
        value = multiply(value, operand);
    else if (step.channel)
        apply_rare_operand(step.kind, step.a, &value, 1, &operand, evenly_spaced, 1);
    else if (is_kind(&step, FGN_DIVIDE) && has_reciprocal(step.a))
        multiply_by(&value, 1, 1.0f / step.a);
    else if (!apply_common_operator(&step, &value, 1))
        apply_rare_operator(&step, &value, 1);
    return value;
}

/* Applies the operators from `begin` to `end` behind a function that reduces. One that takes a tensor and has
 * none reads the function's result again, as in y * mish(y). */
static __forceinline__ __device__ float operated_result(const struct operators *list, int begin, int end,
                                                        float result, int64_t at, int64_t channel,
                                                        fgn_type type, fgn_type vector_type) {
    end_step(&result, 1);
    float value = result;
#pragma unroll STEPS_AT_ONCE
    for (int i = begin; i < end; i++) {
        const fgn_pointwise step = step_of(list, AFTER, i);
        if (!takes_tensor(&step) || step.tensor)
            value = operated_once(step, value, at, channel, type, vector_type);
        else
            value = is_kind(&step, FGN_ADD_TENSOR) ? add(value, result) : multiply(value, result);
        end_step(&value, 1);
    }
    return value;
}
