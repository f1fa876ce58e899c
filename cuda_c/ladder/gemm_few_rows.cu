/* GEMM for few rows: the product of a small batch, which is bound by reading the weights.
 *
 * Idea: with 16 rows of x each weight is used 16 times only, and fewer than 64 tiles of 128x128 outputs
 * leave most of a GPU idle. So lanes along k read every byte of weight once, and there are many small
 * blocks: 8 warps compute 16 rows by 32 columns, 4 columns per warp. For 128 k at a time a lane holds four k
 * of its warp's 4 columns in registers (the next 128 are on their way) and reads the same k of 16 rows of x
 * from shared memory: 20 loads of 16 bytes for 256 multiply-adds. At the end the 32 lanes add up their
 * shares.
 *
 * Bytes: weight once for every 16 rows, 4 in out. Operations: 2 batch in out. At batch 16 that is 8
 * operations for each byte; an H200 can do 16 in float32 for each byte of its memory bandwidth.
 *
 * Limit: memory bandwidth up to 16 rows, then the shared loads: 16 of 16 bytes for 256 multiply-adds.
 *
 * This kernel replaces rung 7 where a tile of 128x128 would be too large: the operators before the norm are
 * in the epilogue, and group_norm_2_block.cu does the rest. */
#include "ladder/ladder.h"
#include "shared/apply_operators.h"
#include "shared/float4.h"
#include "shared/team.h"

#define ROWS 16
#define WARP_COLUMNS 4
#define WARPS 8
#define THREADS (WARPS * LANES)
#define COLUMNS (WARPS * WARP_COLUMNS)
#define TILE_K (4 * LANES)                    /* k: a float4 a lane */
#define OUTPUTS (ROWS * WARP_COLUMNS / LANES) /* that a lane writes in the end */

#define X_SHARE (ROWS / WARPS) /* rows of x that a warp brings for each k tile */

struct k_tiles {
    float4 x[2][ROWS][LANES]; /* one is read while the next is written */
};

/* Loads `width` neighbouring k, or zeros past the end: four in one access, or one if a size or an address
 * does not allow four. Callers pass a constant for `width`. */
static __forceinline__ __device__ float4 load(const float *from, bool inside, int width) {
    float4 value = {0.0f, 0.0f, 0.0f, 0.0f};
    if (inside && width == 4)
        value = *(const float4 *)from;
    else if (inside)
        value.x = *from;
    return value;
}

/* This lane's shares of the warp's sums. */
static __forceinline__ __device__ void add_products(float sum[ROWS][WARP_COLUMNS], const struct gemm *g,
                                                    struct k_tiles *k_tiles, int64_t first_row,
                                                    int64_t first_column, int width) {
    int lane = threadIdx.x % LANES;
    int warp = threadIdx.x / LANES;
    int k = width * lane;
    /* Rows and columns past the end repeat the last one: their outputs are not written. */
    const float *x[X_SHARE], *weight[WARP_COLUMNS];
    float4 x_coming[X_SHARE], coming[WARP_COLUMNS];
#pragma unroll
    for (int i = 0; i < X_SHARE; i++) {
        int64_t row = first_row + warp + i * WARPS;
        x[i] = g->x + (row < g->batch ? row : g->batch - 1) * g->in_features + k;
        x_coming[i] = load(x[i], k < g->in_features, width);
    }
#pragma unroll
    for (int c = 0; c < WARP_COLUMNS; c++) {
        int64_t column = first_column + c;
        weight[c] =
            g->weight + (column < g->out_features ? column : g->out_features - 1) * g->in_features + k;
        coming[c] = load(weight[c], k < g->in_features, width);
    }
    int count = (int)tiles(g->in_features, width * LANES);
    for (int k_tile = 0; k_tile < count; k_tile++) {
        float4 here[WARP_COLUMNS];
        k += width * LANES;
#pragma unroll
        for (int i = 0; i < X_SHARE; i++) {
            k_tiles->x[k_tile % 2][warp + i * WARPS][lane] = x_coming[i];
            x[i] += width * LANES;
            x_coming[i] = load(x[i], k < g->in_features, width);
        }
#pragma unroll
        for (int c = 0; c < WARP_COLUMNS; c++) {
            here[c] = coming[c];
            weight[c] += width * LANES;
            coming[c] = load(weight[c], k < g->in_features, width);
        }
        __syncthreads(); /* x is here; the k tile before it, in the other half, has been read by everyone */
#pragma unroll
        for (int row = 0; row < ROWS; row++) {
            float4 four = k_tiles->x[k_tile % 2][row][lane];
#pragma unroll
            for (int c = 0; c < WARP_COLUMNS; c++)
                for (int i = 0; i < width; i++)
                    sum[row][c] = fmaf(((float *)&four)[i], ((float *)&here[c])[i], sum[row][c]);
        }
    }
}

__global__ void __launch_bounds__(THREADS, 2) few_rows_gemm_kernel(struct gemm g) {
    if (!holds(g.condition))
        return;
    __shared__ __align__(16) struct k_tiles k_tiles;
    int lane = threadIdx.x % LANES;
    int64_t row_tiles = tiles(g.batch, ROWS);
    int64_t first_row = blockIdx.x % row_tiles * ROWS;
    int64_t first_column = blockIdx.x / row_tiles * COLUMNS + threadIdx.x / LANES * WARP_COLUMNS;
    float sum[ROWS][WARP_COLUMNS] = {{0.0f}};
    if (rows_hold_float4(g.x, g.in_features) && rows_hold_float4(g.weight, g.in_features))
        add_products(sum, &g, &k_tiles, first_row, first_column, 4);
    else
        add_products(sum, &g, &k_tiles, first_row, first_column, 1);

    /* Adds up the lanes' shares. Lane i keeps outputs i and i + 32 of the warp's 64. */
    float output[OUTPUTS];
#pragma unroll
    for (int row = 0; row < ROWS; row++) {
        team_sums(sum[row], WARP_COLUMNS, LANES);
#pragma unroll
        for (int c = 0; c < WARP_COLUMNS; c++) {
            int number = row * WARP_COLUMNS + c;
            if (lane == number % LANES)
                output[number / LANES] = sum[row][c];
        }
    }
    int64_t column = first_column + lane % WARP_COLUMNS;
    if (column >= g.out_features)
        return;
    float bias = g.bias ? g.bias[column] : 0.0f;
#pragma unroll
    for (int i = 0; i < OUTPUTS; i++)
        output[i] += bias;
    struct value_place at = {first_row + lane / WARP_COLUMNS, column, LANES / WARP_COLUMNS, 0, g.batch};
    apply_operators(&g.before, output, OUTPUTS, at);
#pragma unroll
    for (int i = 0; i < OUTPUTS; i++) {
        int64_t row = first_row + (lane + i * LANES) / WARP_COLUMNS;
        if (row < g.batch)
            g.y[row * g.out_features + column] = output[i];
    }
}

LAUNCHER(few_rows_gemm_kernel, struct gemm)

void plan_few_rows_float32(const fgn_chain *chain, fgn_plan *plan) {
    int64_t blocks = tiles(chain->batch, ROWS) * tiles(chain->out_features, COLUMNS);
    fgn_launch *product = add_launch(plan, "few_rows_gemm_kernel", blocks, THREADS);
    set_tile(product, ROWS, COLUMNS, chain->in_features, TILE_K);
    set_stages(product, 2, 0, 0);
    plan_product_alone(chain, product);
    add_before(product, chain, 0, chain->before_count);
}

cudaError_t launch_few_rows_float32(const fgn_launch *planned, const struct gemm *gemm, cudaStream_t stream) {
    return launch_few_rows_gemm_kernel(grid_of(planned), block_of(planned), 0, stream, *gemm);
}

static void plan(const fgn_chain *chain, const fgn_device *device, fgn_plan *plan) {
    (void)device;
    plan_few_rows_float32(chain, plan);
    plan_norm_after_epilogue(chain, plan);
}

static cudaError_t forward(const fgn_plan *plan, const fgn_chain *chain, const void *x, void *y,
                           void *workspace, cudaStream_t stream) {
    (void)workspace;
    struct gemm gemm = gemm_of(chain, (const float *)x, (float *)y, always);
    cudaError_t error = launch_few_rows_float32(&plan->launch[0], &gemm, stream);
    if (error != cudaSuccess)
        return error;
    return launch_norm_after_epilogue(&plan->launch[1], chain, (float *)y, always, stream);
}

RUNG few_rows_float32_rung = {
    {"few_rows_float32", "ladder/gemm_few_rows.cu", "ladder/group_norm_2_block.cu",
     "as fused, in small blocks: for few rows", ""},
    &group_norm_2_block,
    needs_float32,
    plan,
    NULL,
    forward,
};
