/* GroupNorm, rung 1: a statistics kernel and a normalise kernel.
 *
 * Idea: the definition, read twice. One thread walks the channels of one (sample, group) for the mean, walks
 * them again for the variance, and writes both to memory; then one thread per element normalises. The
 * variance is the mean of squared differences from the mean: E[x^2] - E[x]^2 would subtract two nearly equal
 * numbers when the mean is large. A single thread adds a long sum alone, so it sums in double.
 *
 * Bytes: the tensor is read three times and written once, 16 for each element.
 *
 * Limit: the statistics kernel's loads. Neighbouring lanes have neighbouring groups, a whole group apart in
 * memory, so each 4-byte load moves a 32-byte sector; and with few groups there are few threads.
 *
 * Next (group_norm_2_block.cu): many threads for one group, and one kernel. */
#include "shared/plan.h"
#include "shared/moments.h"

#define THREADS 256

struct naive_group_norm_args {
    struct group_norm norm;
    struct moments *moments; /* (batch, groups) */
};

__global__ void naive_moments_kernel(struct naive_group_norm_args args) {
    const struct group_norm *norm = &args.norm;
    int64_t index = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (index >= norm->batch * norm->groups)
        return;
    int64_t size = norm->channels / norm->groups;
    const float *x = norm->x + index * size;
    double sum = 0.0;
    for (int64_t i = 0; i < size; i++)
        sum += x[i];
    double mean = sum / size;
    double squares = 0.0;
    for (int64_t i = 0; i < size; i++)
        squares += (x[i] - mean) * (x[i] - mean);
    struct moments moments;
    moments.mean = (float)mean;
    moments.mean_rest = (float)(mean - moments.mean);
    moments.inverse_deviation = (float)(1.0 / sqrt(squares / size + norm->eps));
    args.moments[index] = moments;
}

__global__ void naive_normalise_kernel(struct naive_group_norm_args args) {
    const struct group_norm *norm = &args.norm;
    int64_t index = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (index >= norm->batch * norm->channels)
        return;
    int64_t row = index / norm->channels;
    int64_t channel = index % norm->channels;
    int64_t group = channel / (norm->channels / norm->groups);
    struct moments moments = args.moments[row * norm->groups + group];
    ((float *)norm->y)[index] = scale_and_shift(norm, normalised(norm->x[index], moments), channel);
}

LAUNCHER(naive_moments_kernel, struct naive_group_norm_args)
LAUNCHER(naive_normalise_kernel, struct naive_group_norm_args)

/* The operators after the norm have their own launches, whatever after_count is. */
static void plan(const fgn_chain *chain, int after_count, fgn_plan *plan) {
    (void)after_count;
    int64_t pairs = chain->batch * chain->groups, bytes = sizeof(float) * outputs_of(chain);
    fgn_launch *statistics = add_launch(plan, "naive_moments_kernel", tiles(pairs, THREADS), THREADS);
    statistics->computes = FGN_STATISTICS;
    add_read(statistics, bytes, bytes);
    add_written(statistics, pairs * sizeof(struct moments), FGN_WRITES_WORKSPACE);
    fgn_launch *normalise =
        add_launch(plan, "naive_normalise_kernel", tiles(outputs_of(chain), THREADS), THREADS);
    normalise->computes = FGN_NORMALISE;
    add_read(normalise, bytes + pairs * sizeof(struct moments), bytes + pairs * sizeof(struct moments));
    add_read(normalise, 2 * vector_bytes(chain), 0);
    add_y(normalise, chain);
    plan->workspace_bytes += pairs * sizeof(struct moments);
}

static cudaError_t launch(const fgn_launch *planned, const struct group_norm *norm, void *workspace,
                          cudaStream_t stream) {
    struct naive_group_norm_args args = {*norm, (struct moments *)workspace};
    cudaError_t error =
        launch_naive_moments_kernel(grid_of(&planned[0]), block_of(&planned[0]), 0, stream, args);
    if (error != cudaSuccess)
        return error;
    return launch_naive_normalise_kernel(grid_of(&planned[1]), block_of(&planned[1]), 0, stream, args);
}

NORM_RUNG group_norm_1_naive = {plan, launch};
