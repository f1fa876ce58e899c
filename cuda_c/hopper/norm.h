/* GroupNorm of groups that one warpgroup has, see quad_norm.h, and of groups that several have pieces of:
 * both warpgroups of a team, or the teams of both blocks of a pair.
 *
 * Each warpgroup computes the moments of its piece and stores them in the shared memory of all blocks that
 * take part, its own included. Two sets of n values each combine as
 *     mean = (a + b) / 2     squares = squares_a + squares_b + (a - b)^2 n / 2
 * (Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances",
 * 1979). */
#pragma once

#include "hopper/tile.h"
#include "shared/quad_norm.h"

/* Normalises groups of `size` channels inside the tile. A group that is smaller than a block of columns is in
 * fewer lanes than a quad. */
static __device__ __forceinline__ void normalise_groups_of(float *sum, int size, float eps,
                                                           struct product product) {
    int block = block_columns(product);
    int lanes = size < block ? size / lane_columns(product) : QUAD;
    normalise_groups(sum, product.warpgroup_columns, size < block ? block : size, lanes, eps);
}

/* {mean, squares} of two sets of `n` values each. */
static __device__ __forceinline__ float2 moments_of_both(float2 a, float2 b, int n) {
    float apart = a.x - b.x;
    return make_float2(0.5f * (a.x + b.x), a.y + b.y + apart * apart * (n / 2));
}

/* Normalises one group that is the tile, or that and the other block's. `turn` is the parity of the tile:
 * another warpgroup may be one tile ahead, but no more, for it needs the moments that this one sends. */
static __device__ __forceinline__ void normalise_with_others(float *sum, int size, float eps,
                                                             struct hopper_memory *memory, int team,
                                                             int member, uint32_t turn,
                                                             struct product product) {
    bool has_pair = size == PAIR * product.columns;
    int columns = product.warpgroup_columns, pieces = size / columns;
    uint32_t exchanged = shared_address(&memory->exchanged[team]), rank = cluster_ctarank();
    int lane = threadIdx.x % 32, row = threadIdx.x % WARPGROUP / 32 * 16 + lane / QUAD;
    struct exchange *exchange = &memory->exchange[turn];
    if (member == 0 && threadIdx.x % WARPGROUP == 0)
        mbarrier_arrive_expect_tx(exchanged, pieces * WARPGROUP_ROWS * sizeof(float2));
    float mean[MOST_UNITS], squares[MOST_UNITS];
    moments_of_units(sum, 2, columns, QUAD, mean, squares);
    int piece = has_pair ? rank * members_of(product) + member : member;
    int blocks = has_pair ? PAIR : 1, block = has_pair ? lane % QUAD : rank;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        uint32_t to = shared_address(&exchange->moments[piece][team][row + 8 * i]);
        if (lane % QUAD < blocks)
            st_async(mapa(to, block), mean[i], squares[i], mapa(exchanged, block));
    }
    mbarrier_wait(exchanged, turn);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float2 group = moments_of_both(exchange->moments[0][team][row + 8 * i],
                                       exchange->moments[1][team][row + 8 * i], columns);
        if (pieces == MOST_PIECES)
            group = moments_of_both(group,
                                    moments_of_both(exchange->moments[2][team][row + 8 * i],
                                                    exchange->moments[3][team][row + 8 * i], columns),
                                    2 * columns);
        float factor = rsqrtf(group.y * __fdividef(1.0f, size) + eps);
        float shift = (mean[i] - group.x) * factor; /* from this piece's mean to the group's */
#pragma unroll
        for (int at = 0; at < columns / QUAD; at++)
            sum[at_unit(i, columns, at)] = sum[at_unit(i, columns, at)] * factor + shift;
    }
}
