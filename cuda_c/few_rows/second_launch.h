/* A second launch that ends a chain: it adds up the sums of products whose k is split among blocks. */
#pragma once

#include "shared/plan.h"

/* What the sums take of the workspace: (splits, batch, out_features) floats. */
static inline unsigned long long bytes_of_sums(const fgn_chain *chain, int splits) {
    return (unsigned long long)splits * outputs_of(chain) * sizeof(float);
}

/* About what the launch takes on an H200, fitted to 2789 times: groups that come in fours and fit in a warp's
 * registers, others that do, and those that a block ends one after the other. */
static inline double nanoseconds_of_second_launch(const fgn_chain *chain, int splits) {
    int64_t size = group_size_of(chain);
    bool in_warp = size <= 128, in_fours = in_warp && size % 4 == 0;
    double bytes = (double)bytes_of_sums(chain, splits) + element_bytes(chain->type) * outputs_of(chain);
    double once = in_fours ? 2900.0 : 4500.0, bytes_of_nanosecond = in_fours || !in_warp ? 1200.0 : 300.0;
    double of_group = in_warp ? 0.0 : 7.0;
    return once + bytes / bytes_of_nanosecond + of_group * chain->batch * chain->groups;
}

/* Whether a block has room for the vectors of one group. */
bool second_launch_fits(const fgn_chain *chain, const fgn_device *device);

/* Adds the launch to a plan. */
void plan_second_launch(const fgn_chain *chain, const fgn_device *device, int splits, fgn_plan *plan);

/* Launches it as `planned`, after the kernel that writes `sums`, which it may overwrite. That kernel has to
 * call griddepcontrol_launch_dependents(), or the second launch begins after its end. */
cudaError_t run_second_launch(const fgn_plan *plan, const fgn_launch *planned, const fgn_chain *chain,
                              float *sums, int splits, void *y, cudaStream_t stream);
