/* The chain after another library's product: cuBLAS multiplies, and one launch does the rest.
 *
 * Idea: cuBLAS has a kernel for every shape of a product, tuned over many years; an epilogue that holds whole
 * groups fits some shapes only. So the caller computes v = x W^T + bias with its library, in the workspace,
 * and one launch does the rest of the chain. It is the second launch of training's forward
 * (norm/norm_forward.cu), without the moments. fgn does not call another library itself: a plan of this rung
 * asks its caller for the product (fgn_plan.product_bytes). Such plans exist only for callers that can
 * multiply (fgn_chain.can_multiply).
 *
 * Bytes: v is written and read once more than in a fused chain, 8 for each element, 4 in a 16-bit type. Like
 * torch's, v is rounded to the chain's type. The launch has about 20 operations for each element, and the
 * chain's own.
 *
 * Limit: memory bandwidth, and one more launch: a fused kernel with an equally fast product is faster. */
#include "norm/norm_forward.h"
#include "library/nanoseconds.h"

static const char *refusal(const fgn_chain *chain, const fgn_device *device) {
    (void)device;
    if (!chain->can_multiply)
        return "a caller with a matrix product (can_multiply)";
    return has_rest(chain) ? NULL : "a norm or an operator: the product is the caller's";
}

static void plan(const fgn_chain *chain, const fgn_device *device, fgn_plan *plan) {
    (void)device;
    plan->nanoseconds = nanoseconds_of_library(chain);
    if (plan->candidate > 0) /* there is one way */
        return;
    struct kept_norm norm = kept_norm_of(chain, NULL, NULL, NULL);
    struct norm_launch planned = launch_of_norm(&norm);
    fgn_launch *launch = add_launch(plan, planned.kernel, 1, 1);
    const dim3 *sizes[] = {&planned.grid, &planned.block};
    unsigned *to[] = {launch->grid, launch->block};
    for (int i = 0; i < 2; i++) {
        to[i][0] = sizes[i]->x;
        to[i][1] = sizes[i]->y;
        to[i][2] = sizes[i]->z;
    }
    int64_t product_bytes = element_bytes(chain->type) * outputs_of(chain);
    plan->workspace_bytes = plan->product_bytes = (unsigned long long)product_bytes;
    add_read(launch, product_bytes, product_bytes);
    add_before(launch, chain, 0, chain->before_count);
    add_norm(launch, chain);
    add_after(launch, chain, 0, chain->after_count);
    add_y(launch, chain);
}

static cudaError_t forward(const fgn_plan *plan, const fgn_chain *chain, const void *x, void *y,
                           void *workspace, cudaStream_t stream) {
    (void)plan, (void)x;
    struct kept_norm norm = kept_norm_of(chain, workspace, y, NULL);
    return norm_forward(&norm, stream);
}

RUNG library_rung = {
    {"library", "library/product_given.cu", "norm/norm_forward.cu",
     "another library's product (cuBLAS), and the rest in one launch",
     "a norm or an operator, and a caller with a matrix product"},
    &group_norm_2_block,
    refusal,
    plan,
    NULL,
    forward,
};
