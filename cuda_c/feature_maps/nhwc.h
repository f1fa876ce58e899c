/* What the kernels of feature maps with a position's channels side by side share (NHWC, channels_last): the
 * place of a thread, its look at the values, the moments of groups, and the way back.
 *
 * A group is not contiguous: it has a few neighbouring channels of each position. So a block takes a bundle
 * of adjacent groups, whose channels are whole vectors, in some of the positions. A thread has the same
 * channels in all its positions: it keeps the moments of each channel, and they are combined into those of
 * groups once, at the end. */
#pragma once

#include "feature_maps/feature_maps.h"

#define MOST_OF_BUNDLE 64 /* groups */

/* Shared memory has, in this order: each group's moments in this block, for the cluster; those in the whole
 * cluster; the mean and the squares of each thread's channels, and their number of values; the values that
 * are kept. */
#define FOUND_AT (MOST_OF_BUNDLE * (int)sizeof(float4))
#define CHANNELS_AT (2 * FOUND_AT)
#define COUNTS_AT (CHANNELS_AT + THREADS * VALUES * (int)sizeof(float2))
#define HELD_AT (COUNTS_AT + THREADS * (int)sizeof(float))

struct nhwc_place {
    int64_t sample;
    int bundle;     /* which of the sample's it is */
    int rank;       /* of the block among those that share the bundle */
    int group_size; /* channels of a group */
    int channels;   /* of the bundle */
    int rows;       /* positions that the block has in a slot */
    int row;        /* the thread's of them; threads beyond the last row have none */
    int first;      /* the thread's first channel, of the bundle's */
};

static __forceinline__ __device__ struct nhwc_place place_of_block(const struct maps_args *args, int width) {
    const struct feature_maps *maps = &args->maps;
    struct nhwc_place at;
    unsigned bundles = maps->groups / args->bundle, of_bundle = blockIdx.x / (unsigned)args->sharers;
    at.sample = of_bundle / bundles;
    at.bundle = (int)(of_bundle % bundles);
    at.rank = blockIdx.x % (unsigned)args->sharers;
    at.group_size = maps->channels / maps->groups;
    at.channels = at.group_size * args->bundle;
    int across = at.channels / width;
    at.rows = THREADS / across;
    at.row = threadIdx.x / across;
    at.first = threadIdx.x % across * width;
    return at;
}

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
 * and threads of the group: first the mean, then the squared differences from it. */
static __forceinline__ __device__ void tell(const float *mean, const float *squares, float count,
                                            const struct maps_args *args, const struct nhwc_place *at,
                                            int width) {
    float4 *told = (float4 *)dynamic_shared;
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
        const float2 *of_group = of_channels + group * at->group_size;
        int size = at->group_size, all = at->rows * size;
        /* Differences from the first mean are added: equal values have exactly that mean. */
        float first = of_group[0].x;
        float sums[2] = {0.0f, 0.0f}; /* of the counts, and of the differences */
#pragma unroll 4
        for (int i = lane; i < all; i += LANES) {
            float of_row = counts[i / size];
            sums[0] += of_row;
            sums[1] += of_row * (of_group[i / size * at->channels + i % size].x - first);
        }
        team_sums(sums, 2, LANES);
        struct part part = {sums[0], sums[0] > 0.0f ? first + sums[1] / sums[0] : 0.0f, 0.0f};
#pragma unroll 4
        for (int i = lane; i < all; i += LANES) {
            float2 of_channel = of_group[i / size * at->channels + i % size];
            float difference = of_channel.x - part.mean;
            part.squares += of_channel.y + counts[i / size] * difference * difference;
        }
        part.squares = team_sum(part.squares, LANES);
        if (lane == 0)
            told[group] = told_of(part);
    }
    barrier_of(args->cluster);
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

/* The scale and the shift of the thread's channels. */
struct scale_and_shift {
    float scale[VALUES], shift[VALUES];
};

/* A block asks for them before it looks at the values, so that it need not wait for them afterwards. */
static __forceinline__ __device__ struct scale_and_shift
ask_for_scale_and_shift(const struct maps_args *args, const struct nhwc_place *at, int width, fgn_type type) {
    struct map_place place = place_of_slot(args, at, 0, width, type);
    struct scale_and_shift of;
    load_of_channels(of.scale, args->maps.scale, 0, 1.0f, &place, true);
    load_of_channels(of.shift, args->maps.shift, 0, 0.0f, &place, true);
    return of;
}

/* y = after((u - mean) / deviation * scale + shift), with each group's mean and 1 / deviation in `found`. */
static __forceinline__ __device__ void normalise(const float4 *found, struct scale_and_shift of,
                                                 const struct maps_args *args, const struct nhwc_place *at,
                                                 int width, fgn_type type) {
    float mean[VALUES];
#pragma unroll
    for (int j = 0; j < VALUES; j++) {
        float4 of_group = found[group_of(at, j, width)];
        mean[j] = of_group.x;
        of.scale[j] *= of_group.y;
    }
    write_y(mean, of.scale, of.shift, args, at, width, type);
}

static __forceinline__ __device__ float4 found_of(struct part part, float eps) {
    return make_float4(part.mean, inverse_deviation_of(part, eps), 0.0f, 0.0f);
}
