/* After the product in gemm_few_rows_tensor.cu: the block's sums, parked in shared memory, are added up over
 * the warps along k and handed on. */
#pragma once

#include "few_rows_product.h"

/* (warps along k, rows, columns). Rows are 8 floats longer than the block's columns, so that lanes of an mma,
 * which store pairs, meet in no bank. */
static inline __host__ __device__ int parked_pitch(int across) {
    return across * WARP_COLUMNS + 8;
}

static inline __host__ __device__ int parked_bytes(int across, int row_tiles) {
    return WARPS / across * row_tiles * TILE_ROWS * parked_pitch(across) * (int)sizeof(float);
}

static __forceinline__ __device__ void park(const struct few_rows_args *args, const struct warp_place *place,
                                            float *parked, tile_sums *sum, int row_tiles,
                                            enum factors factors) {
    int lane = threadIdx.x % LANES;
    int pitch = parked_pitch(args->across);
    float *first = parked + place->along * row_tiles * TILE_ROWS * pitch + place->across * WARP_COLUMNS;
#pragma unroll
    for (int i = 0; i < row_tiles * COLUMN_TILES * 2; i++) {
        int tile = i / (2 * COLUMN_TILES), column_tile = i / 2 % COLUMN_TILES, upper = i % 2;
        int row = tile * TILE_ROWS + 8 * upper + lane / 4;
        int column = column_tile * TILE_COLUMNS + lane % 4 * 2;
        const float *pair = &sum[tile][column_tile][2 * upper];
        *(float2 *)&first[row * pitch + column] =
            make_float2(output_of(args, place, pair[0], row, column, factors),
                        output_of(args, place, pair[1], row, column + 1, factors));
    }
}

/* The block's columns that there are. */
static inline __device__ int columns_here(const struct few_rows_args *args, const struct warp_place *place) {
    int64_t left = args->out_features - place->block_column;
    return left < args->across * WARP_COLUMNS ? (int)left : args->across * WARP_COLUMNS;
}

/* Adds up the warps along k, and hands the sums on: to the workspace, or with the operators before the norm
 * back to shared memory. */
static __forceinline__ __device__ void
add_warps(const struct few_rows_args *args, const struct warp_place *place, float *parked, int row_tiles) {
    int pitch = parked_pitch(args->across), here = columns_here(args, place);
    int columns = args->across * WARP_COLUMNS; /* a power of two */
    float *partial =
        args->partial ? args->partial + (place->split * args->batch + place->first_row) * args->out_features
                      : NULL;
    for (int i = threadIdx.x; i < place->rows * columns; i += THREADS) {
        int row = i / columns, column = i % columns;
        if (column >= here)
            continue;
        float sum = 0.0f;
        for (int along = 0; along < place->warps_along; along++)
            sum += parked[(along * row_tiles * TILE_ROWS + row) * pitch + column];
        if (partial) {
            partial[row * args->out_features + place->block_column + column] = sum;
        } else {
            begin_ending(&args->ending, &sum, 1, place->block_column + column, 0);
            parked[row * pitch + column] = sum;
        }
    }
}

/* A team of lanes for each row and group of the block's columns. */
static __forceinline__ __device__ void end_groups(const struct few_rows_args *args,
                                                  const struct warp_place *place, const float *parked) {
    int here = columns_here(args, place);
    int size = (int)channels_of_team(&args->ending);
    int groups = (int)tiles(here, size);
    struct members team = {0, lanes_of_group(size), NULL};
    team.member = threadIdx.x % team.count;
    int teams = THREADS / team.count, items = place->rows * groups;
#pragma unroll 1
    for (int first_item = 0; first_item < items; first_item += teams) {
        int item = first_item + threadIdx.x / team.count; /* past the last one: a team without work */
        int row = item / groups, first = item % groups * size;
        int channels = size < here - first ? size : here - first;
        end_group(&args->ending, parked + row * parked_pitch(args->across) + first,
                  item < items ? channels : 0, 1.0f / size, place->first_row + row,
                  place->block_column + first, &team);
    }
}
