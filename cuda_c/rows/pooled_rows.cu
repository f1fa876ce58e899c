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

struct pooled_rows_args {
    struct rows rows;
    int team;   /* threads for a row, a power of two */
    int pieces; /* of a row: vectors of small windows, or windows */
    int width;  /* of the accesses to a window that is a piece */
};

/* What the second function knows of one piece. Callers pass constants for `window`, 2, 4 or 0 for other
 * windows, and for `type`. */
static __forceinline__ __device__ struct known
known_of_piece(const struct pooled_rows_args *args, int64_t row, int piece, int window, fgn_type type) {
    const struct rows *rows = &args->rows;
    float value[VALUES] = {0.0f};
    struct channels channels = {0, 1, 1, 1};
    if (window > 0)
        channels = pooled_vector(value, rows, row, piece * VALUES, window, type).channels;
    else if (args->width == VALUES)
        value[0] = pooled_window(rows, row, piece, VALUES, type);
    else
        value[0] = pooled_window(rows, row, piece, 1, type);
    return known_of_slot(rows->second, value, &channels);
}

static __forceinline__ __device__ void reduce_pieces(const struct pooled_rows_args *args, int window,
                                                     fgn_type type) {
    __shared__ struct known shared[WARPS];
    const struct rows *rows = &args->rows;
    int thread = threadIdx.y * blockDim.x + threadIdx.x;
    griddepcontrol_wait();
    for (int64_t first = (int64_t)blockIdx.x * blockDim.y; first < rows->batch;
         first += (int64_t)gridDim.x * blockDim.y) { /* the whole block combines together */
        int64_t row = first + threadIdx.y;
        struct known known = of_nothing(rows->second);
        if (row < rows->batch)
#pragma unroll 1
            for (int piece = threadIdx.x; piece < args->pieces; piece += args->team)
                known = combined(rows->second, known, known_of_piece(args, row, piece, window, type));
        known = known_of_team(rows->second, known, args->team, thread, shared);
        if (row < rows->batch && threadIdx.x == 0) {
            float result = result_of(rows->second, known, 1.0f / rows->windows);
            result = operated_result(&rows->last, result, row, 0, type, rows->vector_type);
            store_element(rows->y, row, result, type);
        }
    }
}

/* Callers pass a constant for `type`. */
static __forceinline__ __device__ void reduce_pooled(const struct pooled_rows_args *args, fgn_type type) {
    if (args->width == 2)
        reduce_pieces(args, 2, type);
    else if (args->width == 4)
        reduce_pieces(args, 4, type);
    else
        reduce_pieces(args, 0, type);
}

__global__ void __launch_bounds__(THREADS) pooled_rows_float32_kernel(struct pooled_rows_args args) {
    reduce_pooled(&args, FGN_FLOAT32);
}

__global__ void __launch_bounds__(THREADS) pooled_rows_float16_kernel(struct pooled_rows_args args) {
    reduce_pooled(&args, FGN_FLOAT16);
}

__global__ void __launch_bounds__(THREADS) pooled_rows_bfloat16_kernel(struct pooled_rows_args args) {
    reduce_pooled(&args, FGN_BFLOAT16);
}

EARLY_LAUNCHER(pooled_rows_float32_kernel, struct pooled_rows_args)
EARLY_LAUNCHER(pooled_rows_float16_kernel, struct pooled_rows_args)
EARLY_LAUNCHER(pooled_rows_bfloat16_kernel, struct pooled_rows_args)

/* ---- The host ---- */

#define BLOCKS_OF_POOLED (8 * MULTIPROCESSORS) /* as many as a large GPU holds at once */

cudaError_t pooled_rows(const struct rows *rows, cudaStream_t stream) {
    struct pooled_rows_args args = {*rows, 1, (int)rows->windows, 1};
    if (are_small_windows(rows)) {
        args.pieces = (int)(rows->features / VALUES);
        args.width = (int)rows->window;
    } else if (rows->window % VALUES == 0 && are_vectors(rows)) {
        args.width = VALUES;
    }
    args.team = power_of_two_above(args.pieces, THREADS);
    const dim3 block = {(unsigned)args.team, (unsigned)(THREADS / args.team), 1};
    int64_t blocks = tiles(rows->batch, block.y);
    const dim3 grid = {(unsigned)(blocks < BLOCKS_OF_POOLED ? blocks : BLOCKS_OF_POOLED), 1, 1};
    switch (rows->type) {
    case FGN_FLOAT16:
        return launch_pooled_rows_float16_kernel(grid, block, 0, stream, true, args);
    case FGN_BFLOAT16:
        return launch_pooled_rows_bfloat16_kernel(grid, block, 0, stream, true, args);
    default:
        return launch_pooled_rows_float32_kernel(grid, block, 0, stream, true, args);
    }
}
