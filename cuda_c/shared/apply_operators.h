/* A chain's list of pointwise operators, applied to values of y that a thread holds in registers.
 *
 * A value's place in y decides which element of a channel vector, or of a tensor like y, it meets. A vector
 * of one element (`one`) has the same for all. shared/pointwise.h defines the operators. */
#pragma once

#include "shared/apply_operator.h"

/* value[i] is in row `row` + i * row_step and channel `channel` + i * channel_step. */
struct value_place {
    int64_t row;
    int64_t channel;
    int row_step;
    int channel_step;
    int64_t rows; /* rows of y: a value of a later row, which nobody stores, meets the last row's operands */
};

/* The element that a value meets in the operator's tensor, (rows, channels) of y's type. */
static __forceinline__ __device__ float
tensor_operand(const struct operators *list, const fgn_pointwise *step, int64_t row, int64_t channel) {
    return element_at(step->tensor, row * list->channels + channel, list->type);
}

static __forceinline__ __device__ void add_tensor(const struct operators *list, const fgn_pointwise *step,
                                                  float *value, int count, struct value_place at) {
#pragma unroll
    for (int i = 0; i < count; i++) {
        int64_t row = at.row + (int64_t)i * at.row_step;
        if (row >= at.rows)
            row = at.rows - 1;
        value[i] += tensor_operand(list, step, row, at.channel + (int64_t)i * at.channel_step);
    }
}

static __forceinline__ __device__ void apply_operators(const struct operators *list, float *value, int count,
                                                       struct value_place at) {
#pragma unroll 1
    for (int i = 0; i < list->count; i++) {
        const fgn_pointwise *step = &list->step[i];
        if (step->kind == FGN_ADD_TENSOR)
            add_tensor(list, step, value, count, at);
        else
            apply_operator_with(step, value, count,
                                (const float *)step->channel + (step->one ? 0 : at.channel), evenly_spaced,
                                step->one ? 0 : at.channel_step);
    }
}
