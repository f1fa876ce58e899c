/* GEMM, rung 8: the whole chain in one launch.
 *
 * Idea: a block whose tile covers whole groups has everything that GroupNorm needs. Once the sums are in
 * shared memory (parked_tile.h), teams of lanes take a row of one group each, compute its mean and variance
 * there, normalise and write the final value. The intermediate was never in memory.
 *
 * A tile takes as many whole groups as fit in 128 columns. Where the group size divides 128, all columns
 * work; groups of 48, say, leave 32 of 128 idle.
 *
 * Bytes: inputs once, y once. Saved against rung 7: the intermediate's write and read, 8 for each output,
 * and a launch.
 *
 * Limit: as rung 6, the multiply-adds' issue slots. The norm adds a few dozen instructions for each output,
 * where the product has in_features / 21 loads and in_features multiply-adds. */
#include "ladder.h"
#include "parked_tile.h"
#include "pointwise.h"
#include "team.h"

struct one_kernel_args {
    struct gemm gemm;
    struct group_norm norm;
    int slices_in_run;
    int group_size;
    float one_over_size;
    int groups_in_tile;
    int team;
};

/* Rows a team normalises together: eight sums travel through the shuffles at once, and while one waits the
 * others go on. They are neighbours in the tile. */
#define ROWS_AT_ONCE 8

/* One group of ROWS_AT_ONCE rows. `parked` is its first sum in the tile, `y` where that goes. `size` is the
 * group's, or 0 for a team without work: the shuffles need its lanes. */
static __forceinline__ __device__ void normalise_rows(const struct one_kernel_args *args, float *parked,
                                                      int size, int rows, float *y, int64_t first_channel) {
    const struct group_norm *norm = &args->norm;
    int member = threadIdx.x % args->team;
    float value[ROWS_AT_ONCE];

    for (int column = member; column < size && args->gemm.before.count > 0; column += args->team) {
#pragma unroll
        for (int i = 0; i < ROWS_AT_ONCE; i++)
            value[i] = parked[i * TILE + column];
        apply_operators(&args->gemm.before, value, ROWS_AT_ONCE, first_channel + column, 0);
#pragma unroll
        for (int i = 0; i < ROWS_AT_ONCE; i++)
            parked[i * TILE + column] = value[i];
    }
    __syncwarp(); /* every lane of the team will read the group's first value */

    float mean[ROWS_AT_ONCE] = {0.0f};
    for (int column = member; column < size; column += args->team) {
#pragma unroll
        for (int i = 0; i < ROWS_AT_ONCE; i++)
            mean[i] += parked[i * TILE + column] - parked[i * TILE];
    }
    team_sums(mean, ROWS_AT_ONCE, args->team);

    float squares[ROWS_AT_ONCE] = {0.0f};
#pragma unroll
    for (int i = 0; i < ROWS_AT_ONCE; i++)
        mean[i] = parked[i * TILE] + mean[i] * args->one_over_size;
    for (int column = member; column < size; column += args->team) {
#pragma unroll
        for (int i = 0; i < ROWS_AT_ONCE; i++) {
            float difference = parked[i * TILE + column] - mean[i];
            squares[i] += difference * difference;
        }
    }
    team_sums(squares, ROWS_AT_ONCE, args->team);

    float inverse_deviation[ROWS_AT_ONCE];
#pragma unroll
    for (int i = 0; i < ROWS_AT_ONCE; i++)
        inverse_deviation[i] = rsqrtf(squares[i] * args->one_over_size + norm->eps);
    for (int column = member; column < size; column += args->team) {
        int64_t channel = first_channel + column;
        float scale = norm->scale ? norm->scale[channel] : 1.0f;
        float shift = norm->shift ? norm->shift[channel] : 0.0f;
#pragma unroll
        for (int i = 0; i < ROWS_AT_ONCE; i++)
            value[i] = (parked[i * TILE + column] - mean[i]) * inverse_deviation[i] * scale + shift;
        apply_operators(&norm->after, value, ROWS_AT_ONCE, channel, 0);
        float *to = y + column;
#pragma unroll
        for (int i = 0; i < ROWS_AT_ONCE; i++) {
            if (i < rows)
                *to = value[i];
            to += norm->channels;
        }
    }
}

/* The parked tile, normalised, to memory. */
static __forceinline__ __device__ void normalise_tile(const struct one_kernel_args *args,
                                                      struct parked_tile *parked, int64_t first_row,
                                                      int64_t first_group) {
    int team = threadIdx.x / args->team;
    int teams = TILE_THREADS / args->team;
    int items = TILE / ROWS_AT_ONCE * args->groups_in_tile;
#pragma unroll 1
    for (int first_item = 0; first_item < items; first_item += teams) {
        int item = first_item + team;
        int group = item % args->groups_in_tile;
        int row_in_tile = item / args->groups_in_tile * ROWS_AT_ONCE % TILE;
        int64_t rows_below = args->gemm.batch - first_row - row_in_tile;
        int rows = rows_below < ROWS_AT_ONCE ? (int)rows_below : ROWS_AT_ONCE;
        int64_t channel = (first_group + group) * args->group_size;
        bool present = item < items && rows > 0 && first_group + group < args->norm.groups;
        normalise_rows(args, &parked->value[row_in_tile][group * args->group_size],
                       present ? args->group_size : 0, rows,
                       args->norm.y + (first_row + row_in_tile) * args->norm.channels + channel, channel);
    }
}

__global__ void __launch_bounds__(TILE_THREADS, 2) one_kernel_kernel(struct one_kernel_args args) {
    int64_t row_tiles = tiles(args.gemm.batch, TILE);
    int64_t first_row = blockIdx.x % row_tiles * TILE;
    int64_t first_group = blockIdx.x / row_tiles * args.groups_in_tile;
    float sum[THREAD_ROWS][THREAD_COLUMNS] = {{0.0f}};
    multiply_tile(&args.gemm, (struct tile_memory *)dynamic_shared, first_row, first_group * args.group_size,
                  sum, args.slices_in_run);
    park((struct parked_tile *)dynamic_shared, sum);
    normalise_tile(&args, (struct parked_tile *)dynamic_shared, first_row, first_group);
}

LAUNCHER(one_kernel_kernel, struct one_kernel_args)

cudaError_t gemm_8_one_kernel(const struct gemm *gemm, const struct group_norm *norm, cudaStream_t stream) {
    struct one_kernel_args args = {*gemm, *norm, 0, 0, 0.0f, 0, 0};
    args.group_size = (int)(norm->channels / norm->groups);
    args.one_over_size = 1.0f / args.group_size;
    args.groups_in_tile = TILE / args.group_size;
    args.team = power_of_two_above(args.group_size, LANES);
    size_t shared_bytes;
    cudaError_t error = choose_runs((const void *)one_kernel_kernel, gemm, parked_tile_bytes,
                                    &args.slices_in_run, &shared_bytes);
    if (error != cudaSuccess)
        return error;
    int64_t group_tiles = tiles(norm->groups, args.groups_in_tile);
    dim3 grid = {(unsigned)(tiles(gemm->batch, TILE) * group_tiles), 1, 1};
    dim3 block = {TILE_THREADS, 1, 1};
    return launch_one_kernel_kernel(grid, block, shared_bytes, stream, args);
}
