/* GEMM, rung 5: 16 bytes in every access, and an 8x8 tile a thread.
 *
 * Idea: a load instruction costs an issue slot whatever its width, so ask for 16 bytes each time: four k of
 * one row from global memory, four neighbouring rows or columns of one k from shared memory. 256 threads
 * compute a 128x128 tile, 64 outputs each: 4 loads feed 64 multiply-adds.
 *
 * Bytes asked of global memory: 8 / 128 for each multiply-add; of shared memory: 1.
 *
 * Limit: waiting. All warps load, all wait at the barrier, all compute: nothing is multiplied while the tile
 * is loaded.
 *
 * Next (gemm_6_pipelined.cu): load the next tiles while computing on this one. */
#include "ladder/ladder.h"
#include "shared/float4.h"

#define TILE 128
#define TILE_K 8
#define THREADS 256
#define THREAD_TILE 8
#define PAD 4 /* keeps float4s on 16 bytes and a warp's stores (2 float4s of k, 16 rows) on 32 banks */
#define K_TILES_IN_RUN 4

/* One float4 a thread: 128 rows of 8 k. It becomes a column, because k goes down in shared memory. */
static __device__ void load_tile(float tile[TILE_K][TILE + PAD], const float *matrix, int64_t rows,
                                 int64_t columns, int64_t first_row, int64_t first_k, bool as_float4) {
    int row = threadIdx.x / 2;
    int k = threadIdx.x % 2 * 4;
    int64_t count = first_row + row < rows ? columns - (first_k + k) : 0;
    float4 four = load_float4(matrix + (first_row + row) * columns + first_k + k, count, as_float4);
    tile[k + 0][row] = four.x;
    tile[k + 1][row] = four.y;
    tile[k + 2][row] = four.z;
    tile[k + 3][row] = four.w;
}

__global__ void __launch_bounds__(THREADS) vectorized_gemm_kernel(struct gemm g) {
    __shared__ __align__(16) float x_tile[TILE_K][TILE + PAD];
    __shared__ __align__(16) float weight_tile[TILE_K][TILE + PAD];
    int64_t row_tiles = tiles(g.batch, TILE);
    int64_t first_row = blockIdx.x % row_tiles * TILE;
    int64_t first_column = blockIdx.x / row_tiles * TILE;
    bool x_as_float4 = rows_hold_float4(g.x, g.in_features);
    bool weight_as_float4 = rows_hold_float4(g.weight, g.in_features);

    /* The threads are 16 by 16. A thread's 8 rows are two runs of four, 64 rows apart, and so are its
     * columns, so that neighbouring lanes read neighbouring float4s. */
    int across = threadIdx.x % 16 * 4;
    int down = threadIdx.x / 16 * 4;
    float sum[THREAD_TILE][THREAD_TILE] = {{0.0f}};
    float run[THREAD_TILE][THREAD_TILE] = {{0.0f}};
    int k_tile = 0;
    for (int64_t first_k = 0; first_k < g.in_features; first_k += TILE_K) {
        load_tile(x_tile, g.x, g.batch, g.in_features, first_row, first_k, x_as_float4);
        load_tile(weight_tile, g.weight, g.out_features, g.in_features, first_column, first_k,
                  weight_as_float4);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TILE_K; k++) {
            float4 x[2], weight[2];
            x[0] = *(float4 *)&x_tile[k][down];
            x[1] = *(float4 *)&x_tile[k][down + TILE / 2];
            weight[0] = *(float4 *)&weight_tile[k][across];
            weight[1] = *(float4 *)&weight_tile[k][across + TILE / 2];
            for (int i = 0; i < THREAD_TILE; i++)
                for (int j = 0; j < THREAD_TILE; j++)
                    run[i][j] += ((float *)x)[i] * ((float *)weight)[j];
        }
        k_tile++;
        if (k_tile % K_TILES_IN_RUN == 0 || first_k + TILE_K >= g.in_features)
            for (int i = 0; i < THREAD_TILE; i++)
                for (int j = 0; j < THREAD_TILE; j++) {
                    sum[i][j] += run[i][j];
                    run[i][j] = 0.0f;
                }
        __syncthreads();
    }

    bool y_as_float4 = rows_hold_float4(g.y, g.out_features);
    for (int i = 0; i < THREAD_TILE; i++)
        for (int j = 0; j < THREAD_TILE; j += 4) {
            int64_t row = first_row + down + i % 4 + i / 4 * (TILE / 2);
            int64_t column = first_column + across + j / 4 * (TILE / 2);
            int64_t count = row < g.batch ? g.out_features - column : 0;
            float4 four = {sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]};
            if (g.bias && count > 0) {
                float4 bias = load_float4(g.bias + column, count, false);
                four.x += bias.x;
                four.y += bias.y;
                four.z += bias.z;
                four.w += bias.w;
            }
            store_float4(g.y + row * g.out_features + column, four, count, y_as_float4);
        }
}

LAUNCHER(vectorized_gemm_kernel, struct gemm)

static void plan(const fgn_chain *chain, const fgn_device *device, fgn_plan *plan) {
    (void)device;
    int64_t blocks = tiles(chain->batch, TILE) * tiles(chain->out_features, TILE);
    fgn_launch *product = add_launch(plan, "vectorized_gemm_kernel", blocks, THREADS);
    set_tile(product, TILE, TILE, chain->in_features, TILE_K);
    set_stages(product, 1, THREAD_TILE, THREAD_TILE);
    plan_product_alone(chain, product);
    plan_separately(chain, &group_norm_2_block, plan);
}

static cudaError_t forward(const fgn_plan *plan, const fgn_chain *chain, const void *x, void *y,
                           void *workspace, cudaStream_t stream) {
    const fgn_launch *product = &plan->launch[0];
    struct gemm gemm = gemm_of(chain, (const float *)x, (float *)y, always);
    cudaError_t error = launch_vectorized_gemm_kernel(grid_of(product), block_of(product), 0, stream, gemm);
    if (error != cudaSuccess)
        return error;
    return launch_separately(plan, &group_norm_2_block, chain, (float *)y, workspace, stream);
}

RUNG vectorized_rung = {
    {"vectorized", "ladder/gemm_5_vectorized.cu", "ladder/group_norm_2_block.cu",
     "16-byte accesses, 8x8 outputs a thread", ""},
    &group_norm_2_block,
    needs_float32,
    plan,
    NULL,
    forward,
};
