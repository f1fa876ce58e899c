/* GEMM, rung 1: one thread per output.
 *
 * Idea: the three nested loops of the definition. The two outer ones are the grid, the inner one is the
 * thread's: y[row][column] = sum over k of x[row][k] * weight[column][k].
 *
 * Operations: 2 batch in out. Bytes asked for: every multiply-add reads two floats from memory, 8 bytes for
 * 2 operations, where the whole product needs each input only once.
 *
 * Limit: the loads. The 32 lanes of a warp hold 32 neighbouring columns, so at one k they read 32 rows of
 * `weight` that lie in_features floats apart: 32 sectors of 32 bytes for 128 useful bytes. The x value is
 * the same for all lanes: one sector.
 *
 * Next (gemm_2_coalesced.cu): give the lanes of a warp neighbouring k instead. */
#include "shared/rung.h"

#define THREADS 256

/* Rounding errors of one long sum grow with its length; a sum of short sums stays near the last bit. All
 * rungs add up runs of about this many products and then the runs, as the BLAS libraries for CPUs do. */
#define RUN 32

__global__ void naive_gemm_kernel(struct gemm g) {
    int64_t index = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (index >= g.batch * g.out_features)
        return;
    int64_t row = index / g.out_features;
    int64_t column = index % g.out_features;
    float sum = 0.0f;
    for (int64_t start = 0; start < g.in_features; start += RUN) {
        int64_t end = start + RUN < g.in_features ? start + RUN : g.in_features;
        float run = 0.0f;
        for (int64_t k = start; k < end; k++)
            run += g.x[row * g.in_features + k] * g.weight[column * g.in_features + k];
        sum += run;
    }
    g.y[index] = g.bias ? sum + g.bias[column] : sum;
}

LAUNCHER(naive_gemm_kernel, struct gemm)

cudaError_t gemm_1_naive(const struct gemm *gemm, cudaStream_t stream) {
    dim3 grid = {(unsigned)tiles(gemm->batch * gemm->out_features, THREADS), 1, 1};
    dim3 block = {THREADS, 1, 1};
    return launch_naive_gemm_kernel(grid, block, 0, stream, *gemm);
}
