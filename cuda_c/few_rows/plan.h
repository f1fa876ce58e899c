/* How gemm_few_rows_tensor.cu cuts a product into blocks: the host's choice among all ways there are, by what
 * they would take. */
#pragma once

#include "few_rows/parked.h"
#include "few_rows/second_launch.h"
#include "shared/plan.h"

struct plan {
    int row_tiles; /* of a block */
    int across;    /* warps of a block side by side */
    int splits;    /* of k, among blocks */
    int cluster;   /* as many blocks as k is split among, or 1 */
    int row_blocks;
    int column_blocks;
    int stages;
    int stage_bytes;
};

#define MOST_SPLITS 16
#define FEWEST_K_TILES 2 /* worth a split */

/* Rates in each nanosecond and times in nanoseconds, fitted to 2695 times on an H200, of 1 to 16384 rows and
 * many ways to cut them: the model errs by 12 % on average. On another GPU all of them differ, but mostly by
 * a common factor. */
#define MEMORY_RATE 3900     /* bytes */
#define UNALIGNED_RATE 480   /* bytes that come by ordinary loads, of all multiprocessors */
#define SPLIT_RATE 20000     /* bytes of weight in float32 that become pieces, or half as many of x */
#define TENSOR_RATE 515000   /* bytes of k times outputs */
#define LAUNCH_TIME 4350     /* with the first bytes' way */
#define WAVE_TIME 2700       /* a block's beginning */
#define K_TILE_TIME 420      /* a block waits for its warps and its copies */
#define OUTPUTS_TIME 1050    /* a block's end: of 1000 outputs */
#define EXPONENTIAL_TIME 490 /* of 1000 outputs, where an operator has one */
#define CLUSTER_TIME 1250    /* a block waits for the other */

static enum mma_factors factors_of(const fgn_chain *chain) {
    if (chain->type == FGN_FLOAT16)
        return FLOAT16_MMA;
    if (chain->type == FGN_BFLOAT16)
        return BFLOAT16_MMA;
    return is_float32_accurate(chain) || is_one_row_of_tf32(chain) ? FLOAT32_PIECES_MMA : TF32_MMA;
}

static int steps_of(const fgn_chain *chain) {
    return (int)tiles(chain->in_features * element_bytes_of(factors_of(chain)), STEP_BYTES);
}

/* Whether a block has whole groups. */
static bool blocks_hold_groups(const fgn_chain *chain, int across) {
    return chain->groups == 0 || across * WARP_COLUMNS % group_size_of(chain) == 0;
}

/* Blocks of a cluster end the chain only where lanes hold groups. */
static bool can_be_clusters(const fgn_chain *chain, const fgn_device *device) {
    struct ending ending = ending_of(chain, NULL);
    return device->major >= 9 && lanes_hold_group(&ending);
}

/* Whether blocks end the chain, rather than a second launch. */
static bool blocks_end(const fgn_chain *chain, const struct plan *plan) {
    return blocks_hold_groups(chain, plan->across) && plan->cluster == plan->splits;
}

static unsigned long long partial_bytes(const fgn_chain *chain, const struct plan *plan) {
    if (blocks_end(chain, plan))
        return 0;
    return bytes_of_sums(chain, plan->splits);
}

/* What a block takes of shared memory beside its stages. */
static int other_bytes(const struct plan *plan, enum mma_factors factors) {
    return factors == FLOAT32_PIECES_MMA ? pieces_bytes_of(WARPS / plan->across * plan->row_tiles) : 0;
}

/* What the vectors of a block that ends the chain take. */
static int vector_bytes_of(const fgn_chain *chain, const struct plan *plan) {
    return loaded_vector_bytes(vector_places_of(chain), plan->across * WARP_COLUMNS);
}

/* As many stages as fit in a block's shared memory; whether there are enough. */
static bool fill_stages(const fgn_chain *chain, struct plan *plan, int shared_bytes) {
    enum mma_factors factors = factors_of(chain);
    shared_bytes -= 16 + vector_bytes_of(chain, plan);
    int tiles_in_stage = WARPS / plan->across * plan->row_tiles;
    plan->stage_bytes = stage_bytes_of(tiles_in_stage);
    plan->stages = (shared_bytes - other_bytes(plan, factors)) / plan->stage_bytes;
    plan->stages = plan->stages < MOST_STAGES ? plan->stages : MOST_STAGES;
    return tiles_in_stage <= MOST_TILES_IN_STAGE && plan->stages >= FEWEST_STAGES &&
           parked_bytes(plan->across, plan->row_tiles) <= shared_bytes;
}

/* The vectors follow what the stages and the parked sums take in turns. */
static int vectors_at(const struct plan *plan, enum mma_factors factors) {
    int stages = plan->stages * plan->stage_bytes + other_bytes(plan, factors);
    int parked = parked_bytes(plan->across, plan->row_tiles);
    return (stages > parked ? stages : parked) / 16 * 16 + 16;
}

static int shared_bytes_of(const fgn_chain *chain, const struct plan *plan, enum mma_factors factors) {
    return vectors_at(plan, factors) + (blocks_end(chain, plan) ? vector_bytes_of(chain, plan) : 0);
}

static double larger_of(double a, double b) {
    return a > b ? a : b;
}

/* A block that has to wait for its turn costs as much as one on every multiprocessor. */
static double nanoseconds_of(const fgn_chain *chain, const struct plan *plan, const fgn_device *device) {
    enum mma_factors factors = factors_of(chain);
    double waves = (double)tiles((int64_t)plan->row_blocks * plan->column_blocks * plan->splits,
                                 device->multiprocessors);
    double rows = plan->row_tiles * TILE_ROWS, columns = plan->across * WARP_COLUMNS;
    double rows_read = chain->batch < rows ? (double)chain->batch : rows;
    double k_bytes = (double)tiles(steps_of(chain), plan->splits) * STEP_BYTES;
    double k_bytes_of_all = waves * device->multiprocessors * k_bytes;
    double tensors =
        (double)(chain->out_features + chain->batch) * chain->in_features * element_bytes_of(factors);
    double multiplying = k_bytes_of_all * rows * columns / TENSOR_RATE;
    if (factors == FLOAT32_PIECES_MMA) /* six products, where 16-bit types have one of twice as many k */
        multiplying = 3.0 * multiplying + k_bytes_of_all * (columns + rows_read / 2.0) / SPLIT_RATE;
    double time = larger_of(tensors / MEMORY_RATE, multiplying);
    if (chain->in_features * element_bytes_of(factors) % CHUNK != 0)
        time = larger_of(time, k_bytes_of_all * (rows_read + columns) / UNALIGNED_RATE);
    double k_tiles = (double)tiles(tiles(steps_of(chain), plan->splits), WARPS / plan->across);
    double of_outputs = OUTPUTS_TIME + exponentials_of(chain) * EXPONENTIAL_TIME;
    if (!blocks_end(chain, plan))
        of_outputs /= 2.0; /* the second launch does the rest */
    double ending = rows_read * columns / plan->cluster / 1000.0 * of_outputs;
    time += LAUNCH_TIME + waves * (WAVE_TIME + k_tiles * K_TILE_TIME + ending);
    if (plan->cluster > 1)
        time += CLUSTER_TIME;
    if (!blocks_end(chain, plan))
        time += nanoseconds_of_second_launch(chain, plan->splits);
    return time;
}

/* More parts would be too short, or more than fill the GPU. */
static int most_splits_of(const fgn_chain *chain, const struct plan *plan, const fgn_device *device) {
    int64_t k_tiles = tiles(steps_of(chain), WARPS / plan->across);
    int64_t blocks = (int64_t)plan->row_blocks * plan->column_blocks; /* none for a batch of 0 */
    int64_t fill = blocks > 0 ? tiles(device->multiprocessors, blocks) : 1;
    int64_t splits = k_tiles / FEWEST_K_TILES;
    splits = splits < fill ? splits : fill;
    splits = splits < MOST_SPLITS ? splits : MOST_SPLITS;
    return splits > 1 ? (int)splits : 1;
}

/* The fastest plan that takes longer than `longer_than` nanoseconds, and what it takes; less than nothing
 * where there is none. */
static struct plan plan_of(const fgn_chain *chain, const fgn_device *device, double longer_than,
                           double *nanoseconds) {
    bool clusters = can_be_clusters(chain, device);
    struct plan plan, best;
    *nanoseconds = -1.0;
    memset(&best, 0, sizeof best);
    for (plan.row_tiles = 1; plan.row_tiles <= MOST_ROW_TILES; plan.row_tiles *= 2) {
        for (plan.across = 1; plan.across <= WARPS; plan.across *= 2) {
            plan.row_blocks = (int)tiles(chain->batch, plan.row_tiles * TILE_ROWS);
            plan.column_blocks = (int)tiles(chain->out_features, plan.across * WARP_COLUMNS);
            if (!fill_stages(chain, &plan, (int)most_shared_bytes(device)))
                continue;
            bool pair = clusters && blocks_hold_groups(chain, plan.across);
            int most_splits = most_splits_of(chain, &plan, device);
            for (plan.splits = 1; plan.splits <= most_splits; plan.splits++) {
                plan.cluster = pair && plan.splits == MOST_CLUSTER ? MOST_CLUSTER : 1;
                double time = nanoseconds_of(chain, &plan, device);
                if (time > longer_than && (*nanoseconds < 0.0 || time < *nanoseconds)) {
                    *nanoseconds = time;
                    best = plan;
                }
            }
        }
    }
    return best;
}
