/* The chain in ordinary float32, for what the halves of halves.h do not hold.
 *
 * The tensor cores' kernel returns at once when the flag of an unheld row is set, and the kernels launched
 * here return at once when it is not: in the plan they stand by. */
#pragma once

#include "shared/plan.h"

void plan_float32_chain(const fgn_chain *chain, const fgn_device *device, fgn_plan *plan);

/* The last launches of the plan, which plan_float32_chain() has added. */
cudaError_t launch_float32_chain(const fgn_plan *plan, const fgn_chain *chain, const float *x, float *y,
                                 struct condition condition, cudaStream_t stream);
