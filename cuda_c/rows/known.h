/* What a function has to know of a row, the largest value and a sum, and what it computes from them.
 *
 * combined() merges what two threads know of different values, in two operations or, with exponentials, four.
 * So a row may be divided among threads in any way. */
#pragma once

#include "norm/channels.h"
#include "rows/rows.h"
#include "shared/moments.h"

/* The largest value (for a minimum the smallest), and a sum of the values, of their squares, or of exp(value
 * - largest). LayerNorm has two sums: first of the values, then of the differences from the mean (`most`) and
 * of their squares. */
struct known {
    float most;
    float sum;
};

static __forceinline__ __device__ bool sums_exponentials(fgn_row_function function) {
    return function == FGN_LOGSUMEXP || function == FGN_SOFTMAX || function == FGN_LOG_SOFTMAX;
}

static __forceinline__ __device__ bool finds_most(fgn_row_function function) {
    return function == FGN_ROW_MAX || function == FGN_ROW_MIN || sums_exponentials(function);
}

static __forceinline__ __device__ bool sums_squares(fgn_row_function function) {
    return function == FGN_RMS_NORM || function == FGN_ROW_LENGTH;
}

static __forceinline__ __device__ struct known of_nothing(fgn_row_function function) {
    struct known known = {function == FGN_ROW_MIN ? INFINITY : -INFINITY, 0.0f};
    if (function == FGN_LAYER_NORM)
        known.most = 0.0f;
    return known;
}

/* The pivot of exponentials: the largest value, or 0 if that cannot be subtracted. */
static __forceinline__ __device__ float pivot_of(float most) {
    return fabsf(most) < INFINITY ? most : 0.0f;
}

/* The larger of two values, or for a minimum the smaller; NaN if one of them is. */
static __forceinline__ __device__ float further(fgn_row_function function, float a, float b) {
    return function == FGN_ROW_MIN ? minimum(a, b) : maximum(a, b);
}

/* Moves a sum of exponentials to another pivot. An empty sum stays empty, whatever the pivots are. */
static __forceinline__ __device__ float moved(float sum, float from, float to) {
    return sum == 0.0f ? 0.0f : sum * fast_exp(from - to);
}

static __forceinline__ __device__ struct known combined(fgn_row_function function, struct known a,
                                                        struct known b) {
    struct known both;
    both.most = function == FGN_LAYER_NORM ? a.most + b.most : further(function, a.most, b.most);
    if (sums_exponentials(function)) {
        float pivot = pivot_of(both.most);
        both.sum = moved(a.sum, pivot_of(a.most), pivot) + moved(b.sum, pivot_of(b.most), pivot);
    } else {
        both.sum = a.sum + b.sum;
    }
    return both;
}

/* What a thread's values of a slot contribute. */
static __forceinline__ __device__ struct known known_of_slot(fgn_row_function function, const float *value,
                                                             const struct channels *channels) {
    struct known known = of_nothing(function);
    if (finds_most(function)) {
#pragma unroll
        for (int j = 0; j < VALUES; j++)
            if (is_there(channels, j))
                known.most = further(function, known.most, value[j]);
    }
    if (sums_exponentials(function)) {
        float pivot = pivot_of(known.most);
#pragma unroll
        for (int j = 0; j < VALUES; j++)
            known.sum += is_there(channels, j) ? fast_exp(value[j] - pivot) : 0.0f;
    } else if (sums_squares(function)) {
#pragma unroll
        for (int j = 0; j < VALUES; j++)
            known.sum += is_there(channels, j) ? value[j] * value[j] : 0.0f;
    } else if (!finds_most(function)) {
#pragma unroll
        for (int j = 0; j < VALUES; j++)
            known.sum += is_there(channels, j) ? value[j] : 0.0f;
    }
    return known;
}

/* If registers hold a row, its largest value is found before the exponentials, which halves their number. */
static __forceinline__ __device__ struct known largest_of_slot(const float *value,
                                                               const struct channels *channels) {
    struct known known = of_nothing(FGN_ROW_MAX);
#pragma unroll
    for (int j = 0; j < VALUES; j++)
        if (is_there(channels, j))
            known.most = further(FGN_ROW_MAX, known.most, value[j]);
    return known;
}

/* Adds exp(value - largest), which replaces softmax's values from then on. */
static __forceinline__ __device__ struct known
exponentials_of_slot(fgn_row_function function, float *value, const struct channels *channels, float pivot) {
    struct known known = {-INFINITY, 0.0f};
#pragma unroll
    for (int j = 0; j < VALUES; j++) {
        float exponential = fast_exp(value[j] - pivot);
        known.sum += is_there(channels, j) ? exponential : 0.0f;
        value[j] = function == FGN_SOFTMAX ? exponential : value[j];
    }
    return known;
}

/* Sums of differences from the mean; their own mean is its rounding error (shared/moments.h). */
static __forceinline__ __device__ struct known
differences_of_slot(const float *value, const struct channels *channels, float mean) {
    struct known known = {0.0f, 0.0f};
#pragma unroll
    for (int j = 0; j < VALUES; j++) {
        float difference = is_there(channels, j) ? value[j] - mean : 0.0f;
        known.most += difference;
        known.sum += difference * difference;
    }
    return known;
}

/* Gives every thread what the whole team knows. The whole block calls it together; `shared` has room for each
 * warp, and others may read it until all threads have called this. */
static __forceinline__ __device__ struct known known_of_team(fgn_row_function function, struct known known,
                                                             int team, int thread, struct known *shared) {
    const int warp = thread / LANES, warps = team / LANES;
#pragma unroll 1
    for (int sharing = team < LANES ? team : LANES;; sharing = warps) { /* lanes, then warps */
#pragma unroll 1
        for (int distance = sharing / 2; distance > 0; distance /= 2) {
            struct known other = {__shfl_xor_sync(0xffffffffu, known.most, distance),
                                  __shfl_xor_sync(0xffffffffu, known.sum, distance)};
            known = combined(function, known, other);
        }
        if (warps <= 1 || sharing == warps)
            return known;
        __syncthreads();
        if (thread % LANES == 0)
            shared[warp] = known;
        __syncthreads();
        known = shared[(warp & -warps) + thread % warps];
    }
}

/* ---- The function ---- */

static __forceinline__ __device__ float result_of(fgn_row_function function, struct known known,
                                                  float one_over_size) {
    if (function == FGN_ROW_SUM)
        return known.sum;
    if (function == FGN_ROW_MEAN)
        return known.sum * one_over_size;
    if (function == FGN_ROW_LENGTH)
        return sqrtf(known.sum);
    if (function == FGN_LOGSUMEXP)
        return pivot_of(known.most) + logf(known.sum);
    return known.most;
}

/* Computes a row's results. are_exponentials: softmax's values are exp(value - largest) already. A row whose
 * largest value is infinite has no softmax, as in torch. */
static __forceinline__ __device__ void give_values(fgn_row_function function, float *value, int count,
                                                   struct known known, struct moments moments,
                                                   bool are_exponentials, float one_over_size, float eps) {
    float most = fabsf(known.most) < INFINITY ? known.most : NAN;
    if (function == FGN_RMS_NORM) {
        float times = rsqrtf(known.sum * one_over_size + eps);
#pragma unroll
        for (int j = 0; j < count; j++)
            value[j] *= times;
    } else if (function == FGN_LAYER_NORM) {
#pragma unroll
        for (int j = 0; j < count; j++)
            value[j] = normalised(value[j], moments);
    } else if (function == FGN_SOFTMAX) {
        float times = most == most ? 1.0f / known.sum : NAN;
#pragma unroll
        for (int j = 0; j < count; j++)
            value[j] = (are_exponentials ? value[j] : fast_exp(value[j] - most)) * times;
    } else {
        float less = logf(known.sum);
#pragma unroll
        for (int j = 0; j < count; j++)
            value[j] = value[j] - most - less;
    }
}
