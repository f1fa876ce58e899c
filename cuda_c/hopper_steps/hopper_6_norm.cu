/* Hopper, step 6: the norm in the epilogue, and the whole chain in one launch.
 *
 * Idea: the four lanes of a quad have a row's 256 sums of a tile in their registers. If the norm's groups do
 * not cross tiles, a group's mean and variance need only additions in each lane and two shuffles among the
 * four. The normalised values go to y as bfloat16. The sums never are in memory, and there is no second
 * launch.
 *
 * Two tiles of a block, in time (E: bias, operators, norm, operators, y):
 *
 *     producer    | copies of tile 0 ...... | copies of tile 1 ......................| copies of tile 2 ...
 *     consumers          | multiply tile 0 .......... |   E 0   | multiply tile 1 .......... |   E 1   | ...
 *
 * Bytes: x and w as in step 5, y once: 2 bytes for each output, where step 5 writes and reads 4 and then
 * writes 2. Operations: as before.
 *
 * Limit: the epilogue, which is longer now, and nothing is multiplied meanwhile. A tile of 128 steps hides
 * little of it, a tile of 16 steps much less.
 *
 * Next (hopper/gemm_10_hopper.cu, the kernel that is used): it has more precisions and shapes. TMA sorts
 * columns, so that a lane stores 16 bytes at once and not 4. Groups of up to 2048 channels exchange moments
 * across warpgroups and blocks. Four consumers hide each other's waits. For short products each consumer has
 * its own tile, in turn (ping-pong): one normalises while the other one multiplies. */
#include "hopper_steps/persistent.h"

#include "shared/element.h"
#include "sim/launchers.h"
#include "shared/fragment_norm.h"

struct norm_args {
    struct persistent_product product;
    struct epilogue epilogue; /* up to the norm */
    int group_size;
    float eps;
    const float *scale; /* (out_features,) or NULL for ones */
    const float *shift; /* (out_features,) or NULL for zeros */
    struct operators after;
    uint32_t *y; /* (batch, out_features / 2) pairs of bfloat16 */
};

/* Normalises both rows of a thread. With a constant size, every element of `sum` is a register. */
static __device__ __forceinline__ void normalise(float *sum, int group_size, float eps) {
    switch (group_size) {
    case 8:
        return normalise_groups(sum, TILE_COLUMNS, 8, QUAD, eps);
    case 16:
        return normalise_groups(sum, TILE_COLUMNS, 16, QUAD, eps);
    case 32:
        return normalise_groups(sum, TILE_COLUMNS, 32, QUAD, eps);
    case 64:
        return normalise_groups(sum, TILE_COLUMNS, 64, QUAD, eps);
    case 128:
        return normalise_groups(sum, TILE_COLUMNS, 128, QUAD, eps);
    case 256:
        return normalise_groups(sum, TILE_COLUMNS, 256, QUAD, eps);
    }
}

/* Applies the norm's scale and shift, if it has them. `column`: of the first sum. */
static __device__ __forceinline__ void scale_and_shift_sums(const struct norm_args *args, float *sum,
                                                            int64_t column) {
    if (args->scale) {
#pragma unroll
        for (int i = 0; i < 2 * WGMMA_SUMS; i++)
            sum[i] *= args->scale[column + column_of_sum(i, 0)];
    }
    if (args->shift) {
#pragma unroll
        for (int i = 0; i < 2 * WGMMA_SUMS; i++)
            sum[i] += args->shift[column + column_of_sum(i, 0)];
    }
}

/* Turns the sums of 64 rows and 256 columns into y. The four lanes of a row store 16 neighbouring bytes, half
 * a sector. */
static __device__ __forceinline__ void finish_tile(const struct norm_args *args, float *sum, int first_row,
                                                   int first_column) {
    int64_t row = first_row + row_of_thread(), column = first_column + column_of_thread();
    add_bias_and_operators(&args->epilogue, sum, column);
    add_bias_and_operators(&args->epilogue, sum + WGMMA_SUMS, column + WGMMA_COLUMNS);
    normalise(sum, args->group_size, args->eps);
    scale_and_shift_sums(args, sum, column);
#pragma unroll 1
    for (int i = 0; i < args->after.count; i++)
        apply_operator_with(&args->after.step[i], sum, 2 * WGMMA_SUMS,
                            (const float *)args->after.step[i].channel + column, column_of_sum, 0);
#pragma unroll
    for (int below = 0; below < 2; below++) {
        if (row + 8 * below >= args->epilogue.batch)
            continue;
        uint32_t *to = args->y + ((row + 8 * below) * args->epilogue.out_features + column) / 2;
#pragma unroll
        for (int i = 2 * below; i < 2 * WGMMA_SUMS; i += 4)
            to[column_of_sum(i, 0) / 2] = bfloat16_pair(sum[i], sum[i + 1]);
    }
}

static __device__ __forceinline__ void consume(const struct norm_args *args, struct persistent_ring *ring,
                                               int row_in_tile) {
    uint32_t count = 0; /* of steps, of all tiles */
    for (int pair = first_pair(); pair < pairs_of(&args->product); pair += pairs_at_once()) {
        struct tile_corner corner = corner_of_pair(&args->product, pair);
        float sum[2 * WGMMA_SUMS];
        multiply_tile(ring, args->product.steps, row_in_tile, &count, sum);
        finish_tile(args, sum, corner.row + row_in_tile, corner.column);
    }
}

__global__ void __launch_bounds__(BLOCK_THREADS, 1)
    hopper_6_norm_kernel(const __grid_constant__ struct norm_args args) {
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

CLUSTER_LAUNCHER(hopper_6_norm_kernel, struct norm_args)

static cudaError_t forward(const fgn_plan *plan, const fgn_chain *chain, const void *x, void *y,
                           void *workspace, cudaStream_t stream) {
    (void)workspace;
    static bool allowed[MOST_DEVICES];
    const fgn_launch *product = &plan->launch[0];
    struct norm_args args;
    args.epilogue = epilogue_of(chain, NULL);
    args.group_size = (int)group_size_of(chain);
    args.eps = chain->eps;
    args.scale = (const float *)chain->norm_scale;
    args.shift = (const float *)chain->norm_shift;
    args.after = operators_after(chain);
    args.y = (uint32_t *)y;
    if (!are_aligned(chain, x))
        return cudaErrorMisalignedAddress;
    if (!describe_product(&args.product, chain, product, x))
        return cudaErrorInvalidValue;
    cudaError_t error = allow_shared_memory((const void *)hopper_6_norm_kernel, &plan->device, allowed);
    if (error != cudaSuccess)
        return error;
    return launch_hopper_6_norm_kernel(grid_of(product), block_of(product), product->shared_bytes, stream,
                                       product->cluster, args);
}

static const char *refusal(const fgn_chain *chain, const fgn_device *device) {
    const char *reason = step_refusal(chain, device);
    if (reason)
        return reason;
    int64_t size = group_size_of(chain);
    bool inside_tile = size >= 8 && size <= TILE_COLUMNS && (size & (size - 1)) == 0;
    return inside_tile ? NULL : "groups of 8, 16, 32, 64, 128 or 256 channels";
}

static void plan(const fgn_chain *chain, const fgn_device *device, fgn_plan *plan) {
    fgn_launch *launch = plan_persistent(chain, device, "hopper_6_norm_kernel", plan);
    add_ending(launch, chain);
    add_y(launch, chain);
}

RUNG hopper_6_norm_rung = {
    {"hopper_6_norm", "hopper_steps/hopper_6_norm.cu", "hopper_steps/hopper_6_norm.cu",
     "the norm in the epilogue: one launch", STEP_NEEDS "; groups of 8, 16, ..., 256 channels"},
    &group_norm_2_block,
    refusal,
    plan,
    NULL,
    forward,
};
