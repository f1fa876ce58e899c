/* What follows the product of few rows: bias, operators, GroupNorm, operators, and y in its own type.
 *
 * A team of threads takes a group of one row: in the product's kernel if its blocks hold whole groups,
 * otherwise in a second, small kernel. Groups of 4, 8, ... up to 128 channels are in the lanes' registers,
 * four channels per lane; other groups are in shared memory.
 *
 * This code runs once in a launch, and small problems wait until it is fetched from memory. So it is short,
 * and loops are not unrolled. */
#pragma once

#include "shared/element.h"
#include "shared/rung.h"
#include "shared/moments.h"
#include "shared/apply_operators.h"
#include "ptx/cluster.h"
#include "ptx/cp_async.h"
#include "ptx/griddepcontrol.h"
#include "ptx/mma.h"
#include "sim/launchers.h"
#include "shared/team.h"

/* How many values a thread works on at once. */
#define FOUR 4

/* The most channels of a group that a warp ends; a block ends larger ones. */
#define LARGEST_WARP_GROUP 128

/* The places of the parameter vectors: bias, the norm's scale and shift, and one for each operator before and
 * after the norm, even if that operator has no vector. */
enum vector_number { BIAS, SCALE, SHIFT, FIRST_OPERAND };

#define MOST_VECTORS (FIRST_OPERAND + 2 * FGN_MAX_POINTWISE)

static inline int vector_places_of(const fgn_chain *chain) {
    return FIRST_OPERAND + chain->before_count + chain->after_count;
}

struct ending {
    const void *from[MOST_VECTORS]; /* each (channels,) or NULL, see enum vector_number */
    uint32_t ones;                  /* bit i: from[i] is one element, for all channels */
    int vectors;                    /* places of `from` that may be used */
    fgn_type vector_type;
    bool direct; /* vectors are float32 and read where they are */
    struct operators before;
    struct group_norm norm; /* its x and y are not used; groups 0: no norm */
    void *y;                /* (batch, channels) */
    fgn_type type;
    bool aligned_y; /* fours of y are */
    bool fours;     /* channels and groups come in fours */
    int size;       /* the channels that a team ends together: a group, or without a norm what a lane does */
    int lane_log2;  /* 1 << lane_log2: the lanes for a group, four channels each */
    float one_over_size;
};

/* Whether lanes hold their group in registers, four channels each. */
static inline __host__ __device__ bool lanes_hold_group(const struct ending *ending) {
    return ending->fours && ending->size <= LARGEST_WARP_GROUP;
}

static inline bool is_aligned_for_four(const void *y) {
    return (uintptr_t)y % (FOUR * sizeof(float)) == 0;
}

static inline void add_operand(struct ending *ending, int place, const fgn_pointwise *step) {
    ending->from[place] = step->channel;
    ending->ones |= (uint32_t)(takes_channel(step) && step->one) << place;
}

static struct ending ending_of(const fgn_chain *chain, void *y) {
    const struct condition always = {NULL, NULL, false};
    struct ending ending;
    memset(&ending, 0, sizeof ending);
    ending.from[BIAS] = chain->bias;
    ending.from[SCALE] = chain->norm_scale;
    ending.from[SHIFT] = chain->norm_shift;
    int place = FIRST_OPERAND;
    for (int i = 0; i < chain->before_count; i++)
        add_operand(&ending, place++, &chain->before[i]);
    for (int i = 0; i < chain->after_count; i++)
        add_operand(&ending, place++, &chain->after[i]);
    ending.vectors = vector_places_of(chain);
    ending.vector_type = chain->vector_type;
    ending.before = operators_before(chain);
    ending.norm = norm_of(chain, NULL, NULL, chain->type, always);
    ending.y = y;
    ending.type = chain->type;
    ending.aligned_y = is_aligned_for_four(y);
    if (chain->groups > 0)
        ending.size = (int)group_size_of(chain);
    else
        ending.size = chain->out_features % FOUR == 0 ? FOUR : 1;
    ending.fours = ending.size % FOUR == 0;
    ending.lane_log2 = log2_of(power_of_two_above(tiles(ending.size, FOUR), LANES));
    ending.one_over_size = 1.0f / ending.size;
    return ending;
}

/* ---- The vectors of parameters ---- */

/* For each vector a block keeps in shared memory a pointer, from which it reads values by channel (NULL: no
 * such vector), and the values as floats. */
static inline __host__ __device__ int loaded_vector_bytes(int vectors, int channels) {
    return (int)(MOST_VECTORS * sizeof(const float *) + 15) / 16 * 16 +
           vectors * channels * (int)sizeof(float);
}

/* Writes down where each vector's values are, from channel `first` on. */
static inline __device__ void point_to_vectors(const struct ending *ending, unsigned char *memory,
                                               int64_t first, int count) {
    const float **vector = (const float **)memory;
    const float *loaded = (const float *)(memory + loaded_vector_bytes(0, 0));
    if (threadIdx.x < MOST_VECTORS) {
        int number = threadIdx.x;
        bool is_there = number < ending->vectors && ending->from[number];
        const float *to =
            ending->direct ? (const float *)ending->from[number] : loaded + number * count - first;
        vector[number] = is_there ? to : NULL;
    }
}

/* This many vectors are read together, to wait for memory once. */
#define VECTORS_TOGETHER 8

/* A channel's place in a vector. */
static __forceinline__ __device__ int64_t place_in_vector(const struct ending *ending, int number,
                                                          int64_t channel) {
    return ending->ones >> number & 1 ? 0 : channel;
}

/* Reads a channel's elements of the first vectors, as they are in memory. */
static __forceinline__ __device__ void read_channel(uint32_t *bits, const struct ending *ending,
                                                    int64_t channel) {
#pragma unroll
    for (int i = 0; i < VECTORS_TOGETHER; i++)
        bits[i] = ending->from[i] ? element_bits(ending->from[i], place_in_vector(ending, i, channel),
                                                 ending->vector_type)
                                  : 0;
}

/* Stores them as floats, `count` apart, and loads those of further vectors. */
static __forceinline__ __device__ void keep_channel(float *loaded, const uint32_t *bits,
                                                    const struct ending *ending, int64_t channel, int count) {
#pragma unroll
    for (int i = 0; i < VECTORS_TOGETHER; i++)
        if (ending->from[i])
            loaded[i * count] = float_of_bits(bits[i], ending->vector_type);
#pragma unroll 1
    for (int i = VECTORS_TOGETHER; i < ending->vectors; i++)
        if (ending->from[i])
            loaded[i * count] =
                element_at(ending->from[i], place_in_vector(ending, i, channel), ending->vector_type);
}

/* Loads the vectors' values of `count` channels from `first` on, of any type. All threads of the block call
 * it, and synchronise before they read the values. */
static inline __device__ void load_vectors(const struct ending *ending, unsigned char *memory, int64_t first,
                                           int count) {
    float *loaded = (float *)(memory + loaded_vector_bytes(0, 0));
    point_to_vectors(ending, memory, first, count);
    if (ending->direct)
        return;
#pragma unroll 1
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
        uint32_t bits[VECTORS_TOGETHER];
        read_channel(bits, ending, first + i);
        keep_channel(loaded + i, bits, ending, first + i, count);
    }
}

/* Applies one operator of a list to `count` values. vector: the operator's channel vector, in shared memory.
 */
static __forceinline__ __device__ void apply_operator(const struct operators *list, const fgn_pointwise *step,
                                                      const float *vector, float *value, int count,
                                                      struct value_place at) {
    if (step->kind == FGN_ADD_TENSOR)
        add_tensor(list, step, value, count, at);
    else
        apply_operator_with(step, value, count, vector + at.channel, evenly_spaced, at.channel_step);
}

/* Applies the operators of a list. vector: the number of the first operator's vector. */
static __forceinline__ __device__ void apply_with_vectors(const struct operators *list,
                                                          const float *const *vector, float *value, int count,
                                                          struct value_place at) {
#pragma unroll 1
    for (int i = 0; i < list->count; i++)
        apply_operator(list, &list->step[i], vector[i], value, count, at);
}

/* ---- Before the norm ---- */

/* Loads a vector's values for `count` neighbours; `otherwise` if there is no such vector. */
static __forceinline__ __device__ void read_vector(float *value, const float *vector, int64_t channel,
                                                   int count, float otherwise) {
#pragma unroll
    for (int i = 0; i < count; i++)
        value[i] = vector ? vector[channel + i] : otherwise;
}

/* before(sum + bias) */
static __forceinline__ __device__ void begin_ending(const struct ending *ending, const float *const *vector,
                                                    float *value, int count, struct value_place at) {
    const float *bias = vector[BIAS];
    if (bias) {
#pragma unroll
        for (int i = 0; i < count; i++)
            value[i] += bias[at.channel + i * at.channel_step];
    }
    apply_with_vectors(&ending->before, vector + FIRST_OPERAND, value, count, at);
}

/* Neighbours in one row. */
static __forceinline__ __device__ struct value_place in_row(const struct ending *ending, int64_t row,
                                                            int64_t channel) {
    struct value_place at = {row, channel, 0, 1, ending->norm.batch};
    return at;
}

/* ---- The norm and what follows it ---- */

/* Applies scale and shift, or 1 and 0 without an affine part, and the operators after the norm. */
static __forceinline__ __device__ void end_normalised(const struct ending *ending, const float *const *vector,
                                                      float *value, int count, struct value_place at) {
    const float *scale = vector[SCALE], *shift = vector[SHIFT];
#pragma unroll
    for (int i = 0; i < count; i++) {
        int64_t channel = at.channel + i * at.channel_step;
        value[i] = value[i] * (scale ? scale[channel] : 1.0f) + (shift ? shift[channel] : 0.0f);
    }
    apply_with_vectors(&ending->norm.after, vector + FIRST_OPERAND + ending->before.count, value, count, at);
}

/* The threads that work on one group: lanes of a warp, or all threads of a block. */
struct members {
    int member;
    int log2;            /* there are 1 << log2 of them */
    float (*of_warp)[2]; /* shared memory, two floats for each warp; of a block only */
};

/* Adds two values over the members. */
static inline __device__ void sums_of_members(float *v, const struct members *team) {
    int count = 1 << team->log2;
    team_sums(v, 2, count < LANES ? count : LANES);
    if (count <= LANES)
        return;
    __syncthreads(); /* the sums before have been read */
    if (team->member % LANES == 0) {
        team->of_warp[team->member / LANES][0] = v[0];
        team->of_warp[team->member / LANES][1] = v[1];
    }
    __syncthreads();
    v[0] = v[1] = 0.0f;
#pragma unroll 1
    for (int warp = 0; warp < count / LANES; warp++) {
        v[0] += team->of_warp[warp][0];
        v[1] += team->of_warp[warp][1];
    }
}

/* Stores `count` neighbours, 4 aligned ones or 1. */
static __forceinline__ __device__ void read_values(float *value, const float *from, int count) {
    if (count == FOUR) {
        float4 four = *(const float4 *)from;
        value[0] = four.x;
        value[1] = four.y;
        value[2] = four.z;
        value[3] = four.w;
    } else {
        value[0] = *from;
    }
}

static __forceinline__ __device__ void write_values(float *to, const float *value, int count) {
    if (count == FOUR)
        *(float4 *)to = make_float4(value[0], value[1], value[2], value[3]);
    else
        *to = value[0];
}

static __forceinline__ __device__ uint32_t pair_of(float low, float high, fgn_type type) {
    return type == FGN_FLOAT16 ? float16_pair(low, high) : bfloat16_pair(low, high);
}

static __forceinline__ __device__ void write_y(const struct ending *ending, int64_t index, const float *value,
                                               int count) {
    if (count == FOUR && ending->aligned_y) {
        if (ending->type == FGN_FLOAT32)
            write_values((float *)ending->y + index, value, FOUR);
        else
            *(uint2 *)((uint16_t *)ending->y + index) = make_uint2(pair_of(value[0], value[1], ending->type),
                                                                   pair_of(value[2], value[3], ending->type));
        return;
    }
#pragma unroll
    for (int i = 0; i < count; i++)
        store_element(ending->y, index + i, value[i], ending->type);
}

/* The whole ending for groups in the lanes' registers: `v` has four channels of a row. All lanes of the warp
 * call this together; lanes without a part of a group are not `present`. */
static __forceinline__ __device__ void end_four(const struct ending *ending, const float *const *vector,
                                                float *v, bool present, int64_t row, int64_t channel) {
    const struct group_norm *norm = &ending->norm;
    int lanes = 1 << ending->lane_log2;
    if (present)
        begin_ending(ending, vector, v, FOUR, in_row(ending, row, channel));
    if (norm->groups > 0) {
        float pivot = __shfl_sync(0xffffffffu, v[0], threadIdx.x % LANES & ~(lanes - 1));
        float sum = present ? v[0] - pivot + (v[1] - pivot) + (v[2] - pivot + (v[3] - pivot)) : 0.0f;
        float mean = pivot + team_sum(sum, lanes) * ending->one_over_size;
        struct differences total = {0.0f, 0.0f};
#pragma unroll
        for (int i = 0; i < FOUR; i++)
            add_difference(&total, present ? v[i] - mean : 0.0f);
        float sums[2] = {total.sum, total.squares};
        team_sums(sums, 2, lanes);
        total.sum = sums[0];
        total.squares = sums[1];
        struct moments moments = moments_of(mean, total, ending->one_over_size, norm->eps);
        if (present) {
#pragma unroll
            for (int i = 0; i < FOUR; i++)
                v[i] = normalised(v[i], moments);
            end_normalised(ending, vector, v, FOUR, in_row(ending, row, channel));
        }
    }
    if (present)
        write_y(ending, row * norm->channels + channel, v, FOUR);
}

/* ---- Groups whose values are in shared memory ---- */

/* How many values a thread reads together: about as many as it has of most groups. */
#define VALUES_TOGETHER 8

/* Every member gets the moments of `size` adjacent values. A team without work has size 0 and still takes
 * part in the sums. */
static __forceinline__ __device__ struct moments
moments_of_values(const struct ending *ending, const float *value, int size, const struct members *team) {
    float pivot = size > 0 ? value[0] : 0.0f, sums[2] = {0.0f, 0.0f};
    int step = VALUES_TOGETHER << team->log2;
#pragma unroll 1
    for (int first = team->member; first < size; first += step) {
#pragma unroll
        for (int i = 0; i < VALUES_TOGETHER; i++)
            if (first + (i << team->log2) < size)
                sums[0] += value[first + (i << team->log2)] - pivot;
    }
    sums_of_members(sums, team);
    float mean = pivot + sums[0] * ending->one_over_size;
    struct differences total = {0.0f, 0.0f};
#pragma unroll 1
    for (int first = team->member; first < size; first += step) {
#pragma unroll
        for (int i = 0; i < VALUES_TOGETHER; i++)
            if (first + (i << team->log2) < size)
                add_difference(&total, value[first + (i << team->log2)] - mean);
    }
    sums[0] = total.sum;
    sums[1] = total.squares;
    sums_of_members(sums, team);
    total.sum = sums[0];
    total.squares = sums[1];
    return moments_of(mean, total, ending->one_over_size, ending->norm.eps);
}

/* y = after(norm(value)) for `size` channels from `channel` on. A team may have no work. */
static __forceinline__ __device__ void end_group_by(const struct ending *ending, const float *const *vector,
                                                    const float *value, int size, int64_t row,
                                                    int64_t channel, const struct members *team) {
    const struct group_norm *norm = &ending->norm;
    struct moments moments = {0.0f, 0.0f, 1.0f};
    if (norm->groups > 0)
        moments = moments_of_values(ending, value, size, team);
#pragma unroll 1
    for (int i = team->member; i < size; i += 1 << team->log2) {
        float v = value[i];
        if (norm->groups > 0) {
            v = normalised(v, moments);
            end_normalised(ending, vector, &v, 1, in_row(ending, row, channel + i));
        }
        write_y(ending, row * norm->channels + channel + i, &v, 1);
    }
}
