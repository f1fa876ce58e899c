/* The chain in ordinary float32 (float32_chain.h): by rung 8 or, if rung 8 does not take the groups, by rung
 * 7 or its kernel for few rows. */
#include "ladder/float32_chain.h"
#include "ladder/ladder.h"
#include "ladder/pipelined_tile.h"

static bool fits_one_kernel(const fgn_chain *chain) {
    return chain->groups > 0 && group_size_of(chain) <= TILE;
}

void plan_float32_chain(const fgn_chain *chain, const fgn_device *device, fgn_plan *plan) {
    int first = plan->launch_count;
    if (fits_one_kernel(chain)) {
        plan_one_kernel(chain, device, plan);
    } else {
        if (has_few_tiles(chain->batch, chain->out_features))
            plan_few_rows_float32(chain, plan);
        else
            plan_fused(chain, device, plan);
        plan_norm_after_epilogue(chain, plan);
    }
    for (int i = first; i < plan->launch_count; i++)
        plan->launch[i].stands_by = 1;
}

cudaError_t launch_float32_chain(const fgn_plan *plan, const fgn_chain *chain, const float *x, float *y,
                                 struct condition condition, cudaStream_t stream) {
    const fgn_launch *last = &plan->launch[plan->launch_count - 1];
    struct gemm gemm = gemm_of(chain, x, y, condition);
    if (fits_one_kernel(chain)) {
        struct group_norm norm = norm_of(chain, y, y, FGN_FLOAT32, condition);
        return launch_one_kernel(plan, last, &gemm, &norm, stream);
    }
    const fgn_launch *product = chain->groups > 0 ? last - 1 : last;
    cudaError_t error = has_few_tiles(chain->batch, chain->out_features)
                            ? launch_few_rows_float32(product, &gemm, stream)
                            : launch_fused(plan, product, &gemm, stream);
    if (error != cudaSuccess)
        return error;
    return launch_norm_after_epilogue(last, chain, y, condition, stream);
}
