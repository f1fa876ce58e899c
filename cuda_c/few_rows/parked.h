/* After the product in gemm_few_rows_tensor.cu: adds up the block's sums, parked in shared memory, over the
 * warps along k and hands them on. */
#pragma once

#include "few_rows/product.h"

/* (warps along k, rows, columns). Rows are 8 floats longer than the block's columns, so that lanes of an mma
 * store their pairs to different banks. */
static inline __host__ __device__ int parked_pitch(int across) {
    return across * WARP_COLUMNS + 8;
}

static inline __host__ __device__ int parked_bytes(int across, int row_tiles) {
    return WARPS / across * row_tiles * TILE_ROWS * parked_pitch(across) * (int)sizeof(float);
}

/* The place of the parked sums of the warp's first output. */
static inline __device__ float *parked_by(const struct few_rows_args *args, const struct warp_place *place,
                                          int along, int row_tiles) {
    return (float *)dynamic_shared + along * row_tiles * TILE_ROWS * parked_pitch(1 << args->across_log2) +
           place->across * WARP_COLUMNS;
}

static __forceinline__ __device__ void park(const struct few_rows_args *args, const struct warp_place *place,
                                            tile_sums *sum, int row_tiles, enum mma_factors factors) {
    int lane = threadIdx.x % LANES, pitch = parked_pitch(1 << args->across_log2);
    float *mine = parked_by(args, place, place->along, row_tiles);
    float *to = mine + lane / 4 * pitch + lane % 4 * 2;
    float unscale = factors == FLOAT32_PIECES_MMA ? UNSCALE : 1.0f;
    float not_finite = 0.0f; /* becomes NaN */
#pragma unroll
    for (int i = 0; i < row_tiles * COLUMN_TILES * 2; i++) {
        int tile = i / (2 * COLUMN_TILES), column_tile = i / 2 % COLUMN_TILES, upper = i % 2;
        float2 pair = make_float2(sum[tile][column_tile][2 * upper] * unscale,
                                  sum[tile][column_tile][2 * upper + 1] * unscale);
        *(float2 *)&to[(tile * TILE_ROWS + 8 * upper) * pitch + column_tile * TILE_COLUMNS] = pair;
        not_finite += (pair.x + pair.y) * 0.0f;
    }
    if (factors != FLOAT32_PIECES_MMA || not_finite == 0.0f)
        return;
    /* one of this lane's sums is beyond the pieces' range, or NaN */
#pragma unroll 1
    for (int i = 0; i < row_tiles * COLUMN_TILES * 4; i++) {
        int row = i / (4 * COLUMN_TILES) * TILE_ROWS + i / 2 % 2 * 8 + lane / 4;
        int column = i / 4 % COLUMN_TILES * TILE_COLUMNS + lane % 4 * 2 + i % 2;
        float *parked = &mine[row * pitch + column];
        if (!is_finite(*parked) && row < place->rows && place->first_column + column < args->out_features)
            *parked = plain_sum(
                (const float *)args->x + (place->first_row + row) * args->in_features,
                (const float *)args->weight + (place->first_column + column) * args->in_features,
                args->in_features, place->first_step + place->along, place->end_step, place->warps_along);
    }
}

/* The columns of the block that exist. */
static inline __device__ int columns_here(const struct few_rows_args *args, const struct warp_place *place) {
    int left = (int)args->out_features - place->block_column;
    int columns = WARP_COLUMNS << args->across_log2;
    return left < columns ? left : columns;
}

/* Adds up the parked sums over the warps along k, for four rows of a lane's column. */
static __forceinline__ __device__ void add_parked(float *sum, const struct few_rows_args *args,
                                                  const struct warp_place *place, int row, int row_tiles) {
    int pitch = parked_pitch(1 << args->across_log2);
#pragma unroll
    for (int i = 0; i < FOUR; i++)
        sum[i] = 0.0f;
#pragma unroll 1
    for (int along = 0; along < place->warps_along; along++) {
        const float *parked = parked_by(args, place, along, row_tiles) + threadIdx.x % LANES;
#pragma unroll
        for (int i = 0; i < FOUR; i++)
            if (row + i * place->warps_along < place->rows)
                sum[i] += parked[(row + i * place->warps_along) * pitch];
    }
}

/* Each warp along k takes every warps_along-th row of the finished sums. It hands them on to the workspace,
 * or applies the operators before the norm and stores them in shared memory. */
static __forceinline__ __device__ void hand_on(const struct few_rows_args *args,
                                               const struct warp_place *place, int row_tiles) {
    int64_t column = place->first_column + threadIdx.x % LANES;
    if (column >= args->out_features)
        return;
    float *parked = parked_by(args, place, 0, row_tiles) + threadIdx.x % LANES;
    float *partial = args->partial;
    if (partial)
        partial += (place->split * args->batch + place->first_row) * args->out_features + column;
#pragma unroll 1
    for (int row = place->along; row < place->rows; row += FOUR * place->warps_along) {
        float sum[FOUR];
        add_parked(sum, args, place, row, row_tiles);
        if (!partial) {
            struct value_place at = {place->first_row + row, column, (int)place->warps_along, 0, args->batch};
            begin_ending(&args->ending, loaded_vectors(args), sum, FOUR, at);
        }
#pragma unroll
        for (int i = 0; i < FOUR; i++) {
            int here = row + i * place->warps_along;
            if (here >= place->rows)
                continue;
            if (partial)
                partial[here * args->out_features] = sum[i];
            else
                parked[here * parked_pitch(1 << args->across_log2)] = sum[i];
        }
    }
}

/* Gives each row and group of the block's columns a team of lanes. The values are in shared memory. */
static __forceinline__ __device__ void end_groups(const struct few_rows_args *args,
                                                  const struct warp_place *place) {
    const struct ending *ending = &args->ending;
    int groups = columns_here(args, place) / ending->size, items = place->rows * groups;
    struct members team = {(int)threadIdx.x & ((1 << ending->lane_log2) - 1), ending->lane_log2, NULL};
    int teams = THREADS >> team.log2, pitch = parked_pitch(1 << args->across_log2);
#pragma unroll 1
    for (int first_item = 0; first_item < items; first_item += teams) {
        int item = first_item + (threadIdx.x >> team.log2); /* past the last one: a team without work */
        int row = item / groups, first = (item - row * groups) * ending->size;
        end_group_by(ending, loaded_vectors(args), (const float *)dynamic_shared + row * pitch + first,
                     item < items ? ending->size : 0, place->first_row + row, place->block_column + first,
                     &team);
    }
}

/* How many sums a lane reads before it adds them, to wait for shared memory once. */
#define SUMS_TOGETHER 4

/* Adds up four neighbouring sums over the warps along k of all blocks of the cluster. */
static __forceinline__ __device__ void add_cluster(float *sum, const struct few_rows_args *args,
                                                   const struct warp_place *place, const float *parked,
                                                   int row_tiles) {
    int distance = row_tiles * TILE_ROWS * parked_pitch(1 << args->across_log2);
#pragma unroll
    for (int i = 0; i < FOUR; i++)
        sum[i] = 0.0f;
#pragma unroll 1
    for (int rank = 0; rank < args->cluster; rank++) {
        const float *from = parked;
#pragma unroll 1
        for (int along = 0; along < place->warps_along; along += SUMS_TOGETHER) {
            float4 four[SUMS_TOGETHER];
#pragma unroll
            for (int i = 0; i < SUMS_TOGETHER; i++, from += distance) {
                four[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                if (along + i < place->warps_along)
                    four[i] = args->cluster > 1 ? ld_shared_cluster_v4(from, rank) : *(const float4 *)from;
            }
#pragma unroll
            for (int i = 0; i < SUMS_TOGETHER; i++) {
                sum[0] += four[i].x;
                sum[1] += four[i].y;
                sum[2] += four[i].z;
                sum[3] += four[i].w;
            }
        }
    }
}

/* Everything from the parked sums to y, for groups that lanes hold. Group sizes are powers of two here, so a
 * thread has the same four channels in every row. The blocks of a cluster share the rows. */
static __forceinline__ __device__ void end_rows(const struct few_rows_args *args,
                                                const struct warp_place *place, int row_tiles) {
    int row_log2 = args->across_log2 + WARP_FOURS_LOG2; /* threads for a row */
    int column = FOUR * (threadIdx.x & ((1 << row_log2) - 1));
    int share = (place->rows + args->cluster - 1) / (unsigned)args->cluster;
    int row = place->split * share, end = row + share < place->rows ? row + share : place->rows;
    bool is_column = column < columns_here(args, place);
    const float *parked = (const float *)dynamic_shared + column;
#pragma unroll 1
    for (; row < end; row += THREADS >> row_log2) {
        int here = row + (threadIdx.x >> row_log2);
        bool present = is_column && here < end;
        float v[FOUR] = {0.0f};
        if (present)
            add_cluster(v, args, place, parked + here * parked_pitch(1 << args->across_log2), row_tiles);
        end_four(&args->ending, loaded_vectors(args), v, present, place->first_row + here,
                 place->block_column + column);
    }
}

/* Ends the product: all warps have multiplied, and nobody reads or fills the stages any more. */
static __forceinline__ __device__ void end_block(const struct few_rows_args *args,
                                                 const struct warp_place *place, int row_tiles) {
    if (args->cluster > 1)
        barrier_cluster();
    else
        __syncthreads();
    if (!args->partial && lanes_hold_group(&args->ending)) {
        end_rows(args, place, row_tiles);
        if (args->cluster > 1)
            barrier_cluster(); /* a block may not end while others read its shared memory */
        return;
    }
    hand_on(args, place, row_tiles);
    if (args->partial)
        return;
    __syncthreads();
    end_groups(args, place);
}
