/* A function of a row: y = after(f(before(v))), where f is over the features of a row, or over each window of
 * them.
 *
 * Softmax, the norms and the values themselves give one value for each value; a sum, a mean, a maximum, a
 * minimum, a logsumexp and a length give one for each window. */
#pragma once

#include "norm/division.h"
#include "shared/rung.h"

struct rows {
    const void *v; /* (batch, features), of the type */
    void *y;       /* the same, or (batch, windows) */
    void *between; /* before(v), as v, or NULL */
    fgn_type type;
    fgn_type vector_type;
    fgn_row_function function;
    float eps;
    int64_t batch;
    int64_t features;
    int64_t windows;
    int64_t window; /* features of each; the last features - windows * window are no window's */
    struct operators before;
    struct operators after;
    int64_t v_features; /* in memory, of a row of v, which is at the first value */
    const void *again;  /* what operators after FGN_VALUES without a tensor read, with rows as v's */
};

/* Whether the function gives one value for each window. */
static inline __host__ __device__ bool reduces(fgn_row_function function) {
    return function < FGN_SOFTMAX;
}

/* Whether a thread's vector has whole windows, each with one result (small_windows.cu). */
static inline bool are_small_windows(const struct rows *rows) {
    return reduces(rows->function) && !rows->between && (rows->window == 2 || rows->window == 4) &&
           rows->features % VALUES == 0 && is_aligned_16(rows->v) && operands_are_aligned(&rows->before);
}

cudaError_t small_windows(const struct rows *rows, cudaStream_t stream);

/* The operators alone (values.cu). */
cudaError_t values_forward(const struct rows *rows, cudaStream_t stream);

/* Launches it. It checks nothing, and returns the launch's error. */
cudaError_t rows_forward(const struct rows *rows, cudaStream_t stream);

/* ---- Functions of rows: how row_functions.cu divides a launch, and its kernels ---- */

/* The vectors of a thread in a long row. */
#define LONG_SLOTS 4

/* As many blocks as a large GPU holds at once. */
#define BLOCKS_OF_SHORT 3
#define BLOCKS_OF_LONG 2

struct rows_args {
    struct rows rows;
    struct division division;
};

cudaError_t launch_short_rows(dim3 grid, dim3 block, const struct rows_args *args, cudaStream_t stream);
cudaError_t launch_long_rows(dim3 grid, dim3 block, const struct rows_args *args, cudaStream_t stream);
