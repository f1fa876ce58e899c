/* The chain for few rows, on tensor cores: as fast as the weight can be read.
 *
 * Idea: a product of few rows is a copy of the weight that ends in the tensor cores. Every byte of the weight
 * is copied to shared memory once (cp.async), up to four k tiles before it is multiplied: a multiprocessor
 * has over 100 KB in flight, of which it needs some 25 (4.3 TB/s of 132 multiprocessors times 700 ns). What
 * is left then is how a launch begins and ends, some microseconds each: code that runs once waits for its own
 * instructions to come from memory. So the ending is short, and in the lanes' registers.
 *
 * Parts: few_rows/queue.h (copies and stages), few_rows/product.h (the product, and how float32 becomes
 * factors of tensor cores), few_rows/parked.h and few_rows/ending.h (sums, norm, operators), few_rows/plan.h
 * (how a product is cut into blocks).
 *
 * Work: a block has 16, 32 or 64 rows, and 8 warps of 32 columns each, side by side or on different k; for
 * few rows 2 side by side and 4 along k, for 64 rows 4 and 2. Blocks that are too few to fill the GPU split k
 * further: two of them are a cluster (9.0), read each other's sums, and each ends half of the rows. Without
 * clusters, or where a group of GroupNorm is wider than a block, the sums go to the workspace and a second,
 * small kernel adds and normalises; it is launched early (griddepcontrol), to be there when the first one
 * ends. More rows are blocks beside each other, which find the weight in the L2 cache: while all of them run
 * at once, that is faster than the large tiles of other rungs, of which there would be few.
 *
 * Bytes: the weight once, from memory; from the L2 cache once for every row of blocks. Operations: 2 batch a
 * weight, times the number of products.
 *
 * Limit: memory bandwidth; with 64 rows of float32 the tensor cores, as six products cost six times. */
#include "few_rows/plan.h"

/* The whole kernel, for constants `row_tiles` and `factors`. */
static __forceinline__ __device__ void few_rows(const struct few_rows_args *args, int row_tiles,
                                                enum mma_factors factors) {
    struct warp_place place = place_of_warp(args, row_tiles);
    const int element_bytes = element_bytes_of(factors), tiles_in_stage = place.warps_along * row_tiles;
    struct lane_sources from = lane_sources(args, &place, row_tiles, element_bytes);
    const int ahead = args->stages - 1; /* k tiles on their way while one is multiplied */
    int filling = 0, reading = 0;       /* stages */
#pragma unroll 1
    for (; filling < ahead; filling++) {
        if (filling < place.k_tiles)
            load_k_tile(args, &from, filling, place.warps_along, element_bytes);
        cp_async_commit_group();
    }
    griddepcontrol_launch_dependents();
    if (!args->partial)
        load_vectors(&args->ending, dynamic_shared + args->vectors_at, place.block_column,
                     columns_here(args, &place));
    clear_absent_rows(args, &from, tiles_in_stage);
    if (factors == FLOAT32_PIECES_MMA)
        clear_pieces(args, tiles_in_stage);

    tile_sums sum[MOST_ROW_TILES];
#pragma unroll
    for (int i = 0; i < row_tiles * COLUMN_TILES * 4; i++)
        sum[i / (COLUMN_TILES * 4)][i / 4 % COLUMN_TILES][i % 4] = 0.0f;
#pragma unroll 1
    for (int k_tile = 0; k_tile < place.k_tiles; k_tile++) {
        wait_for_k_tile(args->stages);
        __syncwarp();
        struct weight_operands w; /* of columns that the warp has brought itself */
        load_weight(&w, weight_in_stage(args, reading), factors);
        if (factors == FLOAT32_PIECES_MMA)
            split_x(args, &from, k_tile, reading, tiles_in_stage);
        else if (factors == TF32_MMA)
            round_x(args, &from, reading);
        __syncthreads(); /* all of x is here; everyone is done with the stage of the k tile before */
        if (k_tile + ahead < place.k_tiles)
            load_k_tile(args, &from, filling, place.warps_along, element_bytes);
        cp_async_commit_group(); /* perhaps an empty group, so that one more is always one k tile more */
        multiply_step(args, sum, &place, &w, k_tile, reading, row_tiles, factors);
        filling = filling + 1 < args->stages ? filling + 1 : 0;
        reading = reading + 1 < args->stages ? reading + 1 : 0;
    }
    __syncthreads(); /* nobody reads the stages any more */
    park(args, &place, sum, row_tiles, factors);
    end_block(args, &place, row_tiles);
}

static __forceinline__ __device__ void few_rows_of_any_factors(const struct few_rows_args *args,
                                                               int row_tiles) {
    if (args->factors == FLOAT16_MMA)
        few_rows(args, row_tiles, FLOAT16_MMA);
    else if (args->factors == BFLOAT16_MMA)
        few_rows(args, row_tiles, BFLOAT16_MMA);
    else if (args->factors == TF32_MMA)
        few_rows(args, row_tiles, TF32_MMA);
    else
        few_rows(args, row_tiles, FLOAT32_PIECES_MMA);
}

__global__ void __launch_bounds__(THREADS, 1) few_rows_16_kernel(struct few_rows_args args) {
    few_rows_of_any_factors(&args, 1);
}

__global__ void __launch_bounds__(THREADS, 1) few_rows_32_kernel(struct few_rows_args args) {
    few_rows_of_any_factors(&args, 2);
}

__global__ void __launch_bounds__(THREADS, 1) few_rows_64_kernel(struct few_rows_args args) {
    few_rows_of_any_factors(&args, 4);
}

CLUSTER_LAUNCHER(few_rows_16_kernel, struct few_rows_args)
CLUSTER_LAUNCHER(few_rows_32_kernel, struct few_rows_args)
CLUSTER_LAUNCHER(few_rows_64_kernel, struct few_rows_args)

/* ---- The host's part ---- */

/* Where a plan has what it needs again at the launch. */
enum few_rows_choice { ROW_TILES, ACROSS, SPLITS, STAGES, STAGE_BYTES, VECTORS_AT };

static const char *refusal(const fgn_chain *chain, const fgn_device *device) {
    if (chain->batch > MOST_ROWS)
        return "a batch of at most 16384";
    if (!second_launch_fits(chain, device))
        return "smaller groups, or fewer operators with a vector";
    if (device->major < 8 && !is_simulator(device))
        return "a GPU of compute capability 8.0";
    return NULL;
}

static void plan(const fgn_chain *chain, const fgn_device *device, fgn_plan *plan) {
    static const char *const names[] = {"few_rows_16_kernel", "few_rows_32_kernel", "few_rows_64_kernel"};
    struct plan best = plan_of(chain, device, 0.0, &plan->nanoseconds);
    for (int number = 0; number < plan->candidate; number++) {
        best = plan_of(chain, device, plan->nanoseconds, &plan->nanoseconds);
        if (plan->nanoseconds < 0.0)
            return;
    }
    enum mma_factors factors = factors_of(chain);
    fgn_launch *product =
        add_launch(plan, names[log2_of(best.row_tiles)], best.column_blocks * best.cluster, THREADS);
    product->grid[1] = (unsigned)best.row_blocks;
    product->grid[2] = (unsigned)(best.splits / best.cluster);
    product->cluster = best.cluster;
    product->shared_bytes = shared_bytes_of(chain, &best, factors);
    set_tile(product, best.row_tiles * TILE_ROWS, best.across * WARP_COLUMNS, chain->in_features,
             STEP_BYTES / element_bytes_of(factors) * (WARPS / best.across));
    product->steps = tiles(tiles(steps_of(chain), best.splits), WARPS / best.across);
    set_stages(product, best.stages, 0, 0);
    add_product(product, chain);
    plan->choice[ROW_TILES] = best.row_tiles;
    plan->choice[ACROSS] = best.across;
    plan->choice[SPLITS] = best.splits;
    plan->choice[STAGES] = best.stages;
    plan->choice[STAGE_BYTES] = best.stage_bytes;
    plan->choice[VECTORS_AT] = vectors_at(&best, factors);
    if (blocks_end(chain, &best)) {
        add_ending(product, chain);
        add_y(product, chain);
        return;
    }
    plan->workspace_bytes = partial_bytes(chain, &best);
    product->computes |= FGN_PARTIAL_SUMS;
    add_written(product, plan->workspace_bytes, FGN_WRITES_WORKSPACE);
    plan_second_launch(chain, device, best.splits, plan);
}

static cudaError_t forward(const fgn_plan *plan, const fgn_chain *chain, const void *x, void *y,
                           void *workspace, cudaStream_t stream) {
    static bool allowed[3][MOST_DEVICES];
    const fgn_launch *product = &plan->launch[0];
    struct few_rows_args args;
    args.x = x;
    args.weight = chain->weight;
    args.batch = chain->batch;
    args.in_features = chain->in_features;
    args.out_features = chain->out_features;
    args.factors = factors_of(chain);
    args.chunks = chain->in_features * element_bytes_of(args.factors) % CHUNK == 0 &&
                  (uintptr_t)x % CHUNK == 0 && (uintptr_t)chain->weight % CHUNK == 0;
    args.stages = (int)plan->choice[STAGES];
    args.stage_bytes = (int)plan->choice[STAGE_BYTES];
    args.across_log2 = log2_of((int)plan->choice[ACROSS]);
    args.cluster = product->cluster;
    args.steps = steps_of(chain);
    args.split_steps = (int)tiles(args.steps, plan->choice[SPLITS]);
    args.vectors_at = (int)plan->choice[VECTORS_AT];
    args.partial = plan->launch_count > 1 ? (float *)workspace : NULL;
    args.ending = ending_of(chain, y);

    const void *const kernels[] = {(const void *)few_rows_16_kernel, (const void *)few_rows_32_kernel,
                                   (const void *)few_rows_64_kernel};
    cudaError_t (*const launch[])(dim3, dim3, size_t, cudaStream_t, int, struct few_rows_args) = {
        launch_few_rows_16_kernel, launch_few_rows_32_kernel, launch_few_rows_64_kernel};
    int kernel = log2_of((int)plan->choice[ROW_TILES]);
    cudaError_t error = allow_shared_memory(kernels[kernel], &plan->device, allowed[kernel]);
    if (error != cudaSuccess)
        return error;
    error = launch[kernel](grid_of(product), block_of(product), product->shared_bytes, stream,
                           product->cluster, args);
    if (error != cudaSuccess || !args.partial)
        return error;
    return run_second_launch(plan, &plan->launch[1], chain, args.partial, (int)plan->choice[SPLITS], y,
                             stream);
}

RUNG few_rows_rung = {
    {"few_rows", "few_rows/gemm_few_rows_tensor.cu", "few_rows/ending.h",
     "tensor cores as fast as the weight is read",
     "a batch of at most 16384 and a GPU of compute capability 8.0"},
    &group_norm_2_block,
    refusal,
    plan,
    NULL,
    forward,
};
