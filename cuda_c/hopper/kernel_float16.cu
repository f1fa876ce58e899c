/* The kernels of rung 10 (gemm_10_hopper.cu) for factors in float16: one for each shape of a tile. */
#include "hopper/kernel.h"

KERNELS_OF_SHAPES(float16, FLOAT16_FACTORS)
