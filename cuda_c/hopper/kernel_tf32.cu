/* The kernels of rung 10 (gemm_10_hopper.cu) for factors in tf32: one for each shape of a tile. */
#include "hopper/kernel.h"

KERNELS_OF_SHAPES(tf32, TF32_FACTORS)
