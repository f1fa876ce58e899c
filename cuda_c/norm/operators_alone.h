/* What the two kernels of operators alone share: their arguments, and the kernel that is compiled for one
 * call. Each file defines apply_down_rows(); callers pass a constant for `type`. */
#pragma once

#include "norm/norm_forward.h"

struct operators_alone_args {
    struct kept_norm chain;
    struct division division;
};

#ifdef JIT_COMPILED

static __forceinline__ __device__ void apply_down_rows(const struct operators_alone_args *args,
                                                       fgn_type type);

extern "C" __global__ void __launch_bounds__(THREADS, known.blocks)
    jit_kernel(struct operators_alone_args given) {
    const struct operators_alone_args args = {known_norm(given.chain), known.division};
    apply_down_rows(&args, (fgn_type)known.type);
}

#endif
