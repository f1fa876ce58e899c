/* What a thread computes of windows: the results of a vector that has several windows, or of one window. */
#pragma once

#include "rows/known.h"
#include "rows/operated.h"

/* Applies the operators before the second function, if there is one, to a vector's results. One that takes a
 * tensor and has none reads the function's result again, as in y * mish(y). */
static __forceinline__ __device__ void operate_on_results(const struct operators *list, int count,
                                                          float *value, const struct gradient_row *place) {
    end_step(value, VALUES);
    float result[VALUES];
#pragma unroll
    for (int j = 0; j < VALUES; j++)
        result[j] = value[j];
#pragma unroll STEPS_AT_ONCE
    for (int i = 0; i < count; i++) {
        const fgn_pointwise step = step_of(list, AFTER, i);
        if (!takes_tensor(&step) || step.tensor)
            operate(step, value, place);
        else if (is_kind(&step, FGN_ADD_TENSOR))
            apply_with_operands(add, value, VALUES, result, evenly_spaced, 1);
        else
            apply_with_operands(multiply, value, VALUES, result, evenly_spaced, 1);
        end_step(value, VALUES);
    }
}

/* How many operators follow the first function. A kernel that is compiled for one call reads what is known,
 * and no copy of it: a copy that a loop indexes would stay in local memory. */
static __forceinline__ __device__ int first_operators(const struct rows *rows) {
#ifdef JIT_COMPILED
    (void)rows;
    return known.second < 0 ? known.after.count : known.before_second;
#else
    return rows->has_second ? rows->before_second : rows->after.count;
#endif
}

/* Computes the results of a vector and puts them in front. Callers pass a constant for `window`. */
static __forceinline__ __device__ void results_of_vector(float *value, const struct rows *rows, int window) {
    struct channels all = {0, 1, VALUES, VALUES};
#pragma unroll
    for (int i = 0; i < VALUES / window; i++) {
        float of_window[VALUES];
#pragma unroll
        for (int j = 0; j < VALUES; j++) /* the window's first value again where it has fewer than a vector */
            of_window[j] = value[i * window + (j < window ? j : 0)];
        all.width = 1;
        all.count = window;
        value[i] = result_of(rows->function, known_of_slot(rows->function, of_window, &all), 1.0f / window);
    }
}

/* after(f(before(v))) of the windows of 2 or 4 in a vector of 8 values from feature `first` on, and their
 * place in the row of results. Callers pass constants for `window` and `type`. */
static __forceinline__ __device__ struct gradient_row
pooled_vector(float *value, const struct rows *rows, int64_t row, int first, int window, fgn_type type) {
    struct gradient_row place = {
        {first, 1, VALUES, VALUES}, row * rows->features, type, rows->vector_type, false};
    load_values(value, rows->v, place.row_start, &place.channels, type);
    operate_all(&rows->before, BEFORE, value, &place);
    results_of_vector(value, rows, window);
    struct gradient_row behind = {
        {first / window, 1, 1, VALUES / window}, row * rows->windows, type, rows->vector_type, false};
    operate_on_results(&rows->after, first_operators(rows), value, &behind);
    return behind;
}

/* The same of one window of any size, in accesses of `width` values, 8 or 1. */
static __forceinline__ __device__ float pooled_window(const struct rows *rows, int64_t row, int window,
                                                      int width, fgn_type type) {
    struct known known = of_nothing(rows->function);
#pragma unroll 1
    for (int64_t begin = 0; begin < rows->window; begin += VALUES) {
        int64_t left = rows->window - begin;
        struct gradient_row place = {
            {(int)(window * rows->window + begin), 1, width, left < VALUES ? (int)left : VALUES},
            row * rows->features,
            type,
            rows->vector_type,
            false};
        float value[VALUES];
        load_values(value, rows->v, place.row_start, &place.channels, type);
        operate_all(&rows->before, BEFORE, value, &place);
        known = combined(rows->function, known, known_of_slot(rows->function, value, &place.channels));
    }
    float result = result_of(rows->function, known, 1.0f / rows->window);
    return operated_result(&rows->after, 0, first_operators(rows), result, row * rows->windows + window,
                           window, type, rows->vector_type);
}
