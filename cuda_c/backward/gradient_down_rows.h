/* The gradient before the product, rung 2: what a block does with its rows. gradient_2_fused.cu has the
 * kernels and the host code, which divides a tensor among blocks. */
#pragma once

#include "backward/back_through_row.h"
#include "backward/row_ring.h"
#include "ptx/griddepcontrol.h"

/* Two sums of each warp, in two buffers: some threads write the next row's sums while others still
 * read. */
#define MOST_EXCHANGED (2 * 2 * WARPS)

struct fused_gradient_args {
    struct chain_gradient gradient;
    struct division division;
    int strips;     /* blocks beside each other */
    int row_blocks; /* blocks that divide the rows of a strip */
    int64_t rows_of_block;
    int stages; /* of the ring */
    bool only_common;
    float one_over_size;
    float *partial;     /* (row_blocks, sums, channels), unused where there is one */
    float2 *group_sums; /* (batch, groups): of groups of several segments */
};

/* Adds up and stores the sums of the threads that have the same channels. These threads share the work: each
 * takes a channel of a slot. */
static __forceinline__ __device__ void finish_sums(const struct fused_gradient_args *args, void *const *to,
                                                   const struct channels *channels) {
    const struct column_sums *sums = &args->gradient.sums;
    __syncthreads();
    for (int each = threadIdx.y; each < sums->count * VALUES; each += blockDim.y) {
        int slot = each / VALUES, j = each % VALUES;
        if (!is_there(channels, j))
            continue;
        const float *of_slot = (const float *)sum_at(slot);
        float sum = 0.0f;
        for (int thread = threadIdx.x; thread < THREADS; thread += blockDim.x)
            sum += of_slot[(j / 4 * THREADS + thread) * 4 + j % 4];
        int channel = channel_at(channels, j);
        if (args->row_blocks == 1)
            store_element(to[slot], channel, sum, args->gradient.vector_type);
        else
            args->partial[((int64_t)blockIdx.y * sums->count + slot) * args->gradient.channels + channel] =
                sum;
    }
}

/* to: where the sums go, in the kernel's parameter, which threads may index. `type` and `only_common` are
 * constants in each kernel that calls this, and so is `width` on a GPU. */
static __forceinline__ __device__ void gradient_of_rows(const struct fused_gradient_args *args,
                                                        void *const *to, int width, fgn_type type,
                                                        bool only_common) {
    __shared__ float exchanged[MOST_EXCHANGED];
    const struct chain_gradient *gradient = &args->gradient;
    const struct division *division = &args->division;
    const struct column_sums *wanted = &gradient->sums;
    const int bytes_of_stage = type == FGN_FLOAT32 ? BYTES_OF_STAGE(4) : BYTES_OF_STAGE(2);
    float4 *scale_at = sum_at(wanted->count), *shift_at = scale_at + FLOAT4_OF_THREAD * blockDim.x;
    const struct scale_and_shift vectors = {scale_at, shift_at};
    unsigned char *ring = (unsigned char *)(shift_at + FLOAT4_OF_THREAD * blockDim.x);
    const bool has_norm = gradient->groups > 0, in_parts = division->parts > 1;
    int thread = threadIdx.y * blockDim.x + threadIdx.x;
    int segment = blockIdx.x * (blockDim.x / division->team) + threadIdx.x / division->team;
    int group = in_parts ? segment / division->parts : segment;
    struct channels channels = channels_of(division, segment);
    channels.width = width;
    int64_t first_row = blockIdx.y * args->rows_of_block, end = first_row + args->rows_of_block;
    end = end < gradient->batch ? end : gradient->batch;

    const float zeros[VALUES] = {0.0f};
    for (int slot = 0; slot < wanted->count; slot++)
        share_values(sum_at(slot), THREADS, thread, zeros);
    griddepcontrol_wait();
    griddepcontrol_launch_dependents(); /* column_sums_kernel, which waits for this launch's end */

    /* starts the copies of rows first: scale and shift load meanwhile */
    int64_t ahead = first_row + threadIdx.y; /* the next row to prefetch */
    for (int i = 1; i < args->stages; i++, ahead += blockDim.y) {
        struct gradient_row there = place_in_row(gradient, &channels, ahead, end, type, only_common);
        prefetch_row(ring + i * bytes_of_stage, gradient, ahead, group, &there, thread);
        cp_async_commit_group();
    }
    share_vector(vectors.scale, gradient->scale, 1.0f, &channels, gradient->vector_type, type);
    share_vector(vectors.shift, gradient->shift, 0.0f, &channels, gradient->vector_type, type);
    __syncthreads();
    const struct operand_gradients of_before = {wanted->before, gradient->before_tensor};
    const struct operand_gradients of_after = {wanted->after, gradient->after_tensor};

    int filled = 0, at = args->stages > 1;
    float *of_row = exchanged;

    /* all threads of a block go through the loop together: a team may be several warps */
    for (int64_t row_of_block = first_row; row_of_block < end; row_of_block += blockDim.y) {
        struct gradient_row there = place_in_row(gradient, &channels, ahead, end, type, only_common);
        prefetch_row(ring + filled * bytes_of_stage, gradient, ahead, group, &there, thread);
        cp_async_commit_group();
        ahead += blockDim.y;
        filled = filled + 1 < args->stages ? filled + 1 : 0;
        wait_for_oldest(args->stages);

        int64_t row = row_of_block + threadIdx.y;
        struct gradient_row here = place_in_row(gradient, &channels, row, end, type, only_common);
        const unsigned char *stage = ring + at * bytes_of_stage;
        at = at + 1 < args->stages ? at + 1 : 0;
        float g[VALUES], n[VALUES]; /* n: v too, where its turn has come */
        take_dy(g, stage, &here, thread);
        if (has_norm) {
            float sums[2] = {0.0f, 0.0f};
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
            float mean = rounded(sums[0] * args->one_over_size);
            float with_n = sums[1] * args->one_over_size;
            float scale[VALUES], of_scale[VALUES];
#pragma unroll
            for (int j = 0; j < VALUES; j++)
                of_scale[j] = rounded(g[j] * n[j]);
            add_to_sum(wanted->scale, of_scale, &here.channels, thread);
            add_to_sum(wanted->shift, g, &here.channels, thread);
            vector_values(scale, vectors.scale);
#pragma unroll
            for (int j = 0; j < VALUES; j++)
                g[j] = rounded((rounded(g[j] * scale[j]) - mean - n[j] * with_n) * moments.inverse_deviation);
        }
        if (gradient->before.count > 0) {
            take_v(n, stage, &here, thread);
            back_through(&gradient->before, BEFORE, n, g, of_before, &here, thread);
        }
        if (gradient->g)
            store_values(gradient->g, here.row_start, g, &here.channels, type);
        add_to_sum(wanted->bias, g, &here.channels, thread);
    }
    finish_sums(args, to, &channels);
}

#ifdef __CUDACC__

/* Each type and each width of vectors has a kernel of its own: with a constant width, an access does not
 * branch on it. One kernel for all widths would run out of registers. */
static __forceinline__ __device__ void gradient_of_width(const struct fused_gradient_args *args, int width,
                                                         fgn_type type, bool only_common) {
    gradient_of_rows(args, args->gradient.sums.to, width, type, only_common);
}

#else

/* On the simulator the kernels of a file share one copy of the code, which is compiled once. */
static CALLED __device__ void gradient_of_width(const struct fused_gradient_args *args, int width,
                                                fgn_type type, bool only_common) {
    gradient_of_rows(args, args->gradient.sums.to, width, type, only_common);
}

#endif

struct gradient_kernel {
    const void *kernel;
    cudaError_t (*launch)(dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream, bool early,
                          struct fused_gradient_args args);
};

/* Blocks that a multiprocessor holds at once. Three have 80 registers for a thread: enough for wide vectors
 * and common operators. */
#define MOST_BLOCKS 3
#define FEWER_BLOCKS 2

/* Kernels with all operators, of width 4 or 1 (gradient_2_rare.cu). */
struct gradient_kernel rare_gradient_kernel(fgn_type type, int width);
