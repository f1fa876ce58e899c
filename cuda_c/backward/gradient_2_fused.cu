/* The gradient before the product, rung 2: one pass.
 *
 * Idea: a team of threads (channels.h) holds v and dy of a (row, group) in registers, makes h, n and z of v
 * again, follows the chain rule back from dy, with GroupNorm's two sums exchanged inside the team, and stores
 * G. The threads keep their channels and go down the rows, so each sum over a column grows in a register. At
 * the end a block adds up its rows in shared memory and writes one partial sum for each channel; a second
 * kernel adds up the blocks'. Both add in an order that does not depend on the run: no atomics. Where one
 * block has all rows of its columns, the second launch is not needed.
 *
 * A group of more than SEGMENT channels is more than a team holds: a kernel before this one reads v and dy
 * for the group's two sums, and this kernel takes its segments for themselves.
 *
 * Bytes: v and dy read once, G written once: 12 for each element, 6 in a 16-bit type; the partial sums are
 * few beside that. Operations: some 30 for each element and what the chain's operators cost, twice.
 *
 * Limit: memory bandwidth; with several exponentials in the chain, the arithmetic. */
#include "backward/backward.h"
#include "backward/channels.h"

struct fused_gradient_args {
    struct chain_gradient gradient;
    struct division division;
    int64_t strips;     /* blocks beside each other */
    int64_t row_blocks; /* blocks that divide the rows of a strip */
    int64_t rows_of_block;
    float one_over_size;
    float *partial;     /* (row_blocks, sums, channels), unused where there is one row block */
    float2 *group_sums; /* (batch, groups): of groups of several segments */
};

/* A thread's values of one row, as they come from memory. */
struct row_values {
    float v[VALUES];
    float dy[VALUES];
    struct kept_moments moments;
};

static __forceinline__ __device__ void load_row(struct row_values *values,
                                                const struct chain_gradient *gradient, int64_t row,
                                                int64_t group, const struct gradient_row *place) {
    load_values(values->dy, gradient->dy, place->row_start, &place->channels, gradient->type);
    values->moments.mean = 0.0f;
    values->moments.inverse_deviation = 1.0f;
    if (gradient->groups > 0) {
        load_values(values->v, gradient->v, place->row_start, &place->channels, gradient->type);
        if (place->channels.count > 0)
            values->moments = gradient->moments[row * gradient->groups + group];
    }
}

/* The sums of channel operands, which are few chains', are in shared memory: (slots, VALUES, THREADS). */
static __forceinline__ __device__ float *operand_sum(int slot, int thread) {
    return (float *)dynamic_shared + slot * VALUES * THREADS + thread;
}

/* Where the gradients of a list's operands go. */
struct operand_gradients {
    const int *slot; /* of each operator: its sum over the columns */
    int first_slot;  /* of all operands' */
    void *const *tensor;
};

/* `gradient` back through the list, whose first operator was given `input`. */
static __forceinline__ __device__ void back_through(const struct operators *list, const float *input,
                                                    float *gradient, struct operand_gradients operands,
                                                    const struct gradient_row *place, int thread) {
#pragma unroll 1
    for (int i = list->count - 1; i >= 0; i--) {
        const fgn_pointwise *step = &list->step[i];
        float value[VALUES], operand[VALUES];
#pragma unroll
        for (int j = 0; j < VALUES; j++)
            value[j] = input[j];
        apply_list(list, i, value, place);
        load_operand(operand, step, place);
        if (operands.slot[i] != NO_SUM) {
            float *sum = operand_sum(operands.slot[i] - operands.first_slot, thread);
#pragma unroll
            for (int j = 0; j < VALUES; j++)
                if (j < place->channels.count)
                    sum[j * THREADS] += gradient[j] * operand_slope_of(step, value[j], operand[j]);
        }
        if (operands.tensor[i])
            store_values(operands.tensor[i], place->row_start, gradient, &place->channels, place->type);
        multiply_by_slope(step, gradient, value, operand);
    }
}

/* What one row gives: dz, in place of dy, and n. */
static __forceinline__ __device__ void back_to_norm(const struct chain_gradient *gradient,
                                                    struct row_values *values, float *n, const float *scale,
                                                    const float *shift, struct operand_gradients operands,
                                                    const struct gradient_row *place, int thread) {
#pragma unroll
    for (int j = 0; j < VALUES; j++)
        n[j] = values->v[j];
    apply_list(&gradient->before, gradient->before.count, n, place);
#pragma unroll
    for (int j = 0; j < VALUES; j++)
        n[j] = (n[j] - values->moments.mean) * values->moments.inverse_deviation;
    if (gradient->after.count > 0) {
        float z[VALUES];
#pragma unroll
        for (int j = 0; j < VALUES; j++)
            z[j] = n[j] * scale[j] + shift[j];
        back_through(&gradient->after, z, values->dy, operands, place, thread);
    }
}

/* A row's share of the group's two sums. */
static __forceinline__ __device__ void add_to_group_sums(float *sums, const float *dz, const float *n,
                                                         const float *scale,
                                                         const struct channels *channels) {
#pragma unroll
    for (int j = 0; j < VALUES; j++) {
        if (j < channels->count) {
            sums[0] += dz[j] * scale[j];
            sums[1] += dz[j] * scale[j] * n[j];
        }
    }
}

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
    for (int j = 0; j < VALUES; j++) {
        if (j >= channels->count)
            continue;
        float sum = 0.0f;
        for (int other = thread; other < THREADS; other += blockDim.x)
            sum += block_sums[j * THREADS + other];
        int64_t channel = channel_at(channels, j);
        if (args->row_blocks == 1)
            store_element(sums->to[slot], channel, sum, args->gradient.vector_type);
        else
            args->partial[(blockIdx.x / args->strips * sums->count + slot) * args->gradient.channels +
                          channel] = sum;
    }
}

__global__ void __launch_bounds__(THREADS, 2) fused_gradient_kernel(struct fused_gradient_args args) {
    __shared__ float exchanged[2 * WARPS];
    __shared__ float block_sums[VALUES * THREADS];
    const struct chain_gradient *gradient = &args.gradient;
    const struct division *division = &args.division;
    const bool has_norm = gradient->groups > 0, in_parts = division->parts > 1;
    int thread = threadIdx.y * blockDim.x + threadIdx.x;
    int64_t segment = blockIdx.x % args.strips * (blockDim.x / division->team) + threadIdx.x / division->team;
    int64_t group = segment / division->parts;
    struct channels channels = channels_of(division, segment);
    int64_t first_row = blockIdx.x / args.strips * args.rows_of_block;
    int64_t end = first_row + args.rows_of_block;
    end = end < gradient->batch ? end : gradient->batch;

    float scale[VALUES], shift[VALUES];
    load_vector(scale, gradient->scale, 1.0f, &channels, gradient->vector_type);
    load_vector(shift, gradient->shift, 0.0f, &channels, gradient->vector_type);
    float bias_sum[VALUES] = {0.0f}, scale_sum[VALUES] = {0.0f}, shift_sum[VALUES] = {0.0f};
    int first_slot = gradient->sums.first_operand;
    for (int i = 0; i < (gradient->sums.count - first_slot) * VALUES; i++)
        ((float *)dynamic_shared)[i * THREADS + thread] = 0.0f;

    const struct operand_gradients of_before = {gradient->sums.before, first_slot, gradient->before_tensor};
    const struct operand_gradients of_after = {gradient->sums.after, first_slot, gradient->after_tensor};

    /* all threads of a block go through the loop together: a team may be several warps */
    for (int64_t row_of_block = first_row; row_of_block < end; row_of_block += blockDim.y) {
        int64_t row = row_of_block + threadIdx.y;
        struct gradient_row here = {channels, row * gradient->channels, gradient->type,
                                    gradient->vector_type};
        here.channels.count = row < end ? channels.count : 0;
        struct row_values values;
        load_row(&values, gradient, row, group, &here);
        float n[VALUES], *g = values.dy;
        if (has_norm) {
            float sums[2] = {0.0f, 0.0f};
            back_to_norm(gradient, &values, n, scale, shift, of_after, &here, thread);
            if (!in_parts) {
                add_to_group_sums(sums, g, n, scale, &here.channels);
                sums_of_team(sums, 2, division->team, thread, exchanged);
            } else if (here.channels.count > 0) {
                float2 of_group = args.group_sums[row * gradient->groups + group];
                sums[0] = of_group.x;
                sums[1] = of_group.y;
            }
            float mean = sums[0] * args.one_over_size, with_n = sums[1] * args.one_over_size;
#pragma unroll
            for (int j = 0; j < VALUES; j++) {
                if (here.channels.count > 0) {
                    scale_sum[j] += g[j] * n[j];
                    shift_sum[j] += g[j];
                }
                g[j] = (g[j] * scale[j] - mean - n[j] * with_n) * values.moments.inverse_deviation;
            }
            if (gradient->before.count > 0)
                back_through(&gradient->before, values.v, g, of_before, &here, thread);
            if (gradient->g)
                store_values(gradient->g, here.row_start, g, &here.channels, gradient->type);
        }
#pragma unroll
        for (int j = 0; j < VALUES; j++)
            if (here.channels.count > 0)
                bias_sum[j] += g[j];
    }

    const struct column_sums *wanted = &gradient->sums;
    finish_sum(&args, block_sums, bias_sum, wanted->bias, &channels, thread);
    finish_sum(&args, block_sums, scale_sum, wanted->scale, &channels, thread);
    finish_sum(&args, block_sums, shift_sum, wanted->shift, &channels, thread);
    for (int slot = first_slot; slot < wanted->count; slot++) {
        float mine[VALUES];
#pragma unroll
        for (int j = 0; j < VALUES; j++)
            mine[j] = operand_sum(slot - first_slot, thread)[j * THREADS];
        finish_sum(&args, block_sums, mine, slot, &channels, thread);
    }
}

/* The two sums of each (row, group), for groups of several segments: a block for each. */
__global__ void __launch_bounds__(THREADS) group_sums_kernel(struct fused_gradient_args args) {
    __shared__ float exchanged[2 * WARPS];
    const struct chain_gradient *gradient = &args.gradient;
    int64_t row = blockIdx.x / args.division.groups, group = blockIdx.x % args.division.groups;
    float sums[2] = {0.0f, 0.0f};
    const struct operand_gradients none = {gradient->sums.after, 0, gradient->after_tensor};
    for (int64_t part = 0; part < args.division.parts; part++) {
        struct gradient_row place = {channels_of(&args.division, group * args.division.parts + part),
                                     row * gradient->channels, gradient->type, gradient->vector_type};
        float scale[VALUES], shift[VALUES], n[VALUES];
        struct row_values values;
        load_vector(scale, gradient->scale, 1.0f, &place.channels, gradient->vector_type);
        load_vector(shift, gradient->shift, 0.0f, &place.channels, gradient->vector_type);
        load_row(&values, gradient, row, group, &place);
        back_to_norm(gradient, &values, n, scale, shift, none, &place, threadIdx.x);
        add_to_group_sums(sums, values.dy, n, scale, &place.channels);
    }
    sums_of_team(sums, 2, THREADS, threadIdx.x, exchanged);
    if (threadIdx.x == 0)
        args.group_sums[blockIdx.x] = make_float2(sums[0], sums[1]);
}

/* Adds up the row blocks' partial sums. A warp has 32 channels, and each warp of a block takes every eighth
 * row block. */
__global__ void __launch_bounds__(THREADS) column_sums_kernel(struct fused_gradient_args args) {
    __shared__ float partial[WARPS][LANES];
    const struct column_sums *sums = &args.gradient.sums;
    int64_t channels = args.gradient.channels, channel = (int64_t)blockIdx.x * LANES + threadIdx.x;
    int slot = blockIdx.y;
    float sum = 0.0f;
    if (channel < channels)
        for (int64_t row_block = threadIdx.y; row_block < args.row_blocks; row_block += WARPS)
            sum += args.partial[(row_block * sums->count + slot) * channels + channel];
    partial[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y > 0 || channel >= channels)
        return;
    for (int warp = 1; warp < WARPS; warp++)
        sum += partial[warp][threadIdx.x];
    store_element(sums->to[slot], channel, sum, args.gradient.vector_type);
}

LAUNCHER(fused_gradient_kernel, struct fused_gradient_args)
LAUNCHER(group_sums_kernel, struct fused_gradient_args)
LAUNCHER(column_sums_kernel, struct fused_gradient_args)

/* ---- The host ---- */

/* As many blocks as a large GPU runs at once, four to a multiprocessor; but a block's rows pay for what it
 * writes at its end, and so few rows that one block does them in no time are one block's. */
#define BLOCKS_AT_ONCE 528
#define FEWEST_STEPS 4
#define SHARED_BYTES_OF_EVERY_BLOCK (48 << 10) /* more has to be asked for */

static int64_t rows_of_block_for(const struct division *division, int64_t batch) {
    int64_t row_blocks = tiles(BLOCKS_AT_ONCE, strips_of(division)), at_once = rows_at_once(division);
    int64_t steps = tiles(tiles(batch, at_once), row_blocks);
    return at_once * (steps < FEWEST_STEPS ? FEWEST_STEPS : steps);
}

static bool tensors_are_aligned(void *const *tensor) {
    bool aligned = true;
    for (int i = 0; i < FGN_MAX_POINTWISE; i++)
        aligned = aligned && is_aligned_16(tensor[i]);
    return aligned;
}

static struct fused_gradient_args fused_args_of(const struct chain_gradient *gradient, void *workspace) {
    bool aligned = is_aligned_16(gradient->v) && is_aligned_16(gradient->dy) && is_aligned_16(gradient->g) &&
                   tensors_are_aligned(gradient->before_tensor) &&
                   tensors_are_aligned(gradient->after_tensor) &&
                   vectors_are_aligned(gradient->scale, gradient->shift, &gradient->before, &gradient->after);
    struct fused_gradient_args args;
    memset(&args, 0, sizeof args);
    args.gradient = *gradient;
    args.division = division_of(gradient->channels, gradient->groups, aligned);
    args.strips = strips_of(&args.division);
    args.rows_of_block = rows_of_block_for(&args.division, gradient->batch);
    args.row_blocks = tiles(gradient->batch, args.rows_of_block);
    args.one_over_size = 1.0f / args.division.group_size;
    args.group_sums = (float2 *)workspace;
    int64_t groups = args.division.parts > 1 ? gradient->batch * args.division.groups : 0;
    args.partial = (float *)(args.group_sums + groups);
    return args;
}

unsigned long long gradient_2_fused_bytes(const struct chain_gradient *gradient) {
    struct fused_gradient_args args = fused_args_of(gradient, NULL);
    unsigned long long bytes = (unsigned long long)(uintptr_t)args.partial;
    if (args.row_blocks > 1)
        bytes += sizeof(float) * args.row_blocks * gradient->sums.count * gradient->channels;
    return bytes;
}

cudaError_t gradient_2_fused(const struct chain_gradient *gradient, void *workspace, cudaStream_t stream) {
    struct fused_gradient_args args = fused_args_of(gradient, workspace);
    cudaError_t error = cudaSuccess;
    if (args.division.parts > 1 && gradient->groups > 0) {
        struct fused_gradient_args without_sums = args; /* and without gradients of tensors */
        for (int i = 0; i < FGN_MAX_POINTWISE; i++) {
            without_sums.gradient.sums.after[i] = NO_SUM;
            without_sums.gradient.after_tensor[i] = NULL;
        }
        dim3 grid = {(unsigned)(gradient->batch * gradient->groups), 1, 1};
        dim3 block = {THREADS, 1, 1};
        error = launch_group_sums_kernel(grid, block, 0, stream, without_sums);
    }
    if (error != cudaSuccess)
        return error;
    int operands = gradient->sums.count - gradient->sums.first_operand;
    size_t shared_bytes = (size_t)operands * VALUES * THREADS * sizeof(float);
    if (shared_bytes > SHARED_BYTES_OF_EVERY_BLOCK / 2)
        error = cudaFuncSetAttribute((const void *)fused_gradient_kernel,
                                     cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes);
    if (error != cudaSuccess)
        return error;
    dim3 grid = {(unsigned)(args.strips * args.row_blocks), 1, 1};
    dim3 block = {(unsigned)args.division.across, (unsigned)rows_at_once(&args.division), 1};
    error = launch_fused_gradient_kernel(grid, block, shared_bytes, stream, args);
    if (error != cudaSuccess || args.row_blocks == 1 || gradient->sums.count == 0)
        return error;
    dim3 sums_grid = {(unsigned)tiles(gradient->channels, LANES), (unsigned)gradient->sums.count, 1};
    dim3 sums_block = {LANES, WARPS, 1};
    return launch_column_sums_kernel(sums_grid, sums_block, 0, stream, args);
}
