/* A reduction of what a reduction of windows gives, such as the sum of the maxima of every two features.
 *
 * Idea: the windows' results are few, and no other thread needs them, so they stay in registers: a team of
 * threads takes a row, each computes the results of some windows and keeps what the second function has to
 * know of them (known.h), and the team combines that. Two launches would write and read the results, and
 * small calls wait for each launch.
 *
 * Bytes: v read once, 4 for each element, 2 in a 16-bit type; one value written for each row. Operations:
 * about 2 for each element, and the chain's own.
 *
 * Limit: memory; where the tensor is small, the launch and instructions that come from memory. */
#include "ptx/griddepcontrol.h"
#include "rows/pooling.h"
#include "sim/launchers.h"

/* What the second function knows of one part of a row: a vector of windows of 2 or 4, or one window. Callers
 * pass constants for `window`, 2, 4 or 0 for other windows, and for `type`. */
static __forceinline__ __device__ struct known known_of_part(const struct rows_args *args, int64_t row,
                                                             int part, int window, fgn_type type) {
    const struct rows *rows = &args->rows;
    float value[VALUES] = {0.0f};
    struct channels channels = {0, 1, 1, 1};
    if (window > 0)
        channels = pooled_vector(value, rows, row, part * VALUES, window, type).channels;
    else if (args->division.width == VALUES)
        value[0] = pooled_window(rows, row, part, VALUES, type);
    else
        value[0] = pooled_window(rows, row, part, 1, type);
    return known_of_slot(rows->second, value, &channels);
}

static __forceinline__ __device__ void reduce_parts(const struct rows_args *args, int window, fgn_type type) {
    __shared__ struct known shared[WARPS];
    const struct rows *rows = &args->rows;
    const struct division *division = &args->division;
    int thread = threadIdx.y * blockDim.x + threadIdx.x;
    griddepcontrol_wait();
    for (int64_t first = (int64_t)blockIdx.x * blockDim.y; first < rows->batch;
         first += (int64_t)gridDim.x * blockDim.y) { /* the whole block combines together */
        int64_t row = first + threadIdx.y;
        struct known known_here = of_nothing(rows->second);
        if (row < rows->batch)
#pragma unroll 1
            for (int part = threadIdx.x; part < division->parts; part += division->team)
                known_here = combined(rows->second, known_here, known_of_part(args, row, part, window, type));
        known_here = known_of_team(rows->second, known_here, division->team, thread, shared);
        if (row < rows->batch && threadIdx.x == 0) {
            float result = result_of(rows->second, known_here, 1.0f / rows->windows);
            result = operated_result(&rows->after, first_operators(rows), count_of(&rows->after, AFTER),
                                     result, row, 0, type, rows->vector_type);
            store_element(rows->y, row, result, type);
        }
    }
}

/* Callers pass a constant for `type`. */
static __forceinline__ __device__ void reduce_pooled(const struct rows_args *args, fgn_type type) {
    if (args->division.width == 2)
        reduce_parts(args, 2, type);
    else if (args->division.width == 4)
        reduce_parts(args, 4, type);
    else
        reduce_parts(args, 0, type);
}

#ifdef JIT_COMPILED

extern "C" __global__ void __launch_bounds__(THREADS) jit_kernel(struct rows_args given) {
    const struct rows_args args = {known_rows(given.rows), known.division};
    reduce_pooled(&args, (fgn_type)known.type);
}

#else

__global__ void __launch_bounds__(THREADS) pooled_rows_float32_kernel(struct rows_args args) {
    reduce_pooled(&args, FGN_FLOAT32);
}

__global__ void __launch_bounds__(THREADS) pooled_rows_float16_kernel(struct rows_args args) {
    reduce_pooled(&args, FGN_FLOAT16);
}

__global__ void __launch_bounds__(THREADS) pooled_rows_bfloat16_kernel(struct rows_args args) {
    reduce_pooled(&args, FGN_BFLOAT16);
}

EARLY_LAUNCHER(pooled_rows_float32_kernel, struct rows_args)
EARLY_LAUNCHER(pooled_rows_float16_kernel, struct rows_args)
EARLY_LAUNCHER(pooled_rows_bfloat16_kernel, struct rows_args)

/* ---- The host ---- */

#define BLOCKS_OF_POOLED (8 * MULTIPROCESSORS) /* as many as a large GPU holds at once */

/* A row's parts are vectors, or windows. The width of small windows is theirs, that of others the accesses'.
 */
static struct division division_of_pooled(const struct rows *rows) {
    struct division division = {0, 0, (int)rows->windows, 0, 0, 1};
    if (are_small_windows(rows)) {
        division.parts = (int)(rows->features / VALUES);
        division.width = (int)rows->window;
    } else if (rows->window % VALUES == 0 && are_vectors(rows)) {
        division.width = VALUES;
    }
    division.team = power_of_two_above(division.parts, THREADS);
    return division;
}

cudaError_t pooled_rows(const struct rows *rows, cudaStream_t stream) {
    const struct rows_args args = {*rows, division_of_pooled(rows)};
    const unsigned team = (unsigned)args.division.team;
    const dim3 block = {team, THREADS / team, 1};
    int64_t blocks = tiles(rows->batch, block.y);
    const dim3 grid = {(unsigned)(blocks < BLOCKS_OF_POOLED ? blocks : BLOCKS_OF_POOLED), 1, 1};
    cudaError_t error;
    if (launched_rows_jit("rows/pooled_rows.cu", rows, &args.division, &args, grid, block, 0, stream, &error))
        return error;
    switch (rows->type) {
    case FGN_FLOAT16:
        return launch_pooled_rows_float16_kernel(grid, block, 0, stream, true, args);
    case FGN_BFLOAT16:
        return launch_pooled_rows_bfloat16_kernel(grid, block, 0, stream, true, args);
    default:
        return launch_pooled_rows_float32_kernel(grid, block, 0, stream, true, args);
    }
}

#endif
