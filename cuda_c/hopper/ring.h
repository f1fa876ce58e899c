/* The ring buffer of stages in a block's shared memory, between the producer and the consumers.
 *
 * A stage holds what a step along k needs: 128 bytes of each of the tile's rows of x and of w. The producer
 * fills it by TMA, the consumers multiply straight from it. Producer and consumers agree by two mbarriers for
 * each stage: `full` ends its phase when all bytes have arrived, `empty` when every consumer that reads the
 * stage has read it, in all blocks of the cluster, for a multicast fills the stage in all of them. */
#pragma once

#include "hopper/arguments.h"

/* A place in the ring: the stage, and the parity of the phase that its mbarriers are in. All of it is the
 * same in all threads of a warp, and stays in registers that a warp has once (uniform()). */
struct ring {
    uint32_t at; /* shared memory: the stages */
    uint32_t full;
    uint32_t empty;
    int stage_bytes;
    int x_bytes; /* of a stage; what follows is w's */
    int stages;
    int stage;
    uint32_t phase;
};

/* All threads of a warp together. */
static __device__ __forceinline__ struct ring start_of_ring(const struct hopper_args *args,
                                                            const unsigned char *memory, int tile_rows) {
    uint32_t at = uniform(shared_address(memory)), barriers = at + args->tiling.barriers_at;
    struct ring ring;
    ring.at = at;
    ring.full = barriers + offsetof(struct barriers, full);
    ring.empty = barriers + offsetof(struct barriers, empty);
    ring.x_bytes = tile_rows * STEP_BYTES;
    ring.stage_bytes = args->tiling.stage_bytes;
    ring.stages = args->tiling.stages;
    ring.stage = 0;
    ring.phase = 0;
    return ring;
}

static __device__ __forceinline__ void next(struct ring *ring) {
    if (++ring->stage == ring->stages) {
        ring->stage = 0;
        ring->phase ^= 1;
    }
}

static __device__ __forceinline__ void skip(struct ring *ring, int steps) {
    int to = ring->stage + steps;
    ring->stage = to % ring->stages;
    ring->phase ^= to / ring->stages & 1;
}

/* The shared memory of a stage's first row of x, and of w. */
static __device__ __forceinline__ uint32_t x_of_stage(const struct ring *ring, int stage) {
    return ring->at + stage * ring->stage_bytes;
}

static __device__ __forceinline__ uint32_t w_of_stage(const struct ring *ring, int stage) {
    return x_of_stage(ring, stage) + ring->x_bytes;
}

static __device__ __forceinline__ uint32_t full_barrier(const struct ring *ring, int stage) {
    return ring->full + stage * (int)sizeof(uint64_t);
}

static __device__ __forceinline__ uint32_t empty_barrier(const struct ring *ring, int stage) {
    return ring->empty + stage * (int)sizeof(uint64_t);
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

/* The tile of the cluster's block `rank` in a cluster tile. The splits of k follow each other. The cluster
 * tiles of a split are taken in bands, 8 of them side by side, so that what runs at one time shares rows and
 * columns in the L2 cache. */
#define BAND 8

static __device__ __forceinline__ struct tile_place place_of_cluster_tile(const struct hopper_args *args,
                                                                          int cluster_tile, uint32_t rank) {
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
    int tiles_of_band = tiling->clusters_down * BAND;
    int first_column = cluster_tile / tiles_of_band * BAND;
    int width = tiling->clusters_across - first_column < BAND ? tiling->clusters_across - first_column : BAND;
    int row = cluster_tile % tiles_of_band / width;
    int column = first_column + cluster_tile % tiles_of_band % width;
    place.row = (row * tiling->row_blocks + rank / tiling->column_blocks) * tiling->tile_rows;
    place.column = column * tiling->cluster_columns + rank % tiling->column_blocks * tiling->block_columns;
    return place;
}
