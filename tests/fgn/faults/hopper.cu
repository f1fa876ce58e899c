/* The kernel of hopper for strips of 64 columns in bfloat16, and the host's code of hopper around it, for
 * tests/fgn/test_hopper.py, which plants a mistake in the headers that this file includes: where `planted` is
 * its number, the mistake is made. */
static int planted;

#include "hopper/gemm_10_hopper.cu"
#include "hopper/kernel.h"

static void kernel(const struct hopper_args args) {
    run(&args, configuration_of(BFLOAT16_FACTORS, NARROW_64));
}

hopper_kernel_function hopper_bfloat16_kernel_of(enum shape shape) {
    return shape == NARROW_64 ? kernel : NULL;
}

hopper_kernel_function hopper_float16_kernel_of(enum shape shape) {
    return (void)shape, NULL;
}

hopper_kernel_function hopper_tf32_kernel_of(enum shape shape) {
    return (void)shape, NULL;
}

hopper_kernel_function hopper_split_float32_kernel_of(enum shape shape) {
    return (void)shape, NULL;
}

/* y = GroupNorm(x w^T + bias) by tiles of so many rows in clusters of so many rows and columns of blocks, of
 * which two run at a time; 1 where hopper does not cut it so. */
int launch_planted(int mistake, int tile_rows, int row_blocks, int column_blocks, const void *x,
                   const void *w, const float *bias, void *y, int64_t batch, int64_t in, int64_t out,
                   int64_t groups) {
    enum { AT_ONCE = 2 };
    fgn_chain chain;
    fgn_plan planned;
    struct candidate chosen;
    memset(&chain, 0, sizeof chain);
    memset(&planned, 0, sizeof planned);
    chain.batch = batch;
    chain.in_features = in;
    chain.out_features = out;
    chain.groups = groups;
    chain.eps = 1e-5f;
    chain.type = FGN_BFLOAT16;
    chain.weight = w;
    chain.bias = bias;
    planned.device.multiprocessors = AT_ONCE;
    planned.choice[SHAPE] = NARROW_64;
    planned.choice[TILE_ROWS] = tile_rows;
    planned.choice[ROW_BLOCKS] = row_blocks;
    planned.choice[COLUMN_BLOCKS] = column_blocks;
    if (!chosen_tiling(&planned, &chain, &chosen))
        return 1;
    int clusters = cluster_tiles_of(&chosen.tiling), cluster = cluster_of(&chosen.tiling);
    int threads = threads_of(configuration_of(BFLOAT16_FACTORS, NARROW_64));
    fgn_launch *launch =
        add_launch(&planned, "planted", (clusters < AT_ONCE ? clusters : AT_ONCE) * cluster, threads);
    launch->cluster = cluster;
    launch->shared_bytes = chosen.tiling.shared_bytes;
    planted = mistake;
    return forward(&planned, &chain, x, y, NULL, NULL) == cudaSuccess ? 0 : 2;
}
