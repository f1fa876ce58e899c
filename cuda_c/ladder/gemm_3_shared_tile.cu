/* GEMM, rung 3: a block keeps a tile of both operands in shared memory.
 *
 * Idea: 32x32 threads compute a 32x32 tile of y. For each k tile of 32 they load one 32x32 tile of x and
 * one of weight (coalesced: lanes along k), wait for each other, and then each thread reads its row and its
 * column from shared memory. Every float loaded from global memory is used 32 times.
 *
 * Bytes asked of global memory: 8 / 32 for each multiply-add. Bytes asked of shared memory: 8 for each
 * multiply-add, as rung 1 asked of global memory.
 *
 * Limit: shared memory. Two loads feed one multiply-add, and an SM does 128 multiply-adds a cycle but returns
 * only 32 words. (The tile of weight is padded by one column: the lanes read down a column, and addresses 32
 * floats apart are in the same bank.)
 *
 * Next (gemm_4_register_tile.cu): keep a tile in registers too. */
#include "ladder/ladder.h"

#define TILE 32

__global__ void shared_tile_gemm_kernel(struct gemm g) {
    __shared__ float x_tile[TILE][TILE];
    __shared__ float weight_tile[TILE][TILE + 1];
    int64_t row_tiles = tiles(g.batch, TILE);
    int64_t first_row = blockIdx.x % row_tiles * TILE;
    int64_t first_column = blockIdx.x / row_tiles * TILE;
    int across = threadIdx.x;
    int down = threadIdx.y;
    float sum = 0.0f;
    for (int64_t first_k = 0; first_k < g.in_features; first_k += TILE) {
        int64_t k = first_k + across;
        int64_t x_row = first_row + down;
        int64_t weight_row = first_column + down;
        bool k_inside = k < g.in_features;
        x_tile[down][across] = k_inside && x_row < g.batch ? g.x[x_row * g.in_features + k] : 0.0f;
        weight_tile[down][across] =
            k_inside && weight_row < g.out_features ? g.weight[weight_row * g.in_features + k] : 0.0f;
        __syncthreads(); /* the tiles are complete */
        float run = 0.0f;
        for (int i = 0; i < TILE; i++)
            run += x_tile[down][i] * weight_tile[across][i];
        sum += run;
        __syncthreads(); /* everyone is done with them */
    }
    int64_t row = first_row + down;
    int64_t column = first_column + across;
    if (row < g.batch && column < g.out_features)
        g.y[row * g.out_features + column] = g.bias ? sum + g.bias[column] : sum;
}

LAUNCHER(shared_tile_gemm_kernel, struct gemm)

static void plan(const fgn_chain *chain, const fgn_device *device, fgn_plan *plan) {
    (void)device;
    int64_t blocks = tiles(chain->batch, TILE) * tiles(chain->out_features, TILE);
    fgn_launch *product = add_launch(plan, "shared_tile_gemm_kernel", blocks, TILE);
    product->block[1] = TILE;
    set_tile(product, TILE, TILE, chain->in_features, TILE);
    set_stages(product, 1, 1, 1);
    plan_product_alone(chain, product);
    plan_separately(chain, &group_norm_1_naive, plan);
}

static cudaError_t forward(const fgn_plan *plan, const fgn_chain *chain, const void *x, void *y,
                           void *workspace, cudaStream_t stream) {
    const fgn_launch *product = &plan->launch[0];
    struct gemm gemm = gemm_of(chain, (const float *)x, (float *)y, always);
    cudaError_t error = launch_shared_tile_gemm_kernel(grid_of(product), block_of(product), 0, stream, gemm);
    if (error != cudaSuccess)
        return error;
    return launch_separately(plan, &group_norm_1_naive, chain, (float *)y, workspace, stream);
}

RUNG shared_tile_rung = {
    {"shared_tile", "ladder/gemm_3_shared_tile.cu", "ladder/group_norm_1_naive.cu",
     "a 32x32 tile in shared memory", ""},
    &group_norm_1_naive,
    needs_float32,
    plan,
    NULL,
    forward,
};
