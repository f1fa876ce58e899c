/* The launch after the product for groups too large for a block's registers: groups of more than four
 * SEGMENTs, and groups of more than one SEGMENT whose size is no multiple of 8.
 *
 * Idea: a block has one group of a row, and loads the group's segments again for each of three passes, the
 * mean, the differences from it, and the result; all but the first come from a cache.
 *
 * Bytes: v read once from memory and twice from a cache, y written once. Operations: as in norm_forward.cu,
 * with the operators before the norm three times.
 *
 * Limit: the caches' latency: a block waits for each segment. */
#include "norm/norm_forward.h"
#include "shared/moments.h"

struct norm_forward_wide_args {
    struct kept_norm norm;
    struct division division;
    float one_over_size;
};

/* Computes the thread's values of h = before(v) in segment `segment`. */
static __forceinline__ __device__ struct gradient_row
load_segment(float *h, const struct norm_forward_wide_args *args, int64_t row, int segment) {
    const struct kept_norm *norm = &args->norm;
    struct gradient_row place = {channels_of(&args->division, segment), row * norm->channels, norm->type,
                                 norm->vector_type, false};
    load_values(h, norm->v, place.row_start, &place.channels, norm->type);
    apply_list(&norm->before, BEFORE, h, &place);
    return place;
}

__global__ void __launch_bounds__(THREADS) norm_forward_wide_kernel(struct norm_forward_wide_args args) {
    __shared__ float partial[2 * WARPS];
    const struct kept_norm *norm = &args.norm;
    int group = blockIdx.x, parts = args.division.parts;
    int64_t row = blockIdx.y;
    for (; row < norm->batch; row += gridDim.y) {
        float value[VALUES], sum = 0.0f;
        for (int part = 0; part < parts; part++) {
            struct gradient_row place = load_segment(value, &args, row, group * parts + part);
#pragma unroll
            for (int j = 0; j < VALUES; j++)
                sum += j < place.channels.count ? value[j] : 0.0f;
        }
        sums_of_team(&sum, 1, THREADS, threadIdx.x, partial);
        float mean = sum * args.one_over_size, totals[2] = {0.0f, 0.0f};
        for (int part = 0; part < parts; part++) {
            struct gradient_row place = load_segment(value, &args, row, group * parts + part);
#pragma unroll
            for (int j = 0; j < VALUES; j++) {
                float difference = j < place.channels.count ? value[j] - mean : 0.0f;
                totals[0] += difference;
                totals[1] += difference * difference;
            }
        }
        sums_of_team(totals, 2, THREADS, threadIdx.x, partial);
        struct differences total = {totals[0], totals[1]};
        struct moments moments = moments_of(mean, total, args.one_over_size, norm->eps);
        if (norm->moments && threadIdx.x == 0) {
            struct kept_moments kept = {moments.mean + moments.mean_rest, moments.inverse_deviation};
            norm->moments[row * norm->groups + group] = kept;
        }
        for (int part = 0; part < parts; part++) {
            struct gradient_row place = load_segment(value, &args, row, group * parts + part);
            float scale[VALUES], shift[VALUES];
            load_vector(scale, norm->scale, 1.0f, &place.channels, norm->vector_type, norm->type);
            load_vector(shift, norm->shift, 0.0f, &place.channels, norm->vector_type, norm->type);
#pragma unroll
            for (int j = 0; j < VALUES; j++)
                value[j] = normalised(value[j], moments) * scale[j] + shift[j];
            apply_list(&norm->after, AFTER, value, &place);
            store_values(norm->y, place.row_start, value, &place.channels, norm->type);
        }
    }
}

LAUNCHER(norm_forward_wide_kernel, struct norm_forward_wide_args)

cudaError_t norm_forward_wide(const struct kept_norm *norm, const struct norm_launch *launch,
                              cudaStream_t stream) {
    struct norm_forward_wide_args args = {*norm, launch->division, 1.0f / launch->division.group_size};
    return launch_norm_forward_wide_kernel(launch->grid, launch->block, 0, stream, args);
}
