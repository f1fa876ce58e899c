/* The gradient before the product, rung 2: the kernels for chains with a rare operator (is_common() in
 * gradient_2_fused.cu), which run until a kernel is compiled for the call (gradient_jit.h).
 *
 * Idea: that of gradient_2_fused.cu. A kernel has the code of every operator and nvcc takes long for it, so
 * there are few: vectors of 8 are read as two of 4, vectors of 2 as single values, and both 16-bit types have
 * one kernel, which chooses at each conversion.
 *
 * Bytes and operations: as in gradient_2_fused.cu. In float32, pieces of 16 bytes are copied either way; in a
 * 16-bit type pieces of 8, twice as many copies, and single values without cp.async, which does not copy 2
 * bytes.
 *
 * Limit: latency, as there, with two blocks on a multiprocessor and not three: so many operators need 128
 * registers. The next rung is the compiled kernel. */
#include "backward/gradient_down_rows.h"
#include "sim/launchers.h"

/* Either of the two, and the compiler sees that it is not float32. */
static __forceinline__ __device__ fgn_type type_of_16_bits(const struct fused_gradient_args *args) {
    return args->gradient.type == FGN_FLOAT16 ? FGN_FLOAT16 : FGN_BFLOAT16;
}

__global__ void __launch_bounds__(THREADS, FEWER_BLOCKS)
    rare_gradient_32_4_kernel(struct fused_gradient_args args) {
    gradient_of_width(&args, 4, FGN_FLOAT32, false);
}

__global__ void __launch_bounds__(THREADS, FEWER_BLOCKS)
    rare_gradient_32_1_kernel(struct fused_gradient_args args) {
    gradient_of_width(&args, 1, FGN_FLOAT32, false);
}

__global__ void __launch_bounds__(THREADS, FEWER_BLOCKS)
    rare_gradient_16_4_kernel(struct fused_gradient_args args) {
    gradient_of_width(&args, 4, type_of_16_bits(&args), false);
}

__global__ void __launch_bounds__(THREADS, FEWER_BLOCKS)
    rare_gradient_16_1_kernel(struct fused_gradient_args args) {
    gradient_of_width(&args, 1, type_of_16_bits(&args), false);
}

EARLY_LAUNCHER(rare_gradient_32_4_kernel, struct fused_gradient_args)
EARLY_LAUNCHER(rare_gradient_32_1_kernel, struct fused_gradient_args)
EARLY_LAUNCHER(rare_gradient_16_4_kernel, struct fused_gradient_args)
EARLY_LAUNCHER(rare_gradient_16_1_kernel, struct fused_gradient_args)

struct gradient_kernel rare_gradient_kernel(fgn_type type, int width) {
    static const struct gradient_kernel kernels[2][2] = {
        {{(const void *)rare_gradient_32_1_kernel, launch_rare_gradient_32_1_kernel},
         {(const void *)rare_gradient_32_4_kernel, launch_rare_gradient_32_4_kernel}},
        {{(const void *)rare_gradient_16_1_kernel, launch_rare_gradient_16_1_kernel},
         {(const void *)rare_gradient_16_4_kernel, launch_rare_gradient_16_4_kernel}},
    };
    return kernels[type != FGN_FLOAT32][width == 4];
}
