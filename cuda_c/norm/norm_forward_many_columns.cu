/* The launch after the product for the widest groups that a warp holds: a lane has up to 8 slots.
 *
 * Idea: that of norm_forward_columns.cu, with twice the slots, so that 32 lanes hold up to 2048 channels. One
 * code serves any number of slots, each behind a branch: a kernel that is compiled for the call (jit/jit.h)
 * has exactly its slots.
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

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_MANY_COLUMNS)
    norm_forward_many_columns_float16_kernel(struct norm_forward_args args) {
    normalise_columns(&args, MANY_COLUMNS, VALUES, FGN_FLOAT16);
}

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_MANY_COLUMNS)
    norm_forward_many_columns_bfloat16_kernel(struct norm_forward_args args) {
    normalise_columns(&args, MANY_COLUMNS, VALUES, FGN_BFLOAT16);
}

EARLY_LAUNCHER(norm_forward_many_columns_float32_kernel, struct norm_forward_args)
EARLY_LAUNCHER(norm_forward_many_columns_float16_kernel, struct norm_forward_args)
EARLY_LAUNCHER(norm_forward_many_columns_bfloat16_kernel, struct norm_forward_args)

/* ---- The host ---- */

columns_launcher launcher_of_many_columns(fgn_type type) {
    static const columns_launcher launchers[] = {
        [FGN_FLOAT32] = launch_norm_forward_many_columns_float32_kernel,
        [FGN_FLOAT16] = launch_norm_forward_many_columns_float16_kernel,
        [FGN_BFLOAT16] = launch_norm_forward_many_columns_bfloat16_kernel,
    };
    return launchers[type];
}
