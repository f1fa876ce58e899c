/* The main loop of steps 5 and 6: the order of the tiles, the producer and the consumers' products. None of
 * them stops between tiles: the count of steps, and so of the ring's turns, goes on through all tiles of a
 * block. Steps 2 to 4 explain stages, clusters and multicast. */
#pragma once

#include "hopper_steps/step.h"

#define TILE_COLUMNS 256
#define CONSUMERS 2
#define BLOCK_THREADS ((1 + CONSUMERS) * WARPGROUP)
#define X_BYTES (TILE_ROWS * ROW_BYTES)
#define STAGE_BYTES (X_BYTES + TILE_COLUMNS * ROW_BYTES)
#define STAGES 4
#define BAND 8 /* columns of tiles */

struct persistent_ring {
    unsigned char stage[STAGES][STAGE_BYTES];
    uint64_t full[STAGES];
    uint64_t empty[STAGES];
};

#include "ptx/mbarrier.h"

#define PRODUCER_REGISTERS 24
#define CONSUMER_REGISTERS 240

struct persistent_product {
    CUtensorMap x; /* in boxes of 128 rows and 64 k */
    CUtensorMap w; /* of 128 rows: one block's half */
    int steps;     /* of a tile */
    int row_pairs; /* of tiles, one above the other */
    int columns;   /* of tiles */
};

struct tile_corner {
    int row;
    int column;
};

/* This cluster's pairs of tiles are first_pair(), first_pair() + pairs_at_once(), ... below pairs_of().
 */
static __device__ __forceinline__ int first_pair(void) {
    return blockIdx.x / CLUSTER;
}

static __device__ __forceinline__ int pairs_at_once(void) {
    return gridDim.x / CLUSTER;
}

static __device__ __forceinline__ int pairs_of(const struct persistent_product *product) {
    return product->row_pairs * product->columns;
}

/* The place of this block's tile of a pair. Pairs are counted through bands of BAND columns, row by row. */
static __device__ __forceinline__ struct tile_corner corner_of_pair(const struct persistent_product *product,
                                                                    int pair) {
    int in_band = product->row_pairs * BAND, first = pair / in_band * BAND;
    int width = product->columns - first < BAND ? product->columns - first : BAND;
    struct tile_corner corner;
    corner.row = (pair % in_band / width * CLUSTER + (int)cluster_ctarank()) * TILE_ROWS;
    corner.column = (first + pair % in_band % width) * TILE_COLUMNS;
    return corner;
}

/* All threads of the cluster call this once, before anything else. */
static __device__ __forceinline__ void prepare_ring(struct persistent_ring *ring) {
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++) {
            mbarrier_init(shared_address(&ring->full[stage]), 1);
            mbarrier_init(shared_address(&ring->empty[stage]), CLUSTER * CONSUMERS);
        }
        fence_mbarrier_init();
    }
    barrier_cluster(); /* the mbarriers of both blocks are initialised */
}

/* Keeps the rings of both blocks full, tile after tile, with the other block's producer. One thread calls
 * this. */
static __device__ __forceinline__ void produce(const struct persistent_product *product,
                                               struct persistent_ring *ring) {
    const uint16_t both = 3; /* a bit for each block of the cluster */
    int first_of_half = (int)cluster_ctarank() * (TILE_COLUMNS / CLUSTER);
    uint32_t count = 0; /* of steps, of all tiles */
    for (int pair = first_pair(); pair < pairs_of(product); pair += pairs_at_once()) {
        struct tile_corner corner = corner_of_pair(product, pair);
        for (int step = 0; step < product->steps; step++, count++) {
            int stage = count % STAGES, turn = count / STAGES;
            uint32_t to = shared_address(ring->stage[stage]), full = shared_address(&ring->full[stage]);
            mbarrier_wait(shared_address(&ring->empty[stage]), (turn + 1) % 2);
            mbarrier_arrive_expect_tx(full, STAGE_BYTES); /* all of x and both halves of w */
            cp_async_bulk_tensor(to, &product->x, step * STEP_K, corner.row, full);
            cp_async_bulk_tensor_multicast(to + X_BYTES + first_of_half * ROW_BYTES, &product->w,
                                           step * STEP_K, corner.column + first_of_half, full, both);
        }
    }
}

/* Computes the sums of one tile; *count goes on from tile to tile. */
static __device__ __forceinline__ void multiply_tile(struct persistent_ring *ring, int steps, int row_in_tile,
                                                     uint32_t *count, float *sum) {
    for (int step = 0; step < steps; step++, ++*count) {
        int stage = *count % STAGES, turn = *count / STAGES, thread = threadIdx.x % WARPGROUP;
        uint32_t x = shared_address(ring->stage[stage]) + row_in_tile * ROW_BYTES;
        uint32_t w = shared_address(ring->stage[stage]) + X_BYTES;
        mbarrier_wait(shared_address(&ring->full[stage]), turn % 2);
        wgmma_fence();
        multiply_step(sum, x, w, step == 0);
        multiply_step(sum + WGMMA_SUMS, x, w + WGMMA_COLUMNS * ROW_BYTES, step == 0);
        wgmma_commit_group();
        wgmma_wait_group(0);
        if (thread < CLUSTER) /* one thread tells each block */
            mbarrier_arrive_cluster(shared_address(&ring->empty[stage]), thread);
    }
    hold_registers(sum, 2 * WGMMA_SUMS);
}

static inline bool describe_product(struct persistent_product *product, const fgn_chain *chain,
                                    const fgn_launch *launch, const void *x) {
    product->steps = (int)launch->steps;
    product->row_pairs = (int)tiles(chain->batch, TILE_ROWS * CLUSTER);
    product->columns = (int)(chain->out_features / TILE_COLUMNS);
    return describe_matrix(&product->x, x, chain->batch, chain->in_features, TILE_ROWS) &&
           describe_matrix(&product->w, chain->weight, chain->out_features, chain->in_features,
                           TILE_COLUMNS / CLUSTER);
}

/* As many clusters as the GPU holds, but at most one for each pair of tiles. */
static inline fgn_launch *plan_persistent(const fgn_chain *chain, const fgn_device *device,
                                          const char *kernel, fgn_plan *plan) {
    int64_t clusters = device->multiprocessors / CLUSTER;
    int64_t most_blocks = (clusters > 0 ? clusters : 1) * CLUSTER; /* a simulator may have one OS thread */
    fgn_launch *launch = plan_product(chain, plan, kernel, BLOCK_THREADS, TILE_COLUMNS, STAGES);
    plan_clusters(chain, launch, TILE_COLUMNS);
    if (launch->tiles > most_blocks)
        launch->grid[0] = (unsigned)most_blocks;
    launch->shared_bytes = ATOM_BYTES + sizeof(struct persistent_ring);
    return launch;
}
