/* GroupNorm of feature maps: y = after(GroupNorm(before(v))), where a channel has many positions.
 *
 * A convolution makes v of shape (batch, channels, positions), for any number of dimensions of positions. In
 * memory either a channel's positions are adjacent (group_norm_nchw.cu) or a position's channels are
 * (group_norm_nhwc.cu: torch's channels_last). This file has what both kernels share: a thread works on a
 * slot of VALUES values at a time, and keeps them in shared memory until the moments of their group are
 * known. */
#pragma once

#include "norm/operators_called.h"
#include "ptx/cluster.h"
#include "shared/checks.h"
#include "shared/plan.h"

struct feature_maps {
    const void *v;
    void *y;
    void *between; /* before(v), as v, or NULL */
    fgn_type type;
    fgn_type vector_type;
    const void *scale; /* (channels,) or NULL for ones */
    const void *shift; /* (channels,) or NULL for zeros */
    float eps;
    int64_t batch;
    int channels;
    int groups;
    int64_t positions;
    struct operators before;
    struct operators after;
    unsigned before_samples; /* bit i: the vector of step i is (batch, channels), one for each sample */
    unsigned after_samples;
};

struct maps_args {
    struct feature_maps maps;
    int width;      /* neighbours in a vector: VALUES, or 1 where those have no common alignment */
    int cluster;    /* blocks that share their groups */
    int slots;      /* of a thread, a vector in each */
    int held_slots; /* of them in shared memory; the others are read again, from a cache */
    int held_at;    /* where those begin in shared memory */
    int bundle;     /* groups of a block (group_norm_nhwc.cu) */
};

/* The most elements of a group; and how many slots a thread loads ahead. */
#define MOST_OF_GROUP (1 << 30)
#define SLOTS_ON_THEIR_WAY 2

#define MOST_CLUSTER_OF_MAPS 8

/* Where the thread's vector of a slot is, and its values' channels. With channels_last these are neighbours,
 * from `channel` on; otherwise the first `border` values have `channel`, and the others the next one.
 */
struct map_place {
    struct gradient_row row;
    int channel;
    int border;
    int64_t sample;
};

static __forceinline__ __device__ struct map_place place_at(const struct feature_maps *maps, int64_t element,
                                                            bool present, int width, fgn_type type) {
    struct map_place place;
    place.row.channels.first = 0;
    place.row.channels.team = 1;
    place.row.channels.width = width;
    place.row.channels.count = present ? width : 0;
    place.row.row_start = element;
    place.row.type = type;
    place.row.vector_type = maps->vector_type;
    place.row.only_common = false;
    return place;
}

/* Looks up a vector of channels for the thread's values; `otherwise` where there is none. */
static __forceinline__ __device__ void load_of_channels(float *operand, const void *vector, int64_t first,
                                                        float otherwise, const struct map_place *place,
                                                        bool channels_last) {
    const struct gradient_row *row = &place->row;
    int width = row->channels.width;
    if (!vector) {
#pragma unroll
        for (int j = 0; j < VALUES; j++)
            operand[j] = otherwise;
    } else if (channels_last) {
        const struct channels channels = {place->channel, 1, width, width};
        const char *from = (const char *)vector + first * (row->vector_type == FGN_FLOAT32 ? 4 : 2);
        load_channels(operand, from, &channels, row->vector_type, row->type);
    } else {
        float of_first = element_at(vector, first + place->channel, row->vector_type);
#pragma unroll
        for (int j = 0; j < VALUES; j++)
            operand[j] = of_first;
        if (place->border < width) {
            float of_next = element_at(vector, first + place->channel + 1, row->vector_type);
#pragma unroll
            for (int j = 1; j < VALUES; j++)
                operand[j] = j < place->border ? of_first : of_next;
        }
    }
}

static __forceinline__ __device__ void apply_to_map(const struct operators *list, unsigned samples,
                                                    float *value, const struct feature_maps *maps,
                                                    const struct map_place *place, bool channels_last) {
#pragma unroll 1
    for (int i = 0; i < list->count; i++) {
        const fgn_pointwise *step = &list->step[i];
        float operand[VALUES];
        if (is_kind(step, FGN_SILU)) { /* what most networks of feature maps have: no call */
            apply_to_each(silu, value, VALUES);
            continue;
        }
        if (step->tensor)
            load_values(operand, step->tensor, place->row.row_start, &place->row.channels, place->row.type);
        else if (step->channel)
            load_of_channels(operand, step->channel, samples >> i & 1 ? place->sample * maps->channels : 0,
                             0.0f, place, channels_last);
        apply_called(step, value, operand);
    }
}

/* The thread's own places in shared memory. The halves of a slot are far apart, so that a warp's accesses are
 * contiguous. */
static __forceinline__ __device__ float4 *held_slot(const struct maps_args *args, int slot) {
    return (float4 *)(dynamic_shared + args->held_at) + slot * 2 * blockDim.x + threadIdx.x;
}

static __forceinline__ __device__ void hold(const struct maps_args *args, int slot, const float *value) {
    float4 *held = held_slot(args, slot);
    held[0] = make_float4(value[0], value[1], value[2], value[3]);
    held[blockDim.x] = make_float4(value[4], value[5], value[6], value[7]);
}

/* u = before(v) of a slot that is not in shared memory; `words` are loaded from v. */
static __forceinline__ __device__ void values_between(float *value, const struct words *words,
                                                      const struct feature_maps *maps,
                                                      const struct map_place *place, fgn_type type,
                                                      bool channels_last) {
    values_of(value, words, &place->row.channels, type);
    apply_to_map(&maps->before, maps->before_samples, value, maps, place, channels_last);
}

/* Computes u of a slot, writes it if that is wanted, and keeps it. */
static __forceinline__ __device__ void first_values(float *value, const struct words *words,
                                                    const struct maps_args *args, int slot,
                                                    const struct map_place *place, fgn_type type,
                                                    bool channels_last) {
    values_between(value, words, &args->maps, place, type, channels_last);
    if (args->maps.between)
        store_values(args->maps.between, place->row.row_start, value, &place->row.channels, type);
    if (slot < args->held_slots)
        hold(args, slot, value);
}

/* u of a slot again: from shared memory, or from words that were loaded again. */
static __forceinline__ __device__ void values_again(float *value, const struct words *words,
                                                    const struct maps_args *args, int slot,
                                                    const struct map_place *place, fgn_type type,
                                                    bool channels_last) {
    if (slot >= args->held_slots) {
        values_between(value, words, &args->maps, place, type, channels_last);
        return;
    }
    float4 *held = held_slot(args, slot);
    float4 low = held[0], high = held[blockDim.x];
    value[0] = low.x, value[1] = low.y, value[2] = low.z, value[3] = low.w;
    value[4] = high.x, value[5] = high.y, value[6] = high.z, value[7] = high.w;
}

/* y of a slot whose values are normalised and scaled. */
static __forceinline__ __device__ void store_y(float *value, const struct feature_maps *maps,
                                               const struct map_place *place, fgn_type type,
                                               bool channels_last) {
    apply_to_map(&maps->after, maps->after_samples, value, maps, place, channels_last);
    store_values(maps->y, place->row.row_start, value, &place->row.channels, type);
}

/* ---- Moments ----
 *
 * One pass over a group's values: the moments of two parts give those of the whole. Chan, Golub & LeVeque,
 * "Updating formulae and a pairwise algorithm for computing sample variances" (1979). Unlike E[x^2] - E[x]^2,
 * this does not subtract large numbers from each other. */

struct part {
    float count;
    float mean;
    float squares; /* the sum of (value - mean)^2 */
};

static __forceinline__ __device__ struct part both(struct part a, struct part b) {
    struct part all;
    all.count = a.count + b.count;
    float share = all.count > 0.0f ? b.count * fast_reciprocal(all.count) : 0.0f, delta = b.mean - a.mean;
    all.mean = a.mean + delta * share;
    all.squares = a.squares + b.squares + delta * (a.count * share) * delta;
    return all;
}

/* The moments of all lanes of the warp, in lane 0. */
static __forceinline__ __device__ struct part all_of_warp(struct part part) {
#pragma unroll 1
    for (int distance = 1; distance < LANES; distance *= 2) {
        struct part other = {__shfl_xor_sync(0xffffffffu, part.count, distance),
                             __shfl_xor_sync(0xffffffffu, part.mean, distance),
                             __shfl_xor_sync(0xffffffffu, part.squares, distance)};
        part = both(part, other);
    }
    return part;
}

static __forceinline__ __device__ float4 told_of(struct part part) {
    return make_float4(part.count, part.mean, part.squares, 0.0f);
}

/* Combines what the cluster's blocks have stored at the same place, in lane 0 of the calling warp. */
static __forceinline__ __device__ struct part all_of_cluster(const float4 *told, int cluster) {
    struct part part = {0.0f, 0.0f, 0.0f};
    int rank = threadIdx.x % LANES;
    if (rank < cluster) {
        float4 of_block = cluster > 1 ? ld_shared_cluster_v4((const float *)told, rank) : *told;
        part.count = of_block.x;
        part.mean = of_block.y;
        part.squares = of_block.z;
    }
    return all_of_warp(part);
}

/* 1 / deviation. */
static __forceinline__ __device__ float inverse_deviation_of(struct part all, float eps) {
    return rsqrtf(all.squares / all.count + eps);
}

static __forceinline__ __device__ void barrier_of(int cluster) {
    if (cluster > 1)
        barrier_cluster();
    else
        __syncthreads();
}

/* ---- The host ---- */

/* This many blocks of THREADS threads share the shared memory of a large GPU's multiprocessor, so that others
 * run while one waits for its cluster. */
#define BLOCKS_AT_ONCE 3

/* Divides the elements of a block's groups among the blocks of a cluster, and sets what they hold. blocks:
 * for a cluster of one. per_slot: the elements that a block has in one slot. */
static inline void divide_among_cluster(struct maps_args *args, int64_t blocks, int64_t elements,
                                        int64_t per_slot, int threads, const fgn_device *device) {
    int64_t most = most_shared_bytes(device) / BLOCKS_AT_ONCE - args->held_at;
    int64_t slot_bytes = threads * VALUES * sizeof(float);
    bool has_clusters = is_simulator(device) || device->major >= 9;
    args->cluster = 1;
    while (has_clusters && args->cluster < MOST_CLUSTER_OF_MAPS) {
        int64_t slots = tiles(elements, per_slot * args->cluster);
        bool idle = slots > 2 && blocks * args->cluster < BLOCKS_AT_ONCE * MULTIPROCESSORS;
        if (!idle && slots * slot_bytes <= most)
            break;
        args->cluster *= 2;
    }
    args->slots = (int)tiles(elements, per_slot * args->cluster);
    args->held_slots = (int)(args->slots * slot_bytes <= most ? args->slots : most / slot_bytes);
}

static inline int shared_bytes_of_maps(const struct maps_args *args, int threads) {
    return args->held_at + args->held_slots * threads * VALUES * (int)sizeof(float);
}

/* Each one launches its kernel and returns the launch's error. */
cudaError_t group_norm_nchw(const struct feature_maps *maps, const fgn_device *device, cudaStream_t stream);
cudaError_t group_norm_nhwc(const struct feature_maps *maps, const fgn_device *device, cudaStream_t stream);

/* Whether a block's threads have all channels of a group, which group_norm_nhwc() needs. */
bool has_bundles(const struct feature_maps *maps);
