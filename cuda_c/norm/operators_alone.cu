/* The launch after the product in a chain without a norm: y = before(v), all operators in one pass.
 *
 * Idea: all operators are applied to a value in a register, between one load and one store. A thread keeps
 * its channels and goes down the rows, several at once (operators_down_rows.h).
 *
 * Bytes: v read once and y written once, 8 for each element, 4 in a 16-bit type, and what the operators read.
 * A vector of channels comes from the L1 cache from the second row on. Operations: the operators' own.
 *
 * Limit: memory; with exponentials, instruction issue. A product of fgn applies the operators to its sums and
 * saves the read and the write: ladder/gemm_7_fused.cu, hopper/epilogue.h. */
#include "norm/norm_forward.h"
#include "norm/operators_down_rows.h"
#include "ptx/griddepcontrol.h"
#include "sim/launchers.h"

struct operators_alone_args {
    struct kept_norm chain;
    struct division division;
};

/* Callers pass a constant for `type`. */
static __forceinline__ __device__ void apply_operators_alone(const struct operators_alone_args *args,
                                                             fgn_type type) {
    const struct kept_norm *chain = &args->chain;
    struct operators_down_rows all = {chain->v,           NULL,           chain->y,
                                      chain->vector_type, chain->batch,   chain->channels,
                                      chain->channels,    &chain->before, NULL};
    griddepcontrol_wait();
    apply_down_rows(&all, &args->division, type);
}

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_OPERATORS)
    operators_alone_float32_kernel(struct operators_alone_args args) {
    apply_operators_alone(&args, FGN_FLOAT32);
}

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_OPERATORS)
    operators_alone_float16_kernel(struct operators_alone_args args) {
    apply_operators_alone(&args, FGN_FLOAT16);
}

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_OPERATORS)
    operators_alone_bfloat16_kernel(struct operators_alone_args args) {
    apply_operators_alone(&args, FGN_BFLOAT16);
}

EARLY_LAUNCHER(operators_alone_float32_kernel, struct operators_alone_args)
EARLY_LAUNCHER(operators_alone_float16_kernel, struct operators_alone_args)
EARLY_LAUNCHER(operators_alone_bfloat16_kernel, struct operators_alone_args)

/* ---- The host ---- */

cudaError_t operators_alone(const struct kept_norm *chain, const struct norm_launch *launch,
                            cudaStream_t stream) {
    struct operators_alone_args args = {*chain, launch->division};
    switch (chain->type) {
    case FGN_FLOAT16:
        return launch_operators_alone_float16_kernel(launch->grid, launch->block, 0, stream, true, args);
    case FGN_BFLOAT16:
        return launch_operators_alone_bfloat16_kernel(launch->grid, launch->block, 0, stream, true, args);
    default:
        return launch_operators_alone_float32_kernel(launch->grid, launch->block, 0, stream, true, args);
    }
}
