/* How a team of threads computes a function of a row, or of a window of it.
 *
 * A thread keeps what is known of its own values, the largest one and a sum, and adds further values without
 * reading the old ones again: for a larger value, it multiplies the sum of exponentials by exp(old largest -
 * new largest), the online softmax of Milakov and Gimelshein, "Online normalizer calculation for softmax"
 * (2018). Then the team combines its threads' numbers by shuffles and shared memory (known.h). LayerNorm
 * needs the mean before it can add up the differences from it, so its team combines twice. If the team's
 * registers do not hold a window, it is read again, from a cache. */
#pragma once

#include "ptx/griddepcontrol.h"
#include "rows/known.h"
#include "rows/operated.h"

/* The thread's places in some parts of a window, one for each slot: a part is a team's share in one slot.
 * Rows and parts beyond the last one have no channels. */
struct places {
    struct gradient_row slot[LONG_SLOTS];
};

/* Callers pass constants for `slots`, `width` and `type`, here and below. */
static __forceinline__ __device__ struct places places_in_window(const struct rows_args *args, int64_t row,
                                                                 int window, int part, int slots, int width,
                                                                 fgn_type type) {
    const struct rows *rows = &args->rows;
    const struct division *division = &args->division;
    int size = division->team * VALUES;
    int offset = (threadIdx.x & (division->team - 1)) * width;
    struct places places;
#pragma unroll
    for (int i = 0; i < slots; i++) {
        struct gradient_row *place = &places.slot[i];
        struct channels *channels = &place->channels;
        int before = (part + i) * size, left = division->group_size - before;
        left = (left < size ? left : size) - offset;
        channels->team = division->team;
        channels->width = width;
        channels->first = window * division->group_size + before + offset;
        channels->count = 0;
        if (left > 0 && row < rows->batch && window < division->groups) /* vectors are a team apart */
            channels->count =
                width == VALUES ? VALUES : (left - 1) / (division->team * width) * width + width;
        place->row_start = row * rows->features;
        place->type = type;
        place->vector_type = rows->vector_type;
        place->only_common = false;
    }
    return places;
}

static __forceinline__ __device__ void load_slots(struct words *words, const struct rows_args *args,
                                                  const struct places *places, int slots, fgn_type type) {
#pragma unroll
    for (int i = 0; i < slots; i++)
        load_words(&words[i], args->rows.v, places->slot[i].row_start, &places->slot[i].channels, type);
}

/* Computes u = before(v) from loaded values. */
static __forceinline__ __device__ void values_of_slots(float *value, const struct words *words,
                                                       const struct rows_args *args,
                                                       const struct places *places, int slots,
                                                       fgn_type type) {
#pragma unroll
    for (int i = 0; i < slots; i++)
        values_of(value + i * VALUES, &words[i], &places->slot[i].channels, type);
    operate_on_slots(&args->rows.before, BEFORE, value, places->slot, slots);
}

/* Adds to what the thread knows of a row. Each slot is first computed alone, so that exponentials do not wait
 * for each other. */
static __forceinline__ __device__ struct known known_with_slots(fgn_row_function function, struct known known,
                                                                const float *value,
                                                                const struct places *places, int slots,
                                                                bool is_held) {
    if (sums_exponentials(function) && is_held) {
#pragma unroll
        for (int i = 0; i < slots; i++)
            known =
                combined(FGN_ROW_MAX, known, largest_of_slot(value + i * VALUES, &places->slot[i].channels));
        return known;
    }
    struct known of_slot[LONG_SLOTS];
#pragma unroll
    for (int i = 0; i < slots; i++)
        of_slot[i] = known_of_slot(function, value + i * VALUES, &places->slot[i].channels);
#pragma unroll
    for (int i = 0; i < slots; i++)
        known = combined(function, known, of_slot[i]);
    return known;
}

/* The team's first thread writes a window's one value. */
static __forceinline__ __device__ void store_result(const struct rows_args *args, float result, int64_t row,
                                                    int window, fgn_type type) {
    const struct rows *rows = &args->rows;
    int64_t at = row * rows->windows + window;
    if (row >= rows->batch || window >= rows->windows || (threadIdx.x & (args->division.team - 1)) != 0)
        return;
    store_element(rows->y, at,
                  operated_result(&rows->after, 0, count_of(&rows->after, AFTER), result, at, window, type,
                                  rows->vector_type),
                  type);
}

static __forceinline__ __device__ void store_slots(fgn_row_function function, float *value,
                                                   const struct rows_args *args, const struct places *places,
                                                   struct known known, struct moments moments,
                                                   bool are_exponentials, int slots, fgn_type type) {
    const struct rows *rows = &args->rows;
    give_values(function, value, slots * VALUES, known, moments, are_exponentials, 1.0f / rows->window,
                rows->eps);
    operate_on_slots(&rows->after, AFTER, value, places->slot, slots);
#pragma unroll
    for (int i = 0; i < slots; i++)
        store_values(rows->y, places->slot[i].row_start, value + i * VALUES, &places->slot[i].channels, type);
}

/* Writes u, the result of the operators before the function. */
static __forceinline__ __device__ void store_between(const float *value, const struct rows_args *args,
                                                     const struct places *places, int slots, fgn_type type) {
#pragma unroll
    for (int i = 0; i < slots; i++)
        store_values(args->rows.between, places->slot[i].row_start, value + i * VALUES,
                     &places->slot[i].channels, type);
}

/* Adds up the differences from the mean. Registers hold `value`, the last parts; with more of them all come
 * again. */
static __forceinline__ __device__ struct moments moments_of_row(float *value, float mean,
                                                                const struct rows_args *args, int64_t row,
                                                                int window, struct places *places, int slots,
                                                                int width, fgn_type type, bool is_held,
                                                                int thread, struct known *shared) {
    struct known known = {0.0f, 0.0f};
    const int parts = args->division.parts;
#pragma unroll 1
    for (int part = 0; part < (is_held ? 1 : parts); part += slots) {
        if (!is_held) {
            struct words again[LONG_SLOTS];
            *places = places_in_window(args, row, window, part, slots, width, type);
            load_slots(again, args, places, slots, type);
            values_of_slots(value, again, args, places, slots, type);
        }
#pragma unroll
        for (int i = 0; i < slots; i++)
            known = combined(FGN_LAYER_NORM, known,
                             differences_of_slot(value + i * VALUES, &places->slot[i].channels, mean));
    }
    known = known_of_team(FGN_LAYER_NORM, known, args->division.team, thread, shared);
    struct differences total = {known.most, known.sum};
    return moments_of(mean, total, 1.0f / args->rows.window, args->rows.eps);
}

/* For a row in the team's registers whose largest value is known. */
static __forceinline__ __device__ struct known known_with_exponentials(fgn_row_function function,
                                                                       struct known largest, float *value,
                                                                       const struct rows_args *args,
                                                                       const struct places *places, int slots,
                                                                       int thread, struct known *shared) {
    struct known known = {-INFINITY, 0.0f};
#pragma unroll
    for (int i = 0; i < slots; i++)
        known.sum += exponentials_of_slot(function, value + i * VALUES, &places->slot[i].channels,
                                          pivot_of(largest.most))
                         .sum;
    known = known_of_team(FGN_ROW_SUM, known, args->division.team, thread, shared);
    known.most = largest.most;
    return known;
}

/* is_held: whether the team's registers hold a window, a constant too. */
static __forceinline__ __device__ void function_of_rows(const struct rows_args *args, int slots, int width,
                                                        fgn_type type, fgn_row_function function,
                                                        bool is_held) {
    __shared__ struct known shared[WARPS];
    const struct rows *rows = &args->rows;
    int thread = threadIdx.y * blockDim.x + threadIdx.x, parts = args->division.parts;
    int window = (blockIdx.x * blockDim.x + threadIdx.x) / args->division.team;
    int64_t row = (int64_t)blockIdx.y * blockDim.y + threadIdx.y, step = (int64_t)gridDim.y * blockDim.y;
    float value[LONG_SLOTS * VALUES];
    struct words next[LONG_SLOTS];
    griddepcontrol_wait();
    struct places places = places_in_window(args, row, window, 0, slots, width, type);
    load_slots(next, args, &places, slots, type);
    for (; row - threadIdx.y < rows->batch; row += step) {
        struct known known = of_nothing(function);
        for (int part = 0;;) {
            values_of_slots(value, next, args, &places, slots, type);
            if (rows->between)
                store_between(value, args, &places, slots, type);
            known = known_with_slots(function, known, value, &places, slots, is_held);
            part += slots;
            if (is_held || part >= parts)
                break;
            places = places_in_window(args, row, window, part, slots, width, type);
            load_slots(next, args, &places, slots, type);
        }
        /* the next row is loaded while the team combines */
        struct places of_next = places_in_window(args, row + step, window, 0, slots, width, type);
        load_slots(next, args, &of_next, slots, type);
        bool has_most = sums_exponentials(function) && is_held; /* alone, without the sum */
        known = known_of_team(has_most ? FGN_ROW_MAX : function, known, args->division.team, thread, shared);
        if (has_most)
            known = known_with_exponentials(function, known, value, args, &places, slots, thread, shared);
        struct moments moments = {0.0f, 0.0f, 0.0f};
        if (function == FGN_LAYER_NORM)
            moments = moments_of_row(value, known.sum / rows->window, args, row, window, &places, slots,
                                     width, type, is_held, thread, shared);
        if (reduces(function)) {
            store_result(args, result_of(rows->function, known, 1.0f / rows->window), row, window, type);
            places = of_next;
            continue;
        }
        for (int part = 0;;
             part += slots) { /* the last parts are in registers still; the others come again */
            store_slots(function, value, args, &places, known, moments, has_most, slots, type);
            if (is_held || part + slots >= parts)
                break;
            struct words again[LONG_SLOTS];
            places = places_in_window(args, row, window, part, slots, width, type);
            load_slots(again, args, &places, slots, type);
            values_of_slots(value, again, args, &places, slots, type);
        }
        places = of_next;
    }
}

/* ---- A function's own code ---- */

#ifdef JIT_COMPILED

static __forceinline__ __device__ void rows_of_type(const struct rows_args *args, int slots, fgn_type type) {
    bool is_wide = known.division.width == VALUES;
    function_of_rows(args, is_wide ? slots : 1, is_wide ? VALUES : 1, type, (fgn_row_function)known.function,
                     is_wide && known.division.parts <= slots);
}

#elif defined __CUDACC__

/* Whether it is this function, written so that the compiler makes no jump table (shared/apply_operator.h). */
static __forceinline__ __device__ bool is_function(fgn_row_function function, fgn_row_function one) {
    int of_call = (int)function;
    asm volatile("" : "+r"(of_call));
    return of_call == (int)one;
}

/* Where registers hold a window, a function's code is apart from that of others, so that what a call runs is
 * contiguous: instructions come from memory line by line, and the next lines are fetched ahead. Longer
 * windows share one copy, and so do vectors of one. */
static __forceinline__ __device__ void rows_of_type(const struct rows_args *args, int slots, fgn_type type) {
    const fgn_row_function function = args->rows.function;
    const bool is_wide = args->division.width == VALUES;
    if (__builtin_expect(!is_wide, 0)) /* values one by one have no room for several slots */
        function_of_rows(args, 1, 1, type, function, false);
    else if (__builtin_expect(args->division.parts > slots, 0))
        function_of_rows(args, slots, VALUES, type, function, false);
    else if (is_function(function, FGN_ROW_SUM) || is_function(function, FGN_ROW_MEAN))
        function_of_rows(args, slots, VALUES, type, FGN_ROW_SUM, true);
    else if (is_function(function, FGN_ROW_MAX))
        function_of_rows(args, slots, VALUES, type, FGN_ROW_MAX, true);
    else if (is_function(function, FGN_ROW_MIN))
        function_of_rows(args, slots, VALUES, type, FGN_ROW_MIN, true);
    else if (is_function(function, FGN_ROW_LENGTH))
        function_of_rows(args, slots, VALUES, type, FGN_ROW_LENGTH, true);
    else if (is_function(function, FGN_LOGSUMEXP))
        function_of_rows(args, slots, VALUES, type, FGN_LOGSUMEXP, true);
    else if (is_function(function, FGN_SOFTMAX))
        function_of_rows(args, slots, VALUES, type, FGN_SOFTMAX, true);
    else if (is_function(function, FGN_LOG_SOFTMAX))
        function_of_rows(args, slots, VALUES, type, FGN_LOG_SOFTMAX, true);
    else if (is_function(function, FGN_RMS_NORM))
        function_of_rows(args, slots, VALUES, type, FGN_RMS_NORM, true);
    else
        function_of_rows(args, slots, VALUES, type, FGN_LAYER_NORM, true);
}

#else

/* On the simulator all kernels share one copy of the code, which is compiled once. */
static CALLED __device__ void rows_of_type(const struct rows_args *args, int slots, fgn_type type) {
    int width = args->division.width;
    slots = width == VALUES ? slots : 1;
    function_of_rows(args, slots, width, type, args->rows.function, args->division.parts <= slots);
}

#endif
