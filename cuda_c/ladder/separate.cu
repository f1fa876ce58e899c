/* The chain around a separate product: a launch for each pointwise operator, and one or two for the norm. */
#include "ladder/ladder.h"

void plan_separately(const fgn_chain *chain, const struct norm_rung *norm, fgn_plan *plan) {
    for (int i = 0; i < chain->before_count; i++)
        plan_pointwise(chain, true, i, plan);
    if (chain->groups > 0)
        norm->plan(chain, 0, plan);
    for (int i = 0; i < chain->after_count; i++)
        plan_pointwise(chain, false, i, plan);
}

cudaError_t launch_separately(const fgn_plan *plan, const struct norm_rung *norm, const fgn_chain *chain,
                              float *y, void *workspace, cudaStream_t stream) {
    struct group_norm norm_alone = norm_of(chain, y, y, FGN_FLOAT32, always);
    norm_alone.after.count = 0;
    const fgn_launch *next = &plan->launch[1], *end = &plan->launch[plan->launch_count];
    cudaError_t error = cudaSuccess;
    for (int i = 0; i < chain->before_count && error == cudaSuccess; i++)
        error = launch_pointwise(next++, chain, y, stream);
    if (error == cudaSuccess && chain->groups > 0)
        error = norm->launch(next, &norm_alone, workspace, stream);
    for (next = end - chain->after_count; next < end && error == cudaSuccess; next++)
        error = launch_pointwise(next, chain, y, stream);
    return error;
}

void plan_norm_after_epilogue(const fgn_chain *chain, fgn_plan *plan) {
    if (chain->groups > 0)
        group_norm_2_block.plan(chain, chain->after_count, plan);
}

cudaError_t launch_norm_after_epilogue(const fgn_launch *planned, const fgn_chain *chain, float *y,
                                       struct condition condition, cudaStream_t stream) {
    if (chain->groups == 0)
        return cudaSuccess;
    struct group_norm norm = norm_of(chain, y, y, FGN_FLOAT32, condition);
    return group_norm_2_block.launch(planned, &norm, NULL, stream);
}
