/* The chain for few rows, on tensor cores: as fast as the weight can be read.
 *
 * Idea: a product of few rows is a copy of the weight that ends in the tensor cores. Up to 64 rows every byte
 * of the weight is read once, by copies (cp.async) that run up to four rounds ahead of the product: a
 * multiprocessor has over 100 KB in flight, of which it needs some 25 (4.3 TB/s of 132 multiprocessors times
 * 700 ns). k may come in any order if it is the same on both sides: 16 bytes, neighbours in memory, are a
 * lane's operands of two mma as they stand, so nothing is rearranged on the way.
 *
 * Parts: few_rows_queue.h (copies and slots), few_rows_product.h (the product, and how float32 becomes
 * factors of tensor cores), few_rows_parked.h and few_rows_ending.h (sums, norm, operators), few_rows_plan.h
 * (how a product is cut into blocks).
 *
 * Work: 8 warps of 32 columns each, side by side or on different k, and 16, 32 or 64 rows. Few rows: 2 warps
 * side by side, 4 along k; 64 rows: 8 side by side, which share x. Blocks that are too few to fill the GPU
 * split k further. Then, or where a group of GroupNorm is wider than a block, the sums go to the workspace
 * and a second, small kernel adds and normalises; it is launched early (griddepcontrol), to be there when the
 * first one ends. Small problems of more rows have blocks of other rows beside each other, which find the
 * weight in the L2 cache.
 *
 * Bytes: the weight once, from memory; from the L2 cache once for every row of blocks. Operations: 2 batch a
 * weight, times the number of products.
 *
 * Limit: memory bandwidth; with 64 rows of float32 the tensor cores, as six products cost six times. */
#include "few_rows_plan.h"

/* The whole kernel, for constants `row_tiles` and `factors`. */
static __forceinline__ __device__ void few_rows(const struct few_rows_args *args, int row_tiles,
                                                enum factors factors) {
    struct warp_place place = place_of_warp(args, row_tiles);
    const int element_bytes = element_bytes_of(factors), tiles_in_slot = place.warps_along * row_tiles;
    struct lane_sources from = lane_sources(args, &place, row_tiles, element_bytes);
    const int ahead = args->slots - 1; /* rounds on their way while one is multiplied */
    int filling = 0, reading = 0;      /* slots */
#pragma unroll 1
    for (; filling < ahead; filling++) {
        if (filling < place.rounds)
            bring_round(args, &from, filling, place.warps_along, element_bytes);
        copy_async_commit();
    }
    griddepcontrol_launch_dependents();
    clear_absent_rows(args, &from, tiles_in_slot);
    if (factors == FLOAT32_PIECES)
        clear_pieces(args, tiles_in_slot);
    if (args->blocks_end)
        fetch_vectors(&args->ending, place.block_column, columns_here(args, &place));

    tile_sums sum[MOST_ROW_TILES];
#pragma unroll
    for (int i = 0; i < row_tiles * COLUMN_TILES * 4; i++)
        sum[i / (COLUMN_TILES * 4)][i / 4 % COLUMN_TILES][i % 4] = 0.0f;
#pragma unroll 1
    for (int round = 0; round < place.rounds; round++) {
        copy_async_wait(ahead - 1);
        convert_x(args, &from, round, reading, tiles_in_slot, factors);
        __syncthreads(); /* the round is here; everyone is done with the slot of the round before */
        struct weight_operands w;
        load_weight(&w, weight_in_slot(args, reading), factors);
        if (round + ahead < place.rounds)
            bring_round(args, &from, filling, place.warps_along, element_bytes);
        copy_async_commit(); /* perhaps an empty group, so that one more is always one round more */
        multiply_step(args, sum, &place, &w, round, reading, row_tiles, factors);
        filling = filling + 1 < args->slots ? filling + 1 : 0;
        reading = reading + 1 < args->slots ? reading + 1 : 0;
    }
    __syncthreads(); /* nobody reads the slots any more */
    park(args, &place, sum, row_tiles, factors);
    __syncthreads();
    hand_on(args, &place, row_tiles);
    if (!args->blocks_end)
        return;
    struct share share = {0, place.rows};
    if (args->partial) {
        cluster_barrier();
        share = share_of_block(args, &place);
        collect_splits(args, &place, &share, row_tiles);
    }
    __syncthreads();
    end_groups(args, &place, &share);
}

static __forceinline__ __device__ void few_rows_of_any_factors(const struct few_rows_args *args,
                                                               int row_tiles) {
    if (args->factors == FLOAT16_FACTORS)
        few_rows(args, row_tiles, FLOAT16_FACTORS);
    else if (args->factors == BFLOAT16_FACTORS)
        few_rows(args, row_tiles, BFLOAT16_FACTORS);
    else if (args->factors == TF32_FACTORS)
        few_rows(args, row_tiles, TF32_FACTORS);
    else
        few_rows(args, row_tiles, FLOAT32_PIECES);
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
    int size; /* channels in a group */
    int groups;
    int64_t batch;
    struct ending ending;
};

/* What comes before the norm: to `value`, which may be the first of the partial sums. */
static __forceinline__ __device__ void add_splits(const struct end_args *args, float *value,
                                                  const float *partial, int size, int64_t channel,
                                                  const struct members *team, int at_once) {
    int64_t distance = args->batch * args->ending.norm.channels;
#pragma unroll 1
    for (int i = at_once * team->member; i < size; i += at_once * team->count) {
        float sum[FOUR] = {0.0f};
#pragma unroll 4
        for (int split = 0; split < args->splits; split++) {
            float part[FOUR];
            read_values(part, partial + split * distance + i, at_once);
#pragma unroll
            for (int j = 0; j < at_once; j++)
                sum[j] += part[j];
        }
        begin_ending(&args->ending, sum, at_once, channel + i, 1);
        write_values(value + i, sum, at_once);
    }
}

__global__ void __launch_bounds__(END_THREADS) few_rows_end_kernel(struct end_args args) {
    __shared__ float values[MOST_SHARED_VALUES];
    __shared__ float of_warp[END_WARPS][2];
    int teams = END_THREADS / args.team;
    int64_t item = (int64_t)blockIdx.x * teams + threadIdx.x / args.team;
    int64_t channels = args.ending.norm.channels;
    int64_t row = item / args.groups, channel = (item - row * args.groups) * args.size;
    bool present = row < args.batch;
    int size = !present ? 0 : args.size < channels - channel ? args.size : (int)(channels - channel);
    struct members team = {(int)(threadIdx.x % args.team), args.team, of_warp};
    float *partial = args.partial + row * channels + channel;
    float *value =
        teams * args.size <= MOST_SHARED_VALUES ? values + threadIdx.x / args.team * args.size : partial;
    griddepcontrol_wait();
    if (args.ending.fours)
        add_splits(&args, value, partial, size, channel, &team, FOUR);
    else
        add_splits(&args, value, partial, size, channel, &team, 1);
    __syncthreads(); /* everyone reads the group's first value */
    end_group(&args.ending, value, size, 1.0f / args.size, row, channel, &team);
}

EARLY_LAUNCHER(few_rows_end_kernel, struct end_args)

static cudaError_t end_few_rows(const struct few_rows_args *args, bool early, cudaStream_t stream) {
    struct end_args end = {args->partial, args->splits, 0, channels_of_team(&args->ending), 0,
                           args->batch,   args->ending};
    end.groups = (int)tiles(args->out_features, end.size);
    end.team = end.size > LARGEST_WARP_GROUP ? END_THREADS : lanes_of_group(end.size);
    dim3 grid = {(unsigned)tiles(args->batch * end.groups, END_THREADS / end.team), 1, 1};
    dim3 block = {END_THREADS, 1, 1};
    return launch_few_rows_end_kernel(grid, block, 0, stream, early, end);
}

/* ---- The host's part ---- */

/* What the rungs that multiply larger batches in tensor cores ask before they take this one. */
bool has_few_rows(const fgn_chain *chain) {
    return chain->batch <= 64;
}

static const char *refusal(const fgn_chain *chain) {
    (void)chain;
#ifdef __CUDACC__
    if (attribute_of_device(cudaDevAttrComputeCapabilityMajor) < 8)
        return "a GPU of compute capability 8.0";
#endif
    return NULL;
}

static int launches(const fgn_chain *chain) {
    struct plan plan = plan_of(chain);
    return blocks_end(chain, &plan) ? 1 : 2;
}

static unsigned long long workspace_bytes(const fgn_chain *chain) {
    struct plan plan = plan_of(chain);
    return partial_bytes(chain, &plan);
}

static unsigned long long prepared_bytes(const fgn_chain *chain) {
    (void)chain;
    return 0;
}

static cudaError_t prepare(const fgn_chain *chain, void *prepared, cudaStream_t stream) {
    (void)chain, (void)prepared, (void)stream;
    return cudaSuccess;
}

static struct ending ending_of(const fgn_chain *chain, void *y) {
    struct ending ending = {chain->bias,
                            operators_of(chain->before_count, chain->before),
                            {NULL,
                             chain->norm_scale,
                             chain->norm_shift,
                             NULL,
                             chain->type,
                             chain->batch,
                             chain->out_features,
                             chain->groups,
                             chain->eps,
                             operators_of(chain->after_count, chain->after),
                             {NULL, NULL}},
                            y,
                            chain->type,
                            false};
    ending.fours = chain->out_features % FOUR == 0 && channels_of_team(&ending) % FOUR == 0 &&
                   (uintptr_t)y % (FOUR * sizeof(float)) == 0;
    return ending;
}

static cudaError_t forward(const fgn_chain *chain, const void *x, void *y, void *workspace,
                           cudaStream_t stream) {
    struct plan plan = plan_of(chain);
    struct few_rows_args args;
    args.x = x;
    args.weight = chain->weight;
    args.batch = chain->batch;
    args.in_features = chain->in_features;
    args.out_features = chain->out_features;
    args.factors = factors_of(chain);
    args.chunks = chain->in_features * element_bytes_of(args.factors) % CHUNK == 0 &&
                  (uintptr_t)x % CHUNK == 0 && (uintptr_t)chain->weight % CHUNK == 0;
    args.slots = plan.slots;
    args.slot_bytes = plan.slot_bytes;
    args.across = plan.across;
    args.splits = plan.splits;
    args.steps = steps_of(chain);
    args.column_blocks = plan.column_blocks;
    args.row_blocks = plan.row_blocks;
    args.partial = partial_bytes(chain, &plan) > 0 ? (float *)workspace : NULL;
    args.blocks_end = blocks_end(chain, &plan);
    args.ending = ending_of(chain, y);

    const void *const kernels[] = {(const void *)few_rows_16_kernel, (const void *)few_rows_32_kernel,
                                   (const void *)few_rows_64_kernel};
    cudaError_t (*const launch[])(dim3, dim3, size_t, cudaStream_t, int, struct few_rows_args) = {
        launch_few_rows_16_kernel, launch_few_rows_32_kernel, launch_few_rows_64_kernel};
    int kernel = plan.row_tiles / 2;
    int shared_bytes = shared_bytes_of(&plan, args.factors);
    cudaError_t error =
        cudaFuncSetAttribute(kernels[kernel], cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
    if (error != cudaSuccess)
        return error;
    dim3 grid = {(unsigned)(plan.row_blocks * plan.column_blocks * plan.splits), 1, 1};
    dim3 block = {THREADS, 1, 1};
    error = launch[kernel](grid, block, shared_bytes, stream, args.blocks_end ? plan.cluster : 1, args);
    if (error == cudaSuccess && !args.blocks_end)
        error = end_few_rows(&args, attribute_of_device(cudaDevAttrComputeCapabilityMajor) >= 9, stream);
    return error;
}

const struct tensor_rung gemm_few_rows_tensor = {refusal,        launches, workspace_bytes,
                                                 prepared_bytes, prepare,  forward};
