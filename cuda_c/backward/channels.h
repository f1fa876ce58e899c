/* A thread's channels: how the kernels of the backward divide a row of the tensor among threads.
 *
 * A team of threads works on a segment of a row: a group, or SEGMENT channels of a larger one. Each thread
 * has VALUES of its channels in registers, the same ones in every row that it works on, so that what belongs
 * to a channel (scale, shift, sums over the column) stays in its registers. The channels are neighbours,
 * which are loaded in 16-byte accesses, where sizes and addresses allow it; else they are a team apart. */
#pragma once

#include "shared/element.h"
#include "shared/pointwise_slopes.h"
#include "shared/rung.h"
#include "shared/team.h"

#define VALUES 8
#define THREADS 256
#define WARPS (THREADS / LANES)
#define SEGMENT (THREADS * VALUES)

struct channels {
    int64_t first; /* the thread's first channel */
    int step;      /* from one of its channels to the next */
    int count;     /* that it has; of neighbours VALUES or none */
    bool neighbours;
};

static __forceinline__ __device__ int64_t channel_at(const struct channels *channels, int j) {
    return channels->first + j * channels->step;
}

static __forceinline__ __device__ void floats_of_pair(float *value, uint32_t pair, fgn_type type) {
    uint16_t low = (uint16_t)pair, high = (uint16_t)(pair >> 16);
    value[0] = type == FGN_FLOAT16 ? float_of_float16(low) : float_of_bfloat16(low);
    value[1] = type == FGN_FLOAT16 ? float_of_float16(high) : float_of_bfloat16(high);
}

static __forceinline__ __device__ uint32_t pair_of_floats(const float *value, fgn_type type) {
    return type == FGN_FLOAT16 ? float16_pair(value[0], value[1]) : bfloat16_pair(value[0], value[1]);
}

/* VALUES neighbours from `at` on. */
static __forceinline__ __device__ void load_neighbours(float *value, const void *matrix, int64_t at,
                                                       fgn_type type) {
    if (type == FGN_FLOAT32) {
        float4 low = *(const float4 *)((const float *)matrix + at);
        float4 high = *(const float4 *)((const float *)matrix + at + 4);
        value[0] = low.x, value[1] = low.y, value[2] = low.z, value[3] = low.w;
        value[4] = high.x, value[5] = high.y, value[6] = high.z, value[7] = high.w;
    } else {
        uint4 pairs = *(const uint4 *)((const uint16_t *)matrix + at);
        floats_of_pair(value, pairs.x, type);
        floats_of_pair(value + 2, pairs.y, type);
        floats_of_pair(value + 4, pairs.z, type);
        floats_of_pair(value + 6, pairs.w, type);
    }
}

/* The thread's values of a row that begins at `row_start`; zeros for channels that it does not have. */
static __forceinline__ __device__ void load_values(float *value, const void *matrix, int64_t row_start,
                                                   const struct channels *channels, fgn_type type) {
#pragma unroll
    for (int j = 0; j < VALUES; j++)
        value[j] = 0.0f;
    if (!channels->neighbours) {
#pragma unroll
        for (int j = 0; j < VALUES; j++)
            if (j < channels->count)
                value[j] = element_at(matrix, row_start + channel_at(channels, j), type);
    } else if (channels->count > 0) {
        load_neighbours(value, matrix, row_start + channels->first, type);
    }
}

static __forceinline__ __device__ void store_values(void *matrix, int64_t row_start, const float *value,
                                                    const struct channels *channels, fgn_type type) {
    int64_t at = row_start + channels->first;
    if (!channels->neighbours) {
#pragma unroll
        for (int j = 0; j < VALUES; j++)
            if (j < channels->count)
                store_element(matrix, at + j * channels->step, value[j], type);
    } else if (channels->count > 0) {
        if (type == FGN_FLOAT32) {
            float *to = (float *)matrix + at;
            store_16(to, make_float4(value[0], value[1], value[2], value[3]));
            store_16(to + 4, make_float4(value[4], value[5], value[6], value[7]));
        } else {
            *(uint4 *)((uint16_t *)matrix + at) =
                make_uint4(pair_of_floats(value, type), pair_of_floats(value + 2, type),
                           pair_of_floats(value + 4, type), pair_of_floats(value + 6, type));
        }
    }
}

/* The thread's values of a vector, or `otherwise` where there is none. */
static __forceinline__ __device__ void load_vector(float *value, const void *vector, float otherwise,
                                                   const struct channels *channels, fgn_type type) {
    if (vector) {
        load_values(value, vector, 0, channels, type);
        return;
    }
#pragma unroll
    for (int j = 0; j < VALUES; j++)
        value[j] = otherwise;
}

/* Where a thread's values of one row are. */
struct gradient_row {
    struct channels channels;
    int64_t row_start; /* of the row in the tensor */
    fgn_type type;
    fgn_type vector_type;
};

/* The operands of the thread's values in the step's vector or tensor, if it has one. */
static __forceinline__ __device__ void load_operand(float *operand, const fgn_pointwise *step,
                                                    const struct gradient_row *place) {
    if (step->tensor)
        load_values(operand, step->tensor, place->row_start, &place->channels, place->type);
    else if (step->channel)
        load_values(operand, step->channel, 0, &place->channels, place->vector_type);
}

/* value = step(value) for `count` values. */
static __forceinline__ __device__ void apply_step(const fgn_pointwise *step, float *value, int count,
                                                  const float *operand) {
    if (step->kind == FGN_ADD_TENSOR)
        apply_with_operands(add, value, count, operand, evenly_spaced, 1);
    else
        apply_operator_with(step, value, count, operand, evenly_spaced, 1);
}

/* The first `count` steps of the list. */
static __forceinline__ __device__ void apply_list(const struct operators *list, int count, float *value,
                                                  const struct gradient_row *place) {
#pragma unroll 1
    for (int i = 0; i < count; i++) {
        float operand[VALUES];
        load_operand(operand, &list->step[i], place);
        apply_step(&list->step[i], value, VALUES, operand);
    }
}

/* The whole list, to one value of a channel. */
static __forceinline__ __device__ float applied_to_one(const struct operators *list, float value,
                                                       int64_t row_start, int64_t channel,
                                                       fgn_type vector_type) {
#pragma unroll 1
    for (int i = 0; i < list->count; i++) {
        const fgn_pointwise *step = &list->step[i];
        float operand = 0.0f;
        if (step->tensor)
            operand = element_at(step->tensor, row_start + channel, list->type);
        else if (step->channel)
            operand = element_at(step->channel, channel, vector_type);
        apply_step(step, &value, 1, &operand);
    }
    return value;
}

/* gradient = gradient times the step's slope at `value`. What a bound cuts off is 0 even where the gradient
 * is NaN, as in torch. The slopes of common operators are chosen once for all values; of the others there is
 * one copy of the code, in a loop that moves the values down. */
static __forceinline__ __device__ void multiply_by_slope(const fgn_pointwise *step, float *gradient,
                                                         const float *value, const float *operand) {
    switch (step->kind) {
    case FGN_ADD_CHANNEL:
    case FGN_ADD_TENSOR:
        break;
    case FGN_MULTIPLY_CHANNEL:
#pragma unroll
        for (int j = 0; j < VALUES; j++)
            gradient[j] *= operand[j];
        break;
    case FGN_HARDTANH:
#pragma unroll
        for (int j = 0; j < VALUES; j++)
            gradient[j] = value[j] <= step->a || value[j] >= step->b ? 0.0f : gradient[j];
        break;
    case FGN_RELU:
#pragma unroll
        for (int j = 0; j < VALUES; j++)
            gradient[j] = value[j] <= 0.0f ? 0.0f : gradient[j];
        break;
    case FGN_LEAKY_RELU:
#pragma unroll
        for (int j = 0; j < VALUES; j++)
            gradient[j] = value[j] > 0.0f ? gradient[j] : gradient[j] * step->a;
        break;
    case FGN_DOUBLE:
#pragma unroll
        for (int j = 0; j < VALUES; j++)
            gradient[j] += gradient[j];
        break;
    case FGN_MISH:
#pragma unroll
        for (int j = 0; j < VALUES; j++)
            gradient[j] *= mish_slope(value[j]);
        break;
    case FGN_SILU:
#pragma unroll
        for (int j = 0; j < VALUES; j++)
            gradient[j] *= silu_slope(value[j]);
        break;
    default: {
        float values[VALUES], operands[VALUES];
#pragma unroll
        for (int j = 0; j < VALUES; j++) {
            values[j] = value[j];
            operands[j] = operand[j];
        }
#pragma unroll 1
        for (int turn = 0; turn < VALUES; turn++) {
            float first = gradient[0] * slope_of(step, values[0], operands[0]);
#pragma unroll
            for (int j = 0; j + 1 < VALUES; j++) {
                values[j] = values[j + 1];
                operands[j] = operands[j + 1];
                gradient[j] = gradient[j + 1];
            }
            gradient[VALUES - 1] = first;
        }
        break;
    }
    }
}

/* Sums over the team of `count` values at once, in every thread of it. The whole block calls it together; a
 * team is a power of two. `partial` has room for `count` floats of each warp. */
static __forceinline__ __device__ void sums_of_team(float *v, int count, int team, int thread,
                                                    float *partial) {
    team_sums(v, count, team < LANES ? team : LANES);
    if (team <= LANES)
        return;
    int warp = thread / LANES, warps = team / LANES;
    __syncthreads(); /* the previous sums have been read */
    if (thread % LANES == 0)
        for (int i = 0; i < count; i++)
            partial[warp * count + i] = v[i];
    __syncthreads();
    for (int i = 0; i < count; i++) {
        v[i] = 0.0f;
        for (int other = warp / warps * warps; other < (warp / warps + 1) * warps; other++)
            v[i] += partial[other * count + i];
    }
}

/* How a tensor is divided: segments of a group, threads of a team, and how many of them work on a row of a
 * block, on a strip of the tensor's columns. */
struct division {
    int64_t group_size; /* without a norm: all channels */
    int64_t groups;
    int64_t parts; /* segments of a group */
    int team;
    int across; /* threads of a block beside each other in a row; the others have the next rows */
    bool neighbours;
};

static inline struct division division_of(int64_t channels, int64_t groups, bool aligned) {
    struct division division;
    division.groups = groups > 0 ? groups : 1;
    division.group_size = channels / division.groups;
    division.parts = tiles(division.group_size, SEGMENT);
    division.neighbours = division.group_size % VALUES == 0 && aligned;
    division.team = power_of_two_above(tiles(division.group_size, VALUES), THREADS);
    int64_t useful = division.groups * division.parts * division.team;
    int widest = division.team > LANES ? division.team : LANES;
    division.across = power_of_two_above(useful, widest);
    return division;
}

static inline int rows_at_once(const struct division *division) {
    return THREADS / division->across;
}

static inline int64_t strips_of(const struct division *division) {
    return tiles(division->groups * division->parts, division->across / division->team);
}

static inline bool is_aligned_16(const void *pointer) {
    return (uintptr_t)pointer % 16 == 0;
}

static inline bool operands_are_aligned(const struct operators *list) {
    bool aligned = true;
    for (int i = 0; i < list->count; i++)
        aligned = aligned && is_aligned_16(list->step[i].channel) && is_aligned_16(list->step[i].tensor);
    return aligned;
}

static inline bool vectors_are_aligned(const void *scale, const void *shift, const struct operators *before,
                                       const struct operators *after) {
    return is_aligned_16(scale) && is_aligned_16(shift) && operands_are_aligned(before) &&
           operands_are_aligned(after);
}

/* The thread's channels in segment `segment` of a row; none in a segment beyond the last. */
static __forceinline__ __device__ struct channels channels_of(const struct division *division,
                                                              int64_t segment) {
    struct channels channels;
    int64_t group = segment / division->parts, part = segment % division->parts;
    int64_t left = division->group_size - part * SEGMENT;
    int size = left < SEGMENT ? (int)left : SEGMENT, member = threadIdx.x % division->team;
    channels.neighbours = division->neighbours;
    channels.step = division->neighbours ? 1 : division->team;
    int offset = division->neighbours ? member * VALUES : member;
    channels.first = group * division->group_size + part * SEGMENT + offset;
    channels.count = offset < size ? (int)tiles(size - offset, channels.step) : 0;
    channels.count = channels.count < VALUES ? channels.count : VALUES;
    if (group >= division->groups)
        channels.count = 0;
    return channels;
}
