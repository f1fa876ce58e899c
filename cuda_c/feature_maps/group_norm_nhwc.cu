/* GroupNorm of feature maps in one launch, where a position's channels lie side by side (NHWC, which torch
 * calls channels_last).
 *
 * Idea: as group_norm_nchw.cu, but a group is not contiguous: it has a few neighbouring channels of each
 * position. A memory sector is 32 bytes, but 10 channels of 16 bits are only 20. So a block takes a bundle of
 * adjacent groups, whose channels are whole vectors and at least 64 bytes. A thread has the same channels in
 * all its positions: it keeps the moments of each channel, and they are combined into those of groups once,
 * at the end.
 *
 * Bytes, operations and limit: as group_norm_nchw.cu. */
#include "feature_maps/feature_maps.h"
#include "sim/launchers.h"

#define MOST_OF_BUNDLE 64 /* groups */
#define FEWEST_BYTES 64   /* of a position's channels in a bundle; half of it where blocks would be few */

/* Shared memory has, in this order: each group's moments in this block, for the cluster; those in the whole
 * cluster; the mean and the squares of each thread's channels, and their number of values; the values that
 * are kept. */
#define KNOWN_AT (MOST_OF_BUNDLE * (int)sizeof(float4))
#define CHANNELS_AT (2 * KNOWN_AT)
#define COUNTS_AT (CHANNELS_AT + THREADS * VALUES * (int)sizeof(float2))
#define HELD_AT (COUNTS_AT + THREADS * (int)sizeof(float))

struct nhwc_place {
    int64_t sample;
    int bundle;     /* which of the sample's it is */
    int rank;       /* of the block in its cluster */
    int group_size; /* channels of a group */
    int channels;   /* of the bundle */
    int rows;       /* positions that the block has in a slot */
    int row;        /* the thread's of them; threads beyond the last row have none */
    int first;      /* the thread's first channel, of the bundle's */
};

/* In each slot a block has as many neighbouring positions as rows of threads. A thread has a vector of one
 * position. */
static __forceinline__ __device__ struct map_place
place_of_slot(const struct maps_args *args, const struct nhwc_place *at, int slot, int width, fgn_type type) {
    const struct feature_maps *maps = &args->maps;
    int position = (at->rank * args->slots + slot) * at->rows + at->row;
    bool present = slot < args->slots && at->row < at->rows && position < (int)maps->positions;
    int channel = at->bundle * at->channels + at->first;
    int64_t element = (at->sample * maps->positions + (present ? position : 0)) * maps->channels + channel;
    struct map_place place = place_at(maps, element, present, width, type);
    place.channel = channel;
    place.sample = at->sample;
    return place;
}

/* Loads the slots from `first` on, except those below `held`. */
static __forceinline__ __device__ void ask_for_slots(struct words *words, const struct maps_args *args,
                                                     const struct nhwc_place *at, int first, int held,
                                                     int width, fgn_type type) {
#pragma unroll
    for (int i = 0; i < SLOTS_ON_THEIR_WAY; i++) {
        struct map_place place = place_of_slot(args, at, first + i, width, type);
        if (first + i >= held)
            load_words(&words[i], args->maps.v, place.row.row_start, &place.row.channels, type);
    }
}

/* The group of the thread's value j, within the bundle. */
static __forceinline__ __device__ int group_of(const struct nhwc_place *at, int j, int width) {
    return (at->first + (j < width ? j : 0)) / at->group_size;
}

/* The mean and the sum of squared differences of each of the thread's channels. Returns how many values of
 * each it has seen. It adds one value at a time (Welford). */
static __forceinline__ __device__ float look(float *mean, float *squares, const struct maps_args *args,
                                             const struct nhwc_place *at, int width, fgn_type type) {
    float count = 0.0f;
#pragma unroll 1
    for (int first = 0; first < args->slots; first += SLOTS_ON_THEIR_WAY) {
        struct words words[SLOTS_ON_THEIR_WAY];
        ask_for_slots(words, args, at, first, 0, width, type);
#pragma unroll
        for (int i = 0; i < SLOTS_ON_THEIR_WAY; i++) {
            struct map_place place = place_of_slot(args, at, first + i, width, type);
            if (place.row.channels.count == 0)
                break;
            float value[VALUES];
            first_values(value, &words[i], args, first + i, &place, type, true);
            count += 1.0f;
            float share = fast_reciprocal(count);
#pragma unroll
            for (int j = 0; j < VALUES; j++) {
                float difference = value[j] - mean[j];
                mean[j] += difference * share;
                squares[j] += difference * (value[j] - mean[j]);
            }
        }
    }
    return count;
}

/* Tells the cluster the block's moments of each group of the bundle, which a warp gathers from all channels
 * and threads of the group. Then known[group] has the cluster's moments. */
static __forceinline__ __device__ void share(const float *mean, const float *squares, float count,
                                             const struct maps_args *args, const struct nhwc_place *at,
                                             int width) {
    float4 *told = (float4 *)dynamic_shared, *known = (float4 *)(dynamic_shared + KNOWN_AT);
    float2 *of_channels = (float2 *)(dynamic_shared + CHANNELS_AT);
    float *counts = (float *)(dynamic_shared + COUNTS_AT); /* of each row of threads */
    int warp = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    if (at->row < at->rows && at->first == 0)
        counts[at->row] = count;
#pragma unroll
    for (int j = 0; j < VALUES; j++)
        if (j < width && at->row < at->rows)
            of_channels[at->row * at->channels + at->first + j] = make_float2(mean[j], squares[j]);
    __syncthreads();
#pragma unroll 1
    for (int group = warp; group < args->bundle; group += WARPS) {
        struct part part = {0.0f, 0.0f, 0.0f};
#pragma unroll 1
        for (int i = lane; i < at->rows * at->group_size; i += LANES) {
            int row = i / at->group_size, channel = group * at->group_size + i - row * at->group_size;
            float2 of_channel = of_channels[row * at->channels + channel];
            struct part other = {counts[row], of_channel.x, of_channel.y};
            part = both(part, other);
        }
        part = all_of_warp(part);
        if (lane == 0)
            told[group] = told_of(part);
    }
    barrier_of(args->cluster);
#pragma unroll 1
    for (int group = warp; group < args->bundle; group += WARPS) {
        struct part part = all_of_cluster(&told[group], args->cluster);
        if (lane == 0)
            known[group] = make_float4(part.mean, inverse_deviation_of(part, args->maps.eps), 0.0f, 0.0f);
    }
    __syncthreads();
}

/* y = after((u - mean) * times + plus). */
static __forceinline__ __device__ void write_y(const float *mean, const float *times, const float *plus,
                                               const struct maps_args *args, const struct nhwc_place *at,
                                               int width, fgn_type type) {
#pragma unroll 1
    for (int first = 0; first < args->slots; first += SLOTS_ON_THEIR_WAY) {
        struct words words[SLOTS_ON_THEIR_WAY];
        ask_for_slots(words, args, at, first, args->held_slots, width, type);
#pragma unroll
        for (int i = 0; i < SLOTS_ON_THEIR_WAY; i++) {
            struct map_place place = place_of_slot(args, at, first + i, width, type);
            if (place.row.channels.count == 0)
                break;
            float value[VALUES];
            values_again(value, &words[i], args, first + i, &place, type, true);
#pragma unroll
            for (int j = 0; j < VALUES; j++)
                value[j] = (value[j] - mean[j]) * times[j] + plus[j];
            store_y(value, &args->maps, &place, type, true);
        }
    }
}

static __forceinline__ __device__ void norm_of_bundle(const struct maps_args *args, int width,
                                                      fgn_type type) {
    const struct feature_maps *maps = &args->maps;
    const float4 *known = (const float4 *)(dynamic_shared + KNOWN_AT);
    struct nhwc_place at;
    unsigned bundles = maps->groups / args->bundle, of_cluster = blockIdx.x / (unsigned)args->cluster;
    at.sample = of_cluster / bundles;
    at.bundle = (int)(of_cluster % bundles);
    at.rank = blockIdx.x % (unsigned)args->cluster;
    at.group_size = maps->channels / maps->groups;
    at.channels = at.group_size * args->bundle;
    int across = at.channels / width;
    at.rows = THREADS / across;
    at.row = threadIdx.x / across;
    at.first = threadIdx.x % across * width;
    float mean[VALUES] = {0.0f}, squares[VALUES] = {0.0f};
    float count = look(mean, squares, args, &at, width, type);
    share(mean, squares, count, args, &at, width);
    struct map_place place = place_of_slot(args, &at, 0, width, type);
    float times[VALUES], plus[VALUES];
    load_of_channels(times, maps->scale, 0, 1.0f, &place, true);
    load_of_channels(plus, maps->shift, 0, 0.0f, &place, true);
#pragma unroll
    for (int j = 0; j < VALUES; j++) {
        float4 of_group = known[group_of(&at, j, width)];
        mean[j] = of_group.x;
        times[j] *= of_group.y;
    }
    write_y(mean, times, plus, args, &at, width, type);
    if (args->cluster > 1)
        barrier_cluster(); /* a block may not end while others read its shared memory */
}

#ifdef __CUDACC__

static __forceinline__ __device__ void norm_of_type(const struct maps_args *args, fgn_type type) {
    if (args->width == VALUES)
        norm_of_bundle(args, VALUES, type);
    else
        norm_of_bundle(args, 1, type);
}

#else

/* On the simulator all kernels share one copy of the code, which is compiled once. */
static CALLED __device__ void norm_of_type(const struct maps_args *args, fgn_type type) {
    norm_of_bundle(args, args->width, type);
}

#endif

__global__ void __launch_bounds__(THREADS, 3) nhwc_float32_kernel(struct maps_args args) {
    norm_of_type(&args, FGN_FLOAT32);
}

__global__ void __launch_bounds__(THREADS, 3) nhwc_float16_kernel(struct maps_args args) {
    norm_of_type(&args, FGN_FLOAT16);
}

__global__ void __launch_bounds__(THREADS, 3) nhwc_bfloat16_kernel(struct maps_args args) {
    norm_of_type(&args, FGN_BFLOAT16);
}

CLUSTER_LAUNCHER(nhwc_float32_kernel, struct maps_args)
CLUSTER_LAUNCHER(nhwc_float16_kernel, struct maps_args)
CLUSTER_LAUNCHER(nhwc_bfloat16_kernel, struct maps_args)

/* ---- The host ---- */

/* Sets the groups of a bundle and the width of its vectors. It takes the smallest bundle of whole vectors
 * that is wide enough, else the widest of whole vectors, else one of single elements. 0 if none fits a
 * block. */
static struct maps_args bundle_of(const struct feature_maps *maps) {
    struct maps_args args = {*maps, 1, 1, 1, 1, HELD_AT, 0};
    bool aligned = is_aligned_16(maps->v) && is_aligned_16(maps->y) && is_aligned_16(maps->between) &&
                   vectors_are_aligned(maps->scale, maps->shift, &maps->before, &maps->after) &&
                   maps->channels % VALUES == 0;
    int size = maps->channels / maps->groups;
    for (int bundle = 1; bundle <= maps->groups && bundle <= MOST_OF_BUNDLE; bundle++) {
        int channels = bundle * size, width = aligned && channels % VALUES == 0 ? VALUES : 1;
        if (maps->groups % bundle != 0 || channels / width > THREADS || width < args.width)
            continue;
        args.bundle = bundle;
        args.width = width;
        int64_t bytes = channels * element_bytes(maps->type);
        int64_t blocks = maps->batch * (maps->groups / bundle) * MOST_CLUSTER_OF_MAPS;
        if (width == VALUES && bytes >= (blocks < 2 * MULTIPROCESSORS ? FEWEST_BYTES / 2 : FEWEST_BYTES))
            break;
    }
    return args;
}

bool has_bundles(const struct feature_maps *maps) {
    return bundle_of(maps).bundle > 0;
}

cudaError_t group_norm_nhwc(const struct feature_maps *maps, const fgn_device *device, cudaStream_t stream) {
    static bool allowed[3][MOST_DEVICES];
    static const void *const kernels[] = {(const void *)nhwc_float32_kernel,
                                          (const void *)nhwc_float16_kernel,
                                          (const void *)nhwc_bfloat16_kernel};
    static cudaError_t (*const launch[])(dim3, dim3, size_t, cudaStream_t, int, struct maps_args) = {
        launch_nhwc_float32_kernel, launch_nhwc_float16_kernel, launch_nhwc_bfloat16_kernel};
    struct maps_args args = bundle_of(maps);
    int across = maps->channels / maps->groups * args.bundle / args.width;
    int64_t bundles = maps->batch * (maps->groups / args.bundle);
    divide_among_cluster(&args, bundles, maps->positions, THREADS / across, THREADS, device);
    cudaError_t error = allow_shared_memory(kernels[maps->type], device, allowed[maps->type]);
    if (error != cudaSuccess)
        return error;
    const dim3 grid = {(unsigned)(bundles * args.cluster), 1, 1}, block = {THREADS, 1, 1};
    return launch[maps->type](grid, block, shared_bytes_of_maps(&args, THREADS), stream, args.cluster, args);
}
