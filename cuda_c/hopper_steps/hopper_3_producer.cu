/* Hopper, step 3: a producer and two consumers (warp specialisation).
 *
 * Idea: warpgroups have different work. One thread of the producer warpgroup asks TMA for the copies; the two
 * consumer warpgroups multiply. They meet only in mbarriers, two for each stage of the ring: `full` ends a
 * phase when the stage's bytes are there, `empty` when both consumers have read them. The main loop has no
 * barrier of the block, so one consumer may be a step ahead of the other, and one multiplies while the other
 * one waits.
 *
 * The multiprocessor's 65536 registers are divided evenly at the launch, 168 for each of 384 threads. The
 * producer needs few: setmaxnreg takes registers from the producer and gives them to the consumers, which
 * then have 240. That leaves room for 128 sums per thread, so the tile becomes 128 x 256, 64 x 256 for each
 * consumer.
 *
 * Four steps along k, in time, with two stages (the kernel has four):
 *
 *     producer   |ask 0|ask 1|    wait until 0 is empty    |ask 2|   wait until 1 is empty   |ask 3|
 *     TMA        |  copy 0 .. copy 1 ..                    |  copy 2 ..                      | copy 3
 *     consumer 1 |wait  |   multiply 0    |tell|  multiply 1    |tell|    multiply 2    |tell|
 *     consumer 2 |wait  |     multiply 0      |tell|   multiply 1   |tell|   multiply 2    |tell|
 *
 * Bytes: w as before; x once for every 256 columns, half as often. A stage is 48 KiB for 1024 clocks of the
 * tensor cores, so a multiprocessor asks the L2 cache for 48 bytes per clock instead of 64. Operations: as
 * before.
 *
 * Limit: the tensor cores in the main loop, at the clock that the GPU's power limit allows. A multiprocessor
 * now has one block, so it multiplies nothing while the block begins and ends.
 *
 * Next (hopper_4_multicast.cu): two blocks share their reads of w. */
#include "hopper_steps/step.h"

#define TILE_COLUMNS 256
#define CONSUMERS 2
#define BLOCK_THREADS ((1 + CONSUMERS) * WARPGROUP)
#define X_BYTES (TILE_ROWS * ROW_BYTES)
#define STAGE_BYTES (X_BYTES + TILE_COLUMNS * ROW_BYTES)
#define STAGES 4

struct producer_ring {
    unsigned char stage[STAGES][STAGE_BYTES];
    uint64_t full[STAGES];
    uint64_t empty[STAGES];
};

#include "ptx/mbarrier.h"

#define PRODUCER_REGISTERS 24
#define CONSUMER_REGISTERS 240
static_assert((PRODUCER_REGISTERS + CONSUMERS * CONSUMER_REGISTERS) * WARPGROUP <= 65536,
              "the registers of a multiprocessor");

struct producer_args {
    CUtensorMap x; /* in boxes of 128 rows and 64 k */
    CUtensorMap w; /* of 256 rows */
    int steps;
    struct epilogue epilogue;
};

/* Keeps the ring full. One thread calls this. In the first turn every stage is empty: a wait for the phase
 * before the first returns at once. */
static __device__ __forceinline__ void produce(const struct producer_args *args, struct producer_ring *ring,
                                               int first_row, int first_column) {
    for (int step = 0; step < args->steps; step++) {
        int stage = step % STAGES, turn = step / STAGES;
        uint32_t to = shared_address(ring->stage[stage]), full = shared_address(&ring->full[stage]);
        mbarrier_wait(shared_address(&ring->empty[stage]), (turn + 1) % 2);
        mbarrier_arrive_expect_tx(full, STAGE_BYTES);
        cp_async_bulk_tensor(to, &args->x, step * STEP_K, first_row, full);
        cp_async_bulk_tensor(to + X_BYTES, &args->w, step * STEP_K, first_column, full);
    }
}

/* Computes the sums of 64 rows, from `row_in_tile` on, and 256 columns: two wgmmas side by side. */
static __device__ __forceinline__ void consume(struct producer_ring *ring, int steps, int row_in_tile,
                                               float *sum) {
    for (int step = 0; step < steps; step++) {
        int stage = step % STAGES, turn = step / STAGES;
        uint32_t x = shared_address(ring->stage[stage]) + row_in_tile * ROW_BYTES;
        uint32_t w = shared_address(ring->stage[stage]) + X_BYTES;
        mbarrier_wait(shared_address(&ring->full[stage]), turn % 2);
        wgmma_fence();
        multiply_step(sum, x, w, step == 0);
        multiply_step(sum + WGMMA_SUMS, x, w + WGMMA_COLUMNS * ROW_BYTES, step == 0);
        wgmma_commit_group();
        wgmma_wait_group(0);
        if (threadIdx.x % WARPGROUP == 0)
            mbarrier_arrive(shared_address(&ring->empty[stage]));
    }
    hold_registers(sum, 2 * WGMMA_SUMS);
}

__global__ void __launch_bounds__(BLOCK_THREADS, 1)
    hopper_3_producer_kernel(const __grid_constant__ struct producer_args args) {
#if HAS_HOPPER_INSTRUCTIONS
    struct producer_ring *ring = (struct producer_ring *)aligned_shared_memory();
    int row_tiles = (int)tiles(args.epilogue.batch, TILE_ROWS);
    int first_row = blockIdx.x % row_tiles * TILE_ROWS;
    int first_column = blockIdx.x / row_tiles * TILE_COLUMNS;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++) {
            mbarrier_init(shared_address(&ring->full[stage]), 1);
            mbarrier_init(shared_address(&ring->empty[stage]), CONSUMERS);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    int warpgroup = uniform(threadIdx.x / WARPGROUP);
    if (warpgroup == 0) {
        setmaxnreg_dec(PRODUCER_REGISTERS);
        if (threadIdx.x == 0)
            produce(&args, ring, first_row, first_column);
        return;
    }
    setmaxnreg_inc(CONSUMER_REGISTERS);
    int row_in_tile = (warpgroup - 1) * WARPGROUP_ROWS;
    float sum[2 * WGMMA_SUMS];
    consume(ring, args.steps, row_in_tile, sum);
    finish_sums(&args.epilogue, sum, first_row + row_in_tile, first_column);
    finish_sums(&args.epilogue, sum + WGMMA_SUMS, first_row + row_in_tile, first_column + WGMMA_COLUMNS);
#endif
}

LAUNCHER(hopper_3_producer_kernel, struct producer_args)

static cudaError_t forward(const fgn_plan *plan, const fgn_chain *chain, const void *x, void *y,
                           void *workspace, cudaStream_t stream) {
    static bool allowed[MOST_DEVICES];
    const fgn_launch *product = &plan->launch[0];
    struct producer_args args;
    args.steps = (int)product->steps;
    args.epilogue = epilogue_of(chain, workspace);
    if (!are_aligned(chain, x))
        return cudaErrorMisalignedAddress;
    if (!describe_matrix(&args.x, x, chain->batch, chain->in_features, TILE_ROWS) ||
        !describe_matrix(&args.w, chain->weight, chain->out_features, chain->in_features, TILE_COLUMNS))
        return cudaErrorInvalidValue;
    cudaError_t error = allow_shared_memory((const void *)hopper_3_producer_kernel, &plan->device, allowed);
    if (error == cudaSuccess)
        error = launch_hopper_3_producer_kernel(grid_of(product), block_of(product), product->shared_bytes,
                                                stream, args);
    return error == cudaSuccess ? launch_norm(plan, chain, workspace, y, stream) : error;
}

static void plan(const fgn_chain *chain, const fgn_device *device, fgn_plan *plan) {
    (void)device;
    fgn_launch *product =
        plan_product(chain, plan, "hopper_3_producer_kernel", BLOCK_THREADS, TILE_COLUMNS, STAGES);
    product->shared_bytes = ATOM_BYTES + sizeof(struct producer_ring);
    plan_norm_launch(chain, product, plan);
}

RUNG hopper_3_producer_rung = {
    {"hopper_3_producer", "hopper_steps/hopper_3_producer.cu", "ladder/group_norm_2_block.cu",
     "a producer warpgroup copies, two consumers multiply", STEP_NEEDS},
    &group_norm_2_block,
    step_refusal,
    plan,
    NULL,
    forward,
};
