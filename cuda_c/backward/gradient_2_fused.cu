/* The gradient before the product, rung 2: one pass.
 *
 * Idea: a team of threads (channels.h) holds v and dy of a (row, group) in registers, computes h, n and z
 * from v once more, follows the chain rule back from dy, with GroupNorm's two sums exchanged inside the team,
 * and stores G (gradient_of_row.h). The threads keep their channels and go down the rows, so each sum over a
 * column grows in a register. At the end a block adds up its rows in shared memory and writes one partial sum
 * for each channel; a second kernel adds up the blocks'. Both add in an order that does not depend on the
 * run: no atomics. Where one block has all rows of its columns, the second launch is not needed.
 *
 * A group of more than SEGMENT channels is more than a team holds: a kernel before this one reads v and dy
 * for the group's two sums, and this kernel works on its segments one by one.
 *
 * Bytes: v and dy read once, G written once: 12 for each element, 6 in a 16-bit type; the partial sums are
 * few beside that. Operations: some 30 for each element and what the chain's operators cost, twice.
 *
 * Limit: the latency of one row's chain of dependent instructions. The sums take so many registers that 16
 * warps share a multiprocessor, too few to hide it: large tensors use a sixth of the memory bandwidth (with
 * exponentials, or groups whose vectors are short) to three fifths (float32, without). */
#include "backward/backward.h"
#include "backward/gradient_of_row.h"

struct fused_gradient_args {
    struct chain_gradient gradient;
    struct division division;
    int strips;     /* blocks beside each other */
    int row_blocks; /* blocks that divide the rows of a strip */
    int64_t rows_of_block;
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

/* `type` is a constant in each of the kernels below, `width` in the code of the most common one. */
static __forceinline__ __device__ void gradient_of_rows(const struct fused_gradient_args *args, int width,
                                                        fgn_type type) {
    __shared__ float exchanged[2 * WARPS];
    __shared__ float block_sums[VALUES * THREADS];
    __shared__ struct scale_and_shift vectors;
    const struct chain_gradient *gradient = &args->gradient;
    const struct division *division = &args->division;
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

    /* all threads of a block go through the loop together: a team may be several warps */
    for (int64_t row_of_block = first_row; row_of_block < end; row_of_block += blockDim.y) {
        int64_t row = row_of_block + threadIdx.y;
        struct gradient_row here = place_in_row(gradient, &channels, row, end, type);
        struct row_words words;
        load_row(&words, gradient, row, group, &here);
        float g[VALUES];
        values_of(g, &words.dy, &channels, type);
        if (has_norm) {
            float n[VALUES], sums[2] = {0.0f, 0.0f};
            values_of(n, &words.v, &channels, type);
            back_to_norm(gradient, n, g, words.moments, &vectors, of_after, &here, thread);
            if (!in_parts) {
                add_to_group_sums(sums, g, n, &vectors, &here.channels);
                sums_of_team(sums, 2, division->team, thread, exchanged);
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
                g[j] = (g[j] * scale[j] - mean - n[j] * with_n) * words.moments.inverse_deviation;
            }
            if (gradient->before.count > 0) {
                values_of(n, &words.v, &channels, type);
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

#ifdef __CUDACC__

/* Vectors of VALUES, the most common, have code of their own. */
static __forceinline__ __device__ void gradient_of_all_widths(const struct fused_gradient_args *args,
                                                              fgn_type type) {
    if (args->division.width == VALUES)
        gradient_of_rows(args, VALUES, type);
    else
        gradient_of_rows(args, args->division.width, type);
}

#else

/* On the simulator all kernels share one copy of the code, which is compiled once. */
static __noinline__ __device__ void gradient_of_all_widths(const struct fused_gradient_args *args,
                                                           fgn_type type) {
    gradient_of_rows(args, args->division.width, type);
}

#endif

__global__ void __launch_bounds__(THREADS, 2) fused_gradient_float32_kernel(struct fused_gradient_args args) {
    gradient_of_all_widths(&args, FGN_FLOAT32);
}

__global__ void __launch_bounds__(THREADS, 2) fused_gradient_float16_kernel(struct fused_gradient_args args) {
    gradient_of_all_widths(&args, FGN_FLOAT16);
}

__global__ void __launch_bounds__(THREADS, 2)
    fused_gradient_bfloat16_kernel(struct fused_gradient_args args) {
    gradient_of_all_widths(&args, FGN_BFLOAT16);
}

/* The two sums of each (row, group), for groups of several segments: a block for each. */
__global__ void __launch_bounds__(THREADS) group_sums_kernel(struct fused_gradient_args args) {
    __shared__ float exchanged[2 * WARPS];
    __shared__ struct scale_and_shift vectors;
    const struct chain_gradient *gradient = &args.gradient;
    int64_t row = blockIdx.x / args.division.groups;
    int group = blockIdx.x % args.division.groups;
    float sums[2] = {0.0f, 0.0f};
    const struct operand_gradients none = {gradient->sums.after, 0, gradient->after_tensor};
    for (int part = 0; part < args.division.parts; part++) {
        struct gradient_row place = {channels_of(&args.division, group * args.division.parts + part),
                                     row * gradient->channels, gradient->type, gradient->vector_type};
        __syncthreads(); /* the vectors of the segment before are read */
        share_vector(&vectors.scale, gradient->scale, 1.0f, &place.channels, gradient->vector_type,
                     gradient->type);
        share_vector(&vectors.shift, gradient->shift, 0.0f, &place.channels, gradient->vector_type,
                     gradient->type);
        __syncthreads();
        float n[VALUES], dy[VALUES];
        struct row_words words;
        load_row(&words, gradient, row, group, &place);
        values_of(n, &words.v, &place.channels, gradient->type);
        values_of(dy, &words.dy, &place.channels, gradient->type);
        back_to_norm(gradient, n, dy, words.moments, &vectors, none, &place, threadIdx.x);
        add_to_group_sums(sums, dy, n, &vectors, &place.channels);
    }
    sums_of_team(sums, 2, THREADS, threadIdx.x, exchanged);
    if (threadIdx.x == 0)
        args.group_sums[blockIdx.x] = make_float2(sums[0], sums[1]);
}

/* The sum of the row blocks' partial sums: a warp has 32 channels, the warps of a block every eighth row
 * block. */
__global__ void __launch_bounds__(THREADS) column_sums_kernel(struct fused_gradient_args args) {
    __shared__ float partial[WARPS][LANES];
    const struct column_sums *sums = &args.gradient.sums;
    int64_t channels = args.gradient.channels, channel = (int64_t)blockIdx.x * LANES + threadIdx.x;
    int slot = blockIdx.y;
    float sum = 0.0f;
    if (channel < channels)
        for (int row_block = threadIdx.y; row_block < args.row_blocks; row_block += WARPS)
            sum += args.partial[((int64_t)row_block * sums->count + slot) * channels + channel];
    partial[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y > 0 || channel >= channels)
        return;
    for (int warp = 1; warp < WARPS; warp++)
        sum += partial[warp][threadIdx.x];
    store_element(sums->to[slot], channel, sum, args.gradient.vector_type);
}

LAUNCHER(fused_gradient_float32_kernel, struct fused_gradient_args)
LAUNCHER(fused_gradient_float16_kernel, struct fused_gradient_args)
LAUNCHER(fused_gradient_bfloat16_kernel, struct fused_gradient_args)
LAUNCHER(group_sums_kernel, struct fused_gradient_args)
LAUNCHER(column_sums_kernel, struct fused_gradient_args)

/* ---- The host ---- */

/* As many blocks as a large GPU holds at once, two to a multiprocessor. A block has at least so many rows
 * that what it writes at its end is little beside them, and few rows are one block's. */
#define BLOCKS_AT_ONCE (2 * MULTIPROCESSORS)
#define FEWEST_STEPS 4
#define SHARED_BYTES_WITHOUT_ASKING (20 << 10) /* 48 KiB, less those of the kernel itself */

static int64_t rows_of_block_for(const struct division *division, int64_t batch) {
    int64_t row_blocks = most_row_blocks(BLOCKS_AT_ONCE, division), at_once = rows_at_once(division);
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
    args.row_blocks = (int)tiles(gradient->batch, args.rows_of_block);
    args.one_over_size = 1.0f / args.division.group_size;
    args.group_sums = (float2 *)workspace;
    int64_t groups = args.division.parts > 1 ? gradient->batch * (int64_t)args.division.groups : 0;
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

static cudaError_t launch_fused_gradient(const struct fused_gradient_args *args, cudaStream_t stream) {
    int operands = args->gradient.sums.count - args->gradient.sums.first_operand;
    size_t shared_bytes = (size_t)operands * VALUES * THREADS * sizeof(float);
    dim3 grid = {(unsigned)args->strips, (unsigned)args->row_blocks, 1};
    dim3 block = {(unsigned)args->division.across, (unsigned)rows_at_once(&args->division), 1};
    const void *kernel = args->gradient.type == FGN_FLOAT16    ? (const void *)fused_gradient_float16_kernel
                         : args->gradient.type == FGN_BFLOAT16 ? (const void *)fused_gradient_bfloat16_kernel
                                                               : (const void *)fused_gradient_float32_kernel;
    if (shared_bytes > SHARED_BYTES_WITHOUT_ASKING) {
        cudaError_t error =
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes);
        if (error != cudaSuccess)
            return error;
    }
    switch (args->gradient.type) {
    case FGN_FLOAT16:
        return launch_fused_gradient_float16_kernel(grid, block, shared_bytes, stream, *args);
    case FGN_BFLOAT16:
        return launch_fused_gradient_bfloat16_kernel(grid, block, shared_bytes, stream, *args);
    default:
        return launch_fused_gradient_float32_kernel(grid, block, shared_bytes, stream, *args);
    }
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
    error = launch_fused_gradient(&args, stream);
    if (error != cudaSuccess || args.row_blocks == 1 || gradient->sums.count == 0)
        return error;
    dim3 sums_grid = {(unsigned)tiles(gradient->channels, LANES), (unsigned)gradient->sums.count, 1};
    dim3 sums_block = {LANES, WARPS, 1};
    return launch_column_sums_kernel(sums_grid, sums_block, 0, stream, args);
}
