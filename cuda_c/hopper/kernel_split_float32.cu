/* The kernels of rung 10 (gemm_10_hopper.cu) for factors in float32 in two float16 halves: one for each shape
 * of a tile. */
#include "hopper/kernel.h"

KERNELS_OF_SHAPES(split_float32, SPLIT_FLOAT32_FACTORS)
