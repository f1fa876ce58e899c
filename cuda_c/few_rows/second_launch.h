/* A second launch that ends a chain: it adds up the sums of a product that splits k among blocks. */
#pragma once

#include "shared/plan.h"

/* The bytes of the sums in the workspace: (splits, batch, out_features) floats. */
static inline unsigned long long bytes_of_sums(const fgn_chain *chain, int splits) {
    return (unsigned long long)splits * outputs_of(chain) * sizeof(float);
}

/* The approximate time of the launch on an H200, fitted to one half of lab/records/choice_h200.csv.xz: a
 * constant, a time for each value, one for each sum of every split, and one for each channel of a group,
 * since a block goes along its group. */
static inline double nanoseconds_of_second_launch(const fgn_chain *chain, int splits) {
    double of_value = 0.00427 + 0.00017 * (exponentials_of(chain) > 0);
    double along_group = chain->groups > 0 ? 3.18 * chain->out_features / chain->groups : 0.0;
    return 3566.0 + along_group + of_value * outputs_of(chain) +
           (double)bytes_of_sums(chain, splits) / 5500.0;
}

/* Whether a block has room for the vectors of one group. */
bool second_launch_fits(const fgn_chain *chain, const fgn_device *device);

/* Adds the launch to a plan. */
void plan_second_launch(const fgn_chain *chain, const fgn_device *device, int splits, fgn_plan *plan);

/* Launches it as `planned`, after the kernel that writes `sums`, which it may overwrite. Unless that kernel
 * calls griddepcontrol_launch_dependents(), the second launch begins after its end. */
cudaError_t run_second_launch(const fgn_plan *plan, const fgn_launch *planned, const fgn_chain *chain,
                              float *sums, int splits, void *y, cudaStream_t stream);
