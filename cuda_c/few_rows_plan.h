/* How gemm_few_rows_tensor.cu cuts a product into blocks: the host's choice among all ways there are, by what
 * they cost. */
#pragma once

#include "few_rows_parked.h"

struct plan {
    int row_tiles;
    int across;
    int splits;
    int cluster; /* as many blocks as k is split among, or 1 */
    int row_blocks;
    int column_blocks;
    int slots;
    int slot_bytes;
};

#define MOST_SPLITS 16
#define FEWEST_ROUNDS 4 /* worth a split */

/* Costs are in bytes that the GPU could read from memory meanwhile. */
#define LAUNCH_COST 16.0e6
#define CLUSTER_COST 4.0e6
#define WAVE_COST 12.0e6   /* a block's beginning and end */
#define ENDING_COST 2.0e3  /* of an output */
#define L2_SPEED 1.5       /* beside memory */
#define TENSOR_SPEED 132.0 /* outputs times bytes of k */
#define ROUND_COST 100.0e3 /* of the whole GPU: what a round takes if it had nothing to read */

static int attribute_of_device(enum cudaDeviceAttr attribute) {
    int device = 0, value = 0;
    if (cudaGetDevice(&device) == cudaSuccess)
        cudaDeviceGetAttribute(&value, attribute, device);
    return value;
}

static enum factors factors_of(const fgn_chain *chain) {
    if (chain->type == FGN_FLOAT16)
        return FLOAT16_FACTORS;
    if (chain->type == FGN_BFLOAT16)
        return BFLOAT16_FACTORS;
    return chain->precision == FGN_TF32 ? TF32_FACTORS : FLOAT32_PIECES;
}

/* mma for each tile of 16 rows and 8 columns, and 32 bytes of k. */
static double products_of(enum factors factors) {
    return factors == FLOAT32_PIECES ? 3.0 : 1.0;
}

static int power_of(int number) {
    int power = 0;
    while (1 << power < number)
        power++;
    return power;
}

static int steps_of(const fgn_chain *chain) {
    return (int)tiles(chain->in_features * element_bytes_of(factors_of(chain)), STEP_BYTES);
}

/* Whether a block has whole groups. */
static bool blocks_hold_groups(const fgn_chain *chain, int across) {
    return chain->groups == 0 || across * WARP_COLUMNS % (chain->out_features / chain->groups) == 0;
}

/* Whether blocks end the chain, rather than a second launch. */
static bool blocks_end(const fgn_chain *chain, const struct plan *plan) {
    return blocks_hold_groups(chain, plan->across) && plan->cluster == plan->splits;
}

static unsigned long long partial_bytes(const fgn_chain *chain, const struct plan *plan) {
    if (blocks_end(chain, plan))
        return 0;
    return (unsigned long long)plan->splits * chain->batch * chain->out_features * sizeof(float);
}

/* What the plan depends on of a GPU. */
struct gpu {
    int multiprocessors;
    int shared_bytes; /* of a block, at most */
    bool has_clusters;
};

static struct gpu this_gpu(void) {
    struct gpu gpu = {attribute_of_device(cudaDevAttrMultiProcessorCount),
                      attribute_of_device(cudaDevAttrMaxSharedMemoryPerBlockOptin),
                      attribute_of_device(cudaDevAttrComputeCapabilityMajor) >= 9};
    return gpu;
}

/* Blocks of a cluster end the chain only where lanes hold groups. */
static int cluster_of(const fgn_chain *chain, const struct plan *plan, const struct gpu *gpu) {
    struct ending ending = ending_of(chain, NULL);
    bool possible = gpu->has_clusters && plan->splits == MOST_CLUSTER &&
                    blocks_hold_groups(chain, plan->across) && lanes_hold_group(&ending);
    return possible ? plan->splits : 1;
}

static double cost_of(const fgn_chain *chain, const struct plan *plan, int multiprocessors) {
    enum factors factors = factors_of(chain);
    double blocks = (double)plan->row_blocks * plan->column_blocks * plan->splits;
    double waves = (double)tiles((int64_t)blocks, multiprocessors);
    double rows = plan->row_tiles * TILE_ROWS, columns = plan->across * WARP_COLUMNS;
    double rows_read = chain->batch < rows ? (double)chain->batch : rows;
    double k_bytes = (double)steps_of(chain) * STEP_BYTES / plan->splits;
    double rounds = tiles(tiles(steps_of(chain), plan->splits), WARPS / plan->across);
    double from_memory =
        (double)(chain->out_features + chain->batch) * chain->in_features * element_bytes_of(factors);
    double from_l2 = waves * multiprocessors * (rows_read + columns) * k_bytes / L2_SPEED;
    double multiplied =
        waves * multiprocessors * rows * columns * k_bytes * products_of(factors) / TENSOR_SPEED;
    double cost = from_memory > from_l2 ? from_memory : from_l2;
    cost = cost > multiplied ? cost : multiplied;
    cost += waves * (rounds * ROUND_COST + WAVE_COST + rows_read * columns / plan->cluster * ENDING_COST);
    if (!blocks_end(chain, plan))
        cost += LAUNCH_COST + 2.0 * (double)partial_bytes(chain, plan);
    else if (plan->cluster > 1)
        cost += CLUSTER_COST;
    return cost;
}

/* What a block takes of shared memory beside its slots. */
static int other_bytes(const struct plan *plan, enum factors factors) {
    return factors == FLOAT32_PIECES ? pieces_bytes_of(WARPS / plan->across * plan->row_tiles) : 0;
}

/* As many slots as fit in a block's shared memory; whether there are enough. */
static bool fill_slots(struct plan *plan, enum factors factors, int shared_bytes) {
    int tiles_in_slot = WARPS / plan->across * plan->row_tiles;
    plan->slot_bytes = slot_bytes_of(tiles_in_slot);
    plan->slots = (shared_bytes - other_bytes(plan, factors)) / plan->slot_bytes;
    plan->slots = plan->slots < MOST_SLOTS ? plan->slots : MOST_SLOTS;
    return tiles_in_slot <= MOST_TILES_IN_SLOT && plan->slots >= FEWEST_SLOTS &&
           parked_bytes(plan->across, plan->row_tiles) <= shared_bytes;
}

static int shared_bytes_of(const struct plan *plan, enum factors factors) {
    int slots = plan->slots * plan->slot_bytes + other_bytes(plan, factors);
    int parked = parked_bytes(plan->across, plan->row_tiles);
    return slots > parked ? slots : parked;
}

static struct plan plan_of(const fgn_chain *chain) {
    struct gpu gpu = this_gpu();
    struct plan plan, best;
    double least = -1.0;
    memset(&best, 0, sizeof best);
    for (plan.row_tiles = 1; plan.row_tiles <= MOST_ROW_TILES; plan.row_tiles *= 2) {
        for (plan.across = 1; plan.across <= WARPS; plan.across *= 2) {
            plan.row_blocks = (int)tiles(chain->batch, plan.row_tiles * TILE_ROWS);
            plan.column_blocks = (int)tiles(chain->out_features, plan.across * WARP_COLUMNS);
            if (!fill_slots(&plan, factors_of(chain), gpu.shared_bytes))
                continue;
            int rounds = (int)tiles(steps_of(chain), WARPS / plan.across);
            for (plan.splits = 1;
                 plan.splits <= MOST_SPLITS && (plan.splits == 1 || rounds / plan.splits >= FEWEST_ROUNDS);
                 plan.splits++) {
                plan.cluster = cluster_of(chain, &plan, &gpu);
                double cost = cost_of(chain, &plan, gpu.multiprocessors);
                if (least < 0.0 || cost < least) {
                    least = cost;
                    best = plan;
                }
            }
        }
    }
    return best;
}
