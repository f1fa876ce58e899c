/* Hopper, step 4: clusters of two blocks, and TMA that delivers to both (multicast).
 *
 * Idea: two blocks whose tiles are one above the other read the same 256 rows of w. As a cluster they run at
 * the same time on neighbouring multiprocessors, and reach each other's shared memory. Each block asks TMA
 * for one half of w, and TMA writes it into the ring of both blocks, at the same place, and counts the bytes
 * in each block's own `full` barrier. The L2 cache is read once for two blocks.
 *
 * A stage is empty when the consumers of both blocks have read it, because both receive the half that this
 * block asks for: a consumer arrives at `empty` of its own block and of the other one. At the end a barrier
 * of the cluster keeps each block until the other one has sent its last arrival.
 *
 * One step along k, in the two blocks:
 *
 *     block 0  producer  |wait: empty in both|ask: my x, w rows 0 to 127 for both   |
 *     block 1  producer  |wait: empty in both|ask: my x, w rows 128 to 255 for both |
 *     TMA                                       |x 0 -> 0|w upper -> 0 and 1|x 1 -> 1|w lower -> 0 and 1|
 *     consumers of both                                                      |wait full| multiply |tell both|
 *
 * Bytes: a block asks for 16 KiB of x and 16 KiB of w in the 1024 clocks of a step along k: 32 bytes a clock
 * instead of 48. On an H200 this gains nothing over step 3, and ncu counts as many bytes in the L2 cache
 * (notebook 07). In the end clusters serve another purpose: two blocks that share a group of the norm
 * exchange its moments (hopper/norm_spanning.h).
 * Operations: as before.
 *
 * Limit: the tensor cores in the main loop. Each tile has its own block: nothing is copied before its first
 * step, and nothing is multiplied while the block stores its sums.
 *
 * Next (hopper_5_persistent.cu): a block stays for many tiles; the next tile's copies hide both. */
#include "hopper_steps/step.h"

#define TILE_COLUMNS 256
#define CONSUMERS 2
#define BLOCK_THREADS ((1 + CONSUMERS) * WARPGROUP)
#define X_BYTES (TILE_ROWS * ROW_BYTES)
#define STAGE_BYTES (X_BYTES + TILE_COLUMNS * ROW_BYTES)
#define STAGES 4

struct multicast_ring {
    unsigned char stage[STAGES][STAGE_BYTES];
    uint64_t full[STAGES];
    uint64_t empty[STAGES];
};

#include "ptx/mbarrier.h"
#include "sim/launchers.h"

#define PRODUCER_REGISTERS 24
#define CONSUMER_REGISTERS 240

struct multicast_args {
    CUtensorMap x; /* in boxes of 128 rows and 64 k */
    CUtensorMap w; /* of 128 rows: one block's half */
    int steps;
    struct epilogue epilogue;
};

/* Keeps the rings of both blocks full, together with the other block's producer. One thread calls this. */
static __device__ __forceinline__ void produce(const struct multicast_args *args, struct multicast_ring *ring,
                                               int first_row, int first_column) {
    const int half_rows = TILE_COLUMNS / CLUSTER;
    const uint16_t both = 3; /* a bit for each block of the cluster */
    int first_of_half = (int)cluster_ctarank() * half_rows;
    for (int step = 0; step < args->steps; step++) {
        int stage = step % STAGES, turn = step / STAGES;
        uint32_t to = shared_address(ring->stage[stage]), full = shared_address(&ring->full[stage]);
        mbarrier_wait(shared_address(&ring->empty[stage]), (turn + 1) % 2);
        mbarrier_arrive_expect_tx(full, STAGE_BYTES); /* all of x and both halves of w */
        cp_async_bulk_tensor(to, &args->x, step * STEP_K, first_row, full);
        cp_async_bulk_tensor_multicast(to + X_BYTES + first_of_half * ROW_BYTES, &args->w, step * STEP_K,
                                       first_column + first_of_half, full, both);
    }
}

static __device__ __forceinline__ void consume(struct multicast_ring *ring, int steps, int row_in_tile,
                                               float *sum) {
    for (int step = 0; step < steps; step++) {
        int stage = step % STAGES, turn = step / STAGES, thread = threadIdx.x % WARPGROUP;
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

__global__ void __launch_bounds__(BLOCK_THREADS, 1)
    hopper_4_multicast_kernel(const __grid_constant__ struct multicast_args args) {
#if HAS_HOPPER_INSTRUCTIONS
    struct multicast_ring *ring = (struct multicast_ring *)aligned_shared_memory();
    int row_tiles = (int)tiles(args.epilogue.batch, TILE_ROWS * CLUSTER) * CLUSTER;
    int first_row = blockIdx.x % row_tiles * TILE_ROWS;
    int first_column = blockIdx.x / row_tiles * TILE_COLUMNS;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++) {
            mbarrier_init(shared_address(&ring->full[stage]), 1);
            mbarrier_init(shared_address(&ring->empty[stage]), CLUSTER * CONSUMERS);
        }
        fence_mbarrier_init();
    }
    barrier_cluster(); /* the mbarriers of both blocks are initialised */
    int warpgroup = uniform(threadIdx.x / WARPGROUP);
    if (warpgroup == 0) {
        setmaxnreg_dec(PRODUCER_REGISTERS);
        if (threadIdx.x == 0)
            produce(&args, ring, first_row, first_column);
    } else {
        setmaxnreg_inc(CONSUMER_REGISTERS);
        int row_in_tile = (warpgroup - 1) * WARPGROUP_ROWS;
        float sum[2 * WGMMA_SUMS];
        consume(ring, args.steps, row_in_tile, sum);
        finish_sums(&args.epilogue, sum, first_row + row_in_tile, first_column);
        finish_sums(&args.epilogue, sum + WGMMA_SUMS, first_row + row_in_tile, first_column + WGMMA_COLUMNS);
    }
    barrier_cluster(); /* the other block's arrivals have reached this one's barriers */
#endif
}

CLUSTER_LAUNCHER(hopper_4_multicast_kernel, struct multicast_args)

static cudaError_t forward(const fgn_plan *plan, const fgn_chain *chain, const void *x, void *y,
                           void *workspace, cudaStream_t stream) {
    static bool allowed[MOST_DEVICES];
    const fgn_launch *product = &plan->launch[0];
    struct multicast_args args;
    args.steps = (int)product->steps;
    args.epilogue = epilogue_of(chain, workspace);
    if (!are_aligned(chain, x))
        return cudaErrorMisalignedAddress;
    if (!describe_matrix(&args.x, x, chain->batch, chain->in_features, TILE_ROWS) ||
        !describe_matrix(&args.w, chain->weight, chain->out_features, chain->in_features,
                         TILE_COLUMNS / CLUSTER))
        return cudaErrorInvalidValue;
    cudaError_t error = allow_shared_memory((const void *)hopper_4_multicast_kernel, &plan->device, allowed);
    if (error == cudaSuccess)
        error = launch_hopper_4_multicast_kernel(grid_of(product), block_of(product), product->shared_bytes,
                                                 stream, product->cluster, args);
    return error == cudaSuccess ? launch_norm(plan, chain, workspace, y, stream) : error;
}

static void plan(const fgn_chain *chain, const fgn_device *device, fgn_plan *plan) {
    (void)device;
    fgn_launch *product =
        plan_product(chain, plan, "hopper_4_multicast_kernel", BLOCK_THREADS, TILE_COLUMNS, STAGES);
    plan_clusters(chain, product, TILE_COLUMNS);
    product->shared_bytes = ATOM_BYTES + sizeof(struct multicast_ring);
    plan_norm_launch(chain, product, plan);
}

RUNG hopper_4_multicast_rung = {
    {"hopper_4_multicast", "hopper_steps/hopper_4_multicast.cu", "ladder/group_norm_2_block.cu",
     "clusters of two blocks, multicast", STEP_NEEDS},
    &group_norm_2_block,
    step_refusal,
    plan,
    NULL,
    forward,
};
