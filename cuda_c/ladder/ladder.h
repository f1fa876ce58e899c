/* Host code that several rungs without tensor cores share. */
#pragma once

#include "shared/plan.h"

/* What all of them need. */
static inline const char *needs_float32(const fgn_chain *chain, const fgn_device *device) {
    (void)device;
    return chain->type == FGN_FLOAT32 ? NULL : "float32"; /* and vectors are float32 then */
}

static const struct condition always = {NULL, NULL, false};

/* Describes a product in its own launch, which reads all of x and the weight, adds the bias and writes y. The
 * caller has added the launch. */
static inline void plan_product_alone(const fgn_chain *chain, fgn_launch *product) {
    add_product(product, chain);
    add_bias_vector(product, chain);
    add_y(product, chain);
}

/* The rest of the chain after a product in y: a launch for each operator, and the norm's. */
void plan_separately(const fgn_chain *chain, const struct norm_rung *norm, fgn_plan *plan);
cudaError_t launch_separately(const fgn_plan *plan, const struct norm_rung *norm, const fgn_chain *chain,
                              float *y, void *workspace, cudaStream_t stream);

/* A product with the operators before the norm in its epilogue, and the norm with those after it. */
void plan_norm_after_epilogue(const fgn_chain *chain, fgn_plan *plan);
cudaError_t launch_norm_after_epilogue(const fgn_launch *norm, const fgn_chain *chain, float *y,
                                       struct condition condition, cudaStream_t stream);

/* One operator as a kernel (pointwise.cu), in place; `number` counts from the first operator before the norm,
 * or after it. */
void plan_pointwise(const fgn_chain *chain, bool is_before, int number, fgn_plan *plan);
cudaError_t launch_pointwise(const fgn_launch *planned, const fgn_chain *chain, float *y,
                             cudaStream_t stream);

/* The products that several versions take. Each is one launch, `planned`, of `plan`.
 */
void plan_pipelined(const fgn_chain *chain, const fgn_device *device, fgn_plan *plan);
cudaError_t launch_pipelined(const fgn_plan *plan, const fgn_launch *planned, const struct gemm *gemm,
                             cudaStream_t stream);
void plan_fused(const fgn_chain *chain, const fgn_device *device, fgn_plan *plan);
cudaError_t launch_fused(const fgn_plan *plan, const fgn_launch *planned, const struct gemm *gemm,
                         cudaStream_t stream);
void plan_few_rows_float32(const fgn_chain *chain, fgn_plan *plan);
cudaError_t launch_few_rows_float32(const fgn_launch *planned, const struct gemm *gemm, cudaStream_t stream);
/* The whole chain. */
void plan_one_kernel(const fgn_chain *chain, const fgn_device *device, fgn_plan *plan);
cudaError_t launch_one_kernel(const fgn_plan *plan, const fgn_launch *planned, const struct gemm *gemm,
                              const struct group_norm *norm, cudaStream_t stream);
