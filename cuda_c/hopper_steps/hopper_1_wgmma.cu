/* Hopper, step 1: the tensor cores read shared memory (wgmma).
 *
 * Idea: with one instruction, four warps (a warpgroup) start the product of 64 rows of x and 128 rows of w,
 * and the tensor cores read both from shared memory themselves. With mma.sync (gemm_9_tensor_core.cu) the
 * threads had to load every factor into registers first. A block computes 128 x 128 outputs with two
 * warpgroups, 64 rows each.
 *
 * Shared memory has to be laid out as wgmma expects. Here it has rows of 128 bytes (64 k), swizzled: chunk c
 * (16 bytes) of row r is stored at place c XOR r % 8 of that row. Eight rows read at the same k then use
 * eight different groups of banks, so there is no bank conflict. The threads load by ordinary instructions
 * and swizzle by hand; from the next step on TMA does both.
 *
 * One step along k, in time (two blocks share a multiprocessor, and one may multiply while the other loads):
 *
 *     all threads     |load global ......|store shared|barrier|          wait           |barrier|load ...
 *     tensor cores    |                                       |64 k of 128 x 128 outputs|
 *
 * Bytes: x once for every 128 columns, w once for every 128 rows, both through registers; the sums to the
 * workspace and back. Operations: 2 batch in_features out_features. A step of 64 k is 32 KiB of factors and
 * 512 clocks of the tensor cores.
 *
 * Limit: latency. A block multiplies nothing between the first load of a step and its second barrier.
 *
 * Next (hopper_2_tma.cu): TMA fills a ring of stages while the tensor cores work. */
#include "hopper_steps/step.h"

#define TILE_COLUMNS 128
#define BLOCK_THREADS (2 * WARPGROUP)

#define CHUNK_BYTES 16
#define ROW_CHUNKS (ROW_BYTES / CHUNK_BYTES)
#define ROWS_AT_ONCE (BLOCK_THREADS / ROW_CHUNKS) /* that the block loads by one instruction */
#define THREAD_CHUNKS (TILE_ROWS / ROWS_AT_ONCE)

struct wgmma_args {
    const unsigned char *x; /* (batch, in_features) of bfloat16 */
    const unsigned char *w; /* (out_features, in_features) */
    int64_t in_features;
    struct epilogue epilogue;
};

/* What one step needs: 128 rows of x and of w, 64 k of each. */
struct step_memory {
    unsigned char x[TILE_ROWS * ROW_BYTES];
    unsigned char w[TILE_COLUMNS * ROW_BYTES];
};

/* This thread's part of a tile in registers. Rows past the end repeat the last one: their outputs are not
 * written.
 */
static __device__ __forceinline__ void load_chunks(uint4 *chunk, const unsigned char *matrix, int64_t rows,
                                                   int64_t in_features, int64_t first_row, int64_t k) {
#pragma unroll
    for (int i = 0; i < THREAD_CHUNKS; i++) {
        int64_t row = first_row + threadIdx.x / ROW_CHUNKS + i * ROWS_AT_ONCE;
        int64_t at = (row < rows ? row : rows - 1) * in_features + k;
        chunk[i] = *(const uint4 *)(matrix + 2 * at + threadIdx.x % ROW_CHUNKS * CHUNK_BYTES);
    }
}

/* Stores the part in shared memory, swizzled. */
static __device__ __forceinline__ void store_chunks(const uint4 *chunk, unsigned char *tile) {
#pragma unroll
    for (int i = 0; i < THREAD_CHUNKS; i++) {
        int row = threadIdx.x / ROW_CHUNKS + i * ROWS_AT_ONCE;
        int place = (threadIdx.x % ROW_CHUNKS) ^ (row % 8);
        *(uint4 *)(tile + row * ROW_BYTES + place * CHUNK_BYTES) = chunk[i];
    }
}

__global__ void __launch_bounds__(BLOCK_THREADS, 2)
    hopper_1_wgmma_kernel(const __grid_constant__ struct wgmma_args args) {
#if HAS_HOPPER_INSTRUCTIONS
    __shared__ __align__(ATOM_BYTES) struct step_memory memory;
    const struct epilogue *epilogue = &args.epilogue;
    int64_t row_tiles = tiles(epilogue->batch, TILE_ROWS);
    int64_t first_row = blockIdx.x % row_tiles * TILE_ROWS;
    int64_t first_column = blockIdx.x / row_tiles * TILE_COLUMNS;
    int row_in_tile = uniform(threadIdx.x / WARPGROUP) * WARPGROUP_ROWS;
    uint32_t x = shared_address(memory.x) + row_in_tile * ROW_BYTES, w = shared_address(memory.w);
    float sum[WGMMA_SUMS];
    for (int64_t k = 0; k < args.in_features; k += STEP_K) {
        uint4 x_chunk[THREAD_CHUNKS], w_chunk[THREAD_CHUNKS];
        load_chunks(x_chunk, args.x, epilogue->batch, args.in_features, first_row, k);
        load_chunks(w_chunk, args.w, epilogue->out_features, args.in_features, first_column, k);
        store_chunks(x_chunk, memory.x);
        store_chunks(w_chunk, memory.w);
        fence_proxy_async();
        __syncthreads(); /* all of the step is in shared memory */
        wgmma_fence();
        multiply_step(sum, x, w, k == 0);
        wgmma_commit_group();
        wgmma_wait_group(0);
        __syncthreads(); /* both warpgroups have read it */
    }
    hold_registers(sum, WGMMA_SUMS);
    finish_sums(epilogue, sum, first_row + row_in_tile, first_column);
#endif
}

LAUNCHER(hopper_1_wgmma_kernel, struct wgmma_args)

static cudaError_t forward(const fgn_plan *plan, const fgn_chain *chain, const void *x, void *y,
                           void *workspace, cudaStream_t stream) {
    const fgn_launch *product = &plan->launch[0];
    struct wgmma_args args = {(const unsigned char *)x, (const unsigned char *)chain->weight,
                              chain->in_features, epilogue_of(chain, workspace)};
    if (!are_aligned(chain, x))
        return cudaErrorMisalignedAddress;
    cudaError_t error = launch_hopper_1_wgmma_kernel(grid_of(product), block_of(product), 0, stream, args);
    return error == cudaSuccess ? launch_norm(plan, chain, workspace, y, stream) : error;
}

static void plan(const fgn_chain *chain, const fgn_device *device, fgn_plan *plan) {
    (void)device;
    fgn_launch *product = plan_product(chain, plan, "hopper_1_wgmma_kernel", BLOCK_THREADS, TILE_COLUMNS, 1);
    plan_norm_launch(chain, product, plan);
}

RUNG hopper_1_wgmma_rung = {
    {"hopper_1_wgmma", "hopper_steps/hopper_1_wgmma.cu", "ladder/group_norm_2_block.cu",
     "wgmma: tensor cores that read shared memory", STEP_NEEDS},
    &group_norm_2_block,
    step_refusal,
    plan,
    NULL,
    forward,
};
