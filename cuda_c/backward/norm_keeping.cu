/* The forward's second launch in training: y = after(GroupNorm(before(v))), which keeps mean and deviation.
 *
 * Idea: training needs v = x W^T + bias again, so the product writes it, and this kernel does the rest in one
 * pass. A team of threads (channels.h) holds a row of its group in registers: mean, variance and result are
 * made of one load. The blocks are as many as the GPU holds at once and go down the rows; each thread has
 * asked for its values of the next row before it works on this one, so that memory never waits for
 * arithmetic. Its scale and shift stay in registers.
 *
 * The mean of the differences from the first mean is what rounding left out of it: the corrected two-pass
 * algorithm of shared/moments.h.
 *
 * What is kept for the backward: v in the tensor's type, and mean and 1 / deviation of each (row, group), 8
 * bytes. What the operators before the norm make of v is made again there.
 *
 * Bytes: v read once and y written once, 8 for each element, 4 in a 16-bit type. Operations: about 20 for
 * each element and the chain's own.
 *
 * Limit: memory bandwidth. Groups of more than SEGMENT channels: norm_keeping_wide.cu. */
#include "backward/norm_keeping.h"
#include "shared/moments.h"

struct norm_keeping_args {
    struct kept_norm norm;
    struct division division;
    float one_over_size;
};

/* The thread's values of a row, as they are in memory; zeros for a row that there is not. */
static __forceinline__ __device__ void ask_for_row(struct words *words, const struct kept_norm *norm,
                                                   int64_t row, const struct channels *channels,
                                                   fgn_type type) {
    struct channels present = *channels;
    present.count = row < norm->batch ? channels->count : 0;
    load_words(words, norm->v, row * norm->channels, &present, type);
}

/* Mean and deviation of the team's group. `value` becomes its differences from `mean` without `mean_rest`. */
static __forceinline__ __device__ struct moments
moments_of_team(const struct norm_keeping_args *args, float *value, int count, int thread, float *partial) {
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < VALUES; j++)
        sum += j < count ? value[j] : 0.0f;
    sums_of_team(&sum, 1, args->division.team, thread, partial);
    float mean = sum * args->one_over_size, totals[2] = {0.0f, 0.0f};
#pragma unroll
    for (int j = 0; j < VALUES; j++) {
        value[j] -= mean;
        float difference = j < count ? value[j] : 0.0f;
        totals[0] += difference;
        totals[1] += difference * difference;
    }
    sums_of_team(totals, 2, args->division.team, thread, partial);
    struct differences total = {totals[0], totals[1]};
    return moments_of(mean, total, args->one_over_size, args->norm.eps);
}

/* `type` is a constant in each of the kernels below. */
static __forceinline__ __device__ void normalise_rows(const struct norm_keeping_args *args, fgn_type type) {
    __shared__ float partial[2 * WARPS];
    const struct kept_norm *norm = &args->norm;
    const struct division *division = &args->division;
    int thread = threadIdx.y * blockDim.x + threadIdx.x;
    int group = blockIdx.x * (blockDim.x / division->team) + threadIdx.x / division->team;
    bool first_of_team = (threadIdx.x & (division->team - 1)) == 0;
    struct channels channels = channels_of(division, group);
    int64_t rows_of_grid = (int64_t)gridDim.y * blockDim.y;

    float scale[VALUES], shift[VALUES];
    load_vector(scale, norm->scale, 1.0f, &channels, norm->vector_type);
    load_vector(shift, norm->shift, 0.0f, &channels, norm->vector_type);
    struct words next;
    int64_t first_row = (int64_t)blockIdx.y * blockDim.y;
    ask_for_row(&next, norm, first_row + threadIdx.y, &channels, type);

    /* all threads of a block go through the loop together: a team may be several warps */
    for (int64_t row_of_block = first_row; row_of_block < norm->batch; row_of_block += rows_of_grid) {
        int64_t row = row_of_block + threadIdx.y;
        struct gradient_row here = {channels, row * norm->channels, type, norm->vector_type};
        here.channels.count = row < norm->batch ? channels.count : 0;
        float value[VALUES];
        values_of(value, &next, &channels, type);
        ask_for_row(&next, norm, row + rows_of_grid, &channels, type);
        apply_list(&norm->before, norm->before.count, value, &here);
        struct moments moments = moments_of_team(args, value, here.channels.count, thread, partial);
        if (norm->moments && here.channels.count > 0 && first_of_team) {
            struct kept_moments kept = {moments.mean + moments.mean_rest, moments.inverse_deviation};
            norm->moments[row * norm->groups + group] = kept;
        }
#pragma unroll
        for (int j = 0; j < VALUES; j++)
            value[j] = (value[j] - moments.mean_rest) * moments.inverse_deviation * scale[j] + shift[j];
        apply_list(&norm->after, norm->after.count, value, &here);
        store_values(norm->y, here.row_start, value, &here.channels, type);
    }
}

__global__ void __launch_bounds__(THREADS, 4) norm_keeping_float32_kernel(struct norm_keeping_args args) {
    normalise_rows(&args, FGN_FLOAT32);
}

__global__ void __launch_bounds__(THREADS, 4) norm_keeping_float16_kernel(struct norm_keeping_args args) {
    normalise_rows(&args, FGN_FLOAT16);
}

__global__ void __launch_bounds__(THREADS, 4) norm_keeping_bfloat16_kernel(struct norm_keeping_args args) {
    normalise_rows(&args, FGN_BFLOAT16);
}

LAUNCHER(norm_keeping_float32_kernel, struct norm_keeping_args)
LAUNCHER(norm_keeping_float16_kernel, struct norm_keeping_args)
LAUNCHER(norm_keeping_bfloat16_kernel, struct norm_keeping_args)

/* ---- The host ---- */

cudaError_t norm_keeping(const struct kept_norm *norm, cudaStream_t stream) {
    struct division division = division_of_norm(norm);
    if (division.parts > 1)
        return norm_keeping_wide(norm, stream);
    struct norm_keeping_args args = {*norm, division, 1.0f / division.group_size};
    struct norm_launch launch = launch_of_norm(norm);
    switch (norm->type) {
    case FGN_FLOAT16:
        return launch_norm_keeping_float16_kernel(launch.grid, launch.block, 0, stream, args);
    case FGN_BFLOAT16:
        return launch_norm_keeping_bfloat16_kernel(launch.grid, launch.block, 0, stream, args);
    default:
        return launch_norm_keeping_float32_kernel(launch.grid, launch.block, 0, stream, args);
    }
}
