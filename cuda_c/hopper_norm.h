/* GroupNorm where the sums are: in the registers of a warpgroup.
 *
 * A row of the tile lives in four neighbouring lanes (a quad), each with two of every eight columns, so the
 * statistics of a group are additions in registers and two shuffles. A group of 512 columns is two tiles, in
 * the two blocks of a pair: each computes the moments of its half and stores them in the other's shared
 * memory.
 *
 * Mean and variance in two passes. All is relative to a pivot, the group's first value, so nothing large is
 * subtracted from anything large; two halves with n values each combine as
 *     mean = (a + b) / 2     squares = squares_a + squares_b + (a - b)^2 n / 2
 * (Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances",
 * 1979). */
#pragma once

#include "hopper_tile.h"

#define QUAD 4
#define CHUNK 8 /* columns among which a quad has two values a lane */

static __device__ __forceinline__ float quad_sum(float v) {
    v += __shfl_xor_sync(0xffffffffu, v, 1);
    return v + __shfl_xor_sync(0xffffffffu, v, 2);
}

/* The mean of `count` columns from `chunk` on, in one of the thread's two rows, and the sum of the squares of
 * the differences from it. Leaves the differences in `sum`. */
static __device__ __forceinline__ float2 moments_of_row(float *sum, int chunk, int count, int row) {
    float *value = sum + chunk * 4 + row * 2;
    float pivot = __shfl_sync(0xffffffffu, value[0], threadIdx.x % 32 / QUAD * QUAD);
    float total = 0.0f, squares = 0.0f;
#pragma unroll
    for (int i = 0; i < count / CHUNK; i++) {
        value[4 * i] -= pivot;
        value[4 * i + 1] -= pivot;
        total += value[4 * i] + value[4 * i + 1];
    }
    float mean = quad_sum(total) * (1.0f / count);
#pragma unroll
    for (int i = 0; i < count / CHUNK; i++) {
        value[4 * i] -= mean;
        value[4 * i + 1] -= mean;
        squares += value[4 * i] * value[4 * i] + value[4 * i + 1] * value[4 * i + 1];
    }
    return make_float2(pivot + mean, quad_sum(squares));
}

static __device__ __forceinline__ void scale_row(float *sum, int chunk, int count, int row, float shift,
                                                 float factor) {
    float *value = sum + chunk * 4 + row * 2;
#pragma unroll
    for (int i = 0; i < count / CHUNK; i++) {
        value[4 * i] = (value[4 * i] + shift) * factor;
        value[4 * i + 1] = (value[4 * i + 1] + shift) * factor;
    }
}

/* Normalises groups of `size` columns, a constant here. */
static __device__ __forceinline__ void normalise_groups(float *sum, int size, float eps) {
#pragma unroll
    for (int chunk = 0; chunk < TILE_COLUMNS / CHUNK; chunk += size / CHUNK) {
#pragma unroll
        for (int row = 0; row < 2; row++) {
            float2 moments = moments_of_row(sum, chunk, size, row);
            scale_row(sum, chunk, size, row, 0.0f, rsqrtf(moments.y * (1.0f / size) + eps));
        }
    }
}

/* Normalises one group that is this tile and the other block's. `turn` is the parity of the tile: the other
 * block may be one tile ahead, but no more, for it needs the moments that this one sends. */
static __device__ __forceinline__ void normalise_with_other_block(float *sum, float eps,
                                                                  struct hopper_memory *memory, int warpgroup,
                                                                  uint32_t turn) {
    uint32_t other = cluster_rank() ^ 1;
    uint32_t exchanged = shared_address(&memory->exchanged[warpgroup]);
    int lane = threadIdx.x % 32;
    int first_row = warpgroup * WARPGROUP_ROWS + threadIdx.x % WARPGROUP / 32 * 16 + lane / QUAD;
    if (threadIdx.x % WARPGROUP == 0)
        mbarrier_arrive_expect_tx(exchanged, WARPGROUP_ROWS * sizeof(float2));
    float2 mine[2];
#pragma unroll
    for (int row = 0; row < 2; row++) {
        mine[row] = moments_of_row(sum, 0, TILE_COLUMNS, row);
        uint32_t to = shared_address(&memory->exchange[turn].moments[first_row + 8 * row]);
        if (lane % QUAD == 0)
            st_async(mapa(to, other), mine[row].x, mine[row].y, mapa(exchanged, other));
    }
    mbarrier_wait(exchanged, turn);
#pragma unroll
    for (int row = 0; row < 2; row++) {
        float2 others = memory->exchange[turn].moments[first_row + 8 * row];
        float apart = mine[row].x - others.x;
        float squares = mine[row].y + others.y + apart * apart * (TILE_COLUMNS / 2);
        float variance = squares * (1.0f / (2 * TILE_COLUMNS));
        scale_row(sum, 0, TILE_COLUMNS, row, 0.5f * apart, rsqrtf(variance + eps));
    }
}
