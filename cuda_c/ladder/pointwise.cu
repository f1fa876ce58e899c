/* One pointwise operator as a kernel: every rung before `fused` launches it for each operator.
 *
 * Idea: one thread per element, in place.
 *
 * Bytes: 8 for each element (read and write), for a handful of operations.
 *
 * Limit: memory bandwidth, and for small tensors the launch itself. A better kernel would hardly help; not
 * launching it does (gemm_7_fused.cu, group_norm_2_block.cu). */
#include "ladder/ladder.h"
#include "shared/apply_operators.h"

#define THREADS 256

struct pointwise_args {
    float *y; /* (rows, the operator's channels) */
    int64_t rows;
    struct operators one;
};

__global__ void pointwise_kernel(struct pointwise_args args) {
    int64_t index = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (index >= args.rows * args.one.channels)
        return;
    int64_t row = index / args.one.channels;
    struct value_place at = {row, index - row * args.one.channels, 0, 0, args.rows};
    apply_operators(&args.one, &args.y[index], 1, at);
}

LAUNCHER(pointwise_kernel, struct pointwise_args)

void plan_pointwise(const fgn_chain *chain, bool is_before, int number, fgn_plan *plan) {
    fgn_launch *launch = add_launch(plan, "pointwise_kernel", tiles(outputs_of(chain), THREADS), THREADS);
    int64_t bytes = sizeof(float) * outputs_of(chain);
    add_read(launch, bytes, bytes);
    if (is_before)
        add_before(launch, chain, number, 1);
    else
        add_after(launch, chain, number, 1);
    add_y(launch, chain);
}

cudaError_t launch_pointwise(const fgn_launch *planned, const fgn_chain *chain, float *y,
                             cudaStream_t stream) {
    const fgn_pointwise *step = planned->before_count > 0 ? &chain->before[planned->before_first]
                                                          : &chain->after[planned->after_first];
    struct pointwise_args args = {y, chain->batch, operators_of(chain, 1, step)};
    return launch_pointwise_kernel(grid_of(planned), block_of(planned), 0, stream, args);
}
