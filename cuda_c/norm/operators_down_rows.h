/* Lists of operators applied to the rows of a matrix, for launches of operators alone.
 *
 * A thread keeps its channels and goes down the rows (channels.h). It works on ROWS_TOGETHER rows at once:
 * their loads are in flight together, and an operator is chosen, and its vector of channels read, once for
 * all of them. With one row at a time, choosing took longer than computing. */
#pragma once

#include "norm/operators_called.h"

/* Blocks of a multiprocessor, for as many registers as the rows take. */
#define BLOCKS_OF_OPERATORS 2

/* y = after(before(v)). again: what operators of `after` read that take a tensor and have none, in rows as
 * v's; v_features: the distance of v's rows. */
struct operators_down_rows {
    const void *v;
    const void *again;
    void *y;
    fgn_type vector_type;
    int64_t batch;
    int64_t features;
    int64_t v_features;
    const struct operators *before;
    const struct operators *after; /* or NULL */
};

/* Some rows of a thread, `step` apart, the first at place.row_start of y. */
struct rows_together {
    int64_t row;
    int64_t step;
    struct gradient_row place;
};

/* Callers pass a constant for `rows`, here and below. */
static __forceinline__ __device__ void apply_to_rows(const struct operators_down_rows *all,
                                                     const struct operators *list, float *value, int rows,
                                                     const struct rows_together *at) {
    float operand[VALUES];
#pragma unroll 1
    for (int i = 0; i < list->count; i++) {
        const fgn_pointwise *one = &list->step[i];
        bool is_product = is_kind(one, FGN_MULTIPLY_TENSOR);
        if (!is_product && !is_kind(one, FGN_ADD_TENSOR)) {
            load_operand(operand, one, &at->place);
            apply_called_to(one, value, rows * VALUES, operand, in_vector);
            continue;
        }
        const void *from = one->tensor ? one->tensor : all->again;
        int64_t features = one->tensor ? all->features : all->v_features;
#pragma unroll
        for (int j = 0; j < rows; j++) {
            load_values(operand, from, (at->row + j * at->step) * features, &at->place.channels,
                        at->place.type);
            apply_with_operands(is_product ? multiply : add, value + j * VALUES, VALUES, operand,
                                evenly_spaced, 1);
        }
    }
}

/* Reads, computes and writes. */
static __forceinline__ __device__ void compute_rows(const struct operators_down_rows *all, int rows,
                                                    const struct rows_together *at) {
    const struct channels *channels = &at->place.channels;
    struct words words[ROWS_TOGETHER];
    float value[ROWS_TOGETHER * VALUES];
#pragma unroll
    for (int j = 0; j < rows; j++)
        load_words(&words[j], all->v, (at->row + j * at->step) * all->v_features, channels, at->place.type);
#pragma unroll
    for (int j = 0; j < rows; j++)
        values_of(value + j * VALUES, &words[j], channels, at->place.type);
    apply_to_rows(all, all->before, value, rows, at);
    if (all->after)
        apply_to_rows(all, all->after, value, rows, at);
#pragma unroll
    for (int j = 0; j < rows; j++)
        store_values(all->y, (at->row + j * at->step) * all->features, value + j * VALUES, channels,
                     at->place.type);
}

/* All rows of a thread, whose threads are divided by `division`. Callers pass a constant for `type`. */
static __forceinline__ __device__ void apply_down_rows(const struct operators_down_rows *all,
                                                       const struct division *division, fgn_type type) {
    int segment = blockIdx.x * (blockDim.x / division->team) + threadIdx.x / division->team;
    struct rows_together at = {(int64_t)blockIdx.y * blockDim.y + threadIdx.y,
                               (int64_t)gridDim.y * blockDim.y,
                               {channels_of(division, segment), 0, type, all->vector_type, false}};
    if (at.place.channels.count == 0)
        return;
    if (division->width == VALUES) { /* so that the compiler knows that the thread's vector is whole */
        at.place.channels.width = at.place.channels.count = VALUES;
        for (; at.row + (ROWS_TOGETHER - 1) * at.step < all->batch; at.row += ROWS_TOGETHER * at.step)
            compute_rows(all, ROWS_TOGETHER, &at);
    }
    at.place.channels.width = division->width;
    for (; at.row < all->batch; at.row += at.step)
        compute_rows(all, 1, &at);
}
