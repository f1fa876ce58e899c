/* The launch after the product for wide groups: a lane has several slots of 8 values of a row, its columns.
 *
 * Idea: if a group has more vectors than a warp has lanes (norm_forward.cu), several warps would share it,
 * and wait for each other at each sum. So a lane takes up to 4 slots side by side (8 in
 * norm_forward_many_columns.cu): 32 lanes hold up to 1024 channels, and sums need shuffles only. Any
 * number of slots is possible, so few lanes are idle: 384 channels are 16 lanes with 3 slots, 96 are 4 lanes
 * with 3.
 *
 * A lane has no registers for its scale and shift. The block keeps them in shared memory as floats, converted
 * once: there are as many blocks as the GPU holds, and they go down the rows with the same channels in each.
 * A lane loads its next row while it works on this one; without that, large tensors take 1.2 to 1.4 times as
 * long.
 *
 * Bytes: v read once and y written once, 8 for each element, 4 in a 16-bit type, and 8 of shared memory.
 * Operations: about 12 instructions for each element and the chain's own.
 *
 * Limit: memory, at up to 90 % of a copy's bandwidth; with exponentials, instruction issue. Groups whose size
 * is no multiple of 4 are left to norm_forward.cu. If the size is a multiple of 4 and not of 8, a slot has
 * two vectors of 4. */
#include "norm/norm_in_columns.h"
#include "sim/launchers.h"

#ifdef JIT_COMPILED

extern "C" __global__ void __launch_bounds__(THREADS, known.blocks)
    jit_kernel(struct norm_forward_args given) {
    __shared__ __align__(16) float scale[SEGMENT];
    __shared__ __align__(16) float shift[SEGMENT];
    const struct norm_forward_args args = {known_norm(given.norm), known.division, known.team_log2,
                                           known.columns, given.one_over_size};
    const struct columns_form form = {known.columns, known.columns, known.division.width,
                                      (fgn_type)known.type};
    normalise_rows_in_columns(&args, scale, shift, form);
}

#else

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_FEW_COLUMNS)
    norm_forward_columns_float32_kernel(struct norm_forward_args args) {
    normalise_columns(&args, FEW_COLUMNS, VALUES, FGN_FLOAT32);
}

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_FEW_COLUMNS)
    norm_forward_columns_float16_kernel(struct norm_forward_args args) {
    normalise_columns(&args, FEW_COLUMNS, VALUES, FGN_FLOAT16);
}

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_FEW_COLUMNS)
    norm_forward_columns_bfloat16_kernel(struct norm_forward_args args) {
    normalise_columns(&args, FEW_COLUMNS, VALUES, FGN_BFLOAT16);
}

EARLY_LAUNCHER(norm_forward_columns_float32_kernel, struct norm_forward_args)
EARLY_LAUNCHER(norm_forward_columns_float16_kernel, struct norm_forward_args)
EARLY_LAUNCHER(norm_forward_columns_bfloat16_kernel, struct norm_forward_args)

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_FEW_COLUMNS)
    norm_forward_short_columns_float32_kernel(struct norm_forward_args args) {
    normalise_columns(&args, FEW_COLUMNS, VALUES / 2, FGN_FLOAT32);
}

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_FEW_COLUMNS)
    norm_forward_short_columns_float16_kernel(struct norm_forward_args args) {
    normalise_columns(&args, FEW_COLUMNS, VALUES / 2, FGN_FLOAT16);
}

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_FEW_COLUMNS)
    norm_forward_short_columns_bfloat16_kernel(struct norm_forward_args args) {
    normalise_columns(&args, FEW_COLUMNS, VALUES / 2, FGN_BFLOAT16);
}

EARLY_LAUNCHER(norm_forward_short_columns_float32_kernel, struct norm_forward_args)
EARLY_LAUNCHER(norm_forward_short_columns_float16_kernel, struct norm_forward_args)
EARLY_LAUNCHER(norm_forward_short_columns_bfloat16_kernel, struct norm_forward_args)

/* ---- The host ---- */

cudaError_t norm_forward_columns(const struct kept_norm *norm, const struct norm_launch *launch,
                                 cudaStream_t stream) {
    static const columns_launcher launchers[][2] = {
        [FGN_FLOAT32] = {launch_norm_forward_columns_float32_kernel,
                         launch_norm_forward_short_columns_float32_kernel},
        [FGN_FLOAT16] = {launch_norm_forward_columns_float16_kernel,
                         launch_norm_forward_short_columns_float16_kernel},
        [FGN_BFLOAT16] = {launch_norm_forward_columns_bfloat16_kernel,
                          launch_norm_forward_short_columns_bfloat16_kernel},
    };
    bool has_many = launch->form == MANY_COLUMNS_NORM;
    columns_launcher launcher = has_many ? launcher_of_many_columns(norm->type)
                                         : launchers[norm->type][launch->form - FEW_COLUMNS_NORM];
    int blocks = has_many ? BLOCKS_OF_MANY_COLUMNS : BLOCKS_OF_FEW_COLUMNS;
    struct norm_forward_args args = {*norm, launch->division, log2_of(launch->division.team), launch->columns,
                                     1.0f / launch->division.group_size};
    cudaError_t error;
    if (launched_norm_jit("norm/norm_forward_columns.cu", norm, launch, launch->columns, blocks, &args,
                          stream, &error))
        return error;
    return launcher(launch->grid, launch->block, 0, stream, true, args);
}

#endif
