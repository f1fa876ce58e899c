/* The kernels of rung 10 (gemm_10_hopper.cu) for factors in 8-bit floats: one for each shape of a tile. */
#include "hopper/kernel.h"

KERNELS_OF_SHAPES(fp8, FP8_FACTORS)
