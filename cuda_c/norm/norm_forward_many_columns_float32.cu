/* The launch after the product for the widest groups that a warp holds, of float32: a lane has up to 8 slots.
 *
 * Idea: that of norm_forward_columns.cu, with twice the slots, so that 32 lanes hold up to 2048 channels.
 * Each number of slots has its own code, which takes nvcc long: so each type has a file.
 *
 * Bytes and operations: as in norm_forward_columns.cu.
 *
 * Limit: instruction issue, because a multiprocessor has registers for 8 such warps only. norm_forward.h
 * chooses these kernels if fewer slots do not suffice or would leave more lanes idle. */
#include "norm/norm_in_columns.h"
#include "sim/launchers.h"

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_MANY_COLUMNS)
    norm_forward_many_columns_float32_kernel(struct norm_forward_args args) {
    normalise_columns(&args, MANY_COLUMNS, VALUES, FGN_FLOAT32);
}

EARLY_LAUNCHER(norm_forward_many_columns_float32_kernel, struct norm_forward_args)

cudaError_t norm_forward_many_columns_float32(const struct kept_norm *norm, const struct norm_launch *launch,
                                              cudaStream_t stream) {
    return launch_columns(norm, launch, launch_norm_forward_many_columns_float32_kernel, stream);
}
