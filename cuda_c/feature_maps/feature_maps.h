/* GroupNorm of feature maps: y = after(GroupNorm(before(v))), where a channel has many positions.
 *
 * A convolution makes v of shape (batch, channels, positions), for any number of dimensions of positions. In
 * memory either a channel's positions are adjacent (group_norm_nchw.cu) or a position's channels are
 * (group_norm_nhwc.cu and group_norm_nhwc_apart.cu: torch's channels_last). This file has what all kernels
 * share: a thread works on a slot of VALUES values at a time, and keeps them in shared memory until the
 * moments of their group are known. launch.h has the host's side. */
#pragma once

#include "jit/jit.h"
#include "norm/operators_called.h"
#include "ptx/cluster.h"
#include "ptx/griddepcontrol.h"

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
    int threads;    /* of a block */
    int width;      /* neighbours in a vector: VALUES, or 1 where those have no common alignment */
    int cluster;    /* blocks that reach each other's shared memory */
    int sharers;    /* blocks that share their groups: a cluster, or several (group_norm_nhwc_apart.cu) */
    int slots;      /* of a thread, a vector in each */
    int held_slots; /* of them in shared memory; the others are read again, from a cache */
    int held_at;    /* where those begin in shared memory */
    int halves;     /* of a slot there, 16 bytes each for a thread */
    bool holds_u;   /* u = before(v) in float32; else v as it is in memory */
    int bundle;     /* groups of a block (nhwc.h) */
    bool is_second; /* of two launches */
    float4 *parts;  /* the moments that the first one finds: of each sample, cluster and group */
};

/* What is the same in all calls of a kernel that is compiled for one (jit/jit.h). */
struct maps_facts {
    int type, vector_type, channels, groups, positions;
    int keeps, has_scale, has_shift;
    int before_samples, after_samples;
    /* as struct maps_args has them: */
    int threads, width, cluster, sharers, slots, held_slots, held_at, halves, holds_u, bundle, is_second;
    struct known_list before, after;
};

/* This many blocks of THREADS threads share the shared memory of a large GPU's multiprocessor, so that others
 * run while one waits for its cluster. */
#define BLOCKS_AT_ONCE 3

#ifdef JIT_COMPILED

static constexpr __device__ struct maps_facts known = FACTS;

/* The arguments of this call, with what is known as constants. */
static __forceinline__ __device__ struct maps_args known_maps(struct maps_args args) {
    struct feature_maps *maps = &args.maps;
    maps->type = (fgn_type)known.type;
    maps->vector_type = (fgn_type)known.vector_type;
    maps->channels = known.channels;
    maps->groups = known.groups;
    maps->positions = known.positions;
    maps->before_samples = known.before_samples;
    maps->after_samples = known.after_samples;
    if (!known.keeps)
        maps->between = NULL;
    if (!known.has_scale)
        maps->scale = NULL;
    if (!known.has_shift)
        maps->shift = NULL;
    args.threads = known.threads;
    args.width = known.width;
    args.cluster = known.cluster;
    args.sharers = known.sharers;
    args.slots = known.slots;
    args.held_slots = known.held_slots;
    args.held_at = known.held_at;
    args.halves = known.halves;
    args.holds_u = known.holds_u != 0;
    args.bundle = known.bundle;
    args.is_second = known.is_second != 0;
    return args;
}

#include "jit/known.h"

#endif

/* The most elements of a group. */
#define MOST_OF_GROUP (1 << 30)

/* How many slots a thread loads ahead. The library's own kernels have few registers left. */
#ifdef JIT_COMPILED
enum { SLOTS_ON_THEIR_WAY = known.slots < 4 ? known.slots : 4 };
#else
enum { SLOTS_ON_THEIR_WAY = 2 };
#endif

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

static __forceinline__ __device__ void apply_to_map(const struct operators *list, enum list which,
                                                    unsigned samples, float *value,
                                                    const struct feature_maps *maps,
                                                    const struct map_place *place, bool channels_last) {
#pragma unroll STEPS_AT_ONCE
    for (int i = 0; i < count_of(list, which); i++) {
        const fgn_pointwise step = step_of(list, which, i);
        float operand[VALUES];
        if (is_kind(&step, FGN_SILU)) { /* what most networks of feature maps have: no call */
            apply_to_each(silu, value, VALUES);
            continue;
        }
        if (step.tensor)
            load_values(operand, step.tensor, place->row.row_start, &place->row.channels, place->row.type);
        else if (step.channel)
            load_of_channels(operand, step.channel, samples >> i & 1 ? place->sample * maps->channels : 0,
                             0.0f, place, channels_last);
        apply_called(&step, value, operand);
        end_step(value, VALUES);
    }
}

/* The thread's own places in shared memory. The halves of a slot are far apart, so that a warp's accesses are
 * contiguous. */
static __forceinline__ __device__ uint4 *held_slot(const struct maps_args *args, int slot) {
    return (uint4 *)(dynamic_shared + args->held_at) + slot * args->halves * args->threads + threadIdx.x;
}

static __forceinline__ __device__ void hold(const struct maps_args *args, int slot, const struct words *words,
                                            const float *value) {
    uint4 *held = held_slot(args, slot);
    struct words kept = *words;
    if (args->holds_u)
#pragma unroll
        for (int j = 0; j < VALUES; j++)
            kept.word[j] = __float_as_uint(value[j]);
    held[0] = make_uint4(kept.word[0], kept.word[1], kept.word[2], kept.word[3]);
    if (args->halves > 1)
        held[args->threads] = make_uint4(kept.word[4], kept.word[5], kept.word[6], kept.word[7]);
}

static __forceinline__ __device__ void take(struct words *words, const struct maps_args *args, int slot) {
    const uint4 *held = held_slot(args, slot);
    uint4 low = held[0], high = args->halves > 1 ? held[args->threads] : low;
    words->word[0] = low.x, words->word[1] = low.y, words->word[2] = low.z, words->word[3] = low.w;
    words->word[4] = high.x, words->word[5] = high.y, words->word[6] = high.z, words->word[7] = high.w;
}

/* u = before(v) of a slot; `words` are v's. */
static __forceinline__ __device__ void values_between(float *value, const struct words *words,
                                                      const struct feature_maps *maps,
                                                      const struct map_place *place, fgn_type type,
                                                      bool channels_last) {
    values_of(value, words, &place->row.channels, type);
    apply_to_map(&maps->before, BEFORE, maps->before_samples, value, maps, place, channels_last);
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
        hold(args, slot, words, value);
}

/* u of a slot again: from shared memory, or from words that were loaded again. */
static __forceinline__ __device__ void values_again(float *value, struct words *words,
                                                    const struct maps_args *args, int slot,
                                                    const struct map_place *place, fgn_type type,
                                                    bool channels_last) {
    if (slot < args->held_slots) {
        take(words, args, slot);
        if (args->holds_u) {
#pragma unroll
            for (int j = 0; j < VALUES; j++)
                value[j] = __uint_as_float(words->word[j]);
            return;
        }
    }
    values_between(value, words, &args->maps, place, type, channels_last);
}

/* y of a slot whose values are normalised and scaled. */
static __forceinline__ __device__ void store_y(float *value, const struct feature_maps *maps,
                                               const struct map_place *place, fgn_type type,
                                               bool channels_last) {
    apply_to_map(&maps->after, AFTER, maps->after_samples, value, maps, place, channels_last);
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
