/* The chain for few rows, on tensor cores: as fast as the weight can be read.
 *
 * Idea: a product of few rows is a copy of the weight that ends in the tensor cores. Every byte of the weight
 * is copied to shared memory once (cp.async), up to four rounds before it is multiplied: a multiprocessor has
 * over 100 KB in flight, of which it needs some 25 (4.3 TB/s of 132 multiprocessors times 700 ns). What is
 * left then is how a launch begins and ends, some microseconds each: code that runs once waits for its own
 * instructions to come from memory. So the ending is short, and in the lanes' registers.
 *
 * Parts: few_rows/queue.h (copies and slots), few_rows/product.h (the product, and how float32 becomes
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
    const int element_bytes = element_bytes_of(factors), tiles_in_slot = place.warps_along * row_tiles;
    struct lane_sources from = lane_sources(args, &place, row_tiles, element_bytes);
    const int ahead = args->slots - 1; /* rounds on their way while one is multiplied */
    int filling = 0, reading = 0;      /* slots */
#pragma unroll 1
    for (; filling < ahead; filling++) {
        if (filling < place.rounds)
            bring_round(args, &from, filling, place.warps_along, element_bytes);
        cp_async_commit_group();
    }
    griddepcontrol_launch_dependents();
    clear_absent_rows(args, &from, tiles_in_slot);
    if (factors == FLOAT32_PIECES_MMA)
        clear_pieces(args, tiles_in_slot);

    tile_sums sum[MOST_ROW_TILES];
#pragma unroll
    for (int i = 0; i < row_tiles * COLUMN_TILES * 4; i++)
        sum[i / (COLUMN_TILES * 4)][i / 4 % COLUMN_TILES][i % 4] = 0.0f;
#pragma unroll 1
    for (int round = 0; round < place.rounds; round++) {
        wait_for_round(args->slots);
        __syncwarp();
        struct weight_operands w; /* of columns that the warp has brought itself */
        load_weight(&w, weight_in_slot(args, reading), factors);
        if (factors == FLOAT32_PIECES_MMA)
            split_x(args, &from, round, reading, tiles_in_slot);
        else if (factors == TF32_MMA)
            round_x(args, &from, reading);
        __syncthreads(); /* all of x is here; everyone is done with the slot of the round before */
        if (round + ahead < place.rounds)
            bring_round(args, &from, filling, place.warps_along, element_bytes);
        cp_async_commit_group(); /* perhaps an empty group, so that one more is always one round more */
        multiply_step(args, sum, &place, &w, round, reading, row_tiles, factors);
        filling = filling + 1 < args->slots ? filling + 1 : 0;
        reading = reading + 1 < args->slots ? reading + 1 : 0;
    }
    __syncthreads(); /* nobody reads the slots any more */
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

/* ---- The second launch ---- */

#define END_THREADS 256
#define END_WARPS (END_THREADS / LANES)
#define MOST_SHARED_VALUES 4096

struct end_args {
    float *partial; /* (splits, batch, channels) */
    int splits;
    int team; /* threads for a group: some lanes, or the block */
    int64_t batch;
    struct ending ending;
};

/* The sum over the splits of four neighbours, or of one. */
static __forceinline__ __device__ void add_splits(float *sum, const struct end_args *args,
                                                  const float *partial, int at_once) {
    int64_t distance = args->batch * args->ending.norm.channels;
#pragma unroll
    for (int i = 0; i < at_once; i++)
        sum[i] = 0.0f;
#pragma unroll 4
    for (int split = 0; split < args->splits; split++) {
        float part[FOUR];
        read_values(part, partial + split * distance, at_once);
#pragma unroll
        for (int i = 0; i < at_once; i++)
            sum[i] += part[i];
    }
}

/* A group whose values do not fit in the lanes' registers. `value` may be the first of the partial sums. */
static __forceinline__ __device__ void end_from_memory(const struct end_args *args, float *value,
                                                       const float *partial, int size, int64_t row,
                                                       int64_t channel, const struct members *team,
                                                       int at_once) {
#pragma unroll 1
    for (int i = at_once * team->member; i < size; i += at_once * team->count) {
        float sum[FOUR];
        add_splits(sum, args, partial + i, at_once);
        begin_ending(&args->ending, sum, at_once, in_row(&args->ending, row, channel + i));
        write_values(value + i, sum, at_once);
    }
    __syncthreads(); /* everyone reads the group's first value */
    end_group_by(&args->ending, value, size, row, channel, team, at_once);
}

__global__ void __launch_bounds__(END_THREADS) few_rows_end_kernel(struct end_args args) {
    __shared__ float values[MOST_SHARED_VALUES];
    __shared__ float of_warp[END_WARPS][2];
    const struct ending *ending = &args.ending;
    int teams = END_THREADS / args.team, groups = (int)ending->norm.channels / ending->size;
    int64_t item = (int64_t)blockIdx.x * teams + threadIdx.x / args.team;
    int64_t row = item / groups, channel = (item - row * groups) * ending->size;
    bool present = row < args.batch;
    struct members team = {(int)(threadIdx.x % args.team), args.team, of_warp};
    float *partial = args.partial + row * ending->norm.channels + channel;
    griddepcontrol_wait();
    if (lanes_hold_group(ending)) {
        float v[FOUR] = {0.0f};
        present = present && FOUR * team.member < ending->size;
        if (present)
            add_splits(v, &args, partial + FOUR * team.member, FOUR);
        end_four(ending, v, present, row, channel + FOUR * team.member);
        return;
    }
    int size = present ? ending->size : 0;
    float *value = teams * ending->size <= MOST_SHARED_VALUES
                       ? values + threadIdx.x / args.team * ending->size
                       : partial;
    if (ending->fours)
        end_from_memory(&args, value, partial, size, row, channel, &team, FOUR);
    else
        end_from_memory(&args, value, partial, size, row, channel, &team, 1);
}

EARLY_LAUNCHER(few_rows_end_kernel, struct end_args)

/* ---- The host's part ---- */

/* Where a plan has what it needs again at the launch. */
enum few_rows_choice { ROW_TILES, ACROSS, SPLITS, SLOTS, SLOT_BYTES };

static const char *refusal(const fgn_chain *chain, const fgn_device *device) {
    if (chain->vector_type != FGN_FLOAT32)
        return "vectors in float32";
    if (chain->batch > MOST_ROWS)
        return "a batch of at most 2048";
    if (device->major < 8 && !is_simulator(device))
        return "a GPU of compute capability 8.0";
    return NULL;
}

/* The threads that end a group, of END_THREADS in a block. */
static int end_team_of(const struct ending *ending) {
    return ending->size > LARGEST_WARP_GROUP ? END_THREADS : ending->lanes;
}

static void plan_end(const fgn_chain *chain, int64_t sums_bytes, fgn_plan *plan) {
    struct ending ending = ending_of(chain, NULL);
    int64_t items = chain->batch * (chain->out_features / ending.size);
    int64_t blocks = tiles(items, END_THREADS / end_team_of(&ending));
    fgn_launch *end = add_launch(plan, "few_rows_end_kernel", blocks, END_THREADS);
    end->computes = FGN_ADD_SUMS;
    add_read(end, sums_bytes, sums_bytes);
    add_ending(end, chain);
    add_y(end, chain);
}

static void plan(const fgn_chain *chain, const fgn_device *device, fgn_plan *plan) {
    static const char *const names[] = {"few_rows_16_kernel", "few_rows_32_kernel", "few_rows_64_kernel"};
    struct plan best = plan_of(chain, device, &plan->nanoseconds);
    enum mma_factors factors = factors_of(chain);
    fgn_launch *product =
        add_launch(plan, names[power_of(best.row_tiles)], best.column_blocks * best.cluster, THREADS);
    product->grid[1] = (unsigned)best.row_blocks;
    product->grid[2] = (unsigned)(best.splits / best.cluster);
    product->cluster = best.cluster;
    product->shared_bytes = shared_bytes_of(&best, factors);
    set_tile(product, best.row_tiles * TILE_ROWS, best.across * WARP_COLUMNS, chain->in_features,
             STEP_BYTES / element_bytes_of(factors) * (WARPS / best.across));
    product->steps = tiles(tiles(steps_of(chain), best.splits), WARPS / best.across);
    set_stages(product, best.slots, 0, 0);
    add_product(product, chain);
    plan->choice[ROW_TILES] = best.row_tiles;
    plan->choice[ACROSS] = best.across;
    plan->choice[SPLITS] = best.splits;
    plan->choice[SLOTS] = best.slots;
    plan->choice[SLOT_BYTES] = best.slot_bytes;
    if (blocks_end(chain, &best)) {
        add_ending(product, chain);
        add_y(product, chain);
        return;
    }
    plan->workspace_bytes = partial_bytes(chain, &best);
    product->computes |= FGN_PARTIAL_SUMS;
    add_written(product, plan->workspace_bytes, FGN_WRITES_WORKSPACE);
    plan_end(chain, plan->workspace_bytes, plan);
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
    args.slots = (int)plan->choice[SLOTS];
    args.slot_bytes = (int)plan->choice[SLOT_BYTES];
    args.across_power = power_of((int)plan->choice[ACROSS]);
    args.cluster = product->cluster;
    args.steps = steps_of(chain);
    args.split_steps = (int)tiles(args.steps, plan->choice[SPLITS]);
    args.partial = plan->launch_count > 1 ? (float *)workspace : NULL;
    args.ending = ending_of(chain, y);

    const void *const kernels[] = {(const void *)few_rows_16_kernel, (const void *)few_rows_32_kernel,
                                   (const void *)few_rows_64_kernel};
    cudaError_t (*const launch[])(dim3, dim3, size_t, cudaStream_t, int, struct few_rows_args) = {
        launch_few_rows_16_kernel, launch_few_rows_32_kernel, launch_few_rows_64_kernel};
    int kernel = power_of((int)plan->choice[ROW_TILES]);
    cudaError_t error = allow_shared_memory(kernels[kernel], &plan->device, allowed[kernel]);
    if (error != cudaSuccess)
        return error;
    error = launch[kernel](grid_of(product), block_of(product), product->shared_bytes, stream,
                           product->cluster, args);
    if (error != cudaSuccess || !args.partial)
        return error;
    const fgn_launch *end = &plan->launch[1];
    struct end_args end_args = {args.partial, (int)plan->choice[SPLITS], end_team_of(&args.ending),
                                args.batch, args.ending};
    bool early = plan->device.major >= 9;
    return launch_few_rows_end_kernel(grid_of(end), block_of(end), 0, stream, early, end_args);
}

RUNG few_rows_rung = {
    {"few_rows", "few_rows/gemm_few_rows_tensor.cu", "few_rows/ending.h",
     "tensor cores as fast as the weight is read",
     "a batch of at most 2048 and a GPU of compute capability 8.0"},
    &group_norm_2_block,
    refusal,
    plan,
    NULL,
    forward,
};
