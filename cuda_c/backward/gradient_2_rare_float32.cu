/* The gradient before the product, rung 2, of float32: the kernels for chains with a rare operator
 * (is_common() in gradient_2_fused.cu). gradient_2_fused.cu tells their idea and limit. */
#include "backward/gradient_down_rows.h"
#include "sim/launchers.h"

__global__ void __launch_bounds__(THREADS, FEWER_BLOCKS)
    rare_gradient_float32_8_kernel(struct fused_gradient_args args) {
    gradient_of_width(&args, 8, FGN_FLOAT32, false);
}

__global__ void __launch_bounds__(THREADS, FEWER_BLOCKS)
    rare_gradient_float32_4_kernel(struct fused_gradient_args args) {
    gradient_of_width(&args, 4, FGN_FLOAT32, false);
}

__global__ void __launch_bounds__(THREADS, FEWER_BLOCKS)
    rare_gradient_float32_2_kernel(struct fused_gradient_args args) {
    gradient_of_width(&args, 2, FGN_FLOAT32, false);
}

__global__ void __launch_bounds__(THREADS, FEWER_BLOCKS)
    rare_gradient_float32_1_kernel(struct fused_gradient_args args) {
    gradient_of_width(&args, 1, FGN_FLOAT32, false);
}

EARLY_LAUNCHER(rare_gradient_float32_8_kernel, struct fused_gradient_args)
EARLY_LAUNCHER(rare_gradient_float32_4_kernel, struct fused_gradient_args)
EARLY_LAUNCHER(rare_gradient_float32_2_kernel, struct fused_gradient_args)
EARLY_LAUNCHER(rare_gradient_float32_1_kernel, struct fused_gradient_args)

struct gradient_kernel rare_gradient_kernel_float32(int width) {
    static const struct gradient_kernel kernels[] = {
        {(const void *)rare_gradient_float32_1_kernel, launch_rare_gradient_float32_1_kernel},
        {(const void *)rare_gradient_float32_2_kernel, launch_rare_gradient_float32_2_kernel},
        {(const void *)rare_gradient_float32_4_kernel, launch_rare_gradient_float32_4_kernel},
        {(const void *)rare_gradient_float32_8_kernel, launch_rare_gradient_float32_8_kernel},
    };
    return kernels[log2_of(width)];
}
