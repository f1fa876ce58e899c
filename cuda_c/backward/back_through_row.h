/* The gradient before the product, rung 2: how a thread takes the gradient of one row back from dy, through
 * operators and the norm. gradient_2_fused.cu has the kernels that go down the rows. */
#pragma once

#include "backward/backward.h"
#include "norm/channels.h"

/* A thread's values of one row, as they are in memory. */
struct row_words {
    struct words v;
    struct words dy;
    struct kept_moments moments;
};

/* Returns zeros where `place` has no channels. */
static __forceinline__ __device__ void load_row(struct row_words *words,
                                                const struct chain_gradient *gradient, int64_t row, int group,
                                                const struct gradient_row *place) {
    load_words(&words->dy, gradient->dy, place->row_start, &place->channels, place->type);
    words->moments.mean = 0.0f;
    words->moments.inverse_deviation = 1.0f;
    if (gradient->groups > 0) {
        load_words(&words->v, gradient->v, place->row_start, &place->channels, place->type);
        if (place->channels.count > 0)
            words->moments = gradient->moments[row * gradient->groups + group];
    }
}

/* The thread's place in row `row`. From row `end` on it has no channels. */
static __forceinline__ __device__ struct gradient_row place_in_row(const struct chain_gradient *gradient,
                                                                   const struct channels *channels,
                                                                   int64_t row, int64_t end, fgn_type type,
                                                                   bool only_common) {
    struct gradient_row place = {*channels, row * gradient->channels, type, gradient->vector_type,
                                 only_common};
    place.channels.count = row < end ? channels->count : 0;
    return place;
}

/* The VALUES of several threads in shared memory, as (2, threads) float4. Neighbouring threads own
 * neighbouring float4s, so no two lanes share a bank. */
static __forceinline__ __device__ void share_values(float4 *shared, int threads, int thread,
                                                    const float *value) {
    shared[thread] = make_float4(value[0], value[1], value[2], value[3]);
    shared[threads + thread] = make_float4(value[4], value[5], value[6], value[7]);
}

static __forceinline__ __device__ void shared_values(float *value, const float4 *shared, int threads,
                                                     int thread) {
    float4 low = shared[thread], high = shared[threads + thread];
    value[0] = low.x, value[1] = low.y, value[2] = low.z, value[3] = low.w;
    value[4] = high.x, value[5] = high.y, value[6] = high.z, value[7] = high.w;
}

#define FLOAT4_OF_THREAD (VALUES / 4)

/* Dynamic shared memory begins with the sums over columns: (slots, THREADS) times VALUES. */
static __forceinline__ __device__ float4 *sum_at(int slot) {
    return (float4 *)dynamic_shared + slot * FLOAT4_OF_THREAD * THREADS;
}

/* Adds the thread's values of a row, which must exist. */
static __forceinline__ __device__ void add_to_sum(int slot, const float *value,
                                                  const struct channels *channels, int thread) {
    if (slot == NO_SUM || channels->count == 0)
        return;
    float sum[VALUES];
    shared_values(sum, sum_at(slot), THREADS, thread);
#pragma unroll
    for (int j = 0; j < VALUES; j++)
        sum[j] += value[j];
    share_values(sum_at(slot), THREADS, thread, sum);
}

/* The norm's scale and shift of the block's channels, in shared memory. Threads in a column share
 * them. */
struct scale_and_shift {
    float4 *scale;
    float4 *shift;
};

static __forceinline__ __device__ void share_vector(float4 *shared, const void *vector, float otherwise,
                                                    const struct channels *channels, fgn_type vector_type,
                                                    fgn_type type) {
    float value[VALUES];
    load_vector(value, vector, otherwise, channels, vector_type, type);
    if (threadIdx.y == 0)
        share_values(shared, blockDim.x, threadIdx.x, value);
}

static __forceinline__ __device__ void vector_values(float *value, const float4 *shared) {
    shared_values(value, shared, blockDim.x, threadIdx.x);
}

/* Where the gradients of a list's operands go. */
struct operand_gradients {
    const int *slot; /* of each operator: its sum over the columns */
    void *const *tensor;
};

/* Takes `gradient` back through the list, whose first operator was given `input`. An addition passes the
 * gradient on and needs no value. */
static __forceinline__ __device__ void back_through(const struct operators *list, enum list which,
                                                    const float *input, float *gradient,
                                                    struct operand_gradients operands,
                                                    const struct gradient_row *place, int thread) {
    const int count = count_of(list, which);
#pragma unroll STEPS_AT_ONCE
    for (int back = 0; back < count; back++) {
        const int i = count - 1 - back;
        const fgn_pointwise step = step_of(list, which, i);
        if (operands.tensor[i])
            store_values(operands.tensor[i], place->row_start, gradient, &place->channels, place->type);
        if (is_kind(&step, FGN_ADD_CHANNEL) || is_kind(&step, FGN_ADD_TENSOR)) {
            add_to_sum(operands.slot[i], gradient, &place->channels, thread);
            continue;
        }
        float value[VALUES], operand[VALUES];
#pragma unroll
        for (int j = 0; j < VALUES; j++)
            value[j] = input[j];
#pragma unroll STEPS_AT_ONCE
        for (int first = 0; first < count; first++)
            if (first < i)
                apply_one_of_list(list, which, first, value, place);
        load_operand(operand, &step, place);
        if (!place->only_common && operands.slot[i] != NO_SUM) {
            float of_operand[VALUES];
#pragma unroll
            for (int j = 0; j < VALUES; j++)
                of_operand[j] = gradient[j] * operand_slope_of(&step, value[j], operand[j]);
            end_step(of_operand, VALUES);
            add_to_sum(operands.slot[i], of_operand, &place->channels, thread);
        }
        multiply_by_slope(&step, gradient, value, operand, place->only_common);
    }
}

/* Computes one row: dz takes the place of dy, and n that of v. */
static __forceinline__ __device__ void back_to_norm(const struct chain_gradient *gradient, float *v,
                                                    float *dy, struct kept_moments moments,
                                                    const struct scale_and_shift *vectors,
                                                    struct operand_gradients operands,
                                                    const struct gradient_row *place, int thread) {
    apply_list(&gradient->before, BEFORE, v, place);
#pragma unroll
    for (int j = 0; j < VALUES; j++)
        v[j] = (v[j] - moments.mean) * moments.inverse_deviation;
    if (gradient->after.count > 0) {
        float z[VALUES], shift[VALUES];
        vector_values(z, vectors->scale);
        vector_values(shift, vectors->shift);
#pragma unroll
        for (int j = 0; j < VALUES; j++)
            z[j] = v[j] * z[j] + shift[j];
        back_through(&gradient->after, AFTER, z, dy, operands, place, thread);
    }
}

/* A row's share of the group's two sums. */
static __forceinline__ __device__ void add_to_group_sums(float *sums, const float *dz, const float *n,
                                                         const struct scale_and_shift *vectors,
                                                         const struct channels *channels) {
    float scale[VALUES];
    vector_values(scale, vectors->scale);
#pragma unroll
    for (int j = 0; j < VALUES; j++) {
        if (is_there(channels, j)) {
            float dn = rounded(dz[j] * scale[j]);
            sums[0] += dn;
            sums[1] += dn * n[j];
        }
    }
}
