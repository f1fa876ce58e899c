/* The launch after the product for long groups: a block holds a group of a row in its registers.
 *
 * Idea: LayerNorm over the features of a large model is one group of 4096 or 8192 channels. Each thread of a
 * block has up to four slots of 8 values side by side in one row (norm_of_rows.h), so v is read once;
 * norm_forward_wide.cu reads it for each of three passes. A thread loads its slots of the next row while it
 * works on this one. The warps of a block add their sums in shared memory.
 *
 * Bytes: v read once and y written once, 8 for each element, 4 in a 16-bit type; scale and shift are read
 * again for every row, from the L1 cache. Operations: about 20 for each element and the chain's own.
 *
 * Limit: memory; with exponentials, instruction issue. Groups of more than four SEGMENTs, and groups whose
 * size is no multiple of 8, are left to norm_forward_wide.cu. */
#include "norm/norm_of_rows.h"
#include "sim/launchers.h"

#ifdef __CUDACC__

static __forceinline__ __device__ void normalise_long(const struct norm_forward_args *args, fgn_type type) {
    normalise_rows(args, LONG_SLOTS, VALUES, true, type);
}

#else

/* On the simulator all kernels share one copy of the code, which is compiled once. */
static CALLED __device__ void normalise_long(const struct norm_forward_args *args, fgn_type type) {
    normalise_rows(args, LONG_SLOTS, VALUES, true, type);
}

#endif

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_LONG_32)
    norm_forward_long_float32_kernel(struct norm_forward_args args) {
    normalise_long(&args, FGN_FLOAT32);
}

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_LONG_16)
    norm_forward_long_float16_kernel(struct norm_forward_args args) {
    normalise_long(&args, FGN_FLOAT16);
}

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_LONG_16)
    norm_forward_long_bfloat16_kernel(struct norm_forward_args args) {
    normalise_long(&args, FGN_BFLOAT16);
}

EARLY_LAUNCHER(norm_forward_long_float32_kernel, struct norm_forward_args)
EARLY_LAUNCHER(norm_forward_long_float16_kernel, struct norm_forward_args)
EARLY_LAUNCHER(norm_forward_long_bfloat16_kernel, struct norm_forward_args)

/* ---- The host ---- */

cudaError_t norm_forward_long(const struct kept_norm *norm, const struct norm_launch *launch,
                              cudaStream_t stream) {
    struct norm_forward_args args = {*norm, launch->division, log2_of(launch->division.team), launch->columns,
                                     1.0f / launch->division.group_size};
    /* compiled for this call, without slots that no channels are left for, threads need fewer registers */
    int more = norm->type == FGN_FLOAT32 ? BLOCKS_OF_LONG_32 + 1 : BLOCKS_OF_LONG_16 + 1;
    int blocks = launch->columns <= LONG_SLOTS / 2 ? BLOCKS_OF_MULTIPROCESSOR : more;
    cudaError_t error;
    if (launched_norm_jit("norm/norm_forward.cu", norm, launch, LONG_SLOTS, blocks, &args, stream, &error))
        return error;
    switch (norm->type) {
    case FGN_FLOAT16:
        return launch_norm_forward_long_float16_kernel(launch->grid, launch->block, 0, stream, true, args);
    case FGN_BFLOAT16:
        return launch_norm_forward_long_bfloat16_kernel(launch->grid, launch->block, 0, stream, true, args);
    default:
        return launch_norm_forward_long_float32_kernel(launch->grid, launch->block, 0, stream, true, args);
    }
}
