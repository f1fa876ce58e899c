/* A function of a row: y = after(f(before(v))), where f is over the features of a row, or over each window of
 * them.
 *
 * Softmax, the norms and the values themselves give one value for each value; a sum, a mean, a maximum, a
 * minimum, a logsumexp and a length give one for each window. */
#pragma once

#include "jit/jit.h"
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
    bool has_second;    /* y is (batch, 1): `second` is over the windows of a row (pooled_rows.cu) */
    fgn_row_function second;
    int before_second; /* of the operators after the first function */
};

/* Whether the function gives one value for each window. */
static inline __host__ __device__ bool reduces(fgn_row_function function) {
    return function < FGN_SOFTMAX;
}

/* Whether a row's values are whole vectors in memory. */
static inline bool are_vectors(const struct rows *rows) {
    return rows->features % VALUES == 0 && is_aligned_16(rows->v) && operands_are_aligned(&rows->before);
}

/* Whether a thread's vector has whole windows, each with one result (pooling.h). */
static inline bool are_small_windows(const struct rows *rows) {
    return reduces(rows->function) && !rows->between && (rows->window == 2 || rows->window == 4) &&
           are_vectors(rows);
}

cudaError_t small_windows(const struct rows *rows, cudaStream_t stream);

/* A reduction of what a reduction of windows gives. */
cudaError_t pooled_rows(const struct rows *rows, cudaStream_t stream);

/* The operators alone (values.cu). */
cudaError_t values_forward(const struct rows *rows, cudaStream_t stream);

/* Launches it. It checks nothing, and returns the launch's error. */
cudaError_t rows_forward(const struct rows *rows, cudaStream_t stream);

/* What is the same in all calls of a kernel that is compiled for one. */
struct rows_facts {
    int type, vector_type, function, keeps;
    int features, windows, window, v_features, second, before_second;
    struct division division; /* of an operator alone: its width */
    struct known_list before, after;
};

/* Launches the kernel that was compiled for this call, of this file, and sets `error`; false if there is
 * none. args: the kernel's parameter. turns: as struct jit_call has them. */
static inline bool launched_rows_jit(const char *file, const struct rows *rows,
                                     const struct division *division, const void *args, dim3 grid, dim3 block,
                                     int64_t turns, cudaStream_t stream, cudaError_t *error) {
    const struct rows_facts facts = {
        (int)rows->type,
        (int)rows->vector_type,
        (int)rows->function,
        rows->between != NULL,
        (int)rows->features,
        (int)rows->windows,
        (int)rows->window,
        (int)rows->v_features,
        rows->has_second ? (int)rows->second : -1,
        rows->before_second,
        *division,
        known_list_of(&rows->before),
        known_list_of(&rows->after),
    };
    const struct jit_call call = {
        file, (const int *)&facts, sizeof facts / sizeof(int), args, grid, block, 0, turns, 1};
    return launched_jit(&call, stream, error);
}

#ifdef JIT_COMPILED

static constexpr __device__ struct rows_facts known = FACTS;

/* The arguments of this call, with what is known as constants. */
static __forceinline__ __device__ struct rows known_rows(struct rows rows) {
    rows.type = (fgn_type)known.type;
    rows.vector_type = (fgn_type)known.vector_type;
    rows.function = (fgn_row_function)known.function;
    if (!known.keeps)
        rows.between = NULL;
    rows.features = known.features;
    rows.windows = known.windows;
    rows.window = known.window;
    rows.v_features = known.v_features;
    rows.second = (fgn_row_function)known.second;
    return rows;
}

#include "jit/known.h"

#endif

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
