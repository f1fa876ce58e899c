/* The launch after a product whose epilogue does none of the chain:
 * y = after(GroupNorm(before(v))). It keeps mean and deviation for the backward if they are wanted.
 *
 * Idea: training needs v = x W^T + bias again, so the product writes it, and this kernel does the rest in one
 * pass. A team of threads holds a row of its group in registers (norm_of_rows.h): mean, variance and result
 * need one load. For a large tensor, a thread has four times 8 values of 16 bits, or twice 8 of 32 bits, at
 * once, which share the work that each thread does once. There are as many blocks as the GPU holds. They go
 * down the rows, and a thread loads its next values before it works on these. For a small tensor, a thread
 * has 8 values, so that there are more threads.
 *
 * The mean of the differences from the first mean is its rounding error: the corrected two-pass algorithm of
 * shared/moments.h.
 *
 * What is kept for the backward: v in the tensor's type, and mean and 1 / deviation of each (row, group), 8
 * bytes. The backward computes the operators before the norm again.
 *
 * Bytes: v read once and y written once, 8 for each element, 4 in a 16-bit type. Operations: about 20 for
 * each element and the chain's own.
 *
 * Limit: for float32, memory, at 70 % of its bandwidth; for 16-bit types instruction issue, at 50 % of that
 * bandwidth, or 35 % in chains with exponentials. For small tensors it is the start of a launch and the time
 * in which its instructions come from memory; the launch begins while the product ends (griddepcontrol).
 *
 * Other files take groups of 2 or 4 channels (norm_forward_tiny.cu), groups of more than SEGMENT channels
 * (norm_forward_long.cu, norm_forward_wide.cu), groups of an odd number of channels (norm_forward_staged.cu),
 * and groups with more vectors than a warp has lanes, or with a number of vectors that leaves many lanes idle
 * (norm_forward_columns.cu). */
#include "norm/norm_of_rows.h"
#include "sim/launchers.h"

#ifdef JIT_COMPILED

extern "C" __global__ void __launch_bounds__(THREADS, known.blocks)
    jit_kernel(struct norm_forward_args given) {
    const struct norm_forward_args args = {known_norm(given.norm), known.division, known.team_log2,
                                           known.columns, given.one_over_size};
    normalise_rows(&args, known.slots, known.division.width, known.is_long, (fgn_type)known.type);
}

#else

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_MULTIPROCESSOR)
    norm_forward_float32_kernel(struct norm_forward_args args) {
    normalise(&args, 1, FGN_FLOAT32);
}

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_MULTIPROCESSOR)
    norm_forward_float16_kernel(struct norm_forward_args args) {
    normalise(&args, 1, FGN_FLOAT16);
}

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_MULTIPROCESSOR)
    norm_forward_bfloat16_kernel(struct norm_forward_args args) {
    normalise(&args, 1, FGN_BFLOAT16);
}

EARLY_LAUNCHER(norm_forward_float32_kernel, struct norm_forward_args)
EARLY_LAUNCHER(norm_forward_float16_kernel, struct norm_forward_args)
EARLY_LAUNCHER(norm_forward_bfloat16_kernel, struct norm_forward_args)

__global__ void __launch_bounds__(THREADS, LARGE_BLOCKS_OF_MULTIPROCESSOR)
    norm_forward_large_float32_kernel(struct norm_forward_args args) {
    normalise(&args, LARGE_SLOTS_32, FGN_FLOAT32);
}

__global__ void __launch_bounds__(THREADS, LARGE_BLOCKS_OF_MULTIPROCESSOR)
    norm_forward_large_float16_kernel(struct norm_forward_args args) {
    normalise(&args, LARGE_SLOTS_16, FGN_FLOAT16);
}

__global__ void __launch_bounds__(THREADS, LARGE_BLOCKS_OF_MULTIPROCESSOR)
    norm_forward_large_bfloat16_kernel(struct norm_forward_args args) {
    normalise(&args, LARGE_SLOTS_16, FGN_BFLOAT16);
}

EARLY_LAUNCHER(norm_forward_large_float32_kernel, struct norm_forward_args)
EARLY_LAUNCHER(norm_forward_large_float16_kernel, struct norm_forward_args)
EARLY_LAUNCHER(norm_forward_large_bfloat16_kernel, struct norm_forward_args)

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_MULTIPROCESSOR)
    norm_forward_short_float32_kernel(struct norm_forward_args args) {
    normalise_short(&args, 1, FGN_FLOAT32);
}

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_MULTIPROCESSOR)
    norm_forward_short_float16_kernel(struct norm_forward_args args) {
    normalise_short(&args, 1, FGN_FLOAT16);
}

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_MULTIPROCESSOR)
    norm_forward_short_bfloat16_kernel(struct norm_forward_args args) {
    normalise_short(&args, 1, FGN_BFLOAT16);
}

EARLY_LAUNCHER(norm_forward_short_float32_kernel, struct norm_forward_args)
EARLY_LAUNCHER(norm_forward_short_float16_kernel, struct norm_forward_args)
EARLY_LAUNCHER(norm_forward_short_bfloat16_kernel, struct norm_forward_args)

__global__ void __launch_bounds__(THREADS, LARGE_BLOCKS_OF_MULTIPROCESSOR)
    norm_forward_large_short_float32_kernel(struct norm_forward_args args) {
    normalise_short(&args, LARGE_SHORT_SLOTS, FGN_FLOAT32);
}

__global__ void __launch_bounds__(THREADS, LARGE_BLOCKS_OF_MULTIPROCESSOR)
    norm_forward_large_short_float16_kernel(struct norm_forward_args args) {
    normalise_short(&args, LARGE_SHORT_SLOTS, FGN_FLOAT16);
}

__global__ void __launch_bounds__(THREADS, LARGE_BLOCKS_OF_MULTIPROCESSOR)
    norm_forward_large_short_bfloat16_kernel(struct norm_forward_args args) {
    normalise_short(&args, LARGE_SHORT_SLOTS, FGN_BFLOAT16);
}

EARLY_LAUNCHER(norm_forward_large_short_float32_kernel, struct norm_forward_args)
EARLY_LAUNCHER(norm_forward_large_short_float16_kernel, struct norm_forward_args)
EARLY_LAUNCHER(norm_forward_large_short_bfloat16_kernel, struct norm_forward_args)

/* ---- The host ---- */

typedef cudaError_t (*norm_launcher)(dim3 grid, dim3 block, size_t dynamic_shared_bytes, cudaStream_t stream,
                                     bool early, struct norm_forward_args args);

cudaError_t norm_forward(const struct kept_norm *norm, cudaStream_t stream) {
    static const norm_launcher launchers[][4] = {
        [FGN_FLOAT32] = {launch_norm_forward_float32_kernel, launch_norm_forward_large_float32_kernel,
                         launch_norm_forward_short_float32_kernel,
                         launch_norm_forward_large_short_float32_kernel},
        [FGN_FLOAT16] = {launch_norm_forward_float16_kernel, launch_norm_forward_large_float16_kernel,
                         launch_norm_forward_short_float16_kernel,
                         launch_norm_forward_large_short_float16_kernel},
        [FGN_BFLOAT16] = {launch_norm_forward_bfloat16_kernel, launch_norm_forward_large_bfloat16_kernel,
                          launch_norm_forward_short_bfloat16_kernel,
                          launch_norm_forward_large_short_bfloat16_kernel},
    };
    struct norm_launch launch = launch_of_norm(norm);
    if (launch.form == NO_NORM)
        return operators_alone(norm, &launch, stream);
    if (launch.form == LARGE_NO_NORM)
        return operators_alone_large(norm, &launch, stream);
    if (launch.form == TINY_NORM)
        return norm_forward_tiny(norm, &launch, stream);
    if (launch.form == LONG_NORM)
        return norm_forward_long(norm, &launch, stream);
    if (launch.form == WIDE_NORM)
        return norm_forward_wide(norm, &launch, stream);
    if (has_columns(launch.form))
        return norm_forward_columns(norm, &launch, stream);
    if (launch.form == STAGED_NORM)
        return norm_forward_staged(norm, &launch, stream);
    struct norm_forward_args args = {*norm, launch.division, log2_of(launch.division.team), launch.columns,
                                     1.0f / launch.division.group_size};
    int slots = slots_of_thread_in(launch.form, norm->type);
    int blocks = slots > 1 ? LARGE_BLOCKS_OF_MULTIPROCESSOR : BLOCKS_OF_MULTIPROCESSOR;
    cudaError_t error;
    if (launched_norm_jit("norm/norm_forward.cu", norm, &launch, slots, blocks, &args, stream, &error))
        return error;
    return launchers[norm->type][launch.form](launch.grid, launch.block, 0, stream, true, args);
}

#endif
