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
    float *y; /* (rows, channels) */
    int64_t rows;
    int64_t channels;
    fgn_pointwise step;
};

__global__ void pointwise_kernel(struct pointwise_args args) {
    int64_t index = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (index < args.rows * args.channels)
        apply_operator(&args.step, &args.y[index], 1, index % args.channels, 0);
}

LAUNCHER(pointwise_kernel, struct pointwise_args)

cudaError_t pointwise(float *y, int64_t rows, int64_t channels, const fgn_pointwise *step,
                      cudaStream_t stream) {
    struct pointwise_args args = {y, rows, channels, *step};
    dim3 grid = {(unsigned)tiles(rows * channels, THREADS), 1, 1};
    dim3 block = {THREADS, 1, 1};
    return launch_pointwise_kernel(grid, block, 0, stream, args);
}
