/* GEMM, rung 2: one warp per output, neighbouring lanes read neighbouring k.
 *
 * Idea: both operands are stored with k contiguous, so the lanes of a warp take k, k+1, ..., k+31: one
 * request reads 128 bytes in a row, 4 sectors, all of them used. Each lane sums its own k; five shuffles
 * add the 32 lanes.
 *
 * Bytes asked for: still 8 for each multiply-add, now without waste: 8 sectors for 32 multiply-adds where
 * rung 1 moved 33.
 *
 * Limit: the loads, and now their number: nothing is kept, so every output reads its whole row of x and its
 * whole row of weight. That is the minimum only for batch 1.
 *
 * Next (gemm_3_shared_tile.cu): let the threads of a block share what they load. */
#include "ladder/ladder.h"

#define WARPS 8
#define LANES 32

__global__ void coalesced_gemm_kernel(struct gemm g) {
    int64_t index = (int64_t)blockIdx.x * WARPS + threadIdx.x / LANES;
    int lane = threadIdx.x % LANES;
    if (index >= g.batch * g.out_features)
        return;
    int64_t row = index / g.out_features;
    int64_t column = index % g.out_features;
    float sum = 0.0f;
    /* All lanes take equally many turns: the compiler unrolls them, and lanes with one turn more would
     * diverge from the others. */
    int64_t whole = g.in_features / LANES * LANES, k = lane;
    for (; k < whole; k += LANES)
        sum += g.x[row * g.in_features + k] * g.weight[column * g.in_features + k];
    if (k < g.in_features)
        sum += g.x[row * g.in_features + k] * g.weight[column * g.in_features + k];
    for (int distance = LANES / 2; distance > 0; distance /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, distance);
    if (lane == 0)
        g.y[index] = g.bias ? sum + g.bias[column] : sum;
}

LAUNCHER(coalesced_gemm_kernel, struct gemm)

static void plan(const fgn_chain *chain, const fgn_device *device, fgn_plan *plan) {
    (void)device;
    int64_t blocks = tiles(outputs_of(chain), WARPS);
    fgn_launch *product = add_launch(plan, "coalesced_gemm_kernel", blocks, WARPS * LANES);
    set_tile(product, 1, WARPS, chain->in_features, LANES);
    plan_product_alone(chain, product);
    plan_separately(chain, &group_norm_1_naive, plan);
}

static cudaError_t forward(const fgn_plan *plan, const fgn_chain *chain, const void *x, void *y,
                           void *workspace, cudaStream_t stream) {
    const fgn_launch *product = &plan->launch[0];
    struct gemm gemm = gemm_of(chain, (const float *)x, (float *)y, always);
    cudaError_t error = launch_coalesced_gemm_kernel(grid_of(product), block_of(product), 0, stream, gemm);
    if (error != cudaSuccess)
        return error;
    return launch_separately(plan, &group_norm_1_naive, chain, (float *)y, workspace, stream);
}

RUNG coalesced_rung = {
    {"coalesced", "ladder/gemm_2_coalesced.cu", "ladder/group_norm_1_naive.cu",
     "one warp per output, lanes along k", ""},
    &group_norm_1_naive,
    needs_float32,
    plan,
    NULL,
    forward,
};
