/* Functions of rows with one vector of a thread: short rows, and longer ones where the tensor is small.
 *
 * Idea: every thread has one vector, so a row is spread over as many threads as it has vectors. Little code
 * runs, which matters most here: a small call that follows other kernels waits until its instructions come
 * from memory. row_functions.cu has the bytes, the operations and the limit. long_rows.cu gives a thread
 * several vectors. */
#include "rows/function_of_row.h"
#include "sim/launchers.h"

#ifdef JIT_COMPILED

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_OF_SHORT) jit_kernel(struct rows_args given) {
    const struct rows_args args = {known_rows(given.rows), known.division};
    rows_of_type(&args, 1, (fgn_type)known.type);
}

#else

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_SHORT) short_rows_float32_kernel(struct rows_args args) {
    rows_of_type(&args, 1, FGN_FLOAT32);
}

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_SHORT) short_rows_float16_kernel(struct rows_args args) {
    rows_of_type(&args, 1, FGN_FLOAT16);
}

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_SHORT)
    short_rows_bfloat16_kernel(struct rows_args args) {
    rows_of_type(&args, 1, FGN_BFLOAT16);
}

EARLY_LAUNCHER(short_rows_float32_kernel, struct rows_args)
EARLY_LAUNCHER(short_rows_float16_kernel, struct rows_args)
EARLY_LAUNCHER(short_rows_bfloat16_kernel, struct rows_args)

cudaError_t launch_short_rows(dim3 grid, dim3 block, const struct rows_args *args, cudaStream_t stream) {
    cudaError_t error;
    if (launched_rows_jit("rows/short_rows.cu", &args->rows, &args->division, args, grid, block,
                          tiles(args->rows.batch, block.y), stream, &error))
        return error;
    switch (args->rows.type) {
    case FGN_FLOAT16:
        return launch_short_rows_float16_kernel(grid, block, 0, stream, true, *args);
    case FGN_BFLOAT16:
        return launch_short_rows_bfloat16_kernel(grid, block, 0, stream, true, *args);
    default:
        return launch_short_rows_float32_kernel(grid, block, 0, stream, true, *args);
    }
}

#endif
