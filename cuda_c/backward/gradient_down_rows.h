/* The gradient before the product, rung 2: what a block does with its rows. The kernels, and how the host
 * divides a tensor among blocks: gradient_2_fused.cu. */
#pragma once

#include "backward/gradient_of_row.h"
#include "backward/row_ring.h"

/* Two sums of each warp, twice: while some threads still read the sums of one row, others write those of the
 * next. */
#define MOST_EXCHANGED (2 * 2 * WARPS)

struct fused_gradient_args {
    struct chain_gradient gradient;
    struct division division;
    int strips;     /* blocks beside each other */
    int row_blocks; /* blocks that divide the rows of a strip */
    int64_t rows_of_block;
    int stages;   /* of the ring */
    int operands; /* sums of channel operands */
    float one_over_size;
    float *partial;     /* (row_blocks, sums, channels), unused where there is one */
    float2 *group_sums; /* (batch, groups): of groups of several segments */
};

/* Adds up the block's rows: `mine` of the threads that have the same channels. Stores the sum for `slot`. */
static __forceinline__ __device__ void finish_sum(const struct fused_gradient_args *args, float *block_sums,
                                                  const float *mine, int slot,
                                                  const struct channels *channels, int thread) {
    if (slot == NO_SUM)
        return; /* the same in all threads */
    const struct column_sums *sums = &args->gradient.sums;
    __syncthreads(); /* what the previous call left is read */
#pragma unroll
    for (int j = 0; j < VALUES; j++)
        block_sums[j * THREADS + thread] = mine[j];
    __syncthreads();
    if (threadIdx.y > 0)
        return;
#pragma unroll
    for (int j = 0; j < VALUES; j++) {
        if (j >= channels->count)
            continue;
        float sum = 0.0f;
        for (int other = thread; other < THREADS; other += blockDim.x)
            sum += block_sums[j * THREADS + other];
        int channel = channel_at(channels, j);
        if (args->row_blocks == 1)
            store_element(sums->to[slot], channel, sum, args->gradient.vector_type);
        else
            args->partial[((int64_t)blockIdx.y * sums->count + slot) * args->gradient.channels + channel] =
                sum;
    }
}

/* `type` is a constant in each of the kernels below, and so is `width` on a GPU. */
static __forceinline__ __device__ void gradient_of_rows(const struct fused_gradient_args *args, int width,
                                                        fgn_type type) {
    __shared__ float exchanged[MOST_EXCHANGED];
    __shared__ struct scale_and_shift vectors;
    const struct chain_gradient *gradient = &args->gradient;
    const struct division *division = &args->division;
    const int bytes_of_stage = type == FGN_FLOAT32 ? BYTES_OF_STAGE(4) : BYTES_OF_STAGE(2);
    unsigned char *ring = dynamic_shared + (size_t)args->operands * VALUES * THREADS * sizeof(float);
    const bool has_norm = gradient->groups > 0, in_parts = division->parts > 1;
    int thread = threadIdx.y * blockDim.x + threadIdx.x;
    int segment = blockIdx.x * (blockDim.x / division->team) + threadIdx.x / division->team;
    int group = in_parts ? segment / division->parts : segment;
    struct channels channels = channels_of(division, segment);
    channels.width = width;
    int64_t first_row = blockIdx.y * args->rows_of_block, end = first_row + args->rows_of_block;
    end = end < gradient->batch ? end : gradient->batch;

    share_vector(&vectors.scale, gradient->scale, 1.0f, &channels, gradient->vector_type, type);
    share_vector(&vectors.shift, gradient->shift, 0.0f, &channels, gradient->vector_type, type);
    __syncthreads();
    float bias_sum[VALUES] = {0.0f}, scale_sum[VALUES] = {0.0f}, shift_sum[VALUES] = {0.0f};
    int first_slot = gradient->sums.first_operand;
    for (int i = 0; i < (gradient->sums.count - first_slot) * VALUES; i++)
        ((float *)dynamic_shared)[i * THREADS + thread] = 0.0f;

    const struct operand_gradients of_before = {gradient->sums.before, first_slot, gradient->before_tensor};
    const struct operand_gradients of_after = {gradient->sums.after, first_slot, gradient->after_tensor};

    int64_t ahead = first_row + threadIdx.y; /* the next row to prefetch */
    for (int i = 1; i < args->stages; i++, ahead += blockDim.y) {
        struct gradient_row there = place_in_row(gradient, &channels, ahead, end, type);
        prefetch_row(ring + i * bytes_of_stage, gradient, ahead, group, &there, thread);
        cp_async_commit_group();
    }
    int filled = 0, at = args->stages > 1;
    float *of_row = exchanged;

    /* all threads of a block go through the loop together: a team may be several warps */
    for (int64_t row_of_block = first_row; row_of_block < end; row_of_block += blockDim.y) {
        struct gradient_row there = place_in_row(gradient, &channels, ahead, end, type);
        prefetch_row(ring + filled * bytes_of_stage, gradient, ahead, group, &there, thread);
        cp_async_commit_group();
        ahead += blockDim.y;
        filled = filled + 1 < args->stages ? filled + 1 : 0;
        wait_for_oldest(args->stages);

        int64_t row = row_of_block + threadIdx.y;
        struct gradient_row here = place_in_row(gradient, &channels, row, end, type);
        const unsigned char *stage = ring + at * bytes_of_stage;
        at = at + 1 < args->stages ? at + 1 : 0;
        float g[VALUES];
        take_dy(g, stage, &here, thread);
        if (has_norm) {
            float n[VALUES], sums[2] = {0.0f, 0.0f};
            struct kept_moments moments = take_moments(stage, &here, thread);
            take_v(n, stage, &here, thread);
            back_to_norm(gradient, n, g, moments, &vectors, of_after, &here, thread);
            if (!in_parts) {
                add_to_group_sums(sums, g, n, &vectors, &here.channels);
                sums_of_team_in(sums, 2, division->team, thread, of_row);
                of_row = of_row == exchanged ? exchanged + 2 * WARPS : exchanged;
            } else if (here.channels.count > 0) {
                float2 of_group = args->group_sums[row * gradient->groups + group];
                sums[0] = of_group.x;
                sums[1] = of_group.y;
            }
            float mean = sums[0] * args->one_over_size, with_n = sums[1] * args->one_over_size;
            float scale[VALUES];
            shared_values(scale, &vectors.scale);
#pragma unroll
            for (int j = 0; j < VALUES; j++) {
                if (here.channels.count > 0) {
                    scale_sum[j] += g[j] * n[j];
                    shift_sum[j] += g[j];
                }
                g[j] = (g[j] * scale[j] - mean - n[j] * with_n) * moments.inverse_deviation;
            }
            if (gradient->before.count > 0) {
                take_v(n, stage, &here, thread);
                back_through(&gradient->before, n, g, of_before, &here, thread);
            }
            if (gradient->g)
                store_values(gradient->g, here.row_start, g, &here.channels, type);
        }
#pragma unroll
        for (int j = 0; j < VALUES; j++)
            if (here.channels.count > 0)
                bias_sum[j] += g[j];
    }

    float *block_sums = (float *)ring; /* whose rows are read */
    const struct column_sums *wanted = &gradient->sums;
    finish_sum(args, block_sums, bias_sum, wanted->bias, &channels, thread);
    finish_sum(args, block_sums, scale_sum, wanted->scale, &channels, thread);
    finish_sum(args, block_sums, shift_sum, wanted->shift, &channels, thread);
    for (int slot = first_slot; slot < wanted->count; slot++) {
        float mine[VALUES];
#pragma unroll
        for (int j = 0; j < VALUES; j++)
            mine[j] = operand_sum(slot - first_slot, thread)[j * THREADS];
        finish_sum(args, block_sums, mine, slot, &channels, thread);
    }
}
