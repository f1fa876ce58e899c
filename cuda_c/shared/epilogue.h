/* What the ends of tiles on tensor cores have in common: gemm_9_tensor_core.cu and hopper/. */
#pragma once

#include "shared/element.h"
#include "shared/rung.h"

/* A sum of products of halves (halves.h) in its own scale. The smaller factor first: their product may be too
 * small or too large for a float. */
static __forceinline__ __device__ float unscaled(float sum, float of_row, float of_column) {
    return sum * fminf(of_row, of_column) * fmaxf(of_row, of_column);
}

/* Two values of a 16-bit type in one word, the first in the lower half. */
static __forceinline__ __device__ uint32_t pair_of_type(float low, float high, fgn_type type) {
    return type == FGN_FLOAT16 ? float16_pair(low, high) : bfloat16_pair(low, high);
}

/* A group of which several threads' registers hold pieces: of each piece somebody knows {its mean, the sum of
 * the squares of the differences from it}. */
struct pieces {
    const float2 *moments; /* of the first piece; of the next ones `apart` further each */
    int apart;
    int count;
    int columns; /* of a piece; the last one has what is left of the group */
    int group_size;
};

static __forceinline__ __device__ float columns_of_piece(const struct pieces *pieces, int number) {
    return number + 1 < pieces->count ? pieces->columns
                                      : pieces->group_size - (pieces->count - 1) * pieces->columns;
}

/* What makes normalised values of the differences from the mean of piece `number`: {a factor, what is added
 * after it}. Sets of n_i values with means m_i and squares s_i combine as
 *     mean = sum of n_i m_i / n     squares = sum of (s_i + n_i (m_i - mean)^2)
 * (Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances",
 * 1979), here relative to the first piece's mean, so that nothing large is subtracted from anything large. */
static __forceinline__ __device__ float2 from_piece_to_group(const struct pieces *pieces, int number,
                                                             float eps) {
    const float2 *moments = pieces->moments;
    float pivot = moments[0].x, mean = 0.0f, squares = 0.0f;
    for (int i = 1; i < pieces->count; i++)
        mean += columns_of_piece(pieces, i) * (moments[i * pieces->apart].x - pivot);
    mean = pivot + mean / pieces->group_size;
    for (int i = 0; i < pieces->count; i++) {
        float2 of_piece = moments[i * pieces->apart];
        float apart = of_piece.x - mean;
        squares += of_piece.y + columns_of_piece(pieces, i) * apart * apart;
    }
    float factor = rsqrtf(squares / pieces->group_size + eps);
    return make_float2(factor, (moments[number * pieces->apart].x - mean) * factor);
}
