/* Functions of rows with LONG_SLOTS vectors of a thread: large tensors, and rows that a block's threads do
 * not hold with one vector each.
 *
 * Idea: a thread's fixed work, and the team's shuffles, serve several vectors, and the loads of all of them
 * are in flight together. row_functions.cu has the bytes, the operations and the limit. */
#include "rows/function_of_row.h"
#include "sim/launchers.h"

#ifdef JIT_COMPILED

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_OF_LONG) jit_kernel(struct rows_args given) {
    const struct rows_args args = {known_rows(given.rows), known.division};
    rows_of_type(&args, LONG_SLOTS, (fgn_type)known.type);
}

#else

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_LONG) long_rows_float32_kernel(struct rows_args args) {
    rows_of_type(&args, LONG_SLOTS, FGN_FLOAT32);
}

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_LONG) long_rows_float16_kernel(struct rows_args args) {
    rows_of_type(&args, LONG_SLOTS, FGN_FLOAT16);
}

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_LONG) long_rows_bfloat16_kernel(struct rows_args args) {
    rows_of_type(&args, LONG_SLOTS, FGN_BFLOAT16);
}

EARLY_LAUNCHER(long_rows_float32_kernel, struct rows_args)
EARLY_LAUNCHER(long_rows_float16_kernel, struct rows_args)
EARLY_LAUNCHER(long_rows_bfloat16_kernel, struct rows_args)

cudaError_t launch_long_rows(dim3 grid, dim3 block, const struct rows_args *args, cudaStream_t stream) {
    cudaError_t error;
    if (launched_rows_jit("rows/long_rows.cu", &args->rows, &args->division, args, grid, block,
                          tiles(args->rows.batch, block.y), stream, &error))
        return error;
    switch (args->rows.type) {
    case FGN_FLOAT16:
        return launch_long_rows_float16_kernel(grid, block, 0, stream, true, *args);
    case FGN_BFLOAT16:
        return launch_long_rows_bfloat16_kernel(grid, block, 0, stream, true, *args);
    default:
        return launch_long_rows_float32_kernel(grid, block, 0, stream, true, *args);
    }
}

#endif
