/* The chain in ordinary float32, for what the halves of halves.h do not hold.
 *
 * The tensor cores' kernel returns at once when the flag of an unheld row is set, and the kernels launched
 * here return at once when it is not. */
#include "ladder.h"
#include "pipelined_tile.h"

static bool fits_one_kernel(const fgn_chain *chain) {
    return chain->groups > 0 && chain->out_features / chain->groups <= TILE;
}

int float32_launches(const fgn_chain *chain) {
    return chain->groups == 0 || fits_one_kernel(chain) ? 1 : 2;
}

cudaError_t float32_chain(const fgn_chain *chain, const float *x, float *y, struct condition condition,
                          cudaStream_t stream) {
    struct gemm gemm = {x,
                        (const float *)chain->weight,
                        chain->bias,
                        y,
                        chain->batch,
                        chain->in_features,
                        chain->out_features,
                        operators_of(chain->before_count, chain->before),
                        condition};
    struct group_norm norm = {y,
                              chain->norm_scale,
                              chain->norm_shift,
                              y,
                              FGN_FLOAT32,
                              chain->batch,
                              chain->out_features,
                              chain->groups,
                              chain->eps,
                              operators_of(chain->after_count, chain->after),
                              condition};
    if (fits_one_kernel(chain))
        return gemm_8_one_kernel(&gemm, &norm, stream);
    cudaError_t error = gemm_7_fused(&gemm, stream);
    if (error == cudaSuccess && chain->groups > 0)
        error = group_norm_2_block(&norm, stream);
    return error;
}
