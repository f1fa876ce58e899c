/* What follows the product of few rows: bias, operators, GroupNorm, operators, and y in its own type.
 *
 * A team of threads takes a group of one row: the product's kernel does so where its block holds whole
 * groups, and otherwise a second, small kernel. The team keeps the values in shared memory where they fit. */
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
};

/* That a thread of the second launch works on together, and so the fewest channels worth a thread. */
#define VALUES_AT_ONCE 4

/* The most channels that a warp rather than a block ends. */
#define LARGEST_WARP_GROUP 128

/* The channels that one team ends together: a group, or where there is no norm, any number. */
static inline __host__ __device__ int64_t channels_of_team(const struct ending *ending) {
    int64_t channels = ending->norm.channels;
    if (ending->norm.groups > 0)
        return channels / ending->norm.groups;
    return channels < LARGEST_WARP_GROUP ? channels : LARGEST_WARP_GROUP;
}

/* The lanes that end a group of up to LARGEST_WARP_GROUP channels, some for each. */
static inline __host__ __device__ int lanes_of_group(int64_t size) {
    return power_of_two_above(tiles(size, VALUES_AT_ONCE), LANES);
}

static inline __device__ const float *operand_of(const fgn_pointwise *step) {
    bool has_operand = step->kind == FGN_ADD_CHANNEL || step->kind == FGN_MULTIPLY_CHANNEL;
    return has_operand ? step->channel : NULL;
}

static inline __device__ void store_element(void *to, int64_t index, float v, fgn_type type) {
    if (type == FGN_FLOAT32)
        ((float *)to)[index] = v;
    else
        ((uint16_t *)to)[index] = type == FGN_FLOAT16 ? float16_bits(v) : bfloat16_bits(v);
}

static inline __device__ void fetch_vector(const float *vector, int64_t channel, int count) {
    if (vector && (int)threadIdx.x < count)
        prefetch_to_l2(vector + channel + threadIdx.x);
}

/* Has all vectors that end `count` channels brought to the L2 cache, long before they are used: from memory
 * each would be waited for when the sums are done. Of as many channels as a block has threads at most. */
static inline __device__ void fetch_vectors(const struct ending *ending, int64_t channel, int count) {
    fetch_vector(ending->bias, channel, count);
    fetch_vector(ending->norm.scale, channel, count);
    fetch_vector(ending->norm.shift, channel, count);
    for (int i = 0; i < ending->before.count; i++)
        fetch_vector(operand_of(&ending->before.step[i]), channel, count);
    for (int i = 0; i < ending->norm.after.count; i++)
        fetch_vector(operand_of(&ending->norm.after.step[i]), channel, count);
}

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

/* The threads that work on one group: lanes of a warp, or all threads of a block. */
struct members {
    int member;
    int count;
    float *of_warp; /* shared memory, a float for each warp; of a block only */
};

static inline __device__ float sum_of_members(float v, const struct members *team) {
    v = team_sum(v, team->count < LANES ? team->count : LANES);
    if (team->count <= LANES)
        return v;
    __syncthreads(); /* the sum before has been read */
    if (team->member % LANES == 0)
        team->of_warp[team->member / LANES] = v;
    __syncthreads();
    float sum = 0.0f;
    for (int warp = 0; warp < team->count / LANES; warp++)
        sum += team->of_warp[warp];
    return sum;
}

/* y = after(norm(value)) for `size` channels from `channel` on. A thread reads the first value and its own:
 * every count-th, starting at its number. Size 0: a team without work, which still takes part in the sums. */
static inline __device__ void end_group(const struct ending *ending, const float *value, int size,
                                        float one_over_size, int64_t row, int64_t channel,
                                        const struct members *team) {
    const struct group_norm *norm = &ending->norm;
    struct moments moments = {0.0f, 0.0f, 1.0f};
    if (norm->groups > 0) {
        float pivot = size > 0 ? value[0] : 0.0f;
        float sum = 0.0f;
        for (int i = team->member; i < size; i += team->count)
            sum += value[i] - pivot;
        float mean = pivot + sum_of_members(sum, team) * one_over_size;
        struct differences total = {0.0f, 0.0f};
        for (int i = team->member; i < size; i += team->count)
            add_difference(&total, value[i] - mean);
        total.sum = sum_of_members(total.sum, team);
        total.squares = sum_of_members(total.squares, team);
        moments = moments_of(mean, total, one_over_size, norm->eps);
    }
#pragma unroll 1
    for (int i = team->member; i < size; i += team->count) {
        float v = value[i];
        if (norm->groups > 0) {
            v = scale_and_shift(norm, normalised(v, moments), channel + i);
            apply_operators(&norm->after, &v, 1, channel + i, 0);
        }
        store_element(ending->y, row * norm->channels + channel + i, v, ending->type);
    }
}
