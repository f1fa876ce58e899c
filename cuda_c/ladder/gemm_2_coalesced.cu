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
 * whole row of weight. Only for batch 1 is that the least there is.
 *
 * Next (gemm_3_shared_tile.cu): let the threads of a block share what they load. */
#include "shared/rung.h"

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
    /* All lanes take as many turns: the compiler makes several of them at once, and lanes that had one more
     * would be out of step with the others. */
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

cudaError_t gemm_2_coalesced(const struct gemm *gemm, cudaStream_t stream) {
    dim3 grid = {(unsigned)tiles(gemm->batch * gemm->out_features, WARPS), 1, 1};
    dim3 block = {WARPS * LANES, 1, 1};
    return launch_coalesced_gemm_kernel(grid, block, 0, stream, *gemm);
}
