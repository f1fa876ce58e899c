/* y = after(GroupNorm(before(v))) of some rows, for the kernels of norm_forward.cu.
 *
 * A thread holds one or more slots of VALUES values. The team of threads that shares a group is as small as
 * the slots allow, a warp or less for most groups, so that sums need shuffles only: the slots lie side by
 * side in a large group (`columns` of them), and in different rows of a small one.
 *
 * Bounds are checked for whole vectors, whose width is a constant in the common case: a check for each value
 * would cost more than the arithmetic.
 *
 * A small call waits longest for its instructions: other kernels have run since, so they come from memory
 * again, which is faster if they are contiguous. So common operators are a sequence of tests (is_kind) and
 * not a jump table, and there are no divisions. */
#pragma once

#include <limits.h>

#include "norm/norm_forward.h"
#include "ptx/griddepcontrol.h"
#include "shared/moments.h"

#define MOST_SLOTS 4

struct norm_forward_args {
    struct kept_norm norm;
    struct division division;
    int team_log2; /* of the division's team */
    int columns;   /* slots of a thread that lie side by side in one row */
    float one_over_size;
};

/* A thread's slots in the rows from one on. Slots in one row have different channels; slots with the same
 * channels have different rows. */
struct slots {
    struct channels channels[MOST_SLOTS];
    int row[MOST_SLOTS];         /* from the first one of the block's turn */
    uint32_t offset[MOST_SLOTS]; /* elements from where the turn's first row begins */
    bool in_one_row;             /* or one slot below the other */
};

static __forceinline__ __device__ int group_of_thread(const struct norm_forward_args *args) {
    return (blockIdx.x * blockDim.x + threadIdx.x) >> args->team_log2;
}

/* How many vectors of a slot begin within `left` channels from the first one, `team` vectors apart. */
static __forceinline__ __device__ int vectors_of(int left, int team_log2, int width) {
    int vectors = 0;
#pragma unroll
    for (int i = 0; i < VALUES / width; i++)
        vectors += i * width << team_log2 < left;
    return vectors;
}

/* The slots of this thread. is_long: they are side by side, whatever their width. Callers pass constants for
 * `slots`, `width` and `is_long`, here and below. */
static __forceinline__ __device__ struct slots slots_of_thread(const struct norm_forward_args *args,
                                                               int slots, int width, bool is_long) {
    const struct division *division = &args->division;
    int group = group_of_thread(args);
    int member = threadIdx.x & (division->team - 1);
    struct slots place;
    place.in_one_row = is_long || (slots > 1 && width < VALUES && args->columns > 1);
#pragma unroll
    for (int i = 0; i < slots; i++) {
        int offset = (place.in_one_row ? i : 0) * division->team * VALUES + member * width;
        int left = group < division->groups ? division->group_size - offset : 0;
        struct channels *channels = &place.channels[i];
        channels->team = division->team;
        channels->width = width;
        channels->first = group * division->group_size + offset;
        /* whole vectors that begin before the group's end, `team` vectors apart */
        channels->count = vectors_of(left, args->team_log2, width) * width;
        place.row[i] = (place.in_one_row ? 0 : i) * blockDim.y + threadIdx.y;
        place.offset[i] = (uint32_t)(place.row[i] * (int)args->norm.channels + channels->first);
    }
    return place;
}

/* A turn: the rows that a block works on at a time. */
struct turn {
    int64_t first; /* element of the first row */
    int rows;      /* how many there are from the first one on, or more than a turn has */
};

static __forceinline__ __device__ struct turn turn_from(int64_t first_row, const struct kept_norm *norm) {
    int64_t rows = norm->batch - first_row;
    struct turn turn = {first_row * norm->channels, rows < INT_MAX ? (int)rows : INT_MAX};
    return turn;
}

/* The slot's channels in this turn; none in a row that does not exist. */
static __forceinline__ __device__ struct channels channels_in(const struct slots *place, int slot,
                                                              struct turn turn) {
    struct channels channels = place->channels[slot];
    channels.count = place->row[slot] < turn.rows ? channels.count : 0;
    return channels;
}

/* Loads the slot's values of a tensor, as they are in memory; zeros where there are none. */
static __forceinline__ __device__ void load_slot(struct words *words, const void *tensor,
                                                 const struct slots *place, int slot, struct turn turn,
                                                 fgn_type type) {
    const int size = type == FGN_FLOAT32 ? 4 : 2;
    struct channels channels = channels_in(place, slot, turn);
    const char *rows = (const char *)tensor + turn.first * size;
#pragma unroll
    for (int j = 0; j < VALUES; j++)
        words->word[j] = 0;
    load_elements(words, rows, place->offset[slot], &channels, size);
}

static __forceinline__ __device__ void load_turn(struct words *words, const struct norm_forward_args *args,
                                                 const struct slots *place, struct turn turn, int slots,
                                                 fgn_type type) {
#pragma unroll
    for (int i = 0; i < slots; i++)
        load_slot(&words[i], args->norm.v, place, i, turn, type);
}

static __forceinline__ __device__ void store_turn(const float *value, const struct norm_forward_args *args,
                                                  const struct slots *place, struct turn turn, int slots,
                                                  fgn_type type) {
    const int size = type == FGN_FLOAT32 ? 4 : 2;
    char *rows = (char *)args->norm.y + turn.first * size;
#pragma unroll
    for (int i = 0; i < slots; i++) {
        struct channels channels = channels_in(place, i, turn);
        struct words words;
        words_of(&words, value + i * VALUES, &channels, type);
        store_elements(rows, place->offset[i], &words, &channels, size);
    }
}

/* Operators that have a tensor or a vector of channels. */
static __forceinline__ __device__ void apply_with_operand(const fgn_pointwise *step, float *value,
                                                          const struct norm_forward_args *args,
                                                          const struct slots *place, struct turn turn,
                                                          int slots, fgn_type type) {
    float operand[VALUES];
#pragma unroll
    for (int i = 0; i < slots; i++) {
        float *of_slot = value + i * VALUES;
        if (step->tensor) {
            struct words words;
            load_slot(&words, step->tensor, place, i, turn, type);
            values_of(operand, &words, &place->channels[i], type);
            apply_with_operands(add, of_slot, VALUES, operand, evenly_spaced, 1);
        } else {
            if (i == 0 || place->in_one_row)
                load_of_step(operand, step, &place->channels[i], args->norm.vector_type, type);
            apply_operand(step, of_slot, VALUES, operand, evenly_spaced, 1);
        }
    }
}

static __forceinline__ __device__ void apply_to_slots(const struct operators *list, enum list which,
                                                      float *value, const struct norm_forward_args *args,
                                                      const struct slots *place, struct turn turn, int slots,
                                                      fgn_type type) {
#pragma unroll STEPS_AT_ONCE
    for (int i = 0; i < count_of(list, which); i++) {
        const fgn_pointwise step = step_of(list, which, i);
        if (step.channel || step.tensor)
            apply_with_operand(&step, value, args, place, turn, slots, type);
        else
            apply_constants(&step, value, slots * VALUES);
        end_step(value, slots * VALUES);
    }
}

/* Gives every thread of a team `kinds` sums over each slot's group: sum[kind * slots + slot]. */
static __forceinline__ __device__ void sums_of_slots(float *sum, const struct norm_forward_args *args,
                                                     const struct slots *place, int slots, int kinds,
                                                     int thread, float *partial) {
    if (slots > 1 && place->in_one_row)
#pragma unroll
        for (int kind = 0; kind < kinds; kind++) {
            float of_row = 0.0f;
#pragma unroll
            for (int i = 0; i < slots; i++)
                of_row += sum[kind * slots + i];
#pragma unroll
            for (int i = 0; i < slots; i++)
                sum[kind * slots + i] = of_row;
        }
    sums_of_team(sum, kinds * slots, args->division.team, thread, partial);
}

/* Finds the moments of each slot's group. The values become differences from the mean without its rest. For
 * 16-bit values the rest is below their rounding error, and is not computed. */
static __forceinline__ __device__ void moments_of_slots(struct moments *moments, float *value,
                                                        const struct norm_forward_args *args,
                                                        const struct slots *place, int slots, int thread,
                                                        float *partial, fgn_type type) {
    const bool has_rest = type == FGN_FLOAT32;
    float sum[2 * MOST_SLOTS];
#pragma unroll
    for (int i = 0; i < slots; i++) {
        sum[i] = 0.0f;
#pragma unroll
        for (int j = 0; j < VALUES; j++)
            if (is_there(&place->channels[i], j))
                sum[i] += value[i * VALUES + j];
    }
    sums_of_slots(sum, args, place, slots, 1, thread, partial);
#pragma unroll
    for (int i = 0; i < slots; i++) {
        moments[i].mean = rounded(sum[i] * args->one_over_size);
        sum[i] = sum[slots + i] = 0.0f;
#pragma unroll
        for (int j = 0; j < VALUES; j++) {
            float *difference = &value[i * VALUES + j];
            *difference -= moments[i].mean;
            if (is_there(&place->channels[i], j)) {
                sum[i] += *difference * *difference;
                sum[slots + i] += *difference;
            }
        }
    }
    sums_of_slots(sum, args, place, slots, has_rest ? 2 : 1, thread, partial);
#pragma unroll
    for (int i = 0; i < slots; i++) {
        struct differences total = {has_rest ? sum[slots + i] : 0.0f, sum[i]};
        moments[i] = moments_of(moments[i].mean, total, args->one_over_size, args->norm.eps);
    }
}

/* The first thread of a team writes what the backward needs of each slot's group. */
static __forceinline__ __device__ void keep_moments(const struct moments *moments,
                                                    const struct norm_forward_args *args,
                                                    const struct slots *place, int64_t first_row, int slots) {
    const struct kept_norm *norm = &args->norm;
    int group = group_of_thread(args);
#pragma unroll
    for (int i = 0; i < slots; i++) {
        int64_t row = first_row + place->row[i];
        bool is_first = (threadIdx.x & (args->division.team - 1)) == 0 && (i == 0 || !place->in_one_row);
        if (is_first && group < norm->groups && row < norm->batch) {
            struct kept_moments kept = {moments[i].mean + moments[i].mean_rest, moments[i].inverse_deviation};
            norm->moments[row * norm->groups + group] = kept;
        }
    }
}

/* The factors and addends of a slot's normalised values. */
static __forceinline__ __device__ void load_scale_and_shift(float *scale, float *shift,
                                                            const struct kept_norm *norm,
                                                            const struct channels *channels, fgn_type type) {
    load_vector(scale, norm->scale, 1.0f, channels, norm->vector_type, type);
    load_vector(shift, norm->shift, 0.0f, channels, norm->vector_type, type);
}

/* (v - rest) / deviation * scale + shift; `has_rest` is a constant. */
static __forceinline__ __device__ float scaled(float v, struct moments moments, float scale, float shift,
                                               bool has_rest) {
    if (has_rest)
        v -= moments.mean_rest;
    return v * (moments.inverse_deviation * scale) + shift;
}

/* The same for all slots. scale, shift: of the first slot. */
static __forceinline__ __device__ void normalise_slots(float *value, const struct moments *moments,
                                                       const struct norm_forward_args *args,
                                                       const struct slots *place, float *scale, float *shift,
                                                       int slots, fgn_type type) {
#pragma unroll
    for (int i = 0; i < slots; i++) {
        if (slots > 1 && place->in_one_row)
            load_scale_and_shift(scale, shift, &args->norm, &place->channels[i], type);
#pragma unroll
        for (int j = 0; j < VALUES; j++) {
            float *v = &value[i * VALUES + j];
            *v = scaled(*v, moments[i], scale[j], shift[j], type == FGN_FLOAT32);
        }
    }
}

/* Prefetches the thread's channels of a vector into the L2 cache. The launch before this one still runs and
 * may still write the vector, so nothing is read yet. One row of threads asks for all: requests from every
 * block would wait for each other at the same lines. */
static __forceinline__ __device__ void
ask_for_channels(const void *vector, const struct norm_forward_args *args, const struct channels *channels) {
#ifdef __CUDACC__
    int64_t size = args->norm.vector_type == FGN_FLOAT32 ? 4 : 2;
    if (vector && channels->count > 0 && blockIdx.y == 0 && threadIdx.y == 0)
        asm volatile("prefetch.global.L2 [%0];" ::"l"((const char *)vector + channels->first * size));
#else
    (void)vector, (void)args, (void)channels;
#endif
}

/* The block's rows. All threads of a block go through the loop together: a team may be several warps. */
static __forceinline__ __device__ void normalise_rows(const struct norm_forward_args *args, int slots,
                                                      int width, bool is_long, fgn_type type) {
    __shared__ float partial[2 * MOST_SLOTS * WARPS];
    const struct kept_norm *norm = &args->norm;
    int thread = threadIdx.y * blockDim.x + threadIdx.x;
    struct slots place = slots_of_thread(args, slots, width, is_long);
    int rows_of_turn = (place.in_one_row ? 1 : slots) * blockDim.y;
    int64_t row = (int64_t)blockIdx.y * rows_of_turn, rows_of_grid = (int64_t)gridDim.y * rows_of_turn;
    ask_for_channels(norm->scale, args, &place.channels[0]);
    ask_for_channels(norm->shift, args, &place.channels[0]);
    griddepcontrol_wait();

    float scale[VALUES] = {0.0f}, shift[VALUES] = {0.0f};
    struct words next[MOST_SLOTS];
    load_turn(next, args, &place, turn_from(row, norm), slots, type);
    const int64_t first_row = row;
    for (; row < norm->batch; row += rows_of_grid) {
        struct turn turn = turn_from(row, norm);
        float value[MOST_SLOTS * VALUES];
#pragma unroll
        for (int i = 0; i < slots; i++)
            values_of(value + i * VALUES, &next[i], &place.channels[i], type);
        load_turn(next, args, &place, turn_from(row + rows_of_grid, norm), slots, type);
        apply_to_slots(&norm->before, BEFORE, value, args, &place, turn, slots, type);
        struct moments moments[MOST_SLOTS];
        moments_of_slots(moments, value, args, &place, slots, thread, partial, type);
        if (norm->moments)
            keep_moments(moments, args, &place, row, slots);
        if (row == first_row) /* not before: nothing has to wait for them until here */
            load_scale_and_shift(scale, shift, norm, &place.channels[0], type);
        normalise_slots(value, moments, args, &place, scale, shift, slots, type);
        apply_to_slots(&norm->after, AFTER, value, args, &place, turn, slots, type);
        store_turn(value, args, &place, turn, slots, type);
    }
}

#ifdef __CUDACC__

/* The same for vectors of VALUES, the most common ones. */
static __forceinline__ __device__ void normalise(const struct norm_forward_args *args, int slots,
                                                 fgn_type type) {
    normalise_rows(args, slots, VALUES, false, type);
}

/* For shorter vectors. Vectors of one never have several slots, which would need too many registers. */
static __forceinline__ __device__ void normalise_short(const struct norm_forward_args *args, int slots,
                                                       fgn_type type) {
    if (args->division.width == 4)
        normalise_rows(args, slots, 4, false, type);
    else if (args->division.width == 2)
        normalise_rows(args, slots, 2, false, type);
    else if (slots == 1)
        normalise_rows(args, slots, 1, false, type);
}

#else

/* On the simulator all kernels of a file share one copy of the code, which is compiled once. */
static CALLED __device__ void normalise(const struct norm_forward_args *args, int slots, fgn_type type) {
    normalise_rows(args, slots, args->division.width, false, type);
}

static __forceinline__ __device__ void normalise_short(const struct norm_forward_args *args, int slots,
                                                       fgn_type type) {
    normalise(args, slots, type);
}

#endif
