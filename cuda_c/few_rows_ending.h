/* What follows the product of few rows: bias, operators, GroupNorm, operators, and y in its own type.
 *
 * A team of threads takes a group of one row: the product's kernel does so where its blocks hold whole
 * groups, and otherwise a second, small kernel. Values are in shared memory, and a thread works on four
 * neighbours at once where channels come in fours.
 *
 * This code runs once in a launch, and small problems wait for it to be fetched from memory: it is short, and
 * loops are not unrolled. */
#pragma once

#include "element.h"
#include "ladder.h"
#include "moments.h"
#include "pointwise.h"
#include "ptx_few_rows.h"
#include "team.h"

struct ending {
    const float *bias; /* (channels,) or NULL */
    struct operators before;
    struct group_norm norm; /* its x and y are not used; groups 0: no norm */
    void *y;                /* (batch, channels) */
    fgn_type type;
    bool fours; /* channels, groups and y come in aligned fours */
};

/* That a thread works on at once. */
#define FOUR 4

/* The most channels that a warp rather than a block ends. */
#define LARGEST_WARP_GROUP 128

/* The channels that one team ends together: a group, or where there is no norm, any number. */
static inline __host__ __device__ int channels_of_team(const struct ending *ending) {
    int64_t channels = ending->norm.channels;
    if (ending->norm.groups > 0)
        return (int)(channels / ending->norm.groups);
    return channels < LARGEST_WARP_GROUP ? (int)channels : LARGEST_WARP_GROUP;
}

/* The lanes that end a group of up to LARGEST_WARP_GROUP channels, four for each. */
static inline __host__ __device__ int lanes_of_group(int size) {
    return power_of_two_above(tiles(size, FOUR), LANES);
}

/* ---- Vectors ---- */

static inline __device__ void fetch_vector(const float *vector, int64_t channel, int count) {
    if (vector && (int)threadIdx.x < count)
        prefetch(vector + channel + threadIdx.x);
}

static inline __device__ void fetch_operands(const struct operators *list, int64_t channel, int count) {
#pragma unroll 1
    for (int i = 0; i < list->count; i++) {
        fgn_pointwise_kind kind = list->step[i].kind;
        if (kind == FGN_ADD_CHANNEL || kind == FGN_MULTIPLY_CHANNEL)
            fetch_vector(list->step[i].channel, channel, count);
    }
}

/* Has all vectors that end `count` channels, at most as many as a block has threads, brought to the caches
 * long before they are used: from memory each would be waited for when the sums are done. */
static inline __device__ void fetch_vectors(const struct ending *ending, int64_t channel, int count) {
    fetch_vector(ending->bias, channel, count);
    fetch_vector(ending->norm.scale, channel, count);
    fetch_vector(ending->norm.shift, channel, count);
    fetch_operands(&ending->before, channel, count);
    fetch_operands(&ending->norm.after, channel, count);
}

/* ---- Before the norm ---- */

/* before(sum + bias), for neighbours `step` channels apart. */
static __forceinline__ __device__ void begin_ending(const struct ending *ending, float *value, int count,
                                                    int64_t channel, int step) {
    if (ending->bias) {
#pragma unroll
        for (int i = 0; i < count; i++)
            value[i] += ending->bias[channel + i * step];
    }
    apply_operators(&ending->before, value, count, channel, step);
}

/* ---- The norm and what follows it ---- */

/* The threads that work on one group: lanes of a warp, or all threads of a block. */
struct members {
    int member;
    int count;
    float (*of_warp)[2]; /* shared memory, two floats for each warp; of a block only */
};

/* The sums of two values over the members. */
static inline __device__ void sums_of_members(float *v, const struct members *team) {
    team_sums(v, 2, team->count < LANES ? team->count : LANES);
    if (team->count <= LANES)
        return;
    __syncthreads(); /* the sums before have been read */
    if (team->member % LANES == 0) {
        team->of_warp[team->member / LANES][0] = v[0];
        team->of_warp[team->member / LANES][1] = v[1];
    }
    __syncthreads();
    v[0] = v[1] = 0.0f;
#pragma unroll 1
    for (int warp = 0; warp < team->count / LANES; warp++) {
        v[0] += team->of_warp[warp][0];
        v[1] += team->of_warp[warp][1];
    }
}

/* `count` neighbours, which is 4 or 1: four are aligned. */
static __forceinline__ __device__ void read_values(float *value, const float *from, int count) {
    if (count == FOUR) {
        float4 quad = *(const float4 *)from;
        value[0] = quad.x;
        value[1] = quad.y;
        value[2] = quad.z;
        value[3] = quad.w;
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

static __forceinline__ __device__ uint16_t bits_of(float v, fgn_type type) {
    return type == FGN_FLOAT16 ? float16_bits(v) : bfloat16_bits(v);
}

static __forceinline__ __device__ uint32_t pair_of(float low, float high, fgn_type type) {
    return type == FGN_FLOAT16 ? float16_pair(low, high) : bfloat16_pair(low, high);
}

static __forceinline__ __device__ void write_elements(void *to, int64_t index, const float *value, int count,
                                                      fgn_type type) {
    if (type == FGN_FLOAT32)
        write_values((float *)to + index, value, count);
    else if (count == FOUR)
        *(uint2 *)((uint16_t *)to + index) =
            make_uint2(pair_of(value[0], value[1], type), pair_of(value[2], value[3], type));
    else
        ((uint16_t *)to)[index] = bits_of(value[0], type);
}

/* y = after(norm(value)) for `size` channels from `channel` on, `at_once` of them at once. A thread reads the
 * first value and its own. Size 0: a team without work, which still takes part in the sums. */
static __forceinline__ __device__ void end_group_by(const struct ending *ending, const float *value, int size,
                                                    float one_over_size, int64_t row, int64_t channel,
                                                    const struct members *team, int at_once) {
    const struct group_norm *norm = &ending->norm;
    int first = at_once * team->member, step = at_once * team->count;
    struct moments moments = {0.0f, 0.0f, 1.0f};
    float v[FOUR];
    if (norm->groups > 0) {
        float pivot = size > 0 ? value[0] : 0.0f;
        float sums[2] = {0.0f, 0.0f};
#pragma unroll 1
        for (int i = first; i < size; i += step) {
            read_values(v, value + i, at_once);
#pragma unroll
            for (int j = 0; j < at_once; j++)
                sums[0] += v[j] - pivot;
        }
        sums_of_members(sums, team);
        float mean = pivot + sums[0] * one_over_size;
        struct differences total = {0.0f, 0.0f};
#pragma unroll 1
        for (int i = first; i < size; i += step) {
            read_values(v, value + i, at_once);
#pragma unroll
            for (int j = 0; j < at_once; j++)
                add_difference(&total, v[j] - mean);
        }
        sums[0] = total.sum;
        sums[1] = total.squares;
        sums_of_members(sums, team);
        total.sum = sums[0];
        total.squares = sums[1];
        moments = moments_of(mean, total, one_over_size, norm->eps);
    }
#pragma unroll 1
    for (int i = first; i < size; i += step) {
        read_values(v, value + i, at_once);
        if (norm->groups > 0) {
#pragma unroll
            for (int j = 0; j < at_once; j++)
                v[j] = scale_and_shift(norm, normalised(v[j], moments), channel + i + j);
            apply_operators(&norm->after, v, at_once, channel + i, 1);
        }
        write_elements(ending->y, row * norm->channels + channel + i, v, at_once, ending->type);
    }
}

static __forceinline__ __device__ void end_group(const struct ending *ending, const float *value, int size,
                                                 float one_over_size, int64_t row, int64_t channel,
                                                 const struct members *team) {
    if (ending->fours)
        end_group_by(ending, value, size, one_over_size, row, channel, team, FOUR);
    else
        end_group_by(ending, value, size, one_over_size, row, channel, team, 1);
}
