/* Who loads: one thread of a block keeps the ring full by TMA, which swizzles its copies, fills in zeros
 * outside the matrices and, for tf32, rounds.
 *
 * The blocks of a cluster share either w or x. Each copies a part of the shared factor and TMA delivers it to
 * all of them (multicast), so the L2 cache is read once for the cluster. */
#pragma once

#include "hopper/ring.h"

/* Bits for the blocks of the cluster that share x with this one (beside it), and for those that share w
 * (above and below). */
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

/* The rows of x and of w that a block copies for its cluster, the same in all steps. The producer is
 * one thread, which has to finish a step before the consumers do, so it computes none of this in a
 * step. */
struct share {
    int x_row; /* of the tile's rows of x: the first */
    bool has_x;
    bool sends_x; /* to the blocks beside it as well */
    uint16_t x_blocks;
    int w_row;    /* of the tile's rows of w: the first, */
    int w_column; /* and which column of the tile is its */
    bool sends_w; /* to the blocks above and below as well */
    uint16_t w_blocks;
};

static __device__ __forceinline__ struct share share_of(const struct tiling *tiling, struct block_place place,
                                                        struct configuration config) {
    int parts = parts_of_x(tiling);
    struct share share;
    share.x_row = tiling->tile_rows / parts * place.column_block;
    share.has_x = place.column_block < parts;
    share.sends_x = parts > 1;
    share.x_blocks = blocks_beside(tiling, place.row_block);
    share.w_row = tiling->row_blocks > 1 ? rows_of_w_copy(tiling, config) * place.row_block : 0;
    share.w_column = share.w_row / config.width * tiling->owned + share.w_row % config.width;
    share.sends_w = tiling->row_blocks > 1;
    share.w_blocks = blocks_above_and_below(tiling, place.column_block);
    return share;
}

/* Copies the block's share of one step, `k` elements along, into the ring's next stage: rows of x from `row`
 * on, of w from `column` on. */
static __device__ __forceinline__ void copy_step(const struct tiling *tiling, const CUtensorMap *x,
                                                 const CUtensorMap *w, int row, int column, int k,
                                                 const struct share *share, struct ring *ring,
                                                 struct configuration config) {
    uint32_t to_x = x_of_stage(ring, ring->stage) + share->x_row * STEP_BYTES;
    uint32_t to_w = w_of_stage(ring, ring->stage) + share->w_row * STEP_BYTES;
    uint32_t full = full_barrier(ring, ring->stage);
    mbarrier_wait(empty_barrier(ring, ring->stage), ring->phase ^ 1);
    mbarrier_arrive_expect_tx(full, ring->stage_bytes);
    if (!share->sends_x)
        cp_async_bulk_tensor(to_x, x, k, row, full);
    else if (share->has_x)
        cp_async_bulk_tensor_multicast(to_x, x, k, row, full, share->x_blocks);
    if (share->sends_w)
        copy_w(to_w, w, k, column, full, true, share->w_blocks, config);
    else
        for (int strip = 0; strip < config.strips; strip++)
            copy_w(to_w + strip * config.width * STEP_BYTES, w, k, column + strip * tiling->owned, full,
                   false, 0, config);
    next(ring);
}

/* Loads all tiles of the block. At the end it waits until every stage is empty, because a block must not end
 * while other blocks still send something to it. */
static __device__ __forceinline__ void produce(const struct hopper_args *args, struct ring ring,
                                               struct configuration config) {
    const struct tiling *tiling = &args->tiling;
    struct block_place in_cluster = place_in_cluster(tiling);
    struct share share = share_of(tiling, in_cluster, config);
    int cluster = cluster_of(tiling), cluster_tiles = cluster_tiles_of(tiling);
    int each = gridDim.x / cluster;
#pragma unroll 1
    for (int cluster_tile = blockIdx.x / cluster; cluster_tile < cluster_tiles; cluster_tile += each) {
        struct tile_place place = place_of_cluster_tile(args, cluster_tile, in_cluster);
        int row = place.row + share.x_row, column = place.column + share.w_column;
        int k = place.first_step * args->step_elements;
#pragma unroll 1
        for (int step = 0; step < place.steps; step++) {
            copy_step(tiling, &args->maps.x, &args->maps.w, row, column, k, &share, &ring, config);
            if (config.factors == SPLIT_FLOAT32_FACTORS)
                copy_step(tiling, &args->maps.x_low, &args->maps.w_low, row, column, k, &share, &ring,
                          config);
            k += args->step_elements;
        }
    }
    for (int i = 0; i < ring.stages; i++) {
        mbarrier_wait(empty_barrier(&ring, ring.stage), ring.phase ^ 1);
        next(&ring);
    }
}
