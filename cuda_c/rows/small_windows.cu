/* A function of windows of 2 or 4 features, such as pooling: one value for each window.
 *
 * Idea: a thread's vector of 8 values has whole windows, so it computes their results alone, in registers.
 * With a team for each window (row_functions.cu), a thread would have only a quarter of a vector.
 *
 * Bytes: v read once, 4 for each element, 2 in a 16-bit type, and a half or a quarter of it written.
 * Operations: about 2 for each element and the chain's own.
 *
 * Limit: memory. */
#include "ptx/griddepcontrol.h"
#include "rows/pooling.h"
#include "sim/launchers.h"

struct small_windows_args {
    struct rows rows;
};

/* Callers pass constants for `window` and `type`. */
static __forceinline__ __device__ void pool(const struct rows *rows, int window, fgn_type type) {
    const unsigned vectors = (unsigned)(rows->features / VALUES);
    griddepcontrol_wait();
    for (struct turn turn = first_turn(vectors); turn.row < rows->batch; take_turn(&turn, vectors)) {
        int64_t row = turn.row;
        float value[VALUES];
        struct gradient_row behind = pooled_vector(value, rows, row, (int)turn.vector * VALUES, window, type);
        store_values(rows->y, behind.row_start, value, &behind.channels, type);
    }
}

/* Callers pass a constant for `type`. */
static __forceinline__ __device__ void pool_by_window(const struct rows *rows, fgn_type type) {
    if (rows->window == 2)
        pool(rows, 2, type);
    else
        pool(rows, 4, type);
}

#ifdef JIT_COMPILED

extern "C" __global__ void __launch_bounds__(THREADS) jit_kernel(struct small_windows_args given) {
    const struct rows rows = known_rows(given.rows);
    pool_by_window(&rows, (fgn_type)known.type);
}

#else

__global__ void __launch_bounds__(THREADS) small_windows_float32_kernel(struct small_windows_args args) {
    pool_by_window(&args.rows, FGN_FLOAT32);
}

__global__ void __launch_bounds__(THREADS) small_windows_float16_kernel(struct small_windows_args args) {
    pool_by_window(&args.rows, FGN_FLOAT16);
}

__global__ void __launch_bounds__(THREADS) small_windows_bfloat16_kernel(struct small_windows_args args) {
    pool_by_window(&args.rows, FGN_BFLOAT16);
}

EARLY_LAUNCHER(small_windows_float32_kernel, struct small_windows_args)
EARLY_LAUNCHER(small_windows_float16_kernel, struct small_windows_args)
EARLY_LAUNCHER(small_windows_bfloat16_kernel, struct small_windows_args)

/* ---- The host ---- */

#define BLOCKS_OF_POOLING (8 * MULTIPROCESSORS) /* as many as a large GPU holds at once */

cudaError_t small_windows(const struct rows *rows, cudaStream_t stream) {
    struct small_windows_args args = {*rows};
    int64_t blocks = tiles(rows->batch * (rows->features / VALUES), THREADS);
    const dim3 grid = {(unsigned)(blocks < BLOCKS_OF_POOLING ? blocks : BLOCKS_OF_POOLING), 1, 1};
    const dim3 block = {THREADS, 1, 1};
    const struct division undivided = {0, 0, 0, 0, 0, 0};
    cudaError_t error;
    if (launched_rows_jit("rows/small_windows.cu", rows, &undivided, &args, grid, block, 0, stream, &error))
        return error;
    switch (rows->type) {
    case FGN_FLOAT16:
        return launch_small_windows_float16_kernel(grid, block, 0, stream, true, args);
    case FGN_BFLOAT16:
        return launch_small_windows_bfloat16_kernel(grid, block, 0, stream, true, args);
    default:
        return launch_small_windows_float32_kernel(grid, block, 0, stream, true, args);
    }
}

#endif
