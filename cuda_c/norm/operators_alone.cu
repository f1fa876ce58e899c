/* The launch after the product in a chain without a norm: y = before(v), all operators in one pass.
 *
 * Idea: all operators are applied to a value in a register, between one load and one store. A thread keeps
 * its channels and goes down the rows (channels.h); it loads its values of the next row before it works on
 * this one, so that loads are always in flight.
 *
 * Bytes: v read once and y written once, 8 for each element, 4 in a 16-bit type, and what the operators read.
 * A vector of channels comes from the L1 cache from the second row on. Operations: the operators' own.
 *
 * Limit: memory; with exponentials, instruction issue. A product of fgn applies the operators to its sums and
 * saves the read and the write: ladder/gemm_7_fused.cu, hopper/epilogue.h. */
#include "norm/operators_alone.h"
#include "ptx/griddepcontrol.h"
#include "sim/launchers.h"

static __forceinline__ __device__ void apply_down_rows(const struct operators_alone_args *args,
                                                       fgn_type type) {
    const struct kept_norm *chain = &args->chain;
    const struct division *division = &args->division;
    int segment = blockIdx.x * (blockDim.x / division->team) + threadIdx.x / division->team;
    struct gradient_row place = {channels_of(division, segment), 0, type, chain->vector_type, false};
    int64_t row = (int64_t)blockIdx.y * blockDim.y + threadIdx.y, step = (int64_t)gridDim.y * blockDim.y;
    griddepcontrol_wait();
    if (row >= chain->batch || place.channels.count == 0)
        return;
    struct words next;
    load_words(&next, chain->v, row * chain->channels, &place.channels, type);
    for (; row < chain->batch; row += step) {
        struct words here = next;
        if (row + step < chain->batch)
            load_words(&next, chain->v, (row + step) * chain->channels, &place.channels, type);
        float value[VALUES];
        place.row_start = row * chain->channels;
        values_of(value, &here, &place.channels, type);
        apply_list(&chain->before, BEFORE, value, &place);
        store_values(chain->y, place.row_start, value, &place.channels, type);
    }
}

#ifndef JIT_COMPILED

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_MULTIPROCESSOR)
    operators_alone_float32_kernel(struct operators_alone_args args) {
    apply_down_rows(&args, FGN_FLOAT32);
}

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_MULTIPROCESSOR)
    operators_alone_float16_kernel(struct operators_alone_args args) {
    apply_down_rows(&args, FGN_FLOAT16);
}

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_MULTIPROCESSOR)
    operators_alone_bfloat16_kernel(struct operators_alone_args args) {
    apply_down_rows(&args, FGN_BFLOAT16);
}

EARLY_LAUNCHER(operators_alone_float32_kernel, struct operators_alone_args)
EARLY_LAUNCHER(operators_alone_float16_kernel, struct operators_alone_args)
EARLY_LAUNCHER(operators_alone_bfloat16_kernel, struct operators_alone_args)

/* ---- The host ---- */

cudaError_t operators_alone(const struct kept_norm *chain, const struct norm_launch *launch,
                            cudaStream_t stream) {
    struct operators_alone_args args = {*chain, launch->division};
    cudaError_t error;
    if (launched_norm_jit("norm/operators_alone.cu", chain, launch, 1, BLOCKS_OF_MULTIPROCESSOR, &args,
                          stream, &error))
        return error;
    switch (chain->type) {
    case FGN_FLOAT16:
        return launch_operators_alone_float16_kernel(launch->grid, launch->block, 0, stream, true, args);
    case FGN_BFLOAT16:
        return launch_operators_alone_bfloat16_kernel(launch->grid, launch->block, 0, stream, true, args);
    default:
        return launch_operators_alone_float32_kernel(launch->grid, launch->block, 0, stream, true, args);
    }
}

#endif
