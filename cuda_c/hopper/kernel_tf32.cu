/* The kernels of rung 10 (gemm_10_hopper.cu) for factors in tf32: one for each shape of a tile. */
#include "hopper/kernel.h"

#define LAUNCH_BOUNDS(shape) __launch_bounds__(threads_of(configuration_of(TF32_FACTORS, shape)), 1)

__global__ void LAUNCH_BOUNDS(SORTED_WIDE)
    hopper_tf32_kernel(const __grid_constant__ struct hopper_args args) {
    run(&args, configuration_of(TF32_FACTORS, SORTED_WIDE));
}

__global__ void LAUNCH_BOUNDS(SORTED_NARROW)
    hopper_tf32_narrow_kernel(const __grid_constant__ struct hopper_args args) {
    run(&args, configuration_of(TF32_FACTORS, SORTED_NARROW));
}

__global__ void LAUNCH_BOUNDS(WIDE) hopper_tf32_any_kernel(const __grid_constant__ struct hopper_args args) {
    run(&args, configuration_of(TF32_FACTORS, WIDE));
}

__global__ void LAUNCH_BOUNDS(WIDE_96)
    hopper_tf32_any_96_kernel(const __grid_constant__ struct hopper_args args) {
    run(&args, configuration_of(TF32_FACTORS, WIDE_96));
}

__global__ void LAUNCH_BOUNDS(NARROW)
    hopper_tf32_any_narrow_kernel(const __grid_constant__ struct hopper_args args) {
    run(&args, configuration_of(TF32_FACTORS, NARROW));
}

__global__ void LAUNCH_BOUNDS(NARROW_64)
    hopper_tf32_any_64_kernel(const __grid_constant__ struct hopper_args args) {
    run(&args, configuration_of(TF32_FACTORS, NARROW_64));
}

hopper_kernel_function hopper_tf32_kernel_of(enum shape shape) {
    const hopper_kernel_function kernels[SHAPES] = {
        hopper_tf32_kernel,        hopper_tf32_narrow_kernel,     hopper_tf32_any_kernel,
        hopper_tf32_any_96_kernel, hopper_tf32_any_narrow_kernel, hopper_tf32_any_64_kernel};
    return kernels[shape];
}
