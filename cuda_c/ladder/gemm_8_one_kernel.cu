/* GEMM, rung 8: the whole chain in one launch.
 *
 * Idea: a block whose tile covers whole groups has everything that GroupNorm needs. Once the sums are in
 * shared memory (parked_tile.h), teams of lanes take a row of one group each, compute its mean and variance
 * there, normalise and write the final value. The intermediate was never in memory.
 *
 * A tile takes as many whole groups as fit in 128 columns. If the group size divides 128, all columns work;
 * groups of 48, for instance, leave 32 of 128 idle.
 *
 * Bytes: inputs once, y once. Saved against rung 7: the intermediate's write and read, 8 for each output,
 * and a launch.
 *
 * Limit: as rung 6, the multiply-adds' issue slots. The norm adds a few dozen instructions for each output,
 * beside in_features / 21 loads and in_features multiply-adds of the product. */
#include "ladder/ladder.h"
#include "ladder/parked_tile.h"
#include "shared/apply_operators.h"
#include "shared/float4.h"
#include "shared/team.h"

/* A team normalises this many rows together, and a lane has this many columns of each: 32 values in
 * registers, and eight sums in each round of shuffles. */
#define ROWS_AT_ONCE 8
#define LANE_COLUMNS 4

struct one_kernel_args {
    struct gemm gemm;
    struct group_norm norm;
    int k_tiles_in_run;
    int group_size;
    float one_over_size;
    int groups_in_tile;
    int team; /* lanes in a team */
    bool fours;
};

/* A lane owns four adjacent columns if a float4 store fits, otherwise every `team`-th column. */
static inline __device__ int column_of_lane(const struct one_kernel_args *args, int member, int j,
                                            bool fours) {
    return fours ? member * LANE_COLUMNS + j : member + j * args->team;
}

/* ROWS_AT_ONCE values of one channel, from `row` on. */
static __forceinline__ __device__ struct value_place place_of(const struct one_kernel_args *args, int64_t row,
                                                              int64_t channel) {
    struct value_place at = {row, channel, 1, 0, args->gemm.batch};
    return at;
}

/* Normalises one group of ROWS_AT_ONCE rows, but stores only `rows`. `parked` is its first sum in the tile,
 * `y` the address of that output. `size` is the group's, or 0 for a team without work, whose lanes the
 * shuffles need. Callers pass a constant for `fours`. */
static __forceinline__ __device__ void normalise_rows(const struct one_kernel_args *args, const float *parked,
                                                      int size, int rows, float *y, int64_t row,
                                                      int64_t first_channel, bool fours) {
    const struct group_norm *norm = &args->norm;
    int member = threadIdx.x % args->team;
    float value[LANE_COLUMNS][ROWS_AT_ONCE] = {{0.0f}};

#pragma unroll
    for (int i = 0; i < ROWS_AT_ONCE; i++) {
        if (fours) {
            float4 four = {0.0f, 0.0f, 0.0f, 0.0f};
            if (member * LANE_COLUMNS < size)
                four = *(const float4 *)&parked[i * TILE + member * LANE_COLUMNS];
            value[0][i] = four.x;
            value[1][i] = four.y;
            value[2][i] = four.z;
            value[3][i] = four.w;
        } else {
#pragma unroll
            for (int j = 0; j < LANE_COLUMNS; j++)
                if (column_of_lane(args, member, j, fours) < size)
                    value[j][i] = parked[i * TILE + column_of_lane(args, member, j, fours)];
        }
    }
    float pivot[ROWS_AT_ONCE], mean[ROWS_AT_ONCE] = {0.0f}, squares[ROWS_AT_ONCE] = {0.0f};
#pragma unroll
    for (int j = 0; j < LANE_COLUMNS; j++) {
        int column = column_of_lane(args, member, j, fours);
        if (column < size)
            apply_operators(&args->gemm.before, value[j], ROWS_AT_ONCE,
                            place_of(args, row, first_channel + column));
        if (j == 0) {
            int first_lane = threadIdx.x % LANES - member;
#pragma unroll
            for (int i = 0; i < ROWS_AT_ONCE; i++)
                pivot[i] = __shfl_sync(0xffffffffu, value[0][i], first_lane);
        }
        if (column < size) {
#pragma unroll
            for (int i = 0; i < ROWS_AT_ONCE; i++)
                mean[i] += value[j][i] - pivot[i];
        }
    }
    team_sums(mean, ROWS_AT_ONCE, args->team);
#pragma unroll
    for (int i = 0; i < ROWS_AT_ONCE; i++)
        mean[i] = pivot[i] + mean[i] * args->one_over_size;

#pragma unroll
    for (int j = 0; j < LANE_COLUMNS; j++) {
#pragma unroll
        for (int i = 0; i < ROWS_AT_ONCE; i++) {
            value[j][i] -= mean[i];
            if (column_of_lane(args, member, j, fours) < size)
                squares[i] += value[j][i] * value[j][i];
        }
    }
    team_sums(squares, ROWS_AT_ONCE, args->team);
#pragma unroll
    for (int i = 0; i < ROWS_AT_ONCE; i++)
        squares[i] = rsqrtf(squares[i] * args->one_over_size + norm->eps); /* one over the deviation */

#pragma unroll
    for (int j = 0; j < LANE_COLUMNS; j++) {
        int column = column_of_lane(args, member, j, fours);
        if (column < size) {
            int64_t channel = first_channel + column;
            float scale = norm->scale ? norm->scale[channel] : 1.0f;
            float shift = norm->shift ? norm->shift[channel] : 0.0f;
#pragma unroll
            for (int i = 0; i < ROWS_AT_ONCE; i++)
                value[j][i] = value[j][i] * squares[i] * scale + shift;
            apply_operators(&norm->after, value[j], ROWS_AT_ONCE, place_of(args, row, channel));
        }
    }
#pragma unroll
    for (int i = 0; i < ROWS_AT_ONCE; i++) {
        if (i < rows && fours && member * LANE_COLUMNS < size) {
            float4 four = {value[0][i], value[1][i], value[2][i], value[3][i]};
            store_16(y + member * LANE_COLUMNS, four);
        } else if (i < rows && !fours) {
#pragma unroll
            for (int j = 0; j < LANE_COLUMNS; j++)
                if (column_of_lane(args, member, j, fours) < size)
                    y[column_of_lane(args, member, j, fours)] = value[j][i];
        }
        y += norm->channels;
    }
}

/* Normalises the parked tile and stores it. */
static __forceinline__ __device__ void normalise_tile(const struct one_kernel_args *args,
                                                      const struct parked_tile *parked, int64_t first_row,
                                                      int64_t first_group, bool fours) {
    int teams = TILE_THREADS / args->team;
    int items = TILE / ROWS_AT_ONCE * args->groups_in_tile;
#pragma unroll 1
    for (int first_item = 0; first_item < items; first_item += teams) {
        /* neighbouring teams take neighbouring groups: a warp reads whole rows */
        int item = first_item + threadIdx.x / args->team;
        int group = item % args->groups_in_tile;
        int row_in_tile = item / args->groups_in_tile * ROWS_AT_ONCE % TILE;
        int64_t rows_below = args->gemm.batch - first_row - row_in_tile;
        int rows = rows_below < ROWS_AT_ONCE ? (int)rows_below : ROWS_AT_ONCE;
        int64_t channel = (first_group + group) * args->group_size;
        bool present = item < items && rows > 0 && first_group + group < args->norm.groups;
        normalise_rows(args, &parked->value[row_in_tile][group * args->group_size],
                       present ? args->group_size : 0, rows,
                       (float *)args->norm.y + (first_row + row_in_tile) * args->norm.channels + channel,
                       first_row + row_in_tile, channel, fours);
    }
}

__global__ void __launch_bounds__(TILE_THREADS, 2) one_kernel_kernel(struct one_kernel_args args) {
    if (!holds(args.gemm.condition))
        return;
    int64_t row_tiles = tiles(args.gemm.batch, TILE);
    int64_t first_row = blockIdx.x % row_tiles * TILE;
    int64_t first_group = blockIdx.x / row_tiles * args.groups_in_tile;
    float sum[THREAD_ROWS][THREAD_COLUMNS] = {{0.0f}};
    multiply_tile(&args.gemm, (struct tile_memory *)dynamic_shared, first_row, first_group * args.group_size,
                  sum, args.k_tiles_in_run);
    struct parked_tile *parked = (struct parked_tile *)dynamic_shared;
    park(parked, sum);
    if (args.fours)
        normalise_tile(&args, parked, first_row, first_group, true);
    else
        normalise_tile(&args, parked, first_row, first_group, false);
}

LAUNCHER(one_kernel_kernel, struct one_kernel_args)

void plan_one_kernel(const fgn_chain *chain, const fgn_device *device, fgn_plan *plan) {
    int64_t size = group_size_of(chain), groups_in_tile = TILE / size;
    int64_t blocks = tiles(chain->batch, TILE) * tiles(chain->groups, groups_in_tile);
    fgn_launch *launch = add_launch(plan, "one_kernel_kernel", blocks, TILE_THREADS);
    set_tile(launch, TILE, groups_in_tile * size, chain->in_features, TILE_K);
    set_stages(launch, STAGES, THREAD_ROWS, THREAD_COLUMNS);
    choose_runs(chain, device, parked_tile_bytes, plan, launch);
    add_product(launch, chain);
    add_ending(launch, chain);
    add_y(launch, chain);
}

cudaError_t launch_one_kernel(const fgn_plan *plan, const fgn_launch *planned, const struct gemm *gemm,
                              const struct group_norm *norm, cudaStream_t stream) {
    static bool allowed[MOST_DEVICES];
    struct one_kernel_args args;
    args.gemm = *gemm;
    args.norm = *norm;
    args.k_tiles_in_run = (int)plan->choice[K_TILES_IN_RUN_CHOICE];
    args.group_size = (int)(norm->channels / norm->groups);
    args.one_over_size = 1.0f / args.group_size;
    args.groups_in_tile = TILE / args.group_size;
    args.fours = rows_hold_float4((const float *)norm->y, args.group_size);
    args.team = power_of_two_above(args.fours ? args.group_size / LANE_COLUMNS : args.group_size, LANES);
    cudaError_t error = allow_shared_memory((const void *)one_kernel_kernel, &plan->device, allowed);
    if (error != cudaSuccess)
        return error;
    return launch_one_kernel_kernel(grid_of(planned), block_of(planned), planned->shared_bytes, stream, args);
}

static const char *refusal(const fgn_chain *chain, const fgn_device *device) {
    if (group_size_of(chain) > TILE)
        return "groups of at most 128 channels";
    if (chain->groups == 0 && chain->before_count > 0)
        return "a norm";
    return needs_float32(chain, device);
}

/* A product without a norm is left to the rung before. */
static void plan(const fgn_chain *chain, const fgn_device *device, fgn_plan *plan) {
    if (chain->groups > 0)
        plan_one_kernel(chain, device, plan);
    else
        plan_pipelined(chain, device, plan);
}

static cudaError_t forward(const fgn_plan *plan, const fgn_chain *chain, const void *x, void *y,
                           void *workspace, cudaStream_t stream) {
    (void)workspace;
    struct gemm gemm = gemm_of(chain, (const float *)x, (float *)y, always);
    if (chain->groups == 0)
        return launch_pipelined(plan, &plan->launch[0], &gemm, stream);
    struct group_norm norm = norm_of(chain, (const float *)y, y, FGN_FLOAT32, always);
    return launch_one_kernel(plan, &plan->launch[0], &gemm, &norm, stream);
}

RUNG one_kernel_rung = {
    {"one_kernel", "ladder/gemm_8_one_kernel.cu", "ladder/gemm_8_one_kernel.cu",
     "the norm in the product's epilogue", "groups of at most 128 channels"},
    &group_norm_2_block,
    refusal,
    plan,
    NULL,
    forward,
};
