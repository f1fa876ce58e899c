/* The chain for few rows, on tensor cores: as fast as the weight can be read.
 *
 * Idea: a product of few rows is a copy of the weight that ends in the tensor cores. Every byte of the weight
 * is copied to shared memory once (cp.async), up to four k tiles before it is multiplied. A multiprocessor
 * has over 100 KB in flight and needs some 25 (4.3 TB/s over 132 multiprocessors times 700 ns). The rest is
 * the beginning and the end of a launch, some microseconds each: code that runs once waits until its
 * instructions come from memory. They come faster in the order of memory than after a jump. So what every
 * call runs has one copy and is contiguous, rare cases are functions elsewhere, and the ending is short and
 * in the lanes' registers. With a copy of everything for each kind of factors, a small call that follows
 * other kernels took an H100 4 to 6 us longer. The parameter vectors are read before the copies are started,
 * and wait in registers: memory takes as long for both as for one.
 *
 * Parts, in the order of time: few_rows/ring.h (copies and stages), few_rows/product.h (the product, and how
 * float32 becomes factors of tensor cores), few_rows/parked.h (the sums of a block and of a cluster),
 * few_rows/ending.h (norm, operators, y). The plan is at the end of this file.
 *
 * Work: a block has 16, 32 or 64 rows, and 8 warps of 32 columns each. For few rows 2 warps are side by side
 * and 4 along k, for 64 rows 4 and 2. If blocks are too few to fill the GPU, they split k further: two of
 * them form a cluster (9.0), read each other's sums, and each ends half of the rows. Without clusters, or if
 * a group of GroupNorm is wider than a block, the sums go to the workspace, and a second, small kernel adds
 * and normalises; it is launched early (griddepcontrol), to be ready when the first one ends. More rows are
 * further blocks, which find the weight in the L2 cache. As long as all of them run at once, they are faster
 * than the few large tiles that other rungs would have.
 *
 * Bytes: the weight is read once from memory, and once from the L2 cache for every row of blocks. Operations:
 * 2 batch for each weight, times the number of products.
 *
 * Limit: memory bandwidth; for 64 rows of float32 the tensor cores, which compute six products. */
#include "few_rows/parked.h"
#include "few_rows/second_launch.h"
#include "shared/plan.h"

/* The product of a block, up to the sums in shared memory. Callers pass constants for `row_tiles` and
 * `factors`; `filled` stages are on their way. */
static __forceinline__ __device__ void multiply_block(const struct few_rows_args *args,
                                                      const struct warp_place *place,
                                                      struct lane_sources *from, int filled, int row_tiles,
                                                      enum mma_factors factors) {
    const int tiles_in_stage = place->warps_along * row_tiles;
    int filling = filled, reading = 0; /* stages */
    if (factors == FLOAT32_PIECES_MMA)
        clear_pieces(args, tiles_in_stage);
    tile_sums sum[MOST_ROW_TILES];
#pragma unroll
    for (int i = 0; i < row_tiles * COLUMN_TILES * 4; i++)
        sum[i / (COLUMN_TILES * 4)][i / 4 % COLUMN_TILES][i % 4] = 0.0f;
#pragma unroll 1
    for (int k_tile = 0; k_tile < place->k_tiles; k_tile++) {
        wait_for_k_tile(args->stages);
        __syncwarp();
        struct weight_operands w; /* of columns that the warp has brought itself */
        load_weight(&w, weight_in_stage(args, reading), factors);
        if (factors == FLOAT32_PIECES_MMA)
            split_x(args, from, k_tile, reading, tiles_in_stage);
        else if (factors == TF32_MMA)
            round_x(args, from, reading);
        __syncthreads(); /* all of x is here; everyone is done with the stage of the k tile before */
        if (k_tile + filled < place->k_tiles)
            load_k_tile(args, from, filling, place->warps_along);
        cp_async_commit_group(); /* perhaps an empty group, so that one more is always one k tile more */
        multiply_step(args, sum, place, &w, k_tile, reading, row_tiles, factors);
        filling = filling + 1 < args->stages ? filling + 1 : 0;
        reading = reading + 1 < args->stages ? reading + 1 : 0;
    }
    __syncthreads(); /* nobody reads the stages any more */
    park(args, place, sum, row_tiles, factors);
}

/* The whole kernel. The factors' products have code of their own. What is before and after them has one copy,
 * since a call waits until its instructions come from memory. */
static __forceinline__ __device__ void few_rows(const struct few_rows_args *args, int row_tiles) {
    struct warp_place place = place_of_warp(args, row_tiles);
    const int columns = columns_here(args, &place), column = threadIdx.x;
    bool has_column = !args->partial && column < columns;
    uint32_t vectors[VECTORS_TOGETHER]; /* on their way while the first copies are started */
    if (has_column)
        read_channel(vectors, &args->ending, place.block_column + column);
    struct lane_sources from = lane_sources(args, &place, row_tiles, element_bytes_of(args->factors));
    const int ahead = args->stages - 1; /* k tiles on their way while one is multiplied */
#pragma unroll 1
    for (int stage = 0; stage < ahead; stage++) {
        if (stage < place.k_tiles)
            load_k_tile(args, &from, stage, place.warps_along);
        cp_async_commit_group();
    }
    griddepcontrol_launch_dependents();
    unsigned char *vector_memory = dynamic_shared + args->vectors_at;
    if (!args->partial)
        point_to_vectors(&args->ending, vector_memory, place.block_column, columns);
    if (has_column)
        keep_channel((float *)(vector_memory + loaded_vector_bytes(0, 0)) + column, vectors, &args->ending,
                     place.block_column + column, columns);
    clear_absent_rows(args, &from, place.warps_along * row_tiles);

    if (args->factors == FLOAT16_MMA)
        multiply_block(args, &place, &from, ahead, row_tiles, FLOAT16_MMA);
    else if (args->factors == BFLOAT16_MMA)
        multiply_block(args, &place, &from, ahead, row_tiles, BFLOAT16_MMA);
    else if (args->factors == TF32_MMA)
        multiply_block(args, &place, &from, ahead, row_tiles, TF32_MMA);
    else
        multiply_block(args, &place, &from, ahead, row_tiles, FLOAT32_PIECES_MMA);
    end_block(args, &place, row_tiles);
}

__global__ void __launch_bounds__(THREADS, 1) few_rows_16_kernel(struct few_rows_args args) {
    few_rows(&args, 1);
}

__global__ void __launch_bounds__(THREADS, 1) few_rows_32_kernel(struct few_rows_args args) {
    few_rows(&args, 2);
}

__global__ void __launch_bounds__(THREADS, 1) few_rows_64_kernel(struct few_rows_args args) {
    few_rows(&args, 4);
}

CLUSTER_LAUNCHER(few_rows_16_kernel, struct few_rows_args)
CLUSTER_LAUNCHER(few_rows_32_kernel, struct few_rows_args)
CLUSTER_LAUNCHER(few_rows_64_kernel, struct few_rows_args)

/* ---- The division into blocks: the host takes the way that a model of time finds fastest ---- */

struct plan {
    int row_tiles; /* of a block */
    int across;    /* warps of a block side by side */
    int splits;    /* of k, among blocks */
    int cluster;   /* as many blocks as k is split among, or 1 */
    int row_blocks;
    int column_blocks;
    int stages;
    int stage_bytes;
};

#define MOST_SPLITS 16
#define FEWEST_K_TILES 2 /* worth a split */

/* Rates per nanosecond, fitted to 2695 times on an H200, of 1 to 16384 rows and many divisions, and times in
 * nanoseconds, fitted to one half of lab/records/choice_h200.csv.xz; on the other half the model errs by 10 %
 * on average. Another GPU's differ mostly by a common factor. */
#define MEMORY_RATE 3900      /* bytes */
#define UNALIGNED_RATE 480    /* bytes that come by ordinary loads, of all multiprocessors */
#define SPLIT_RATE 20000      /* bytes of weight in float32 that become pieces, or half as many of x */
#define TENSOR_RATE 515000    /* bytes of k times outputs */
#define LAUNCH_TIME 3809      /* with the first bytes' way */
#define WAVE_TIME 2481        /* a block's beginning */
#define K_TILE_TIME_16 361    /* a block waits for its warps and its copies, of 16-bit factors, */
#define K_TILE_TIME_32 795    /* of tf32, */
#define K_TILE_TIME_SPLIT 834 /* and of pieces of float32 */
#define OUTPUTS_TIME 491      /* a block's end: of 1000 outputs */
#define EXPONENTIAL_TIME 442  /* of 1000 outputs, where an operator has one */
#define CLUSTER_TIME 1561     /* a block waits for the other */

static enum mma_factors factors_of(const fgn_chain *chain) {
    if (chain->type == FGN_FLOAT16)
        return FLOAT16_MMA;
    if (chain->type == FGN_BFLOAT16)
        return BFLOAT16_MMA;
    return is_float32_accurate(chain) || is_one_row_of_tf32(chain) ? FLOAT32_PIECES_MMA : TF32_MMA;
}

static int steps_of(const fgn_chain *chain) {
    return (int)tiles(chain->in_features * element_bytes_of(factors_of(chain)), STEP_BYTES);
}

/* Whether a block has whole groups. */
static bool blocks_hold_groups(const fgn_chain *chain, int across) {
    return chain->groups == 0 || across * WARP_COLUMNS % group_size_of(chain) == 0;
}

/* Blocks of a cluster end the chain only if lanes hold groups. */
static bool can_be_clusters(const fgn_chain *chain, const fgn_device *device) {
    struct ending ending = ending_of(chain, NULL);
    return device->major >= 9 && lanes_hold_group(&ending);
}

/* Whether blocks end the chain, rather than a second launch. */
static bool blocks_end(const fgn_chain *chain, const struct plan *plan) {
    return blocks_hold_groups(chain, plan->across) && plan->cluster == plan->splits;
}

static unsigned long long partial_bytes(const fgn_chain *chain, const struct plan *plan) {
    if (blocks_end(chain, plan))
        return 0;
    return bytes_of_sums(chain, plan->splits);
}

/* The shared memory that a block needs beside its stages. */
static int other_bytes(const struct plan *plan, enum mma_factors factors) {
    return factors == FLOAT32_PIECES_MMA ? pieces_bytes_of(WARPS / plan->across * plan->row_tiles) : 0;
}

/* The bytes of the vectors, in a block that ends the chain. */
static int vector_bytes_of(const fgn_chain *chain, const struct plan *plan) {
    return loaded_vector_bytes(vector_places_of(chain), plan->across * WARP_COLUMNS);
}

/* Takes as many stages as fit in a block's shared memory. Returns whether that is enough. */
static bool fill_stages(const fgn_chain *chain, struct plan *plan, int shared_bytes) {
    enum mma_factors factors = factors_of(chain);
    shared_bytes -= 16 + vector_bytes_of(chain, plan);
    int tiles_in_stage = WARPS / plan->across * plan->row_tiles;
    plan->stage_bytes = stage_bytes_of(tiles_in_stage);
    plan->stages = (shared_bytes - other_bytes(plan, factors)) / plan->stage_bytes;
    plan->stages = plan->stages < MOST_STAGES ? plan->stages : MOST_STAGES;
    return tiles_in_stage <= MOST_TILES_IN_STAGE && plan->stages >= FEWEST_STAGES &&
           parked_bytes(plan->across, plan->row_tiles) <= shared_bytes;
}

/* The vectors follow the memory that the stages and the parked sums use in turn. */
static int vectors_at(const struct plan *plan, enum mma_factors factors) {
    int stages = plan->stages * plan->stage_bytes + other_bytes(plan, factors);
    int parked = parked_bytes(plan->across, plan->row_tiles);
    return (stages > parked ? stages : parked) / 16 * 16 + 16;
}

static int shared_bytes_of(const fgn_chain *chain, const struct plan *plan, enum mma_factors factors) {
    return vectors_at(plan, factors) + (blocks_end(chain, plan) ? vector_bytes_of(chain, plan) : 0);
}

static double larger_of(double a, double b) {
    return a > b ? a : b;
}

/* A wave takes as long for one block as for a block on every multiprocessor. */
static double nanoseconds_of(const fgn_chain *chain, const struct plan *plan, const fgn_device *device) {
    enum mma_factors factors = factors_of(chain);
    double waves = (double)tiles((int64_t)plan->row_blocks * plan->column_blocks * plan->splits,
                                 device->multiprocessors);
    double rows = plan->row_tiles * TILE_ROWS, columns = plan->across * WARP_COLUMNS;
    double rows_read = chain->batch < rows ? (double)chain->batch : rows;
    double k_bytes = (double)tiles(steps_of(chain), plan->splits) * STEP_BYTES;
    double k_bytes_of_all = waves * device->multiprocessors * k_bytes;
    double tensors =
        (double)(chain->out_features + chain->batch) * chain->in_features * element_bytes_of(factors);
    double multiplying = k_bytes_of_all * rows * columns / TENSOR_RATE;
    if (factors == FLOAT32_PIECES_MMA) /* six products, where 16-bit types have one of twice as many k */
        multiplying = 3.0 * multiplying + k_bytes_of_all * (columns + rows_read / 2.0) / SPLIT_RATE;
    double time = larger_of(tensors / MEMORY_RATE, multiplying);
    if (chain->in_features * element_bytes_of(factors) % CHUNK != 0)
        time = larger_of(time, k_bytes_of_all * (rows_read + columns) / UNALIGNED_RATE);
    double k_tiles = (double)tiles(tiles(steps_of(chain), plan->splits), WARPS / plan->across);
    double of_outputs = OUTPUTS_TIME + exponentials_of(chain) * EXPONENTIAL_TIME;
    if (!blocks_end(chain, plan))
        of_outputs /= 2.0; /* the second launch does the rest */
    double ending = rows_read * columns / plan->cluster / 1000.0 * of_outputs;
    double k_tile = factors == FLOAT32_PIECES_MMA ? K_TILE_TIME_SPLIT
                    : factors == TF32_MMA         ? K_TILE_TIME_32
                                                  : K_TILE_TIME_16;
    time += LAUNCH_TIME + waves * (WAVE_TIME + k_tiles * k_tile + ending);
    if (plan->cluster > 1)
        time += CLUSTER_TIME;
    if (!blocks_end(chain, plan))
        time += nanoseconds_of_second_launch(chain, plan->splits);
    return time;
}

/* The most splits: with more they would be too short, or too many for the GPU. */
static int most_splits_of(const fgn_chain *chain, const struct plan *plan, const fgn_device *device) {
    int64_t k_tiles = tiles(steps_of(chain), WARPS / plan->across);
    int64_t blocks = (int64_t)plan->row_blocks * plan->column_blocks; /* none for a batch of 0 */
    int64_t fill = blocks > 0 ? tiles(device->multiprocessors, blocks) : 1;
    int64_t splits = k_tiles / FEWEST_K_TILES;
    splits = splits < fill ? splits : fill;
    splits = splits < MOST_SPLITS ? splits : MOST_SPLITS;
    return splits > 1 ? (int)splits : 1;
}

/* Finds the fastest plan that takes longer than `longer_than` nanoseconds. Returns its time, which is
 * negative if there is none. */
static struct plan plan_of(const fgn_chain *chain, const fgn_device *device, double longer_than,
                           double *nanoseconds) {
    bool clusters = can_be_clusters(chain, device);
    struct plan plan, best;
    *nanoseconds = -1.0;
    memset(&best, 0, sizeof best);
    for (plan.row_tiles = 1; plan.row_tiles <= MOST_ROW_TILES; plan.row_tiles *= 2) {
        for (plan.across = 1; plan.across <= WARPS; plan.across *= 2) {
            plan.row_blocks = (int)tiles(chain->batch, plan.row_tiles * TILE_ROWS);
            plan.column_blocks = (int)tiles(chain->out_features, plan.across * WARP_COLUMNS);
            if (!fill_stages(chain, &plan, (int)most_shared_bytes(device)))
                continue;
            bool pair = clusters && blocks_hold_groups(chain, plan.across);
            int most_splits = most_splits_of(chain, &plan, device);
            for (plan.splits = 1; plan.splits <= most_splits; plan.splits++) {
                plan.cluster = pair && plan.splits == MOST_CLUSTER ? MOST_CLUSTER : 1;
                double time = nanoseconds_of(chain, &plan, device);
                if (time > longer_than && (*nanoseconds < 0.0 || time < *nanoseconds)) {
                    *nanoseconds = time;
                    best = plan;
                }
            }
        }
    }
    return best;
}

/* ---- The plan and its launches ---- */

/* Places in the plan of what the launch needs. */
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
