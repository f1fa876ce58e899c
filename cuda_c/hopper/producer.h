/* Who loads: one thread of a block keeps the ring full by TMA, which swizzles what it copies, fills in zeros
 * outside the matrices and, for tf32, rounds.
 *
 * The blocks of a cluster share either w or x. Each copies a part of what is shared and TMA delivers it to
 * all of them (multicast), so the L2 cache is read once for the cluster. */
#pragma once

#include "hopper/ring.h"

/* The blocks of the cluster, as bits, that share x with this one: those beside it; and that share w: those
 * above and below. */
static __device__ __forceinline__ uint16_t blocks_beside(const struct tiling *tiling, int row_block) {
    return ((1 << tiling->column_blocks) - 1) << row_block * tiling->column_blocks;
}

static __device__ __forceinline__ uint16_t blocks_above_and_below(const struct tiling *tiling,
                                                                  int column_block) {
    uint16_t blocks = 0;
    for (int row_block = 0; row_block < tiling->row_blocks; row_block++)
        blocks |= 1 << (row_block * tiling->column_blocks + column_block);
    return blocks;
}

/* Copies rows of w from `column` on: to this block, or to several. */
static __device__ __forceinline__ void copy_w(uint32_t to, const CUtensorMap *w, int k, int column,
                                              uint32_t full, bool is_shared, uint16_t blocks,
                                              struct configuration config) {
    int number = column / quad_columns(config);
    if (is_sorted(config) && is_shared)
        cp_async_bulk_tensor_blocks_multicast(to, w, k, number, full, blocks);
    else if (is_sorted(config))
        cp_async_bulk_tensor_blocks(to, w, k, number, full);
    else if (is_shared)
        cp_async_bulk_tensor_multicast(to, w, k, column, full, blocks);
    else
        cp_async_bulk_tensor(to, w, k, column, full);
}

/* What a block copies for its cluster, the same for all its tiles. */
struct sharing {
    int row_block;
    int column_block;
    uint16_t x_blocks;
    uint16_t w_blocks;
};

/* Copies one step of the tile at `place`, `k` elements along, into the ring's next stage. */
static __device__ __forceinline__ void copy_step(const struct hopper_args *args, const CUtensorMap *x,
                                                 const CUtensorMap *w, struct tile_place place, int k,
                                                 const struct sharing *sharing, struct ring *ring,
                                                 struct configuration config) {
    const struct tiling *tiling = &args->tiling;
    uint32_t to_x = x_of_stage(ring, ring->stage), to_w = w_of_stage(ring, ring->stage);
    uint32_t full = full_barrier(ring, ring->stage);
    mbarrier_wait(empty_barrier(ring, ring->stage), ring->phase ^ 1);
    mbarrier_arrive_expect_tx(full, ring->stage_bytes);
    int parts = parts_of_x(tiling), rows = tiling->tile_rows / parts, first = sharing->column_block * rows;
    if (parts == 1)
        cp_async_bulk_tensor(to_x, x, k, place.row, full);
    else if (sharing->column_block < parts)
        cp_async_bulk_tensor_multicast(to_x + first * STEP_BYTES, x, k, place.row + first, full,
                                       sharing->x_blocks);
    if (tiling->row_blocks > 1) {
        rows = rows_of_w_copy(tiling, config);
        first = sharing->row_block * rows;
        int column = place.column + first / config.width * tiling->owned + first % config.width;
        copy_w(to_w + first * STEP_BYTES, w, k, column, full, true, sharing->w_blocks, config);
    } else {
        for (int strip = 0; strip < config.strips; strip++)
            copy_w(to_w + strip * config.width * STEP_BYTES, w, k, place.column + strip * tiling->owned, full,
                   false, 0, config);
    }
    next(ring);
}

/* Loads all tiles of the block. At the end it waits until every stage is empty, as if it were to fill them
 * again, because a block must not end before the other blocks have sent all that they send to it. */
static __device__ __forceinline__ void produce(const struct hopper_args *args, struct ring ring,
                                               struct configuration config) {
    uint32_t rank = cluster_ctarank(), cluster = cluster_of(&args->tiling);
    struct sharing sharing;
    sharing.row_block = rank / args->tiling.column_blocks;
    sharing.column_block = rank % args->tiling.column_blocks;
    sharing.x_blocks = blocks_beside(&args->tiling, sharing.row_block);
    sharing.w_blocks = blocks_above_and_below(&args->tiling, sharing.column_block);
    int cluster_tiles = cluster_tiles_of(&args->tiling);
    for (int cluster_tile = blockIdx.x / cluster; cluster_tile < cluster_tiles;
         cluster_tile += gridDim.x / cluster) {
        struct tile_place place = place_of_cluster_tile(args, cluster_tile, rank);
        for (int step = place.first_step; step < place.first_step + place.steps; step++) {
            int k = step * args->step_elements;
            copy_step(args, &args->maps.x, &args->maps.w, place, k, &sharing, &ring, config);
            if (config.factors == SPLIT_FLOAT32_FACTORS)
                copy_step(args, &args->maps.x_low, &args->maps.w_low, place, k, &sharing, &ring, config);
        }
    }
    for (int i = 0; i < ring.stages; i++) {
        mbarrier_wait(empty_barrier(&ring, ring.stage), ring.phase ^ 1);
        next(&ring);
    }
}
