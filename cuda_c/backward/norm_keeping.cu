/* The forward's second launch in training: y = after(GroupNorm(before(v))), which keeps mean and deviation.
 *
 * Idea: training needs v = x W^T + bias again, so the product writes it, and this kernel does the rest in one
 * pass. A team of threads (channels.h) holds a row of its group in registers: mean, variance and result are
 * made of one load. Groups of more than SEGMENT channels are loaded again for each of the three passes, from
 * a cache.
 *
 * What is kept for the backward: v in the tensor's type, and mean and 1 / deviation of each (row, group), 8
 * bytes. What the operators before the norm make of v is made again there.
 *
 * Bytes: v read once and y written once, 8 for each element, 4 in a 16-bit type.
 *
 * Limit: memory bandwidth. */
#include "backward/backward.h"
#include "backward/channels.h"
#include "shared/moments.h"

struct norm_keeping_args {
    struct kept_norm norm;
    struct division division;
    int64_t strips; /* blocks beside each other in a row */
    float one_over_size;
};

/* Where a thread's values are in part `part` of its group. */
static __forceinline__ __device__ struct gradient_row place_of(const struct norm_keeping_args *args,
                                                               int64_t row, int64_t segment) {
    struct gradient_row place = {channels_of(&args->division, segment), row * args->norm.channels,
                                 args->norm.type, args->norm.vector_type};
    return place;
}

/* A thread's values of h = before(v). */
static __forceinline__ __device__ void load_before(float *h, const struct kept_norm *norm,
                                                   const struct gradient_row *place) {
    load_values(h, norm->v, place->row_start, &place->channels, norm->type);
    apply_list(&norm->before, norm->before.count, h, place);
}

static __forceinline__ __device__ void normalise_values(float *value, const struct kept_norm *norm,
                                                        struct moments moments,
                                                        const struct gradient_row *place) {
    float scale[VALUES], shift[VALUES];
    load_vector(scale, norm->scale, 1.0f, &place->channels, norm->vector_type);
    load_vector(shift, norm->shift, 0.0f, &place->channels, norm->vector_type);
#pragma unroll
    for (int j = 0; j < VALUES; j++)
        value[j] = normalised(value[j], moments) * scale[j] + shift[j];
    apply_list(&norm->after, norm->after.count, value, place);
    store_values(norm->y, place->row_start, value, &place->channels, norm->type);
}

__global__ void __launch_bounds__(THREADS) norm_keeping_kernel(struct norm_keeping_args args) {
    __shared__ float partial[2 * WARPS];
    const struct kept_norm *norm = &args.norm;
    const struct division *division = &args.division;
    int thread = threadIdx.y * blockDim.x + threadIdx.x;
    int parts = (int)division->parts;
    int64_t row = blockIdx.x / args.strips * blockDim.y + threadIdx.y;
    int64_t group = blockIdx.x % args.strips * (blockDim.x / division->team) + threadIdx.x / division->team;
    bool present = row < norm->batch && group < division->groups;
    /* a team without a row or a group repeats the first one's loads: it has to take part in the sums */
    int64_t read_row = present ? row : 0, first = (present ? group : 0) * parts;

    float value[VALUES];
    int64_t first_channel = first / parts * division->group_size;
    float pivot = element_at(norm->v, read_row * norm->channels + first_channel, norm->type);
    pivot = applied_to_one(&norm->before, pivot, read_row * norm->channels, first_channel, norm->vector_type);
    float sum = 0.0f;
    for (int part = 0; part < parts; part++) {
        struct gradient_row place = place_of(&args, read_row, first + part);
        load_before(value, norm, &place);
#pragma unroll
        for (int j = 0; j < VALUES; j++)
            sum += j < place.channels.count ? value[j] - pivot : 0.0f;
    }
    sums_of_team(&sum, 1, division->team, thread, partial);
    float mean = pivot + sum * args.one_over_size;

    struct differences total = {0.0f, 0.0f};
    for (int part = 0; part < parts; part++) {
        struct gradient_row place = place_of(&args, read_row, first + part);
        if (parts > 1)
            load_before(value, norm, &place);
#pragma unroll
        for (int j = 0; j < VALUES; j++)
            add_difference(&total, j < place.channels.count ? value[j] - mean : 0.0f);
    }
    float totals[2] = {total.sum, total.squares};
    sums_of_team(totals, 2, division->team, thread, partial);
    total.sum = totals[0];
    total.squares = totals[1];
    struct moments moments = moments_of(mean, total, args.one_over_size, norm->eps);
    if (!present)
        return;
    if (threadIdx.x % division->team == 0) {
        struct kept_moments kept = {moments.mean + moments.mean_rest, moments.inverse_deviation};
        norm->moments[row * norm->groups + group] = kept;
    }
    for (int part = 0; part < parts; part++) {
        struct gradient_row place = place_of(&args, read_row, first + part);
        if (parts > 1)
            load_before(value, norm, &place);
        normalise_values(value, norm, moments, &place);
    }
}

LAUNCHER(norm_keeping_kernel, struct norm_keeping_args)

cudaError_t norm_keeping(const struct kept_norm *norm, cudaStream_t stream) {
    bool aligned = is_aligned_16(norm->v) && is_aligned_16(norm->y) &&
                   vectors_are_aligned(norm->scale, norm->shift, &norm->before, &norm->after);
    struct division division = division_of(norm->channels, norm->groups, aligned);
    int64_t strips = tiles(division.groups * division.team, division.across);
    struct norm_keeping_args args = {*norm, division, strips, 1.0f / division.group_size};
    dim3 block = {(unsigned)division.across, (unsigned)rows_at_once(&division), 1};
    dim3 grid = {(unsigned)(strips * tiles(norm->batch, block.y)), 1, 1};
    return launch_norm_keeping_kernel(grid, block, 0, stream, args);
}
