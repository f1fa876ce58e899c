/* The chain in ordinary float32, for rows that the halves of halves.h cannot hold.
 *
 * If the flag of an unheld row is set, the tensor cores' kernel returns at once. If it is not set, the
 * kernels launched here return at once: the plan has them as a fallback. */
#pragma once

#include "shared/plan.h"

void plan_float32_chain(const fgn_chain *chain, const fgn_device *device, fgn_plan *plan);

/* The last launches of the plan, which plan_float32_chain() has added. */
cudaError_t launch_float32_chain(const fgn_plan *plan, const fgn_chain *chain, const float *x, float *y,
                                 struct condition condition, cudaStream_t stream);
