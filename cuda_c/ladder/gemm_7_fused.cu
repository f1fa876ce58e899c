/* GEMM, rung 7: bias and the operators before the norm in the epilogue.
 *
 * Idea: the value of an output is in a register when its sum is finished. There the bias and each
 * pointwise operator cost a few instructions; a separate kernel would cost a read and a write of the whole
 * tensor. Together with group_norm_2_block.cu, which takes the operators after the norm, any chain is two
 * launches.
 *
 * Bytes: those of rung 6. Saved: 8 for each output and operator before the norm.
 *
 * Limit: as rung 6, the multiply-adds' issue slots; the intermediate still goes to memory and comes back.
 *
 * Next (gemm_8_one_kernel.cu): the norm too. */
#include "ladder/ladder.h"
#include "ladder/parked_tile.h"
#include "shared/apply_operators.h"

/* How many values a thread works on together: others go on while one waits. */
#define ROWS_AT_ONCE 8

struct fused_args {
    struct gemm gemm;
    int k_tiles_in_run;
};

/* Applies the operators to the parked tile and stores it. */
static inline __device__ void write_tile(const struct gemm *g, const struct parked_tile *parked,
                                         int64_t first_row, int64_t first_column) {
    int64_t column = first_column + threadIdx.x; /* a thread for each column of the tile */
    if (column >= g->out_features)
        return;
    for (int first = 0; first < TILE && first_row + first < g->batch; first += ROWS_AT_ONCE) {
        float value[ROWS_AT_ONCE];
#pragma unroll
        for (int i = 0; i < ROWS_AT_ONCE; i++)
            value[i] = parked->value[first + i][threadIdx.x];
        struct value_place at = {first_row + first, column, 1, 0, g->batch};
        apply_operators(&g->before, value, ROWS_AT_ONCE, at);
        float *y = g->y + (first_row + first) * g->out_features + column;
#pragma unroll
        for (int i = 0; i < ROWS_AT_ONCE; i++) {
            if (first_row + first + i < g->batch)
                *y = value[i];
            y += g->out_features;
        }
    }
}

__global__ void __launch_bounds__(TILE_THREADS, 2) fused_gemm_kernel(struct fused_args args) {
    if (!holds(args.gemm.condition))
        return;
    int64_t row_tiles = tiles(args.gemm.batch, TILE);
    int64_t first_row = blockIdx.x % row_tiles * TILE;
    int64_t first_column = blockIdx.x / row_tiles * TILE;
    float sum[THREAD_ROWS][THREAD_COLUMNS] = {{0.0f}};
    multiply_tile(&args.gemm, (struct tile_memory *)dynamic_shared, first_row, first_column, sum,
                  args.k_tiles_in_run);
    park((struct parked_tile *)dynamic_shared, sum);
    write_tile(&args.gemm, (const struct parked_tile *)dynamic_shared, first_row, first_column);
}

LAUNCHER(fused_gemm_kernel, struct fused_args)

void plan_fused(const fgn_chain *chain, const fgn_device *device, fgn_plan *plan) {
    int64_t blocks = tiles(chain->batch, TILE) * tiles(chain->out_features, TILE);
    fgn_launch *product = add_launch(plan, "fused_gemm_kernel", blocks, TILE_THREADS);
    set_tile(product, TILE, TILE, chain->in_features, TILE_K);
    set_stages(product, STAGES, THREAD_ROWS, THREAD_COLUMNS);
    choose_runs(chain, device, parked_tile_bytes, plan, product);
    plan_product_alone(chain, product);
    add_before(product, chain, 0, chain->before_count);
}

cudaError_t launch_fused(const fgn_plan *plan, const fgn_launch *planned, const struct gemm *gemm,
                         cudaStream_t stream) {
    static bool allowed[MOST_DEVICES];
    struct fused_args args = {*gemm, (int)plan->choice[K_TILES_IN_RUN_CHOICE]};
    cudaError_t error = allow_shared_memory((const void *)fused_gemm_kernel, &plan->device, allowed);
    if (error != cudaSuccess)
        return error;
    return launch_fused_gemm_kernel(grid_of(planned), block_of(planned), planned->shared_bytes, stream, args);
}

static void plan(const fgn_chain *chain, const fgn_device *device, fgn_plan *plan) {
    plan_fused(chain, device, plan);
    plan_norm_after_epilogue(chain, plan);
}

static cudaError_t forward(const fgn_plan *plan, const fgn_chain *chain, const void *x, void *y,
                           void *workspace, cudaStream_t stream) {
    (void)workspace;
    struct gemm gemm = gemm_of(chain, (const float *)x, (float *)y, always);
    cudaError_t error = launch_fused(plan, &plan->launch[0], &gemm, stream);
    if (error != cudaSuccess)
        return error;
    return launch_norm_after_epilogue(&plan->launch[1], chain, (float *)y, always, stream);
}

RUNG fused_rung = {
    {"fused", "ladder/gemm_7_fused.cu", "ladder/group_norm_2_block.cu",
     "every operator in one of two kernels", ""},
    &group_norm_2_block,
    needs_float32,
    plan,
    NULL,
    forward,
};
