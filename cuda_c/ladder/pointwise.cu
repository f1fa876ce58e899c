/* One pointwise operator as a kernel of its own: what every rung before `fused` pays for each operator.
 *
 * Idea: one thread per element, in place.
 *
 * Bytes: 8 for each element (read and write), for a handful of operations.
 *
 * Limit: memory bandwidth, and for small tensors the launch itself. No way of writing this kernel helps much;
 * not launching it does (gemm_7_fused.cu, group_norm_2_block.cu). */
#include "shared/rung.h"
#include "shared/pointwise.h"

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

cudaError_t pointwise(float *y, int64_t rows, const struct operators *one, cudaStream_t stream) {
    struct pointwise_args args = {y, rows, *one};
    dim3 grid = {(unsigned)tiles(rows * one->channels, THREADS), 1, 1};
    dim3 block = {THREADS, 1, 1};
    return launch_pointwise_kernel(grid, block, 0, stream, args);
}
