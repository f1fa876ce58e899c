/* A tile of x W^T on a Hopper GPU: copies by one thread, products by two teams, pairs of blocks.
 *
 * Shared memory is a ring of slots, and a slot holds what a step along k needs: 128 bytes of each of the
 * tile's rows of x and of its 256 rows of w. One thread (the producer) keeps the ring full by bulk tensor
 * copies; two teams (the consumers) multiply straight from shared memory, each 64 rows. `full` and `empty`,
 * two mbarriers for each slot, are all that producer and consumers agree on.
 *
 * A team is two warpgroups of 128 threads, each with 128 of the 256 columns: 64 sums a thread, in registers.
 * One warpgroup for all columns would read x from shared memory once instead of twice. But the end of a tile
 * is a long way from the sums to y, of which a warp waits most of the time; with two warpgroups a scheduler
 * has twice as many warps to choose from, and each has half as far to go. (Teams of one: narrow tiles, which
 * have 128 columns, and float32's products, which need two sets of sums.)
 *
 * A tile is either both teams' (128 rows) or one's own (64 rows). Tiles of their own they take in turn: while
 * one normalises and stores its sums, the other one multiplies. But then each step of w is multiplied by half
 * as many rows, which is more than the L2 cache can deliver; so a long product has common tiles, and a
 * short one, whose end takes as long as its products, has tiles of one team. So has one that is too small
 * to have a common tile for each block.
 *
 * Two blocks make a cluster, and share either the columns (w) or the rows (x) of their tiles: each copies one
 * half of the shared part and TMA delivers it to both, so the L2 cache is read once for two.
 *
 * TMA also sorts: the 32 rows of w that become 32 columns of sums are laid down in an order that
 * gives each lane eight neighbouring columns. wgmma leaves columns 2 t, 2 t + 1, 8 + 2 t, 8 + 2 t + 1, ... in
 * lane t of a quad; with row 8 t + 2 j + e of w at place 8 j + 2 t + e these are columns 8 t, 8 t + 1, ... So
 * a lane reads its eight biases and stores its eight results in 16-byte accesses, and exchanges nothing. To
 * TMA w is a tensor of five dimensions: k, e, t, j and the blocks of 32.
 *
 * What moves for a step of a common tile (48 KiB of slot): 16 + 16 KiB a block where a pair shares w, 40
 * where it shares x; what is computed meanwhile: 128 x 256 x 64 multiply-adds of 16-bit factors, 1024 clocks.
 * These 32 bytes a clock and multiprocessor the L2 cache delivers; without pairs it would be 48, as it is for
 * tiles of one team (8 + 16 KiB in 512 clocks), of which it delivers 42, and the power that this takes lowers
 * the clock. */
#pragma once

#include "shared/rung.h"
#include "hopper/sizes.h"
#include "ptx/bar.h"
#include "ptx/cluster.h"
#include "ptx/cp_async.h"
#include "ptx/mbarrier.h"
#include "ptx/registers.h"
#include "ptx/tma.h"
#include "ptx/wgmma.h"
#include "shared/team.h"

#define MOST_SUMS 128

/* A thread's sums: of 64 rows and a warpgroup's columns, among 128 threads. */
static __host__ __device__ __forceinline__ int sums_of(struct product product) {
    return WARPGROUP_ROWS * product.warpgroup_columns / WARPGROUP;
}

/* Neighbouring columns of a lane, 16 bytes of y; a quad has a block of them. */
static __host__ __device__ __forceinline__ int lane_columns(struct product product) {
    return product.factors == BFLOAT16_FACTORS || product.factors == FLOAT16_FACTORS ? 8 : 4;
}

static __host__ __device__ __forceinline__ int block_columns(struct product product) {
    return QUAD * lane_columns(product);
}

/* Which sum is that of column `i` of the lane's neighbours in a block, in the first or second of its rows. */
static __device__ __forceinline__ int sum_at(int block, int row, int i, struct product product) {
    return block * 2 * lane_columns(product) + i / 2 * 4 + row * 2 + i % 2;
}

/* Where in the matrices a block's tile is, and how a pair divides its work. */
struct tile_place {
    int row;
    int column;
};

struct hopper_copies {
    CUtensorMap x;
    CUtensorMap w;
    CUtensorMap x_low; /* the low halves of split factors */
    CUtensorMap w_low;
};

/* A place in the ring: the slot, and the parity of the ring's current turn. All of it is the same in all
 * threads of a warp, and stays in registers that a warp has once (uniform()). */
struct ring {
    uint32_t at; /* shared memory: the slots */
    uint32_t full;
    uint32_t empty;
    int slot_bytes;
    int x_bytes; /* of a slot; what follows is w's */
    int slots;
    int slot;
    uint32_t turn;
};

static __host__ __device__ __forceinline__ bool has_own_tiles(int tile_rows) {
    return tile_rows == WARPGROUP_ROWS;
}

/* All threads of a warp together. */
static __device__ __forceinline__ struct ring start_of_ring(const struct hopper_memory *memory, int tile_rows,
                                                            struct product product) {
    uint32_t at = uniform(shared_address(memory));
    struct ring ring;
    ring.at = at + offsetof(struct hopper_memory, ring);
    ring.full = at + offsetof(struct hopper_memory, full);
    ring.empty = at + offsetof(struct hopper_memory, empty);
    ring.x_bytes = tile_rows * STEP_BYTES;
    ring.slot_bytes = ring.x_bytes + product.columns * STEP_BYTES;
    ring.slots = RING_BYTES / ring.slot_bytes;
    ring.slot = 0;
    ring.turn = 0;
    return ring;
}

static __device__ __forceinline__ void next(struct ring *ring) {
    if (++ring->slot == ring->slots) {
        ring->slot = 0;
        ring->turn ^= 1;
    }
}

static __device__ __forceinline__ void skip(struct ring *ring, int steps) {
    int to = ring->slot + steps;
    ring->slot = to % ring->slots;
    ring->turn ^= to / ring->slots & 1;
}

/* The shared memory of a slot's first row of x, and of w. */
static __device__ __forceinline__ uint32_t x_of_slot(const struct ring *ring, int slot) {
    return ring->at + slot * ring->slot_bytes;
}

static __device__ __forceinline__ uint32_t w_of_slot(const struct ring *ring, int slot) {
    return x_of_slot(ring, slot) + ring->x_bytes;
}

static __device__ __forceinline__ uint32_t full_barrier(const struct ring *ring, int slot) {
    return ring->full + slot * (int)sizeof(uint64_t);
}

static __device__ __forceinline__ uint32_t empty_barrier(const struct ring *ring, int slot) {
    return ring->empty + slot * (int)sizeof(uint64_t);
}

/* All threads of the pair call this once, before anything else. */
static __device__ __forceinline__ void prepare_barriers(struct hopper_memory *memory, int tile_rows,
                                                        struct product product) {
    if (threadIdx.x == 0) {
        int readers = PAIR * tile_rows / WARPGROUP_ROWS * members_of(product);
        for (int i = 0; i < MOST_SLOTS; i++) {
            mbarrier_init(shared_address(&memory->full[i]), 1);
            mbarrier_init(shared_address(&memory->empty[i]), readers);
        }
        for (int i = 0; i < TEAMS; i++) {
            mbarrier_init(shared_address(&memory->exchanged[i]), 1);
            mbarrier_init(shared_address(&memory->may_multiply[i]), members_of(product));
        }
        fence_mbarrier_init();
    }
    barrier_cluster_relaxed();
}

/* ---- The producer ---- */

/* Copies one step of the tile at `place`, `k` elements along, into the ring's next slot. */
static __device__ __forceinline__ void copy_step(const CUtensorMap *x, const CUtensorMap *w,
                                                 struct tile_place place, int k, bool pair_shares_w,
                                                 uint32_t rank, struct ring *ring, struct product product) {
    uint32_t to_x = x_of_slot(ring, ring->slot), to_w = w_of_slot(ring, ring->slot);
    uint32_t full = full_barrier(ring, ring->slot);
    /* Both blocks' consumers have to be done with the slot, for the shared part goes to both. */
    mbarrier_wait(empty_barrier(ring, ring->slot), ring->turn ^ 1);
    mbarrier_arrive_expect_tx(full, ring->slot_bytes);
    uint16_t both = 3;
    if (pair_shares_w) {
        int half = rank * (product.columns / PAIR);
        cp_async_bulk_tensor(to_x, x, k, place.row, full);
        cp_async_bulk_tensor_blocks_multicast(to_w + half * STEP_BYTES, w, k,
                                              (place.column + half) / block_columns(product), full, both);
    } else {
        int half_bytes = rank * (ring->x_bytes / PAIR);
        cp_async_bulk_tensor_multicast(to_x + half_bytes, x, k, place.row + half_bytes / STEP_BYTES, full,
                                       both);
        cp_async_bulk_tensor_blocks(to_w, w, k, place.column / block_columns(product), full);
    }
    next(ring);
}

/* Waits until every slot is empty, as if all were to be filled again: a block must not end before the other
 * one has sent all that it will send here. */
static __device__ __forceinline__ void await_empty_ring(struct ring *ring) {
    for (int i = 0; i < ring->slots; i++) {
        mbarrier_wait(empty_barrier(ring, ring->slot), ring->turn ^ 1);
        next(ring);
    }
}

/* ---- The consumers ---- */

/* Tells both blocks' producers that this warpgroup has read the slot. */
static __device__ __forceinline__ void release(const struct ring *ring, int slot) {
    if (threadIdx.x % WARPGROUP < PAIR)
        mbarrier_arrive_cluster(empty_barrier(ring, slot), threadIdx.x % WARPGROUP);
}

/* One step by one wgmma for each 32 bytes along k. */
static __device__ __forceinline__ void multiply_step(float *sum, uint64_t x, uint64_t w, bool first,
                                                     struct product product) {
#pragma unroll
    for (int i = 0; i < STEP_BYTES / 32; i++) {
        int along = i * 32, accumulate = !first || i > 0;
        uint64_t x_here = descriptor_plus(x, along), w_here = descriptor_plus(w, along);
        if (product.factors == BFLOAT16_FACTORS)
            wgmma_m64n128k16_bf16(sum, x_here, w_here, accumulate);
        else if (product.factors == FLOAT16_FACTORS)
            wgmma_m64n128k16_f16(sum, x_here, w_here, accumulate);
        else
            wgmma_m64n128k8_tf32(sum, x_here, w_here, accumulate);
    }
}

/* What a warpgroup multiplies: its rows of the tile and its columns, from these on. */
struct share {
    int row;
    int column;
};

static __device__ __forceinline__ uint64_t x_of_share(const struct ring *ring, int slot, struct share share) {
    return wgmma_descriptor(x_of_slot(ring, slot) + share.row * STEP_BYTES);
}

static __device__ __forceinline__ uint64_t w_of_share(const struct ring *ring, int slot, struct share share) {
    return wgmma_descriptor(w_of_slot(ring, slot) + share.column * STEP_BYTES);
}

/* Tiles of their own are multiplied in turn: a barrier tells the ring's turns apart only by their parity, so
 * a team must not wait for a slot before the other has seen all of its own. `tile` counts the team's tiles.
 */
static __device__ __forceinline__ void await_turn(struct hopper_memory *memory, int team, uint32_t tile) {
    mbarrier_wait(shared_address(&memory->may_multiply[team]), (tile ^ (team == 0)) & 1);
}

static __device__ __forceinline__ void end_turn(struct hopper_memory *memory, int team) {
    if (threadIdx.x % WARPGROUP == 0)
        mbarrier_arrive(shared_address(&memory->may_multiply[1 - team]));
}

/* sum = x W^T over `steps` steps. The products of a step are on their way while the next ones are issued, and
 * a slot is free when the step after it has begun. finish_multiplying() waits for the last. */
static __device__ __forceinline__ int multiply(int steps, struct share share, struct ring *ring, float *sum,
                                               struct product product) {
    int last = ring->slot;
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
        mbarrier_wait(full_barrier(ring, ring->slot), ring->turn);
        wgmma_fence();
        multiply_step(sum, x_of_share(ring, ring->slot, share), w_of_share(ring, ring->slot, share),
                      step == 0, product);
        wgmma_commit_group();
        wgmma_wait_group(1);
        if (step > 0)
            release(ring, last);
        last = ring->slot;
        next(ring);
    }
    return last;
}

static __device__ __forceinline__ void finish_multiplying(const struct ring *ring, int last_slot, float *sum,
                                                          struct product product) {
    wgmma_wait_group(0);
    hold_registers(sum, sums_of(product));
    release(ring, last_slot);
}

/* At a time, 128 columns: sums of one step that are then added to the others. */
#define PART_COLUMNS 128
#define PART_SUMS 64

/* The same in float32's accuracy: high and low halves are in two slots, one after the other.
 *
 * Tensor cores drop the last bits of a sum that they add to. So a step's sums (64 values of k, three
 * products) begin at zero and are added to the others by ordinary additions, which round. While one warpgroup
 * adds, the other keeps the tensor cores busy. */
static __device__ __forceinline__ void multiply_split(int steps, struct share share, struct ring *ring,
                                                      float *sum, struct product product) {
#pragma unroll
    for (int i = 0; i < sums_of(product); i++)
        sum[i] = 0.0f;
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
        int high_slot = ring->slot;
        mbarrier_wait(full_barrier(ring, ring->slot), ring->turn);
        next(ring);
        int low_slot = ring->slot;
        mbarrier_wait(full_barrier(ring, ring->slot), ring->turn);
        next(ring);
        uint64_t x_high = x_of_share(ring, high_slot, share);
        uint64_t x_low = x_of_share(ring, low_slot, share);
#pragma unroll
        for (int part_of = 0; part_of < product.warpgroup_columns / PART_COLUMNS; part_of++) {
            struct share part_share = {share.row, share.column + part_of * PART_COLUMNS};
            uint64_t w_high = w_of_share(ring, high_slot, part_share);
            uint64_t w_low = w_of_share(ring, low_slot, part_share);
            float part[PART_SUMS];
            wgmma_fence();
#pragma unroll
            for (int i = 0; i < STEP_BYTES / 32; i++) {
                int along = i * 32;
                wgmma_m64n128k16_f16(part, descriptor_plus(x_high, along), descriptor_plus(w_low, along),
                                     i > 0);
                wgmma_m64n128k16_f16(part, descriptor_plus(x_low, along), descriptor_plus(w_high, along), 1);
            }
#pragma unroll
            for (int i = 0; i < STEP_BYTES / 32; i++) {
                int along = i * 32;
                wgmma_m64n128k16_f16(part, descriptor_plus(x_high, along), descriptor_plus(w_high, along), 1);
            }
            wgmma_commit_group();
            wgmma_wait_group(0);
#pragma unroll
            for (int i = 0; i < PART_SUMS; i++)
                sum[part_of * PART_SUMS + i] += part[i];
        }
        release(ring, high_slot);
        release(ring, low_slot);
    }
}
