/* How gemm_10_hopper.cu cuts a chain into tiles: the host's arithmetic, which is C on both machines. */
#pragma once

#include "hopper/sizes.h"
#include "ladder/float32_chain.h"
#include "shared/halves.h"
#include "shared/plan.h"

/* Blocks with teams of one warpgroup, and of two; and the producer's. */
#define BLOCK_THREADS ((TEAMS + 1) * WARPGROUP)
#define LARGE_BLOCK_THREADS ((TEAMS * MOST_MEMBERS + 1) * WARPGROUP)

#define MOST_LANE_COLUMNS 8
#define MOST_BLOCK_COLUMNS (QUAD * MOST_LANE_COLUMNS)

static enum factors factors_of(const fgn_chain *chain) {
    if (is_float32_accurate(chain))
        return SPLIT_FLOAT32_FACTORS;
    return chain->type == FGN_FLOAT32   ? TF32_FACTORS
           : chain->type == FGN_FLOAT16 ? FLOAT16_FACTORS
                                        : BFLOAT16_FACTORS;
}

static int element_bytes_of(const fgn_chain *chain) {
    return chain->type == FGN_FLOAT32 && !is_float32_accurate(chain) ? 4 : 2;
}

static bool is_power_of_two(int64_t v) {
    return v > 0 && (v & (v - 1)) == 0;
}

/* Columns, of which each of four lanes has two (quad_norm.h). */
#define SMALLEST_GROUP 8

/* Whether the norm can be in the product's kernel. */
static bool normalises_in_tile(const fgn_chain *chain) {
    int64_t size = group_size_of(chain);
    return is_power_of_two(size) && size >= SMALLEST_GROUP && size <= PAIR * TILE_COLUMNS;
}

/* Pairs of rows share w, which is the larger part of a slot; but a group of two tiles needs a pair of
 * columns, and an odd number of row tiles would leave a block without work. */
static bool pairs_share_w(const fgn_chain *chain, int tile_rows, int columns) {
    return group_size_of(chain) != PAIR * columns && tiles(chain->batch, tile_rows) % PAIR == 0;
}

/* The longest product of which a team has tiles of its own. */
#define MOST_OWN_STEPS 32

/* Whether tiles of this size leave half of the pairs without work, or more. */
static bool are_few(const fgn_chain *chain, int tile_rows, int columns, int pairs) {
    return tiles(tiles(chain->batch, tile_rows) * tiles(chain->out_features, columns), PAIR) * 2 <= pairs;
}

/* Tiles of one team for short products, and smaller tiles where large ones are few. */
static struct product choose_tiles(const fgn_chain *chain, int steps, int pairs, int *tile_rows) {
    bool own = !is_float32_accurate(chain) &&
               (steps <= MOST_OWN_STEPS || are_few(chain, COMMON_ROWS, TILE_COLUMNS, pairs));
    *tile_rows = own ? WARPGROUP_ROWS : COMMON_ROWS;
    bool narrow =
        group_size_of(chain) <= PAIR * NARROW_COLUMNS && are_few(chain, *tile_rows, TILE_COLUMNS, pairs);
    int columns = narrow ? NARROW_COLUMNS : TILE_COLUMNS;
    struct product product = {factors_of(chain), columns,
                              is_float32_accurate(chain) || narrow ? columns : columns / 2};
    return product;
}

/* The vectors have what the ring leaves of a block's 227 KB of shared memory. */
#define MOST_SHARED_BYTES (227 << 10)

static size_t shared_bytes_of(int vectors, int columns) {
    return SLOT_ALIGNMENT + sizeof(struct hopper_memory) + TEAMS * vectors * columns * sizeof(float);
}

static int operands_of(const fgn_pointwise *step, int count) {
    int operands = 0;
    for (int i = 0; i < count; i++)
        operands += takes_channel(&step[i]);
    return operands;
}

/* Bias, what undoes scaling, scale and shift may all be there. */
static bool vectors_fit(const fgn_chain *chain) {
    int operands =
        operands_of(chain->before, chain->before_count) + operands_of(chain->after, chain->after_count);
    return shared_bytes_of(4 + operands, TILE_COLUMNS) <= MOST_SHARED_BYTES;
}

/* ---- The plan ---- */

/* Where a plan has what the launch needs again; a unit is what a pair computes at a time. */
enum choice { ROWS, COLUMNS, WARPGROUP_COLUMNS, PAIR_SHARES_W, ROW_UNITS, COLUMN_UNITS };

static const char *refusal(const fgn_chain *chain, const fgn_device *device) {
    if (device->major != 9 || device->minor != 0)
        return "a GPU of compute capability 9.0";
    if (chain->vector_type != FGN_FLOAT32)
        return "vectors in float32";
    if (!is_float32_accurate(chain) && chain->in_features % (16 / element_bytes_of(chain)) != 0)
        return "rows of x that are multiples of 16 bytes";
    if (chain->out_features % MOST_BLOCK_COLUMNS != 0)
        return "a multiple of 32 output features";
    if (chain->groups > 0 && !normalises_in_tile(chain))
        return "groups of 8, 16, 32, 64, 128, 256 or 512 channels";
    if (adds_tensor(chain))
        return "no operator that adds a tensor";
    if (!vectors_fit(chain))
        return "at most 4 operators with a vector";
    if (chain->batch > INT32_MAX - COMMON_ROWS * PAIR)
        return "a batch below 2^31";
    return NULL;
}

static const char *kernel_name(struct product product) {
    static const char *const wide[] = {"hopper_bfloat16_kernel", "hopper_float16_kernel",
                                       "hopper_tf32_kernel", "hopper_split_float32_kernel"};
    static const char *const narrow[] = {"hopper_bfloat16_narrow_kernel", "hopper_float16_narrow_kernel",
                                         "hopper_tf32_narrow_kernel", "hopper_split_float32_narrow_kernel"};
    return product.columns == TILE_COLUMNS ? wide[product.factors] : narrow[product.factors];
}

/* Split factors: the halves of x before, and float32 in their stead after. */
static void plan(const fgn_chain *chain, const fgn_device *device, fgn_plan *plan) {
    bool halves = is_float32_accurate(chain);
    int most_pairs = device->multiprocessors / PAIR, tile_rows;
    int step_elements = STEP_BYTES / element_bytes_of(chain);
    int steps = (int)tiles(chain->in_features, step_elements);
    struct product product = choose_tiles(chain, steps, most_pairs, &tile_rows);
    bool shares_w = pairs_share_w(chain, tile_rows, product.columns);
    int64_t row_units = tiles(chain->batch, shares_w ? PAIR * tile_rows : tile_rows);
    int64_t column_units = tiles(chain->out_features, shares_w ? product.columns : PAIR * product.columns);
    int64_t units = row_units * column_units, pairs = most_pairs < units ? most_pairs : units;
    int operands =
        operands_of(chain->before, chain->before_count) + operands_of(chain->after, chain->after_count);
    plan->choice[ROWS] = tile_rows;
    plan->choice[COLUMNS] = product.columns;
    plan->choice[WARPGROUP_COLUMNS] = product.warpgroup_columns;
    plan->choice[PAIR_SHARES_W] = shares_w;
    plan->choice[ROW_UNITS] = row_units;
    plan->choice[COLUMN_UNITS] = column_units;
    if (halves)
        plan_halves(chain, device, plan);
    fgn_launch *launch = add_launch(plan, kernel_name(product), pairs * PAIR,
                                    members_of(product) == 1 ? BLOCK_THREADS : LARGE_BLOCK_THREADS);
    launch->cluster = PAIR;
    launch->shared_bytes = shared_bytes_of(4 + operands, product.columns);
    set_tile(launch, tile_rows, product.columns, chain->in_features, step_elements);
    int slots = RING_BYTES / (STEP_BYTES * (tile_rows + product.columns));
    set_stages(launch, slots < MOST_SLOTS ? slots : MOST_SLOTS, 0, 0);
    launch->tiles = units * PAIR;
    if (halves)
        add_product_of_halves(launch, chain);
    else
        add_product(launch, chain);
    add_ending(launch, chain);
    add_y(launch, chain);
    if (halves)
        plan_float32_chain(chain, device, plan);
}
