/* The backward's products, rung 2: the forward's fastest product, on transposed copies.
 *
 * Idea: every product of the forward is x W^T: both factors have k contiguous in memory. In dX = G W, k runs
 * down the columns of W, and in dW = G^T X down those of both. So this rung transposes W, G and X, and the
 * forward's rungs multiply, on tensor cores and in the chain's precision: float32 by split halves, tf32,
 * bfloat16, float16.
 *
 * Transposing: a block reads a 32x32 tile along its rows, keeps it in shared memory, and writes it
 * along its columns. One more element in each row keeps the lanes that read down a column in different
 * banks.
 *
 * Bytes: each transposed factor is read and written once more. For dX with as many rows as a training step
 * has, that is little beside the product; for a batch of a few rows it is most of the time.
 *
 * Limit: the product's own; the copies are limited by memory bandwidth.
 *
 * Next (product_3_split.cu): float32 factors are split into halves while they are transposed. */
#include "backward/backward.h"
#include "shared/checks.h"

#define TILE 32
#define TILE_LINES 8 /* lines of a tile that a block copies at a time */

struct transpose_args {
    const void *from; /* (rows, columns) */
    void *to;         /* (columns, rows) */
    int64_t rows;
    int64_t columns;
    int64_t column_tiles;
    bool wide; /* elements of 4 bytes, else of 2 */
};

static inline __device__ uint32_t element_bits(const void *matrix, int64_t at, bool wide) {
    return wide ? ((const uint32_t *)matrix)[at] : ((const uint16_t *)matrix)[at];
}

static inline __device__ void store_bits(void *matrix, int64_t at, uint32_t bits, bool wide) {
    if (wide)
        ((uint32_t *)matrix)[at] = bits;
    else
        ((uint16_t *)matrix)[at] = (uint16_t)bits;
}

__global__ void __launch_bounds__(TILE *TILE_LINES) transpose_kernel(struct transpose_args args) {
    __shared__ uint32_t tile[TILE][TILE + 1];
    int64_t first_row = blockIdx.x / args.column_tiles * TILE;
    int64_t first_column = blockIdx.x % args.column_tiles * TILE;
#pragma unroll
    for (int line = 0; line < TILE; line += TILE_LINES) {
        int64_t row = first_row + line + threadIdx.y, column = first_column + threadIdx.x;
        if (row < args.rows && column < args.columns)
            tile[line + threadIdx.y][threadIdx.x] =
                element_bits(args.from, row * args.columns + column, args.wide);
    }
    __syncthreads();
#pragma unroll
    for (int line = 0; line < TILE; line += TILE_LINES) {
        int64_t row = first_row + threadIdx.x, column = first_column + line + threadIdx.y;
        if (row < args.rows && column < args.columns)
            store_bits(args.to, column * args.rows + row, tile[threadIdx.x][line + threadIdx.y], args.wide);
    }
}

LAUNCHER(transpose_kernel, struct transpose_args)

static cudaError_t transpose(const void *from, void *to, int64_t rows, int64_t columns, fgn_type type,
                             cudaStream_t stream) {
    struct transpose_args args = {from, to, rows, columns, tiles(columns, TILE), type == FGN_FLOAT32};
    dim3 grid = {(unsigned)(tiles(rows, TILE) * args.column_tiles), 1, 1};
    dim3 block = {TILE, TILE_LINES, 1};
    return launch_transpose_kernel(grid, block, 0, stream, args);
}

/* The forward's plan, and where the workspace's parts begin. */
struct product_parts {
    fgn_plan plan;
    unsigned long long right;
    unsigned long long prepared;
    unsigned long long workspace;
};

static fgn_status plan_parts(const struct backward_product *product, fgn_chain *chain,
                             struct product_parts *parts) {
    fgn_status status = plan_product(product, false, chain, &parts->plan);
    if (status != FGN_OK)
        return status;
    int size = product->type == FGN_FLOAT32 ? 4 : 2;
    parts->right = product->left_is_transposed ? aligned_part(product->rows * product->inner * size) : 0;
    parts->prepared = parts->right + aligned_part(product->inner * product->columns * size);
    parts->workspace = parts->prepared + aligned_part(parts->plan.prepared_bytes);
    return FGN_OK;
}

fgn_status product_2_transposed_bytes(const struct backward_product *product, unsigned long long *bytes) {
    fgn_chain chain;
    struct product_parts parts;
    fgn_status status = plan_parts(product, &chain, &parts);
    if (status == FGN_OK)
        *bytes = parts.workspace + parts.plan.workspace_bytes;
    return status;
}

fgn_status product_2_transposed(const struct backward_product *product, void *workspace,
                                cudaStream_t stream) {
    fgn_chain chain;
    struct product_parts parts;
    fgn_status status = plan_parts(product, &chain, &parts);
    if (status != FGN_OK)
        return status;
    unsigned char *memory = (unsigned char *)workspace;
    const void *left = product->left;
    cudaError_t error = cudaSuccess;
    if (product->left_is_transposed) {
        error = transpose(left, memory, product->inner, product->rows, product->type, stream);
        left = memory;
    }
    if (error == cudaSuccess)
        error = transpose(product->right, memory + parts.right, product->inner, product->columns,
                          product->type, stream);
    if (error != cudaSuccess)
        return status_of(error, "transpose");
    chain.weight = memory + parts.right;
    chain.prepared = memory + parts.prepared;
    if (parts.plan.prepared_bytes > 0)
        status = fgn_prepare(&parts.plan, &chain, memory + parts.prepared, stream);
    if (status != FGN_OK)
        return status;
    return fgn_run(&parts.plan, &chain, left, product->result, memory + parts.workspace,
                   parts.plan.workspace_bytes, stream);
}
