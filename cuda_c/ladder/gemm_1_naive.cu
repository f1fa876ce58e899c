/* GEMM, rung 1: one thread per output.
 *
 * Idea: the three nested loops of the definition. The two outer ones are the grid, the inner one is the
 * thread's: y[row][column] = sum over k of x[row][k] * weight[column][k].
 *
 * Operations: 2 batch in out. Bytes asked for: every multiply-add reads two floats from memory, 8 bytes for 2
 * operations, although the whole product needs each input only once.
 *
 * Limit: the loads. The 32 lanes of a warp hold 32 neighbouring columns, so at one k they read 32 rows of
 * `weight` that lie in_features floats apart: 32 sectors of 32 bytes for 128 useful bytes. The x value is
 * the same for all lanes: one sector.
 *
 * Next (gemm_2_coalesced.cu): give the lanes of a warp neighbouring k instead. */
#include "ladder/ladder.h"

#define THREADS 256

/* Rounding errors of one long sum grow with its length; a sum of short sums stays near the last bit. All
 * rungs add runs of about this many products, and then the runs, as BLAS libraries for CPUs do. */
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

static void plan(const fgn_chain *chain, const fgn_device *device, fgn_plan *plan) {
    (void)device;
    int64_t blocks = tiles(outputs_of(chain), THREADS);
    fgn_launch *product = add_launch(plan, "naive_gemm_kernel", blocks, THREADS);
    set_tile(product, 1, THREADS, chain->in_features, 1);
    set_stages(product, 0, 1, 1);
    plan_product_alone(chain, product);
    plan_separately(chain, &group_norm_1_naive, plan);
}

static cudaError_t forward(const fgn_plan *plan, const fgn_chain *chain, const void *x, void *y,
                           void *workspace, cudaStream_t stream) {
    const fgn_launch *product = &plan->launch[0];
    struct gemm gemm = gemm_of(chain, (const float *)x, (float *)y, always);
    cudaError_t error = launch_naive_gemm_kernel(grid_of(product), block_of(product), 0, stream, gemm);
    if (error != cudaSuccess)
        return error;
    return launch_separately(plan, &group_norm_1_naive, chain, (float *)y, workspace, stream);
}

RUNG naive_rung = {
    {"naive", "ladder/gemm_1_naive.cu", "ladder/group_norm_1_naive.cu", "one thread per output", ""},
    &group_norm_1_naive,
    needs_float32,
    plan,
    NULL,
    forward,
};
