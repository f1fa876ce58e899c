/* What all six steps of the Hopper ladder share: the chains that they take, the description of a matrix for
 * TMA, the wgmmas of one step along k, and the way from the sums to memory.
 *
 * Each step computes the chain in bfloat16. In steps 1 to 5 the product's epilogue adds the bias, applies the
 * operators before the norm and writes float32 to the workspace; a second launch computes the norm
 * (ladder/group_norm_2_block.cu). Step 6 is one launch. */
#pragma once

#include "shared/plan.h"

#define WARPGROUP 128     /* threads that execute a wgmma together */
#define WARPGROUP_ROWS 64 /* of x, that a wgmma multiplies */
#define WGMMA_COLUMNS 128 /* rows of w, which are columns of y, that it multiplies them by */
#define WGMMA_SUMS 64     /* of a thread, when 128 threads have 64 x 128 */
#define STEP_K 64         /* elements of each row in a step of the main loop */
#define ROW_BYTES 128     /* the same in bytes: the width of a 128-byte swizzle */
#define ATOM_BYTES 1024   /* 8 rows, after which the swizzle repeats: tiles begin at multiples of this */
#define TILE_ROWS 128     /* of y, that a block computes: of two warpgroups */
#define COLUMNS_MULTIPLE 256
#define CLUSTER 2 /* blocks, from step 4 on */

struct epilogue {
    const float *bias; /* (out_features,) or NULL */
    struct operators before;
    float *sums; /* (batch, out_features), in the workspace; NULL in step 6 */
    int64_t batch;
    int64_t out_features;
};

#include "ptx/registers.h"
#include "ptx/shared_address.h"
#include "ptx/tma.h"
#include "ptx/wgmma.h"
#include "shared/apply_operator.h"

/* The library is also built for architectures without these instructions; refusal() keeps the kernels from
 * being launched there. */
#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || !defined(__CUDACC__)
#define HAS_HOPPER_INSTRUCTIONS 1
#else
#define HAS_HOPPER_INSTRUCTIONS 0
#pragma nv_diag_suppress 177 /* functions that only the kernels call, which are empty here */
#endif

/* The first multiple of ATOM_BYTES in dynamic shared memory; the launch asks for ATOM_BYTES more than it
 * needs. */
static __device__ __forceinline__ void *aligned_shared_memory(void) {
    return (void *)(((uintptr_t)dynamic_shared + ATOM_BYTES - 1) / ATOM_BYTES * ATOM_BYTES);
}

/* Adds the products of one step to the sums of a warpgroup: 64 rows of x by 128 rows of w, four wgmmas of
 * 16 k (32 bytes) each. x and w: the first of these rows in shared memory. `first`: overwrite the
 * sums. */
static __device__ __forceinline__ void multiply_step(float *sum, uint32_t x, uint32_t w, bool first) {
    uint64_t x_rows = wgmma_descriptor(x), w_rows = wgmma_descriptor(w);
#pragma unroll
    for (int along = 0; along < ROW_BYTES; along += 32)
        wgmma_m64n128k16_bf16(sum, descriptor_plus(x_rows, along), descriptor_plus(w_rows, along),
                              !first || along > 0);
}

/* The row and column of y that the thread's first sum belongs to, counted from the first row and column of
 * its warpgroup. */
static __device__ __forceinline__ int row_of_thread(void) {
    return threadIdx.x % WARPGROUP / 32 * 16 + threadIdx.x % 32 / 4;
}

static __device__ __forceinline__ int column_of_thread(void) {
    return threadIdx.x % 4 * 2;
}

/* The column of sum[i], from the thread's first one on. */
static __device__ __forceinline__ int column_of_sum(int i, int unused) {
    (void)unused;
    return i / 4 * 8 + i % 2;
}

/* Applies bias and operators to a thread's sums of WGMMA_COLUMNS columns. The thread's first column is
 * `column` of y. */
static __device__ __forceinline__ void add_bias_and_operators(const struct epilogue *epilogue, float *sum,
                                                              int64_t column) {
    if (epilogue->bias) {
#pragma unroll
        for (int i = 0; i < WGMMA_SUMS; i++)
            sum[i] += epilogue->bias[column + column_of_sum(i, 0)];
    }
#pragma unroll 1
    for (int i = 0; i < epilogue->before.count; i++)
        apply_operator_with(&epilogue->before.step[i], sum, WGMMA_SUMS,
                            (const float *)epilogue->before.step[i].channel + column, column_of_sum, 0);
}

/* The epilogue of steps 1 to 5: bias, operators, and the store to the workspace. The warpgroup's sums begin
 * at this row and column. The four lanes of a row store 32 neighbouring bytes, a whole sector. */
static __device__ __forceinline__ void finish_sums(const struct epilogue *epilogue, float *sum,
                                                   int64_t first_row, int64_t first_column) {
    int64_t row = first_row + row_of_thread(), column = first_column + column_of_thread();
    add_bias_and_operators(epilogue, sum, column);
#pragma unroll
    for (int below = 0; below < 2; below++) {
        if (row + 8 * below >= epilogue->batch)
            continue;
        float *to = epilogue->sums + (row + 8 * below) * epilogue->out_features + column;
#pragma unroll
        for (int i = 2 * below; i < WGMMA_SUMS; i += 4)
            *(float2 *)(to + column_of_sum(i, 0)) = make_float2(sum[i], sum[i + 1]);
    }
}

/* ---- The host's side ---- */

/* Describes a row-major bfloat16 matrix to TMA: a box is `box_rows` rows of one step. */
static inline bool describe_matrix(CUtensorMap *map, const void *matrix, int64_t rows, int64_t columns,
                                   int box_rows) {
    cuuint64_t sizes[2] = {(cuuint64_t)columns, (cuuint64_t)rows}, pitch = 2 * (cuuint64_t)columns;
    cuuint32_t box[2] = {STEP_K, (cuuint32_t)box_rows};
    return encode_tensor_map(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, matrix, 2, sizes, &pitch, box);
}

static inline struct epilogue epilogue_of(const fgn_chain *chain, void *sums) {
    struct epilogue epilogue = {(const float *)chain->bias, operators_before(chain), (float *)sums,
                                chain->batch, chain->out_features};
    return epilogue;
}

/* Copies of 16 bytes, by TMA or not, need matrices aligned to 16 bytes. */
static inline bool are_aligned(const fgn_chain *chain, const void *x) {
    return (uintptr_t)x % 16 == 0 && (uintptr_t)chain->weight % 16 == 0;
}

/* The second launch computes the norm of the sums and what follows it. */
static inline cudaError_t launch_norm(const fgn_plan *plan, const fgn_chain *chain, const void *sums, void *y,
                                      cudaStream_t stream) {
    const struct condition always = {NULL, NULL, false};
    struct group_norm norm = norm_of(chain, (const float *)sums, y, FGN_BFLOAT16, always);
    return group_norm_2_block.launch(&plan->launch[1], &norm, NULL, stream);
}

/* What all six steps require. */
static inline const char *step_refusal(const fgn_chain *chain, const fgn_device *device) {
    if (!is_simulator(device) && (device->major != 9 || device->minor != 0))
        return "a GPU of compute capability 9.0";
    if (chain->type != FGN_BFLOAT16)
        return "bfloat16";
    if (chain->vector_type != FGN_FLOAT32)
        return "float32 vectors";
    if (chain->groups == 0)
        return "a norm";
    if (tensors_of(chain))
        return "no operator that adds a tensor";
    if (reads_one(chain->before_count, chain->before) || reads_one(chain->after_count, chain->after))
        return "vectors of out_features elements (one)";
    if (chain->in_features % STEP_K != 0)
        return "a multiple of 64 input features";
    if (chain->out_features % COLUMNS_MULTIPLE != 0)
        return "a multiple of 256 output features";
    if (chain->batch > INT32_MAX - 2 * TILE_ROWS)
        return "a batch below 2^31";
    return NULL;
}

#define STEP_NEEDS                                                                                           \
    "compute capability 9.0; bfloat16; a norm; multiples of 64 input and of 256 output features"

/* The product's launch, with one block for each tile. */
static inline fgn_launch *plan_product(const fgn_chain *chain, fgn_plan *plan, const char *kernel,
                                       int threads, int tile_columns, int stages) {
    int64_t blocks = tiles(chain->batch, TILE_ROWS) * (chain->out_features / tile_columns);
    fgn_launch *product = add_launch(plan, kernel, blocks, threads);
    set_tile(product, TILE_ROWS, tile_columns, chain->in_features, STEP_K);
    set_stages(product, stages, 0, 0);
    add_product(product, chain);
    return product;
}

/* Pairs of tiles, one above the other, each computed by a cluster; the last tile may be below the matrix. */
static inline void plan_clusters(const fgn_chain *chain, fgn_launch *product, int64_t tile_columns) {
    product->cluster = CLUSTER;
    product->tiles =
        tiles(chain->batch, CLUSTER * TILE_ROWS) * CLUSTER * (chain->out_features / tile_columns);
    product->grid[0] = (unsigned)product->tiles;
}

/* The end of steps 1 to 5: the product writes the workspace, and the norm has its own launch. */
static inline void plan_norm_launch(const fgn_chain *chain, fgn_launch *product, fgn_plan *plan) {
    plan->workspace_bytes = sizeof(float) * outputs_of(chain);
    add_bias_vector(product, chain);
    add_before(product, chain, 0, chain->before_count);
    add_written(product, plan->workspace_bytes, FGN_WRITES_WORKSPACE);
    group_norm_2_block.plan(chain, chain->after_count, plan);
}
