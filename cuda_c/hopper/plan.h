/* How gemm_10_hopper.cu divides a chain into tiles: the host's arithmetic, in C on both machines.
 *
 * Every possible division is a candidate; the plan takes the one that a model of time expects to be
 * fastest. */
#pragma once

#include <math.h>

#include "few_rows/second_launch.h"
#include "hopper/quantise.h"
#include "hopper/repack.h"
#include "hopper/sizes.h"
#include "ladder/float32_chain.h"
#include "shared/halves.h"
#include "shared/plan.h"

/* A candidate and its time. */
struct candidate {
    enum shape shape;
    struct tiling tiling;
    fgn_precision precision; /* the chain's, or that of its elements where that is faster than fp8 */
    double nanoseconds;
};

static bool is_power_of_two(int64_t v) {
    return v > 0 && (v & (v - 1)) == 0;
}

static enum wgmma_factors factors_of(const fgn_chain *chain) {
    if (is_float32_accurate(chain))
        return SPLIT_FLOAT32_FACTORS;
    if (is_fp8(chain))
        return FP8_FACTORS;
    return chain->type == FGN_FLOAT32   ? TF32_FACTORS
           : chain->type == FGN_FLOAT16 ? FLOAT16_FACTORS
                                        : BFLOAT16_FACTORS;
}

static int element_bytes_of(const fgn_chain *chain) {
    if (is_fp8(chain))
        return 1;
    return chain->type == FGN_FLOAT32 && !is_float32_accurate(chain) ? 4 : 2;
}

static int steps_of(const fgn_chain *chain) {
    return (int)tiles(chain->in_features, STEP_BYTES / element_bytes_of(chain));
}

static int operands_of(const fgn_pointwise *step, int count) {
    int operands = 0;
    for (int i = 0; i < count; i++)
        operands += takes_channel(&step[i]);
    return operands;
}

/* The channels of a group that a tile normalises; 0 if the tile has no norm. */
static int64_t group_size_of_tiles(const fgn_chain *chain, const struct tiling *tiling) {
    return tiling->ends_later ? 0 : group_size_of(chain);
}

/* The vectors with fixed places: bias, the unscaling of columns, scale and shift. */
static int most_vectors_of(const fgn_chain *chain, const struct tiling *tiling) {
    if (tiling->ends_later)
        return 1; /* what undoes scaling */
    return 4 + operands_of(chain->before, chain->before_count) +
           operands_of(chain->after, chain->after_count);
}

/* Decides which columns strips own; false if the chain's groups do not fit. */
static bool cut_columns(const fgn_chain *chain, struct configuration config, struct tiling *tiling) {
    int64_t size = group_size_of_tiles(chain, tiling);
    int columns = tile_columns(config), blocks = (int)tiles(size, columns);
    if (is_sorted(config) && (chain->out_features % quad_columns(config) != 0 ||
                              (size != 0 && (!is_power_of_two(size) || size < SMALLEST_SORTED_GROUP))))
        return false;
    if (blocks > 1 && blocks != tiling->column_blocks)
        return false;
    tiling->group_strips = 1;
    tiling->owned = config.width;
    if (size > 0 && size <= config.width)
        tiling->owned = config.width / (int)size * (int)size;
    if (size > config.width) {
        tiling->group_strips = blocks * config.strips;
        int even = (int)tiles(size, tiling->group_strips), rounded = (int)tiles(even, SLAB) * SLAB;
        tiling->owned = rounded * (tiling->group_strips - 1) < size ? rounded : even;
    }
    bool in_one_block = tiling->group_strips > 1 && blocks == 1;
    tiling->block_columns = in_one_block ? (int)size : config.strips * tiling->owned;
    tiling->cluster_columns = blocks > 1 ? (int)size : tiling->column_blocks * tiling->block_columns;
    return tiling->owned <= config.width && (!is_sorted(config) || tiling->owned == config.width);
}

/* Lays out shared memory; false if there is no room for a ring. */
static bool lay_out(const fgn_chain *chain, struct configuration config, struct tiling *tiling) {
    int64_t size = group_size_of_tiles(chain, tiling);
    int most_groups =
        size > 0 && tiling->group_strips == 1 && !is_sorted(config) ? tiling->owned / (int)size : 0;
    int sets =
        tiling->group_strips > 1 ? 2 * TEAMS * tiling->group_strips : TEAMS * config.strips * most_groups;
    int moments = sets * WARPGROUP_ROWS * (int)sizeof(float2);
    int vectors = TEAMS * tile_columns(config) * most_vectors_of(chain, tiling) * (int)sizeof(float);
    int others = STAGE_ALIGNMENT + BARRIERS_BYTES + moments + vectors;
    tiling->stage_bytes = (tiling->tile_rows + tile_columns(config)) * STEP_BYTES;
    tiling->stages = (MOST_SHARED_BYTES - others) / tiling->stage_bytes;
    if (tiling->stages > MOST_STAGES)
        tiling->stages = MOST_STAGES;
    if (tiling->stages < 2)
        return false;
    tiling->moments_at = (uint32_t)(BARRIERS_BYTES + tiling->stages * tiling->stage_bytes);
    tiling->vectors_at = tiling->moments_at + moments;
    tiling->shared_bytes = STAGE_ALIGNMENT + tiling->vectors_at + vectors;
    return true;
}

/* How many clusters of so many blocks a GPU holds at a time. A cluster stays in one processing cluster (GPC)
 * of 16 or 18 multiprocessors. From cudaOccupancyMaxActiveClusters() on an H200 with 132 multiprocessors; a
 * plan for another number scales these. */
static int clusters_at_once(int cluster, int multiprocessors) {
    static const int of_132[MOST_CLUSTER + 1] = {0, 132, 66, 39, 30, 22, 17, 15, 15};
    int clusters = (int)((int64_t)of_132[cluster] * multiprocessors / 132);
    return clusters > 0 ? clusters : 1;
}

/* The constants of the model, fitted to 7823 times of candidates for 791 random shapes on an H200. Those of
 * split factors were fitted again, to 1178 times of candidates for 270 more shapes, when the producer had
 * become faster. The model's choice takes 1 % longer than the fastest candidate measured, in the geometric
 * mean. For 16-bit factors, tf32 and split factors, in this order; a clock is one of 1.5 GHz. fp8 has the
 * epilogue of split factors; its rate and the time of its rounding are from eight problems on an H100. */
static const double GIGAHERTZ = 1.5;
static const double CLOCKS_ONCE = 7910.0; /* the launch, and the first stages */
static const double CLOCKS_OF_TILE = 3610.0;
static const double MULTIPLY_ADDS[] = {3560.0, 1990.0, 1010.0}; /* a clock and multiprocessor */
static const double CLOCKS_OF_STEP[] = {111.0, 123.0, 357.0};   /* that the teams wait for each other */
static const double FP8_MULTIPLY_ADDS = 7000.0, FP8_CLOCKS_OF_STEP = 200.0;
static const double CLOCKS_OF_BLOCK = 14.9; /* of a step, for each block of the cluster */
static const double L2_BYTES = 149.0;       /* a clock and multiprocessor */
static const double BESIDE = 0.78;          /* of the copies' time is added to that of what takes longer */
static const double CLOCKS_OF_VALUE[][SHAPES] = {{0.15, 0.13, 0.38, 0.22, 0.79, 0.40},
                                                 {0.21, 0.16, 0.49, 0.38, 0.99, 0.38},
                                                 {0.41, 0.20, 0.83, 0.75, 0.74, 0.67}};
static const double CLOCKS_OF_EXPONENTIAL[] = {0.18, 0.15, 0.52}; /* of a value */
static const double CLOCKS_OF_GROUP[] = {783.0, 701.0, 680.0}; /* of 128 rows, where strips are not sorted */
static const double CLOCKS_OF_UNFINISHED = 0.23;               /* of a value */
static const double MEMORY_BYTES = 2830.0;                     /* a nanosecond, of the GPU */
static const double HALVES_NANOSECONDS = 16000.0;              /* and the float32 rung that stands by */
static const double HALVES_BYTES = 2400.0;                     /* a nanosecond */
static const double QUANTISED_NANOSECONDS = 6000.0, REPACKED_NANOSECONDS = 5450.0;
static const double REPACKED_BYTES = 918.0; /* a nanosecond */

static int kind_of(enum wgmma_factors factors) {
    return are_scaled(factors) ? 2 : factors == TF32_FACTORS ? 1 : 0;
}

/* The clocks from the sums of a tile to its part of y, or to the workspace. */
static double ending_clocks(const fgn_chain *chain, struct configuration config, enum shape shape,
                            const struct tiling *tiling) {
    int kind = kind_of(config.factors), size = (int)group_size_of_tiles(chain, tiling);
    double values = (double)tiling->tile_rows * tile_columns(config);
    if (tiling->ends_later)
        return values * CLOCKS_OF_UNFINISHED;
    int groups = size > 0 && tiling->group_strips == 1 && !is_sorted(config) ? tiling->owned / size : 0;
    return values * (CLOCKS_OF_VALUE[kind][shape] + CLOCKS_OF_EXPONENTIAL[kind] * exponentials_of(chain)) +
           CLOCKS_OF_GROUP[kind] * groups * config.strips * tiling->tile_rows / COMMON_ROWS;
}

static bool is_repacked(const fgn_chain *chain) {
    return !are_scaled(factors_of(chain)) && needs_repacking(chain->in_features, element_bytes_of(chain));
}

/* The time of two things at once; each slows the other down a little. */
static double larger_and_some(double a, double b) {
    return fmax(a, b) + 0.15 * fmin(a, b);
}

/* The approximate time of a tiling: the steps of a block's tiles, each as long as its products or its copies,
 * and the endings that no product hides. It is at least the time in which memory delivers the matrices.
 */
static double nanoseconds_of(const fgn_chain *chain, struct configuration config, enum shape shape,
                             const struct tiling *tiling, int multiprocessors) {
    int kind = kind_of(config.factors), rows = tiling->tile_rows, columns = tile_columns(config);
    bool split = config.factors == SPLIT_FLOAT32_FACTORS;
    double rate = is_fp8(chain) ? FP8_MULTIPLY_ADDS : MULTIPLY_ADDS[kind];
    double products = (double)rows * columns * (STEP_BYTES / element_bytes_of(chain)) / rate;
    double copied = (split ? 2.0 : 1.0) * STEP_BYTES *
                    ((double)rows / parts_of_x(tiling) + (double)columns / tiling->row_blocks);
    int clusters = clusters_at_once(cluster_of(tiling), multiprocessors);
    double cluster_tiles = cluster_tiles_of(tiling), each = ceil(cluster_tiles / clusters);
    double copies = copied * (cluster_tiles < clusters ? cluster_tiles / clusters : 1.0) / L2_BYTES;
    double step = fmax(products, copies) + BESIDE * copies + CLOCKS_OF_BLOCK * cluster_of(tiling) +
                  (is_fp8(chain) ? FP8_CLOCKS_OF_STEP : CLOCKS_OF_STEP[kind]);
    double product = tiling->split_steps * step + CLOCKS_OF_TILE;
    double ending = ending_clocks(chain, config, shape, tiling), clocks = each * (product + ending);
    if (has_own_tiles(rows))
        clocks = fmax(each * product, ceil(each / 2.0) * (product + ending)) + ending;
    double x = (double)chain->in_features * chain->batch;
    double inputs = x + (double)chain->in_features * chain->out_features;
    double bytes = (inputs + (double)outputs_of(chain)) * element_bytes(chain->type);
    double time = larger_and_some((CLOCKS_ONCE + clocks) / GIGAHERTZ, bytes / MEMORY_BYTES);
    if (split)
        time += HALVES_NANOSECONDS + 8.0 * x / HALVES_BYTES;
    if (is_fp8(chain))
        time += QUANTISED_NANOSECONDS + 3.0 * (chain->frozen ? x : inputs) / HALVES_BYTES;
    if (is_repacked(chain))
        time += REPACKED_NANOSECONDS + 2.0 * inputs * element_bytes(chain->type) / REPACKED_BYTES;
    if (tiling->ends_later)
        time += nanoseconds_of_second_launch(chain, tiling->splits);
    return time;
}

/* A tiling with only these decided. splits: the splits of k, if a second launch ends the chain; 0: there is
 * none. */
static struct tiling tiling_of(int tile_rows, int row_blocks, int column_blocks, int splits) {
    struct tiling tiling;
    memset(&tiling, 0, sizeof tiling);
    tiling.tile_rows = tile_rows;
    tiling.row_blocks = row_blocks;
    tiling.column_blocks = column_blocks;
    tiling.ends_later = splits > 0;
    tiling.splits = splits > 0 ? splits : 1;
    return tiling;
}

/* Divides k into the tiling's splits; false if that is impossible. Teams with their own tiles skip as many of
 * each other's steps as they have themselves; sorted strips are for y. */
static bool split_steps(const fgn_chain *chain, struct configuration config, struct tiling *tiling) {
    int steps = steps_of(chain);
    tiling->split_steps = (int)tiles(steps, tiling->splits);
    if (!tiling->ends_later)
        return true;
    bool every_split_has_steps = tiling->split_steps * (tiling->splits - 1) < steps;
    return every_split_has_steps && !is_sorted(config) &&
           (tiling->splits == 1 || !has_own_tiles(tiling->tile_rows));
}

/* Fills in one division of the chain; false if it is impossible. */
static bool try_tiling(const fgn_chain *chain, enum shape shape, struct tiling tiling, int multiprocessors,
                       struct candidate *candidate) {
    struct configuration config = configuration_of(factors_of(chain), shape);
    if (!cut_columns(chain, config, &tiling) || !lay_out(chain, config, &tiling) ||
        !split_steps(chain, config, &tiling))
        return false;
    tiling.clusters_down = (int)tiles(chain->batch, tiling.row_blocks * tiling.tile_rows);
    tiling.clusters_across = (int)tiles(chain->out_features, tiling.cluster_columns);
    int last_width = tiling.clusters_across % BAND;
    tiling.band = divisor_of((uint32_t)(tiling.clusters_down * BAND));
    tiling.last_band = divisor_of((uint32_t)(last_width > 0 ? last_width : BAND));
    candidate->shape = shape;
    candidate->tiling = tiling;
    candidate->precision = chain->precision;
    candidate->nanoseconds = nanoseconds_of(chain, config, shape, &tiling, multiprocessors);
    return true;
}

/* Keeps the faster of the best so far, if any, and the tiling, if it exists and takes longer than
 * `longer_than`. Returns whether there is one. */
static bool keep_faster(const fgn_chain *chain, enum shape shape, struct tiling tiling, int multiprocessors,
                        double longer_than, bool found, struct candidate *best) {
    struct candidate candidate;
    memset(&candidate, 0, sizeof candidate);
    if (!try_tiling(chain, shape, tiling, multiprocessors, &candidate) ||
        candidate.nanoseconds <= longer_than || (found && candidate.nanoseconds >= best->nanoseconds))
        return found;
    *best = candidate;
    return true;
}

/* The same for all tilings of the chain in its precision. The second launch ends every chain that it has room
 * for; an operator that adds a tensor is only there. */
static bool keep_fastest(const fgn_chain *chain, const fgn_device *device, double longer_than, bool found,
                         struct candidate *best) {
    int fewest_splits = tensors_of(chain) ? 1 : 0;
    int most_splits = second_launch_fits(chain, device) ? MOST_SPLITS_OF_K : 0;
    for (int shape = 0; shape < SHAPES; shape++) {
        for (int rows = WARPGROUP_ROWS; rows <= COMMON_ROWS; rows += WARPGROUP_ROWS) {
            if (add_apart(factors_of(chain)) && has_own_tiles(rows))
                continue; /* their teams take turns in each step */
            for (int row_blocks = 1; row_blocks <= MOST_ROW_BLOCKS; row_blocks *= 2)
                for (int column_blocks = 1; row_blocks * column_blocks <= MOST_CLUSTER; column_blocks++)
                    for (int splits = fewest_splits; splits <= most_splits; splits++)
                        found = keep_faster(chain, (enum shape)shape,
                                            tiling_of(rows, row_blocks, column_blocks, splits),
                                            device->multiprocessors, longer_than, found, best);
        }
    }
    return found;
}

/* The fastest candidate that takes longer than `longer_than` nanoseconds; false where there is none. fp8 is a
 * permission: where the elements as they are take less time, they are multiplied. */
static bool choose_tiling(const fgn_chain *chain, const fgn_device *device, double longer_than,
                          struct candidate *best) {
    memset(best, 0, sizeof *best);
    bool found = keep_fastest(chain, device, longer_than, false, best);
    if (!is_fp8(chain))
        return found;
    fgn_chain as_it_is = *chain;
    as_it_is.precision = FGN_IEEE;
    return keep_fastest(&as_it_is, device, longer_than, found, best);
}

/* ---- The plan ---- */

/* Places in the plan of what the launch needs: the tiling follows from these. */
enum hopper_choice { SHAPE, TILE_ROWS, ROW_BLOCKS, COLUMN_BLOCKS, SPLITS, PRECISION };

static bool chosen_tiling(const fgn_plan *plan, const fgn_chain *chain, struct candidate *chosen) {
    struct tiling tiling = tiling_of((int)plan->choice[TILE_ROWS], (int)plan->choice[ROW_BLOCKS],
                                     (int)plan->choice[COLUMN_BLOCKS], (int)plan->choice[SPLITS]);
    return try_tiling(chain, (enum shape)plan->choice[SHAPE], tiling, plan->device.multiprocessors, chosen);
}

static const char *refusal(const fgn_chain *chain, const fgn_device *device) {
    struct candidate candidate;
    if (!is_simulator(device) && (device->major != 9 || device->minor != 0))
        return "a GPU of compute capability 9.0";
    if (chain->batch > INT32_MAX / 2)
        return "a batch below 2^30";
    if (!choose_tiling(chain, device, 0.0, &candidate))
        return "fewer operators with a vector";
    return NULL;
}

static const char *kernel_name(enum wgmma_factors factors, enum shape shape) {
    static const char *const names[][SHAPES] = {
        {"hopper_bfloat16_kernel", "hopper_bfloat16_narrow_kernel", "hopper_bfloat16_any_kernel",
         "hopper_bfloat16_any_96_kernel", "hopper_bfloat16_any_narrow_kernel",
         "hopper_bfloat16_any_64_kernel"},
        {"hopper_float16_kernel", "hopper_float16_narrow_kernel", "hopper_float16_any_kernel",
         "hopper_float16_any_96_kernel", "hopper_float16_any_narrow_kernel", "hopper_float16_any_64_kernel"},
        {"hopper_tf32_kernel", "hopper_tf32_narrow_kernel", "hopper_tf32_any_kernel",
         "hopper_tf32_any_96_kernel", "hopper_tf32_any_narrow_kernel", "hopper_tf32_any_64_kernel"},
        {"hopper_split_float32_kernel", "hopper_split_float32_narrow_kernel",
         "hopper_split_float32_any_kernel", "hopper_split_float32_any_96_kernel",
         "hopper_split_float32_any_narrow_kernel", "hopper_split_float32_any_64_kernel"},
        {"hopper_fp8_kernel", "hopper_fp8_narrow_kernel", "hopper_fp8_any_kernel", "hopper_fp8_any_96_kernel",
         "hopper_fp8_any_narrow_kernel", "hopper_fp8_any_64_kernel"}};
    return names[factors][shape];
}

/* Split factors need the halves of x before, and the float32 fallback after. Factors of fp8 are rounded
 * before, and those whose rows TMA cannot address are repacked. */
static void plan(const fgn_chain *given, const fgn_device *device, fgn_plan *plan) {
    struct candidate best;
    memset(&best, 0, sizeof best);
    for (int number = 0; number <= plan->candidate; number++)
        if (!choose_tiling(given, device, best.nanoseconds, &best))
            return;
    fgn_chain in_precision = *given;
    in_precision.precision = best.precision;
    const fgn_chain *chain = &in_precision;
    const struct tiling *tiling = &best.tiling;
    enum wgmma_factors factors = factors_of(chain);
    struct configuration config = configuration_of(factors, best.shape);
    int64_t cluster_tiles = cluster_tiles_of(tiling), cluster = cluster_of(tiling);
    int64_t most = clusters_at_once((int)cluster, device->multiprocessors);
    bool halves = is_float32_accurate(chain);
    plan->choice[SHAPE] = best.shape;
    plan->choice[PRECISION] = best.precision;
    plan->choice[TILE_ROWS] = tiling->tile_rows;
    plan->choice[ROW_BLOCKS] = tiling->row_blocks;
    plan->choice[COLUMN_BLOCKS] = tiling->column_blocks;
    plan->choice[SPLITS] = tiling->ends_later ? tiling->splits : 0;
    plan->nanoseconds = best.nanoseconds;
    if (halves)
        plan_halves(chain, device, plan);
    if (is_fp8(chain))
        plan_quantising(chain, plan);
    if (is_repacked(chain)) {
        plan_repacking(chain->batch, chain->in_features, element_bytes_of(chain), plan);
        plan_repacking(chain->out_features, chain->in_features, element_bytes_of(chain), plan);
    }
    fgn_launch *launch =
        add_launch(plan, kernel_name(factors, best.shape),
                   (cluster_tiles < most ? cluster_tiles : most) * cluster, threads_of(config));
    launch->cluster = (int)cluster;
    launch->shared_bytes = tiling->shared_bytes;
    set_tile(launch, tiling->tile_rows, config.strips * tiling->owned, chain->in_features,
             STEP_BYTES / element_bytes_of(chain));
    set_stages(launch, tiling->stages, 0, 0);
    launch->tiles = cluster_tiles * cluster;
    if (halves)
        add_product_of_halves(launch, chain);
    else if (is_fp8(chain))
        add_product_of_fp8(launch, chain);
    else
        add_product(launch, chain);
    if (tiling->ends_later) {
        int64_t bytes = (int64_t)bytes_of_sums(chain, tiling->splits);
        launch->computes |= FGN_PARTIAL_SUMS;
        add_written(launch, bytes, FGN_WRITES_WORKSPACE);
        plan_second_launch(chain, device, tiling->splits, plan);
        plan->workspace_bytes = tiles(plan->workspace_bytes, 16) * 16 + bytes;
    } else {
        add_ending(launch, chain);
        add_y(launch, chain);
    }
    if (halves)
        plan_float32_chain(chain, device, plan);
}
