/* A thread's channels: how the kernels of the norm and of its gradient divide a row of the tensor among
 * threads, and how they read and write it.
 *
 * A team of threads works on a segment of a row: a group, or SEGMENT channels of a larger one. Each thread
 * has VALUES of its channels in registers, the same channels in every row, so that their scale, shift and
 * column sums stay in its registers. They form vectors of neighbours whose number divides the group (8, 4, 2
 * or 1), each read in one access. The vectors of a thread are a team apart, so that the team's accesses are
 * contiguous.
 *
 * Values stay as they are in memory (struct words) until they are needed: a thread can load its next row
 * before it works on this one, and 16-bit values take half the registers. */
#pragma once

#include "norm/division.h"
#include "shared/element.h"
#include "shared/apply_operator.h"
#include "shared/pointwise_slopes.h"

struct channels {
    int first; /* the thread's first channel */
    int team;  /* threads that share the group */
    int width; /* neighbours in a vector */
    int count; /* how many of its VALUES exist: whole vectors, the first ones */
};

static __forceinline__ __device__ int channel_at(const struct channels *channels, int j) {
    return channels->first + (j & -channels->width) * channels->team + (j & (channels->width - 1));
}

/* Whether the thread's value j exists; it does if its vector does. */
static __forceinline__ __device__ bool is_there(const struct channels *channels, int j) {
    return (j & -channels->width) < channels->count;
}

/* ---- Reading and writing ---- */

/* A thread's values as they are in memory: floats, or two 16-bit values per word (one in vectors of one
 * neighbour). */
struct words {
    uint32_t word[VALUES];
};

/* Loads `bytes` of a vector, which callers pass as a constant: 2, 4, 8, 16 or 32. */
static __forceinline__ __device__ void load_neighbours(uint32_t *word, const void *from, int bytes) {
    if (bytes == 2)
        word[0] = *(const uint16_t *)from;
    if (bytes == 4)
        word[0] = *(const uint32_t *)from;
    if (bytes == 8) {
        uint2 two = *(const uint2 *)from;
        word[0] = two.x, word[1] = two.y;
    }
    for (int i = 0; i < bytes / 16; i++) {
        uint4 four = ((const uint4 *)from)[i];
        word[4 * i] = four.x, word[4 * i + 1] = four.y, word[4 * i + 2] = four.z, word[4 * i + 3] = four.w;
    }
}

static __forceinline__ __device__ void store_neighbours(void *to, const uint32_t *word, int bytes) {
    if (bytes == 2)
        *(uint16_t *)to = (uint16_t)word[0];
    if (bytes == 4)
        *(uint32_t *)to = word[0];
    if (bytes == 8)
        *(uint2 *)to = make_uint2(word[0], word[1]);
    for (int i = 0; i < bytes / 16; i++)
        ((uint4 *)to)[i] = make_uint4(word[4 * i], word[4 * i + 1], word[4 * i + 2], word[4 * i + 3]);
}

/* Loads the thread's vectors of `width` elements of `size` bytes; callers pass both as constants. */
static __forceinline__ __device__ void load_vectors(struct words *words, const char *from,
                                                    const struct channels *channels, int width, int size) {
    const int words_of_vector = width * size < 4 ? 1 : width * size / 4;
#pragma unroll
    for (int i = 0; i < VALUES / width; i++)
        if (i * width < channels->count)
            load_neighbours(&words->word[i * words_of_vector], from + i * channels->team * width * size,
                            width * size);
}

static __forceinline__ __device__ void store_vectors(char *to, const struct words *words,
                                                     const struct channels *channels, int width, int size) {
    const int words_of_vector = width * size < 4 ? 1 : width * size / 4;
#pragma unroll
    for (int i = 0; i < VALUES / width; i++)
        if (i * width < channels->count)
            store_neighbours(to + i * channels->team * width * size, &words->word[i * words_of_vector],
                             width * size);
}

/* size: 4 or 2, which callers pass as a constant. */
static __forceinline__ __device__ void load_elements(struct words *words, const void *matrix, int64_t at,
                                                     const struct channels *channels, int size) {
    const char *from = (const char *)matrix + at * size;
    if (channels->width == 8)
        load_vectors(words, from, channels, 8, size);
    else if (channels->width == 4)
        load_vectors(words, from, channels, 4, size);
    else if (channels->width == 2)
        load_vectors(words, from, channels, 2, size);
    else
        load_vectors(words, from, channels, 1, size);
}

static __forceinline__ __device__ void store_elements(void *matrix, int64_t at, const struct words *words,
                                                      const struct channels *channels, int size) {
    char *to = (char *)matrix + at * size;
    if (channels->width == 8)
        store_vectors(to, words, channels, 8, size);
    else if (channels->width == 4)
        store_vectors(to, words, channels, 4, size);
    else if (channels->width == 2)
        store_vectors(to, words, channels, 2, size);
    else
        store_vectors(to, words, channels, 1, size);
}

/* Loads the thread's values of the row at `row_start`; zeros for channels that do not exist. */
static __forceinline__ __device__ void load_words(struct words *words, const void *matrix, int64_t row_start,
                                                  const struct channels *channels, fgn_type type) {
#pragma unroll
    for (int j = 0; j < VALUES; j++)
        words->word[j] = 0;
    if (type == FGN_FLOAT32)
        load_elements(words, matrix, row_start + channels->first, channels, 4);
    else
        load_elements(words, matrix, row_start + channels->first, channels, 2);
}

static __forceinline__ __device__ float float_of_16(uint32_t bits, fgn_type type) {
    return type == FGN_FLOAT16 ? float_of_float16((uint16_t)bits) : float_of_bfloat16((uint16_t)bits);
}

static __forceinline__ __device__ void values_of(float *value, const struct words *words,
                                                 const struct channels *channels, fgn_type type) {
#pragma unroll
    for (int j = 0; j < VALUES; j++) {
        if (type == FGN_FLOAT32)
            value[j] = __uint_as_float(words->word[j]);
        else if (channels->width == 1)
            value[j] = float_of_16(words->word[j], type);
        else
            value[j] = float_of_16(words->word[j / 2] >> (j % 2 ? 16 : 0), type);
    }
}

static __forceinline__ __device__ void load_values(float *value, const void *matrix, int64_t row_start,
                                                   const struct channels *channels, fgn_type type) {
    struct words words;
    load_words(&words, matrix, row_start, channels, type);
    values_of(value, &words, channels, type);
}

static __forceinline__ __device__ uint32_t pair_of_floats(float low, float high, fgn_type type) {
    return type == FGN_FLOAT16 ? float16_pair(low, high) : bfloat16_pair(low, high);
}

/* Packs the values as memory has them. */
static __forceinline__ __device__ void words_of(struct words *words, const float *value,
                                                const struct channels *channels, fgn_type type) {
    if (type == FGN_FLOAT32) {
#pragma unroll
        for (int j = 0; j < VALUES; j++)
            words->word[j] = __float_as_uint(value[j]);
    } else if (channels->width == 1) {
#pragma unroll
        for (int j = 0; j < VALUES; j++)
            words->word[j] = pair_of_floats(value[j], 0.0f, type);
    } else {
#pragma unroll
        for (int j = 0; j < VALUES; j += 2)
            words->word[j / 2] = pair_of_floats(value[j], value[j + 1], type);
    }
}

static __forceinline__ __device__ void store_values(void *matrix, int64_t row_start, const float *value,
                                                    const struct channels *channels, fgn_type type) {
    struct words words;
    words_of(&words, value, channels, type);
    store_elements(matrix, row_start + channels->first, &words, channels, type == FGN_FLOAT32 ? 4 : 2);
}

/* Loads the thread's values of a vector of channels, which has the tensors' type or float32. `type` is a
 * constant, so every conversion knows its type. */
static __forceinline__ __device__ void load_channels(float *value, const void *vector,
                                                     const struct channels *channels, fgn_type vector_type,
                                                     fgn_type type) {
    if (vector_type == type)
        load_values(value, vector, 0, channels, type);
    else
        load_values(value, vector, 0, channels, FGN_FLOAT32);
}

/* The same for a step's vector, or its one element for all channels. */
static __forceinline__ __device__ void load_of_step(float *operand, const fgn_pointwise *step,
                                                    const struct channels *channels, fgn_type vector_type,
                                                    fgn_type type) {
    if (step->one) {
        float one = element_at(step->channel, 0, vector_type);
#pragma unroll
        for (int j = 0; j < VALUES; j++)
            operand[j] = one;
    } else
        load_channels(operand, step->channel, channels, vector_type, type);
}

/* load_channels(), or `otherwise` if there is no vector. */
static __forceinline__ __device__ void load_vector(float *value, const void *vector, float otherwise,
                                                   const struct channels *channels, fgn_type vector_type,
                                                   fgn_type type) {
#pragma unroll
    for (int j = 0; j < VALUES; j++)
        value[j] = otherwise;
    if (vector)
        load_channels(value, vector, channels, vector_type, type);
}

/* The place of a thread's values of one row. */
struct gradient_row {
    struct channels channels;
    int64_t row_start; /* of the row in the tensor */
    fgn_type type;
    fgn_type vector_type;
    bool only_common; /* no operator of the chain is rare: a constant of each kernel */
};

/* Loads the operands of the thread's values from the step's vector or tensor, if it has one. */
static __forceinline__ __device__ void load_operand(float *operand, const fgn_pointwise *step,
                                                    const struct gradient_row *place) {
    if (step->tensor)
        load_values(operand, step->tensor, place->row_start, &place->channels, place->type);
    else if (step->channel)
        load_of_step(operand, step, &place->channels, place->vector_type, place->type);
}

/* value = step(value) for the thread's values. Rare operators are inlined here: with function
 * calls fewer rows fit into the registers, and large tensors of training took up to a tenth
 * longer. */
static __forceinline__ __device__ void apply_step(const fgn_pointwise *step, float *value,
                                                  const float *operand, bool only_common) {
    if (step->tensor || is_kind(step, FGN_ADD_CHANNEL))
        apply_with_operands(add, value, VALUES, operand, evenly_spaced, 1);
    else if (step->channel && !only_common)
        apply_rare_operand(step->kind, step->a, value, VALUES, operand, evenly_spaced, 1);
    else if (!apply_common_operator(step, value, VALUES) && !only_common)
        apply_rare_operator(step, value, VALUES);
}

static __forceinline__ __device__ void apply_one_of_list(const struct operators *list, enum list which, int i,
                                                         float *value, const struct gradient_row *place) {
    const fgn_pointwise step = step_of(list, which, i);
    float operand[VALUES];
    load_operand(operand, &step, place);
    apply_step(&step, value, operand, place->only_common);
    end_step(value, VALUES);
}

static __forceinline__ __device__ void apply_list(const struct operators *list, enum list which, float *value,
                                                  const struct gradient_row *place) {
#pragma unroll STEPS_AT_ONCE
    for (int i = 0; i < count_of(list, which); i++)
        apply_one_of_list(list, which, i, value, place);
}

/* gradient = gradient times the step's slope at `value`. A clipped value gives 0 even if the gradient is NaN,
 * as in torch. Slopes of common operators are chosen once for all values. The others have one copy of code,
 * in a loop that shifts the values down. */
static __forceinline__ __device__ void multiply_by_slope(const fgn_pointwise *step, float *gradient,
                                                         const float *value, const float *operand,
                                                         bool only_common) {
    if (is_kind(step, FGN_HARDTANH)) {
#pragma unroll
        for (int j = 0; j < VALUES; j++)
            gradient[j] = value[j] <= step->a || value[j] >= step->b ? 0.0f : gradient[j];
    } else if (is_kind(step, FGN_LEAKY_RELU)) {
#pragma unroll
        for (int j = 0; j < VALUES; j++)
            gradient[j] = value[j] > 0.0f ? gradient[j] : gradient[j] * step->a;
    } else if (is_kind(step, FGN_DOUBLE)) {
#pragma unroll
        for (int j = 0; j < VALUES; j++)
            gradient[j] += gradient[j];
    } else if (is_kind(step, FGN_RELU)) {
#pragma unroll
        for (int j = 0; j < VALUES; j++)
            gradient[j] = value[j] <= 0.0f ? 0.0f : gradient[j];
    } else if (is_kind(step, FGN_MISH)) {
#pragma unroll
        for (int j = 0; j < VALUES; j++)
            gradient[j] *= mish_slope(value[j]);
    } else if (is_kind(step, FGN_SILU)) {
#pragma unroll
        for (int j = 0; j < VALUES; j++)
            gradient[j] *= silu_slope(value[j]);
    } else if (is_kind(step, FGN_GELU)) {
#pragma unroll
        for (int j = 0; j < VALUES; j++)
            gradient[j] *= gelu_slope(value[j]);
    } else if (is_kind(step, FGN_GELU_TANH)) {
#pragma unroll
        for (int j = 0; j < VALUES; j++)
            gradient[j] *= gelu_tanh_slope(value[j]);
    } else if (!only_common && is_kind(step, FGN_MULTIPLY_CHANNEL)) {
#pragma unroll
        for (int j = 0; j < VALUES; j++)
            gradient[j] *= operand[j];
    } else if (!only_common) {
        float values[VALUES], operands[VALUES];
#pragma unroll
        for (int j = 0; j < VALUES; j++) {
            values[j] = value[j];
            operands[j] = operand[j];
        }
#pragma unroll STEPS_AT_ONCE
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
    }
    end_step(gradient, VALUES);
}

/* Gives every thread the team's sums of `count` values. The whole block calls it together; a team is a power
 * of two. `partial` has room for `count` floats of each warp, which nobody reads any more. */
static __forceinline__ __device__ void sums_of_team_in(float *v, int count, int team, int thread,
                                                       float *partial) {
    team_sums(v, count, team < LANES ? team : LANES);
    if (team <= LANES)
        return;
    int warp = thread / LANES, warps = team / LANES, first = warp & -warps;
    if (thread % LANES == 0)
#pragma unroll
        for (int i = 0; i < count; i++)
            partial[warp * count + i] = v[i];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < count; i++)
        v[i] = 0.0f;
#pragma unroll 1
    for (int other = first; other < first + warps; other++)
#pragma unroll
        for (int i = 0; i < count; i++)
            v[i] += partial[other * count + i];
}

/* The same, if `partial` has other sums that may still be read. */
static __forceinline__ __device__ void sums_of_team(float *v, int count, int team, int thread,
                                                    float *partial) {
    if (team > LANES)
        __syncthreads();
    sums_of_team_in(v, count, team, thread, partial);
}

/* Finds the thread's channels in segment `segment` of a row; none in a segment beyond the last. */
static __forceinline__ __device__ struct channels channels_of(const struct division *division, int segment) {
    struct channels channels;
    int group = division->parts > 1 ? segment / division->parts : segment;
    int before = (segment - group * division->parts) * SEGMENT, left = division->group_size - before;
    int size = left < SEGMENT ? left : SEGMENT;
    int offset = (threadIdx.x & (division->team - 1)) * division->width;
    channels.team = division->team;
    channels.width = division->width;
    channels.first = group * division->group_size + before + offset;
    /* the vectors that begin before the segment's end, `team` vectors apart */
    channels.count = 0;
    if (group < division->groups && offset < size)
        channels.count = ((size - offset - 1) / (division->team * division->width) + 1) * division->width;
    channels.count = channels.count < VALUES ? channels.count : VALUES;
    return channels;
}
