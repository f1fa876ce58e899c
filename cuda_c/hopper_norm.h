/* GroupNorm of a group that is two tiles, in the two blocks of a pair; of smaller ones, see quad_norm.h.
 *
 * Each block computes the moments of its half and stores them in the other's shared memory. Two halves with n
 * values each combine as
 *     mean = (a + b) / 2     squares = squares_a + squares_b + (a - b)^2 n / 2
 * (Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances",
 * 1979). */
#pragma once

#include "hopper_tile.h"
#include "quad_norm.h"

/* Normalises groups of `size` channels inside the tile. A group that is smaller than a block of columns is in
 * fewer lanes than a quad. */
static __device__ __forceinline__ void normalise_groups_of(float *sum, int size, float eps,
                                                           struct product product) {
    int block = block_columns(product);
    int lanes = size < block ? size / lane_columns(product) : QUAD;
    normalise_groups(sum, product.columns, size < block ? block : size, lanes, eps);
}

/* Normalises one group that is this tile and the other block's. `turn` is the parity of the tile: the other
 * block may be one tile ahead, but no more, for it needs the moments that this one sends. */
static __device__ __forceinline__ void normalise_with_other_block(float *sum, float eps,
                                                                  struct hopper_memory *memory, int warpgroup,
                                                                  uint32_t turn, struct product product) {
    uint32_t other = cluster_rank() ^ 1;
    uint32_t exchanged = shared_address(&memory->exchanged[warpgroup]);
    int lane = threadIdx.x % 32;
    int first_row = threadIdx.x % WARPGROUP / 32 * 16 + lane / QUAD;
    float2 *moments = memory->exchange[turn].moments[warpgroup];
    if (threadIdx.x % WARPGROUP == 0)
        mbarrier_arrive_expect_tx(exchanged, WARPGROUP_ROWS * sizeof(float2));
    float mean[MOST_UNITS], squares[MOST_UNITS];
    moments_of_units(sum, 2, product.columns, QUAD, mean, squares);
#pragma unroll
    for (int row = 0; row < 2; row++) {
        uint32_t to = shared_address(&moments[first_row + 8 * row]);
        if (lane % QUAD == 0)
            st_async(mapa(to, other), mean[row], squares[row], mapa(exchanged, other));
    }
    mbarrier_wait(exchanged, turn);
#pragma unroll
    for (int row = 0; row < 2; row++) {
        float2 others = moments[first_row + 8 * row];
        float apart = mean[row] - others.x;
        float both = squares[row] + others.y + apart * apart * (product.columns / 2);
        float factor = rsqrtf(both * (1.0f / (2 * product.columns)) + eps);
        float shift = 0.5f * apart * factor; /* from this half's mean to that of both */
#pragma unroll
        for (int i = 0; i < product.columns / QUAD; i++)
            sum[at_unit(row, product.columns, i)] = sum[at_unit(row, product.columns, i)] * factor + shift;
    }
}
