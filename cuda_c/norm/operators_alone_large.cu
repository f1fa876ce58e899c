/* The launch after the product in a chain without a norm, as operators_alone.cu, for large tensors.
 *
 * Idea: a thread works on ROWS_TOGETHER rows at once. Their loads are in flight together, and an operator is
 * chosen, and its vector of channels read, once for all of them: choosing took longer than computing. In
 * float32 a thread's vectors have 4 neighbours and are a team apart: with 8 side by side, each access of a
 * warp would leave half of every sector to the next one. A small tensor has no rows to spare: there the
 * other kernel, whose code is shorter, is faster.
 *
 * Bytes: v read once and y written once, 8 for each element, 4 in a 16-bit type, and what the operators read.
 * Operations: the operators' own.
 *
 * Limit: memory, for operators of an instruction or two; otherwise instruction issue. */
#include "norm/operators_alone.h"
#include "norm/operators_called.h"
#include "ptx/griddepcontrol.h"
#include "sim/launchers.h"

/* Some rows of a thread, `step` apart. place: in the first one. */
struct rows_together {
    int64_t row;
    int64_t step;
    struct gradient_row place;
};

/* Applies one operator. Callers pass a constant for `rows`, here and below. */
static __forceinline__ __device__ void apply_to_rows(const struct kept_norm *chain, const fgn_pointwise *one,
                                                     float *value, int rows, const struct rows_together *at) {
    float operand[VALUES];
    if (!one->tensor) {
        load_operand(operand, one, &at->place);
        apply_called_to(one, value, rows * VALUES, operand, in_vector);
        return;
    }
#pragma unroll
    for (int i = 0; i < rows; i++) {
        load_values(operand, one->tensor, (at->row + i * at->step) * chain->channels, &at->place.channels,
                    at->place.type);
        apply_with_operands(add, value + i * VALUES, VALUES, operand, evenly_spaced, 1);
    }
}

/* Reads, computes and writes. */
static __forceinline__ __device__ void compute_rows(const struct kept_norm *chain, int rows,
                                                    const struct rows_together *at) {
    const struct channels *channels = &at->place.channels;
    struct words words[ROWS_TOGETHER];
    float value[ROWS_TOGETHER * VALUES];
#pragma unroll
    for (int i = 0; i < rows; i++)
        load_words(&words[i], chain->v, (at->row + i * at->step) * chain->channels, channels, at->place.type);
#pragma unroll
    for (int i = 0; i < rows; i++)
        values_of(value + i * VALUES, &words[i], channels, at->place.type);
#pragma unroll STEPS_AT_ONCE
    for (int i = 0; i < count_of(&chain->before, BEFORE); i++) {
        const fgn_pointwise step = step_of(&chain->before, BEFORE, i);
        apply_to_rows(chain, &step, value, rows, at);
        end_step(value, rows * VALUES);
    }
#pragma unroll
    for (int i = 0; i < rows; i++)
        store_values(chain->y, (at->row + i * at->step) * chain->channels, value + i * VALUES, channels,
                     at->place.type);
}

static __forceinline__ __device__ void apply_down_rows(const struct operators_alone_args *args,
                                                       fgn_type type) {
    const struct kept_norm *chain = &args->chain;
    struct division division = args->division;
    division.width = type == FGN_FLOAT32 ? VALUES / 2 : VALUES; /* of 16 bytes, which the compiler knows */
    int segment = blockIdx.x * (blockDim.x / division.team) + threadIdx.x / division.team;
    struct rows_together at = {(int64_t)blockIdx.y * blockDim.y + threadIdx.y,
                               (int64_t)gridDim.y * blockDim.y,
                               {channels_of(&division, segment), 0, type, chain->vector_type, false}};
    griddepcontrol_wait();
    if (at.place.channels.count == 0)
        return;
    if (type != FGN_FLOAT32)
        at.place.channels.count = VALUES; /* whole, as all vectors of VALUES */
    for (; at.row + (ROWS_TOGETHER - 1) * at.step < chain->batch; at.row += ROWS_TOGETHER * at.step)
        compute_rows(chain, ROWS_TOGETHER, &at);
    for (; at.row < chain->batch; at.row += at.step)
        compute_rows(chain, 1, &at);
}

#ifndef JIT_COMPILED

__global__ void __launch_bounds__(THREADS, LARGE_BLOCKS_OF_MULTIPROCESSOR)
    operators_alone_large_float32_kernel(struct operators_alone_args args) {
    apply_down_rows(&args, FGN_FLOAT32);
}

__global__ void __launch_bounds__(THREADS, LARGE_BLOCKS_OF_MULTIPROCESSOR)
    operators_alone_large_float16_kernel(struct operators_alone_args args) {
    apply_down_rows(&args, FGN_FLOAT16);
}

__global__ void __launch_bounds__(THREADS, LARGE_BLOCKS_OF_MULTIPROCESSOR)
    operators_alone_large_bfloat16_kernel(struct operators_alone_args args) {
    apply_down_rows(&args, FGN_BFLOAT16);
}

EARLY_LAUNCHER(operators_alone_large_float32_kernel, struct operators_alone_args)
EARLY_LAUNCHER(operators_alone_large_float16_kernel, struct operators_alone_args)
EARLY_LAUNCHER(operators_alone_large_bfloat16_kernel, struct operators_alone_args)

/* ---- The host ---- */

cudaError_t operators_alone_large(const struct kept_norm *chain, const struct norm_launch *launch,
                                  cudaStream_t stream) {
    struct operators_alone_args args = {*chain, launch->division};
    cudaError_t error;
    if (launched_norm_jit("norm/operators_alone_large.cu", chain, launch, 1, LARGE_BLOCKS_OF_MULTIPROCESSOR,
                          &args, stream, &error))
        return error;
    switch (chain->type) {
    case FGN_FLOAT16:
        return launch_operators_alone_large_float16_kernel(launch->grid, launch->block, 0, stream, true,
                                                           args);
    case FGN_BFLOAT16:
        return launch_operators_alone_large_bfloat16_kernel(launch->grid, launch->block, 0, stream, true,
                                                            args);
    default:
        return launch_operators_alone_large_float32_kernel(launch->grid, launch->block, 0, stream, true,
                                                           args);
    }
}

#endif
