/* What the two epilogues on tensor cores share: gemm_9_tensor_core.cu and hopper/.
 *
 * Both epilogues take the same steps: undo the scaling of split factors, bias, operators, GroupNorm, scale
 * and shift, operators, stores. The arithmetic of each step is here, in apply_operators.h, pointwise.h and
 * fragment_norm.h, once for both. Functions with like names in tensor_core/epilogue.h and hopper/epilogue.h
 * know where the numbers are, which differs in every step:
 *
 *                   tensor_core                           hopper
 *     a lane has    two columns of every eight            two, four or eight neighbours, by tensor map
 *     parameters    read from global memory at each use   copied to shared memory during the product
 *     edges         the last column's number is clamped   shared memory has values for all columns
 *     wide groups   moments of warps in shared memory,    moments sent to the blocks of a cluster, for
 *                   __syncthreads()                       which an mbarrier waits
 *     stores        a lane's own pairs                    16 bytes, which lanes of a quad put together
 *     order         16 rows after the other               all rows up to the norm, then from there on
 *
 * A common epilogue would take each of these as a parameter, and would be hard to read. */
#pragma once

#include "shared/element.h"
#include "shared/rung.h"

/* Undoes the scaling of a sum of products of halves (halves.h). It multiplies by the smaller factor first:
 * the product of both may be too small or too large for a float. */
static __forceinline__ __device__ float unscaled(float sum, float of_row, float of_column) {
    return sum * fminf(of_row, of_column) * fmaxf(of_row, of_column);
}

/* Two values of a 16-bit type in one word, the first in the lower half. */
static __forceinline__ __device__ uint32_t pair_of_type(float low, float high, fgn_type type) {
    return type == FGN_FLOAT16 ? float16_pair(low, high) : bfloat16_pair(low, high);
}

/* The partial moments of a group whose parts are in several threads' registers: for each part {its mean, the
 * sum of the squared differences from it}. */
struct partial_moments {
    const float2 *moments; /* of the first part; of the next ones `stride` further each */
    int stride;
    int count;
    int columns; /* of a part; the last one has what is left of the group */
    int group_size;
};

static __forceinline__ __device__ float columns_of_part(const struct partial_moments *partial, int number) {
    return number + 1 < partial->count ? partial->columns
                                       : partial->group_size - (partial->count - 1) * partial->columns;
}

/* Returns {factor, addend}, which normalise the differences from the mean of part `number`. Sets of n_i
 * values with means m_i and squares s_i combine as
 *     mean = sum of n_i m_i / n     squares = sum of (s_i + n_i (m_i - mean)^2)
 * (Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances",
 * 1979), here relative to the first part's mean, so that no two large numbers are subtracted. */
static __forceinline__ __device__ float2 from_part_to_group(const struct partial_moments *partial, int number,
                                                            float eps) {
    const float2 *moments = partial->moments;
    float pivot = moments[0].x, mean = 0.0f, squares = 0.0f;
    for (int i = 1; i < partial->count; i++)
        mean += columns_of_part(partial, i) * (moments[i * partial->stride].x - pivot);
    mean = pivot + mean / partial->group_size;
    for (int i = 0; i < partial->count; i++) {
        float2 of_part = moments[i * partial->stride];
        float difference = of_part.x - mean;
        squares += of_part.y + columns_of_part(partial, i) * difference * difference;
    }
    float factor = rsqrtf(squares / partial->group_size + eps);
    return make_float2(factor, (moments[number * partial->stride].x - mean) * factor);
}
