/* The gradient before the product, rung 2, of float16: the kernels for chains with a rare operator
 * (is_common() in gradient_2_fused.cu). gradient_2_fused.cu tells their idea and limit. */
#include "backward/gradient_down_rows.h"

RARE_KERNELS(float16, FGN_FLOAT16)
