/* Hopper, step 5: a persistent kernel.
 *
 * Idea: the launch has as many clusters as the GPU holds, one block per multiprocessor, and each takes one
 * pair of tiles after the other. Nothing stops between two tiles: the producer goes on to the next tile while
 * the consumers still store this one, so the ring is full when they come back. The count of steps, and so of
 * the ring's turns, goes on through all tiles of a block.
 *
 * A block now chooses its tiles and their order. Concurrent tiles should share rows and columns, because the
 * L2 cache keeps what the last tiles have read: the clusters go through bands of eight columns of tiles, row
 * by row.
 *
 * Two tiles of a block, in time (E: epilogue, the way from the sums to the workspace):
 *
 *     producer    | copies of tile 0 ...... | copies of tile 1 ..................| copies of tile 2 ...
 *     consumers          | multiply tile 0 .......... | E 0 | multiply tile 1 .......... | E 1 | multiply ...
 *
 * Bytes and operations: as before; the L2 cache has more of what a tile reads.
 *
 * Limit: the tensor cores, except in the epilogues: while both consumers store, nothing is multiplied. After
 * it the norm's launch reads everything that this launch has written.
 *
 * Next (hopper_6_norm.cu): the norm in the epilogue. */
#include "hopper_steps/persistent.h"

#include "sim/launchers.h"

struct persistent_args {
    struct persistent_product product;
    struct epilogue epilogue;
};

static __device__ __forceinline__ void consume(const struct persistent_args *args,
                                               struct persistent_ring *ring, int row_in_tile) {
    uint32_t count = 0; /* of steps, of all tiles */
    for (int pair = first_pair(); pair < pairs_of(&args->product); pair += pairs_at_once()) {
        struct tile_corner corner = corner_of_pair(&args->product, pair);
        float sum[2 * WGMMA_SUMS];
        multiply_tile(ring, args->product.steps, row_in_tile, &count, sum);
        int row = corner.row + row_in_tile;
        finish_sums(&args->epilogue, sum, row, corner.column);
        finish_sums(&args->epilogue, sum + WGMMA_SUMS, row, corner.column + WGMMA_COLUMNS);
    }
}

__global__ void __launch_bounds__(BLOCK_THREADS, 1)
    hopper_5_persistent_kernel(const __grid_constant__ struct persistent_args args) {
#if HAS_HOPPER_INSTRUCTIONS
    struct persistent_ring *ring = (struct persistent_ring *)aligned_shared_memory();
    prepare_ring(ring);
    int warpgroup = uniform(threadIdx.x / WARPGROUP);
    if (warpgroup == 0) {
        setmaxnreg_dec(PRODUCER_REGISTERS);
        if (threadIdx.x == 0)
            produce(&args.product, ring);
    } else {
        setmaxnreg_inc(CONSUMER_REGISTERS);
        consume(&args, ring, (warpgroup - 1) * WARPGROUP_ROWS);
    }
    barrier_cluster(); /* the other block's arrivals have reached this one's barriers */
#endif
}

CLUSTER_LAUNCHER(hopper_5_persistent_kernel, struct persistent_args)

static cudaError_t forward(const fgn_plan *plan, const fgn_chain *chain, const void *x, void *y,
                           void *workspace, cudaStream_t stream) {
    static bool allowed[MOST_DEVICES];
    const fgn_launch *product = &plan->launch[0];
    struct persistent_args args;
    args.epilogue = epilogue_of(chain, workspace);
    if (!are_aligned(chain, x))
        return cudaErrorMisalignedAddress;
    if (!describe_product(&args.product, chain, product, x))
        return cudaErrorInvalidValue;
    cudaError_t error = allow_shared_memory((const void *)hopper_5_persistent_kernel, &plan->device, allowed);
    if (error != cudaSuccess)
        return error;
    error = launch_hopper_5_persistent_kernel(grid_of(product), block_of(product), product->shared_bytes,
                                              stream, product->cluster, args);
    return error == cudaSuccess ? launch_norm(plan, chain, workspace, y, stream) : error;
}

static void plan(const fgn_chain *chain, const fgn_device *device, fgn_plan *plan) {
    fgn_launch *product = plan_persistent(chain, device, "hopper_5_persistent_kernel", plan);
    plan_norm_launch(chain, product, plan);
}

RUNG hopper_5_persistent_rung = {
    {"hopper_5_persistent", "hopper_steps/hopper_5_persistent.cu", "ladder/group_norm_2_block.cu",
     "persistent: a block goes from tile to tile", STEP_NEEDS},
    &group_norm_2_block,
    step_refusal,
    plan,
    NULL,
    forward,
};
