/* What the rungs of the backward share: their arguments and the host functions that launch them.
 *
 * With v = x W^T + bias, h = before(v), n = (h - mean) / deviation of each (row, group), z = n scale + shift
 * and y = after(z), the chain's backward has two parts:
 *   1. G = dL/dv from dL/dy, and every sum over a column: the gradients of bias, scale, shift and channel
 *      operands. Of a group with D channels and dn = dz scale,
 *          dh = (dn - (sum of dn + n * sum of dn n) / D) / deviation
 *      (Ioffe and Szegedy, "Batch Normalization", 2015, section 3, with the statistics of a group);
 *   2. two products: dX = G W and dW = G^T X.
 * Host functions check nothing (api_backward.cu has done so) and return the launch's error. */
#pragma once

#include "norm/norm.h"
#include "shared/rung.h"

#define MOST_SUMS (3 + 2 * FGN_MAX_POINTWISE)
#define NO_SUM (-1)

/* The slot of each wanted sum over columns; NO_SUM for the others. */
struct column_sums {
    int count;
    int bias;
    int scale;
    int shift;
    int before[FGN_MAX_POINTWISE];
    int after[FGN_MAX_POINTWISE];
    void *to[MOST_SUMS]; /* (channels,) for each slot */
};

/* The first part of the backward. Without a norm (groups 0) all operators are in `before`; without operators
 * either, G is dy and is not copied: g is NULL. */
struct chain_gradient {
    const void *v;  /* (batch, channels), of the type; unused of the product alone */
    const void *dy; /* the same */
    void *g;        /* the same, or NULL where only sums are wanted */
    const struct kept_moments *moments;
    fgn_type type;
    fgn_type vector_type; /* of scale, shift, channel operands, and the sums */
    int64_t batch;
    int64_t channels;
    int64_t groups;
    const void *scale;
    const void *shift;
    struct operators before;
    struct operators after;
    void *before_tensor[FGN_MAX_POINTWISE]; /* (batch, channels): gradients of tensors that operators add */
    void *after_tensor[FGN_MAX_POINTWISE];
    struct column_sums sums;
};

/* One of the two products of the backward: left (rows, inner) times right (inner, columns). */
struct backward_product {
    const void *left;
    const void *right;
    void *result; /* (rows, columns) */
    int64_t rows;
    int64_t inner;
    int64_t columns;
    bool left_is_transposed; /* left is stored (inner, rows) */
    fgn_type type;
    fgn_precision precision;
};

/* The forward's plan of a product, and the chain, which has no norm and no operators. A prepared weight
 * is the backward's own copy, so it is never out of date: such a chain is frozen. splits: use a version
 * that splits both factors; the caller has stored the halves. FGN_NOT_SUPPORTED if there is no such
 * version. */
fgn_status plan_product(const struct backward_product *product, bool splits, fgn_chain *chain,
                        fgn_plan *plan);

/* The beginning of a workspace's next part. */
static inline unsigned long long aligned_part(unsigned long long bytes) {
    return (bytes + 255) / 256 * 256;
}

unsigned long long gradient_1_naive_bytes(const struct chain_gradient *gradient);
cudaError_t gradient_1_naive(const struct chain_gradient *gradient, void *workspace, cudaStream_t stream);
unsigned long long gradient_2_fused_bytes(const struct chain_gradient *gradient);
cudaError_t gradient_2_fused(const struct chain_gradient *gradient, void *workspace, cudaStream_t stream);

fgn_status product_1_naive_bytes(const struct backward_product *product, unsigned long long *bytes);
fgn_status product_1_naive(const struct backward_product *product, void *workspace, cudaStream_t stream);
fgn_status product_2_transposed_bytes(const struct backward_product *product, unsigned long long *bytes);
fgn_status product_2_transposed(const struct backward_product *product, void *workspace, cudaStream_t stream);
fgn_status product_3_split_bytes(const struct backward_product *product, unsigned long long *bytes);
fgn_status product_3_split(const struct backward_product *product, void *workspace, cudaStream_t stream);
