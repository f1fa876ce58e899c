/* GEMM, rung 7: bias and the operators before the norm in the epilogue.
 *
 * Idea: the value of an output is in a register when its sum is finished. The bias and any number of
 * pointwise operators cost a few instructions there, where a kernel of their own costs a read and a write of
 * the whole tensor. Together with group_norm_2_block.cu, which takes the operators after the norm, any chain
 * is two launches.
 *
 * Bytes: those of rung 6. Saved: 8 for each output and operator before the norm.
 *
 * Limit: as rung 6, the multiply-adds' issue slots; the intermediate still goes to memory and comes back.
 *
 * Next (gemm_8_one_kernel.cu): the norm too. */
#include "shared/rung.h"
#include "ladder/parked_tile.h"
#include "shared/pointwise.h"

/* Values a thread works on together, to have something to do while one waits. */
#define ROWS_AT_ONCE 8

struct fused_args {
    struct gemm gemm;
    int slices_in_run;
};

/* The parked tile, with the operators applied, to memory. */
static inline __device__ void write_tile(const struct gemm *g, const struct parked_tile *parked,
                                         int64_t first_row, int64_t first_column) {
    int64_t column = first_column + threadIdx.x; /* a thread for each column of the tile */
    if (column >= g->out_features)
        return;
    for (int first = 0; first < TILE && first_row + first < g->batch; first += ROWS_AT_ONCE) {
        float value[ROWS_AT_ONCE];
#pragma unroll
        for (int i = 0; i < ROWS_AT_ONCE; i++)
            value[i] = parked->value[first + i][threadIdx.x];
        struct value_place at = {first_row + first, column, 1, 0, g->batch};
        apply_operators(&g->before, value, ROWS_AT_ONCE, at);
        float *y = g->y + (first_row + first) * g->out_features + column;
#pragma unroll
        for (int i = 0; i < ROWS_AT_ONCE; i++) {
            if (first_row + first + i < g->batch)
                *y = value[i];
            y += g->out_features;
        }
    }
}

__global__ void __launch_bounds__(TILE_THREADS, 2) fused_gemm_kernel(struct fused_args args) {
    if (!holds(args.gemm.condition))
        return;
    int64_t row_tiles = tiles(args.gemm.batch, TILE);
    int64_t first_row = blockIdx.x % row_tiles * TILE;
    int64_t first_column = blockIdx.x / row_tiles * TILE;
    float sum[THREAD_ROWS][THREAD_COLUMNS] = {{0.0f}};
    multiply_tile(&args.gemm, (struct tile_memory *)dynamic_shared, first_row, first_column, sum,
                  args.slices_in_run);
    park((struct parked_tile *)dynamic_shared, sum);
    write_tile(&args.gemm, (const struct parked_tile *)dynamic_shared, first_row, first_column);
}

LAUNCHER(fused_gemm_kernel, struct fused_args)

cudaError_t gemm_7_fused(const struct gemm *gemm, cudaStream_t stream) {
    if (has_few_tiles(gemm->batch, gemm->out_features))
        return gemm_few_rows(gemm, stream);
    struct fused_args args = {*gemm, 0};
    size_t shared_bytes;
    cudaError_t error = choose_runs((const void *)fused_gemm_kernel, gemm, parked_tile_bytes,
                                    &args.slices_in_run, &shared_bytes);
    if (error != cudaSuccess)
        return error;
    dim3 grid = {(unsigned)(tiles(gemm->batch, TILE) * tiles(gemm->out_features, TILE)), 1, 1};
    dim3 block = {TILE_THREADS, 1, 1};
    return launch_fused_gemm_kernel(grid, block, shared_bytes, stream, args);
}
