/* The ring buffer of stages in a block's shared memory, between the producer and the consumers.
 *
 * A stage holds what a step along k needs: 128 bytes of each of the tile's rows of x and of w. The producer
 * fills it by TMA, the consumers multiply straight from it. Each stage has two mbarriers: `full` ends its
 * phase when all bytes have arrived, `empty` when every consumer has read the stage, in all blocks of the
 * cluster, because a multicast fills the stage in all of them. */
#pragma once

#include "hopper/arguments.h"

/* A place in the ring: the stage, and the parity of the phase that its mbarriers are in. It is the same in
 * all threads of a warp, and stays in registers that a warp has once (uniform()). */
struct ring {
    uint32_t at; /* shared memory: the stages, before which the barriers are */
    int stage_bytes;
    int x_bytes; /* of a stage; what follows is w's */
    int stages;
    int stage;
    uint32_t phase;
};

static __device__ __forceinline__ struct barriers *barriers_of(unsigned char *memory) {
    return (struct barriers *)memory;
}

/* All threads of a warp together. memory: the block's, from the barriers on. */
static __device__ __forceinline__ struct ring start_of_ring(const struct hopper_args *args,
                                                            const unsigned char *memory, int tile_rows) {
    struct ring ring;
    ring.at = uniform(shared_address(memory)) + BARRIERS_BYTES;
    ring.x_bytes = tile_rows * STEP_BYTES;
    ring.stage_bytes = args->tiling.stage_bytes;
    ring.stages = args->tiling.stages;
    ring.stage = 0;
    ring.phase = 0;
    return ring;
}

/* After the last stage comes the first one again, in the next phase. */
static __device__ __forceinline__ void wrap_around(struct ring *ring) {
    if (ring->stage >= ring->stages) {
        ring->stage -= ring->stages;
        ring->phase ^= 1;
    }
}

static __device__ __forceinline__ void next(struct ring *ring) {
    ring->stage++;
    wrap_around(ring);
}

/* The distance of a number of steps in a ring: `rounds` full turns and `stages` more. */
struct distance {
    int rounds;
    int stages;
};

static __device__ __forceinline__ struct distance distance_of(const struct ring *ring, int steps) {
    struct distance distance = {steps / ring->stages, steps % ring->stages};
    return distance;
}

static __device__ __forceinline__ void skip(struct ring *ring, struct distance distance) {
    ring->stage += distance.stages;
    ring->phase ^= distance.rounds & 1;
    wrap_around(ring);
}

/* The address of a stage's first row of x, and of w. */
static __device__ __forceinline__ uint32_t x_of_stage(const struct ring *ring, int stage) {
    return ring->at + stage * ring->stage_bytes;
}

static __device__ __forceinline__ uint32_t w_of_stage(const struct ring *ring, int stage) {
    return x_of_stage(ring, stage) + ring->x_bytes;
}

static __device__ __forceinline__ uint32_t full_barrier(const struct ring *ring, int stage) {
    return ring->at + stage * (int)sizeof(uint64_t) + (int)offsetof(struct barriers, full) - BARRIERS_BYTES;
}

static __device__ __forceinline__ uint32_t empty_barrier(const struct ring *ring, int stage) {
    return ring->at + stage * (int)sizeof(uint64_t) + (int)offsetof(struct barriers, empty) - BARRIERS_BYTES;
}

/* All threads of the cluster call this once, before anything else. */
static __device__ __forceinline__ void
prepare_barriers(const struct hopper_args *args, struct barriers *barriers, struct configuration config) {
    if (threadIdx.x == 0) {
        int readers = cluster_of(&args->tiling) * args->tiling.tile_rows / WARPGROUP_ROWS * config.members;
        for (int i = 0; i < MOST_STAGES; i++) {
            mbarrier_init(shared_address(&barriers->full[i]), 1);
            mbarrier_init(shared_address(&barriers->empty[i]), readers);
        }
        for (int i = 0; i < TEAMS; i++) {
            mbarrier_init(shared_address(&barriers->exchanged[0][i]), 1);
            mbarrier_init(shared_address(&barriers->exchanged[1][i]), 1);
            mbarrier_init(shared_address(&barriers->may_multiply[i]), config.members);
        }
        fence_mbarrier_init();
    }
    barrier_cluster_relaxed();
}

/* A block's place in the cluster. */
struct block_place {
    int row_block;
    int column_block;
};

static __device__ __forceinline__ struct block_place place_in_cluster(const struct tiling *tiling) {
    int rank = (int)cluster_ctarank();
    struct block_place place;
    place.row_block = rank / tiling->column_blocks;
    place.column_block = rank - place.row_block * tiling->column_blocks;
    return place;
}

/* The tile of a cluster's block in a cluster tile. Splits of k follow each other, each in the order of bands
 * (hopper/sizes.h). */
static __device__ __forceinline__ struct tile_place
place_of_cluster_tile(const struct hopper_args *args, int cluster_tile, struct block_place in_cluster) {
    const struct tiling *tiling = &args->tiling;
    struct tile_place place = {0, 0, 0, 0, args->steps};
    if (tiling->splits > 1) {
        int cluster_tiles = tiling->clusters_down * tiling->clusters_across;
        place.split = cluster_tile / cluster_tiles;
        cluster_tile -= place.split * cluster_tiles;
        place.first_step = place.split * tiling->split_steps;
        int left = args->steps - place.first_step;
        place.steps = left < tiling->split_steps ? left : tiling->split_steps;
    }
    int band = (int)divided((uint32_t)cluster_tile, tiling->band);
    int of_band = cluster_tile - band * (int)tiling->band.by, column = band * BAND;
    bool is_last = tiling->clusters_across - column < BAND;
    int row = is_last ? (int)divided((uint32_t)of_band, tiling->last_band) : of_band / BAND;
    column += of_band - row * (is_last ? (int)tiling->last_band.by : BAND);
    place.row = (row * tiling->row_blocks + in_cluster.row_block) * tiling->tile_rows;
    place.column = column * tiling->cluster_columns + in_cluster.column_block * tiling->block_columns;
    return place;
}
