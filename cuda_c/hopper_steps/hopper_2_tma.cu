/* Hopper, step 2: TMA fills a ring of stages.
 *
 * Idea: one thread asks TMA, the Tensor Memory Accelerator, for a whole box of a matrix. The copy then runs
 * by itself, past the registers, and swizzles on its way. Shared memory is a ring buffer of three stages,
 * each with the x and w of one step along k, so the copies of the next steps run while the tensor cores work
 * on this one.
 *
 * Each stage has an mbarrier, `full`, which tells when its bytes are there: the thread that asks for the
 * copies announces their number, TMA counts them, and all threads wait for the end of that phase. The same
 * barrier serves every turn of the ring; the parity tells a turn from the next. A barrier of the block still
 * tells when all threads have read a stage, so that it may be filled again.
 *
 * Three steps along k, in time:
 *
 *     thread 0        |ask 0,1,2|                 |ask 3|                 |ask 4|
 *     TMA             |  copy 0 . copy 1 . copy 2 .     | copy 3 ......   .     | copy 4 ...
 *     all threads     |wait for 0 |   multiply 0  |bar  |   multiply 1    |bar  |   multiply 2
 *
 * Bytes and operations: as step 1, but factors do not pass through registers. A stage is 32 KiB.
 *
 * Limit: the L2 cache. A multiprocessor needs 64 bytes for each clock of its tensor cores. On an H200 it gets
 * about 53, and the tensor cores are busy for 83 % of the clocks (notebook 07). A second limit is the block's
 * barrier in every step along k, where the faster warpgroup waits.
 *
 * Next (hopper_3_producer.cu): a warpgroup that only copies. Then nobody waits for the block, and its spare
 * registers make room for a larger tile. */
#include "hopper_steps/step.h"

#define TILE_COLUMNS 128
#define BLOCK_THREADS (2 * WARPGROUP)
#define X_BYTES (TILE_ROWS * ROW_BYTES)
#define STAGE_BYTES (X_BYTES + TILE_COLUMNS * ROW_BYTES)
#define STAGES 3 /* two blocks have room on a multiprocessor */

struct tma_ring {
    unsigned char stage[STAGES][STAGE_BYTES];
    uint64_t full[STAGES];
};

#include "ptx/mbarrier.h"

struct tma_args {
    CUtensorMap x; /* in boxes of 128 rows and 64 k */
    CUtensorMap w;
    int steps;
    struct epilogue epilogue;
};

/* Asks for the copies of one step into its stage. One thread calls this. */
static __device__ __forceinline__ void fill_stage(const struct tma_args *args, struct tma_ring *ring,
                                                  int step, int first_row, int first_column) {
    uint32_t stage = shared_address(ring->stage[step % STAGES]);
    uint32_t full = shared_address(&ring->full[step % STAGES]);
    mbarrier_arrive_expect_tx(full, STAGE_BYTES);
    cp_async_bulk_tensor(stage, &args->x, step * STEP_K, first_row, full);
    cp_async_bulk_tensor(stage + X_BYTES, &args->w, step * STEP_K, first_column, full);
}

__global__ void __launch_bounds__(BLOCK_THREADS, 2)
    hopper_2_tma_kernel(const __grid_constant__ struct tma_args args) {
#if HAS_HOPPER_INSTRUCTIONS
    struct tma_ring *ring = (struct tma_ring *)aligned_shared_memory();
    int row_tiles = (int)tiles(args.epilogue.batch, TILE_ROWS);
    int first_row = blockIdx.x % row_tiles * TILE_ROWS;
    int first_column = blockIdx.x / row_tiles * TILE_COLUMNS;
    int row_in_tile = uniform(threadIdx.x / WARPGROUP) * WARPGROUP_ROWS;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++)
            mbarrier_init(shared_address(&ring->full[stage]), 1);
        fence_mbarrier_init();
        for (int step = 0; step < STAGES && step < args.steps; step++)
            fill_stage(&args, ring, step, first_row, first_column);
    }
    __syncthreads(); /* the mbarriers are initialised */
    float sum[WGMMA_SUMS];
    for (int step = 0; step < args.steps; step++) {
        int stage = step % STAGES, turn = step / STAGES;
        uint32_t x = shared_address(ring->stage[stage]) + row_in_tile * ROW_BYTES;
        uint32_t w = shared_address(ring->stage[stage]) + X_BYTES;
        mbarrier_wait(shared_address(&ring->full[stage]), turn % 2);
        wgmma_fence();
        multiply_step(sum, x, w, step == 0);
        wgmma_commit_group();
        wgmma_wait_group(0);
        __syncthreads(); /* both warpgroups have read the stage */
        if (threadIdx.x == 0 && step + STAGES < args.steps)
            fill_stage(&args, ring, step + STAGES, first_row, first_column);
    }
    hold_registers(sum, WGMMA_SUMS);
    finish_sums(&args.epilogue, sum, first_row + row_in_tile, first_column);
#endif
}

LAUNCHER(hopper_2_tma_kernel, struct tma_args)

static cudaError_t forward(const fgn_plan *plan, const fgn_chain *chain, const void *x, void *y,
                           void *workspace, cudaStream_t stream) {
    static bool allowed[MOST_DEVICES];
    const fgn_launch *product = &plan->launch[0];
    struct tma_args args;
    args.steps = (int)product->steps;
    args.epilogue = epilogue_of(chain, workspace);
    if (!are_aligned(chain, x))
        return cudaErrorMisalignedAddress;
    if (!describe_matrix(&args.x, x, chain->batch, chain->in_features, TILE_ROWS) ||
        !describe_matrix(&args.w, chain->weight, chain->out_features, chain->in_features, TILE_COLUMNS))
        return cudaErrorInvalidValue;
    cudaError_t error = allow_shared_memory((const void *)hopper_2_tma_kernel, &plan->device, allowed);
    if (error == cudaSuccess)
        error = launch_hopper_2_tma_kernel(grid_of(product), block_of(product), product->shared_bytes, stream,
                                           args);
    return error == cudaSuccess ? launch_norm(plan, chain, workspace, y, stream) : error;
}

static void plan(const fgn_chain *chain, const fgn_device *device, fgn_plan *plan) {
    (void)device;
    fgn_launch *product =
        plan_product(chain, plan, "hopper_2_tma_kernel", BLOCK_THREADS, TILE_COLUMNS, STAGES);
    product->shared_bytes = ATOM_BYTES + sizeof(struct tma_ring);
    plan_norm_launch(chain, product, plan);
}

RUNG hopper_2_tma_rung = {
    {"hopper_2_tma", "hopper_steps/hopper_2_tma.cu", "ladder/group_norm_2_block.cu",
     "TMA fills a ring of stages while tensor cores work", STEP_NEEDS},
    &group_norm_2_block,
    step_refusal,
    plan,
    NULL,
    forward,
};
