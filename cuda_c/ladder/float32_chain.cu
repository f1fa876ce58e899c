/* The chain in ordinary float32, for what the halves of halves.h do not hold.
 *
 * The tensor cores' kernel returns at once when the flag of an unheld row is set, and the kernels launched
 * here return at once when it is not. */
#include "shared/rung.h"
#include "ladder/pipelined_tile.h"

static bool fits_one_kernel(const fgn_chain *chain) {
    return chain->groups > 0 && group_size_of(chain) <= TILE;
}

int float32_launches(const fgn_chain *chain) {
    return chain->groups == 0 || fits_one_kernel(chain) ? 1 : 2;
}

cudaError_t float32_chain(const fgn_chain *chain, const float *x, float *y, struct condition condition,
                          cudaStream_t stream) {
    struct gemm gemm = gemm_of(chain, x, y, condition);
    struct group_norm norm = norm_of(chain, y, y, FGN_FLOAT32, condition);
    if (fits_one_kernel(chain))
        return gemm_8_one_kernel(&gemm, &norm, stream);
    cudaError_t error = gemm_7_fused(&gemm, stream);
    if (error == cudaSuccess && chain->groups > 0)
        error = group_norm_2_block(&norm, stream);
    return error;
}
