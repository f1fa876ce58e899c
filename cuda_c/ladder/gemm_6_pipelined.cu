/* GEMM, rung 6: the next tiles are loaded while this one is multiplied.
 *
 * Idea: see pipelined_tile.h, which has the main loop: two stages of shared memory, one multiplied while the
 * other is filled, fragments loaded one step ahead, and 16x8 outputs a thread. This file only says which tile
 * a block computes and writes it.
 *
 * Bytes: tiles of one column of y run at nearly the same time (blocks go down the rows first), so the k tile
 * of weight that they share comes from memory once and then from the L2 cache.
 *
 * Limit: the issue slots (pipelined_tile.h).
 *
 * Next (gemm_7_fused.cu): what follows the product is applied before the store. */
#include "ladder/ladder.h"
#include "ladder/pipelined_tile.h"
#include "shared/float4.h"

struct pipelined_args {
    struct gemm gemm;
    int k_tiles_in_run;
};

__global__ void __launch_bounds__(TILE_THREADS, 2) pipelined_gemm_kernel(struct pipelined_args args) {
    const struct gemm *g = &args.gemm;
    int64_t row_tiles = tiles(g->batch, TILE);
    int64_t first_row = blockIdx.x % row_tiles * TILE;
    int64_t first_column = blockIdx.x / row_tiles * TILE;
    float sum[THREAD_ROWS][THREAD_COLUMNS] = {{0.0f}};
    multiply_tile(g, (struct tile_memory *)dynamic_shared, first_row, first_column, sum, args.k_tiles_in_run);

    struct thread_place place = place_of_thread();
    bool as_float4 = rows_hold_float4(g->y, g->out_features);
    /* Float by float: a store of a float4 would force four sums into neighbouring registers
     * (pipelined_tile.h). Together the four stores fill their sectors. */
#pragma unroll
    for (int i = 0; i < THREAD_ROWS; i++) {
        int64_t row = first_row + row_in_tile(place, i);
#pragma unroll
        for (int j = 0; j < THREAD_COLUMNS; j += 4) {
            int64_t column = first_column + column_in_tile(place, j);
            int64_t count = row < g->batch ? g->out_features - column : 0;
            float *y = g->y + row * g->out_features + column;
            if (as_float4 && count >= 4) {
                y[0] = sum[i][j];
                y[1] = sum[i][j + 1];
                y[2] = sum[i][j + 2];
                y[3] = sum[i][j + 3];
                continue;
            }
#pragma unroll
            for (int c = 0; c < 4; c++)
                if (c < count)
                    y[c] = sum[i][j + c];
        }
    }
}

LAUNCHER(pipelined_gemm_kernel, struct pipelined_args)

void plan_pipelined(const fgn_chain *chain, const fgn_device *device, fgn_plan *plan) {
    int64_t blocks = tiles(chain->batch, TILE) * tiles(chain->out_features, TILE);
    fgn_launch *product = add_launch(plan, "pipelined_gemm_kernel", blocks, TILE_THREADS);
    set_tile(product, TILE, TILE, chain->in_features, TILE_K);
    set_stages(product, STAGES, THREAD_ROWS, THREAD_COLUMNS);
    choose_runs(chain, device, tile_memory_bytes, plan, product);
    plan_product_alone(chain, product);
}

cudaError_t launch_pipelined(const fgn_plan *plan, const fgn_launch *planned, const struct gemm *gemm,
                             cudaStream_t stream) {
    static bool allowed[MOST_DEVICES];
    struct pipelined_args args = {*gemm, (int)plan->choice[K_TILES_IN_RUN_CHOICE]};
    cudaError_t error = allow_shared_memory((const void *)pipelined_gemm_kernel, &plan->device, allowed);
    if (error != cudaSuccess)
        return error;
    return launch_pipelined_gemm_kernel(grid_of(planned), block_of(planned), planned->shared_bytes, stream,
                                        args);
}

static void plan(const fgn_chain *chain, const fgn_device *device, fgn_plan *plan) {
    plan_pipelined(chain, device, plan);
    plan_separately(chain, &group_norm_2_block, plan);
}

static cudaError_t forward(const fgn_plan *plan, const fgn_chain *chain, const void *x, void *y,
                           void *workspace, cudaStream_t stream) {
    struct gemm gemm = gemm_of(chain, (const float *)x, (float *)y, always);
    cudaError_t error = launch_pipelined(plan, &plan->launch[0], &gemm, stream);
    if (error != cudaSuccess)
        return error;
    return launch_separately(plan, &group_norm_2_block, chain, (float *)y, workspace, stream);
}

RUNG tiled_rung = {
    {"tiled", "ladder/gemm_6_pipelined.cu", "ladder/group_norm_2_block.cu",
     "tiles travel while others are multiplied", ""},
    &group_norm_2_block,
    needs_float32,
    plan,
    NULL,
    forward,
};
