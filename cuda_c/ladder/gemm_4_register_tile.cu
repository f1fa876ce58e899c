/* GEMM, rung 4: every thread computes a 4x4 tile, kept in registers.
 *
 * Idea: 256 threads compute a 64x64 tile of y, 16 outputs each. For one k a thread reads 4 values of x
 * and 4 of weight from shared memory for 16 multiply-adds: half a load for each, where rung 3 needed
 * two.
 *
 * Bytes asked of global memory: 8 / 64 for each multiply-add; of shared memory: 2.
 *
 * Limit: still the shared loads, now their instructions: 8 loads of 4 bytes for 16 multiply-adds.
 *
 * Next (gemm_5_vectorized.cu): a larger thread tile, and 16 bytes a load. */
#include "ladder/ladder.h"

#define TILE 64
#define TILE_K 16 /* k in shared memory at a time */
#define THREADS 256
#define SIDE 16 /* the threads stand 16 by 16 */
#define THREAD_TILE (TILE / SIDE)

/* In the tiles k goes down, so that a thread's loads at one k are in one row. The padding spreads a warp's
 * stores (16 k of 2 rows) over all 32 banks. */
#define PAD 2

static __device__ void load_tile(float tile[TILE_K][TILE + PAD], const float *matrix, int64_t rows,
                                 int64_t columns, int64_t first_row, int64_t first_k) {
    int64_t k = first_k + threadIdx.x % TILE_K;
    for (int row = threadIdx.x / TILE_K; row < TILE; row += THREADS / TILE_K) {
        bool inside = first_row + row < rows && k < columns;
        tile[threadIdx.x % TILE_K][row] = inside ? matrix[(first_row + row) * columns + k] : 0.0f;
    }
}

__global__ void register_tile_gemm_kernel(struct gemm g) {
    __shared__ float x_tile[TILE_K][TILE + PAD];
    __shared__ float weight_tile[TILE_K][TILE + PAD];
    int64_t row_tiles = tiles(g.batch, TILE);
    int64_t first_row = blockIdx.x % row_tiles * TILE;
    int64_t first_column = blockIdx.x / row_tiles * TILE;
    int across = threadIdx.x % SIDE;
    int down = threadIdx.x / SIDE;
    float sum[THREAD_TILE][THREAD_TILE] = {{0.0f}};
    for (int64_t first_k = 0; first_k < g.in_features; first_k += TILE_K) {
        load_tile(x_tile, g.x, g.batch, g.in_features, first_row, first_k);
        load_tile(weight_tile, g.weight, g.out_features, g.in_features, first_column, first_k);
        __syncthreads();
        float run[THREAD_TILE][THREAD_TILE] = {{0.0f}};
#pragma unroll
        for (int k = 0; k < TILE_K; k++) {
            float x[THREAD_TILE], weight[THREAD_TILE];
            /* 16 apart, so that neighbouring lanes read neighbouring banks */
            for (int i = 0; i < THREAD_TILE; i++)
                x[i] = x_tile[k][down + i * SIDE];
            for (int j = 0; j < THREAD_TILE; j++)
                weight[j] = weight_tile[k][across + j * SIDE];
            for (int i = 0; i < THREAD_TILE; i++)
                for (int j = 0; j < THREAD_TILE; j++)
                    run[i][j] += x[i] * weight[j];
        }
        for (int i = 0; i < THREAD_TILE; i++)
            for (int j = 0; j < THREAD_TILE; j++)
                sum[i][j] += run[i][j];
        __syncthreads();
    }
    for (int i = 0; i < THREAD_TILE; i++)
        for (int j = 0; j < THREAD_TILE; j++) {
            int64_t row = first_row + down + i * SIDE;
            int64_t column = first_column + across + j * SIDE;
            if (row < g.batch && column < g.out_features)
                g.y[row * g.out_features + column] = g.bias ? sum[i][j] + g.bias[column] : sum[i][j];
        }
}

LAUNCHER(register_tile_gemm_kernel, struct gemm)

static void plan(const fgn_chain *chain, const fgn_device *device, fgn_plan *plan) {
    (void)device;
    int64_t blocks = tiles(chain->batch, TILE) * tiles(chain->out_features, TILE);
    fgn_launch *product = add_launch(plan, "register_tile_gemm_kernel", blocks, THREADS);
    set_tile(product, TILE, TILE, chain->in_features, TILE_K);
    set_stages(product, 1, THREAD_TILE, THREAD_TILE);
    plan_product_alone(chain, product);
    plan_separately(chain, &group_norm_1_naive, plan);
}

static cudaError_t forward(const fgn_plan *plan, const fgn_chain *chain, const void *x, void *y,
                           void *workspace, cudaStream_t stream) {
    const fgn_launch *product = &plan->launch[0];
    struct gemm gemm = gemm_of(chain, (const float *)x, (float *)y, always);
    cudaError_t error =
        launch_register_tile_gemm_kernel(grid_of(product), block_of(product), 0, stream, gemm);
    if (error != cudaSuccess)
        return error;
    return launch_separately(plan, &group_norm_1_naive, chain, (float *)y, workspace, stream);
}

RUNG register_tile_rung = {
    {"register_tile", "ladder/gemm_4_register_tile.cu", "ladder/group_norm_1_naive.cu",
     "4x4 outputs a thread", ""},
    &group_norm_1_naive,
    needs_float32,
    plan,
    NULL,
    forward,
};
