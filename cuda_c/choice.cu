/* The choice of a version for a chain: on Hopper by models of time, on other GPUs by rules from measurements.
 */
#include <math.h>

#include "ladder/pipelined_tile.h"
#include "shared/plan.h"

/* The rungs that the rules know; the others are taken in the order of the table. */
extern const struct rung naive_rung, register_tile_rung, fused_rung, one_kernel_rung, few_rows_float32_rung,
    tensor_core_rung, hopper_rung, few_rows_rung, library_rung;

/* With fewer operations, a tensor core kernel's fixed costs exceed the time of the product. */
#define FEWEST_TENSOR_OPERATIONS 1e9

/* The steps of the Hopper ladder are for reading, measuring and comparing; hopper combines them. */
static bool is_lesson(const struct rung *rung) {
    const char folder[] = "hopper_steps/";
    return strncmp(rung->version.gemm, folder, sizeof folder - 1) == 0;
}

static bool has_tensor_cores(const struct rung *rung) {
    return rung == &tensor_core_rung || rung == &hopper_rung || rung == &few_rows_rung;
}

/* Whether products of 16-bit halves, three for one, are faster than ordinary float32. They are on data centre
 * GPUs (8.0, 9.0 and 10.0), whose tensor cores have at least 16 times the rate, and not on 8.6, 8.9 and 12.0,
 * whose tensor cores have two to four times the rate. CUDA C++ Programming Guide, "Arithmetic Instructions",
 * and the architectures' white papers. */
static bool has_fast_tensor_cores(const fgn_device *device) {
    return device->minor == 0 && device->major >= 8 && device->major <= 10;
}

/* A rung's own model of time, where it has one. */
static double planned_nanoseconds(const struct rung *rung, const fgn_chain *chain, const fgn_device *device) {
    fgn_plan plan;
    memset(&plan, 0, sizeof plan);
    rung->plan(chain, device, &plan);
    return plan.nanoseconds;
}

/* ---- The simulator ----
 *
 * The simulator takes time for each thread and each multiply-add, even for the padding of a tile, so other
 * versions are fast on it than on a GPU. On the simulator, its own time decides.
 */

/* Multiply-adds of the product with whole tiles: sizes rounded up to `rows`, `columns` and steps of `k`. */
static double whole(const fgn_chain *chain, int rows, int columns, int step_k) {
    return ceil((double)chain->batch / rows) * rows * ceil((double)chain->out_features / columns) * columns *
           ceil((double)chain->in_features / step_k) * step_k;
}

/* The approximate time of a rung on one core, fitted to its processor time at twelve shapes from 1x16->64 to
 * 64x512->512; 0: not known. */
static double nanoseconds_on_simulator(const struct rung *rung, const fgn_chain *chain) {
    double outputs = (double)chain->batch * chain->out_features;
    if (rung == &naive_rung)
        return 110.0 * outputs + 1.0 * whole(chain, 1, 1, 1);
    if (rung == &register_tile_rung)
        return 50.0 * outputs + 1.0 * whole(chain, 64, 64, 16);
    if (rung == &tensor_core_rung)
        return 70.0 * outputs + 3.4 * whole(chain, 128, 256, 64);
    if (rung == &few_rows_rung)
        return 150.0 * outputs + 4.2 * whole(chain, 16, 32, 64);
    return 0.0;
}

static bool is_faster_on_simulator(const struct rung *rung, const struct rung *than, const fgn_chain *chain) {
    double takes = nanoseconds_on_simulator(rung, chain), best = nanoseconds_on_simulator(than, chain);
    return takes > 0.0 && (best == 0.0 || takes < best);
}

/* ---- Hopper: what takes the least time by the models ---- */

static bool is_hopper(const fgn_device *device) {
    return device->major == 9 && device->minor == 0;
}

/* The approximate time of rungs 7 and 8 on an H200: waves of tiles of 128 by 128. A wave's time grows with k,
 * plus a constant that is longer for operators with an exponential. Rung 7 has its norm in a second launch.
 * Fitted to 19 shapes where these rungs are fastest. */
static double nanoseconds_of_float32(const struct rung *rung, const fgn_chain *chain,
                                     const fgn_device *device) {
    double tiles_of_y = ceil(chain->batch / 128.0) * ceil(chain->out_features / 128.0);
    double waves = ceil(tiles_of_y / device->multiprocessors);
    double each = 92.0 * chain->in_features + 7000.0 + 6000.0 * exponentials_of(chain);
    double product = 6000.0 + waves * each;
    if (rung == &one_kernel_rung || chain->groups == 0)
        return product;
    return product + 4000.0 + 8.0 * chain->batch * chain->out_features / 3000.0;
}

/* few_rows' model adds the waits of a block for its k tiles to the time in which memory delivers the weight.
 * Where the weight is far larger than a block's share of the caches, that time hides the waits. For the
 * recorded calls with 1 to 16 rows, the model is 12 microseconds too long with a weight of 134 MB and 26 with
 * 268 MB. */
static double nanoseconds_behind_memory(const fgn_chain *chain) {
    double weight = (double)chain->in_features * chain->out_features * element_bytes(chain->type);
    return chain->batch <= 16 ? fmax(weight - 32e6, 0.0) / 10e3 : 0.0;
}

/* Time that the models of two rungs leave out. hopper's candidates were measured one after another, in one
 * kernel. A user's call comes after other kernels, which evict the rung's instructions. For small k the
 * norm's epilogue takes a little longer than its model says. Without a norm the code is short. Fitted to 96
 * calls of the sweep on an H200, and 126 small ones on an H100, 52 of them held out; the time without a norm
 * to lab/records/choice_h200.csv.xz. */
static double nanoseconds_left_out(const struct rung *rung, const fgn_chain *chain) {
    if (rung == &few_rows_rung)
        return -nanoseconds_behind_memory(chain);
    if (rung != &hopper_rung)
        return 0.0;
    if (is_float32_accurate(chain))
        return 2500.0;
    double k = chain->in_features / 500.0;
    return chain->groups > 0 ? 5000.0 + 0.0002 * outputs_of(chain) / (1.0 + k * k) : 2000.0;
}

/* 0: the rung may not be chosen. For one row, tf32 saves no time and torch's product is in float32, so only
 * few_rows may be chosen, which is as accurate there. */
static double nanoseconds_on_hopper(const struct rung *rung, const fgn_chain *chain,
                                    const fgn_device *device) {
    if (rung == &few_rows_rung || rung == &library_rung ||
        (rung == &hopper_rung && !is_one_row_of_tf32(chain)))
        return planned_nanoseconds(rung, chain, device) + nanoseconds_left_out(rung, chain);
    if ((rung == &one_kernel_rung || rung == &fused_rung) && is_float32_accurate(chain))
        return nanoseconds_of_float32(rung, chain, device);
    return 0.0;
}

/* ---- Other GPUs ---- */

/* The approximate time of a product in a rung with tiles, to be compared with few_rows' model. On tensor
 * cores each wave of tiles takes a time that grows with k, plus a constant. Without them the rate is 24
 * TFLOP/s where the tiles do not fill the GPU, or the weight arrives at 2.7 TB/s. Both models have the rates
 * of an H200; another GPU's differ mostly by a common factor, which does not change the choice. */
static double nanoseconds_in_tiles(const struct rung *rung, const fgn_chain *chain,
                                   const fgn_device *device) {
    double weights = (double)chain->in_features * chain->out_features;
    if (!has_tensor_cores(rung))
        return 10.0e3 + fmax(chain->batch * weights / 12.0e3, weights * sizeof(float) / 2.7e3);
    double tiles_of_y = ceil(chain->batch / 128.0) * ceil(chain->out_features / 256.0);
    double waves = ceil(tiles_of_y / device->multiprocessors);
    double each_k = is_float32_accurate(chain) ? 14.6 : chain->type == FGN_FLOAT32 ? 8.5 : 4.8;
    double once = is_float32_accurate(chain) ? 24.0e3 : 12.5e3; /* the halves of x are another launch */
    return once + waves * each_k * chain->in_features;
}

/* Whether a version is faster than the best of those before it in the table. Without tensor cores: the last
 * rung if its tiles fill the GPU, otherwise few_rows_float32. With them: tensor_core if there is work for it,
 * but few_rows where tensor_core would leave most of the GPU idle or wait for memory. */
static bool is_faster_elsewhere(const struct rung *rung, const struct rung *than, const fgn_chain *chain,
                                const fgn_device *device) {
    if (rung == &one_kernel_rung)
        return !has_few_tiles(chain->batch, chain->out_features);
    if (rung == &few_rows_float32_rung)
        return has_few_tiles(chain->batch, chain->out_features);
    if (!has_tensor_cores(rung))
        return true;
    if (rung == &tensor_core_rung && is_float32_accurate(chain) && !has_fast_tensor_cores(device))
        return false;
    if (rung == &few_rows_rung)
        return planned_nanoseconds(rung, chain, device) < nanoseconds_in_tiles(than, chain, device);
    double operations = 2.0 * chain->batch * chain->in_features * chain->out_features;
    return operations >= FEWEST_TENSOR_OPERATIONS;
}

/* ---- The choice ---- */

static bool is_faster(const struct rung *rung, const struct rung *than, const fgn_chain *chain,
                      const fgn_device *device) {
    if (is_simulator(device))
        return is_faster_on_simulator(rung, than, chain);
    if (!is_hopper(device))
        return is_faster_elsewhere(rung, than, chain, device);
    double takes = nanoseconds_on_hopper(rung, chain, device);
    double best = nanoseconds_on_hopper(than, chain, device);
    return takes > 0.0 && (best == 0.0 || takes < best);
}

/* Whether this rung may be the default. A library's time is known for an H200 only. */
static bool is_candidate(const struct rung *rung, const fgn_chain *chain, const fgn_device *device) {
    if (is_lesson(rung) || (rung == &library_rung && !is_hopper(device)))
        return false;
    return !rung->refusal(chain, device);
}

int fgn_default_version(const fgn_chain *chain, const fgn_device *device) {
    fgn_device here;
    if (!chain || (!device && fgn_current_device(&here) != FGN_OK))
        return -1;
    device = device ? device : &here;
    int best = -1;
    for (int version = 0; version < fgn_version_count(); version++) {
        const struct rung *rung = rung_at(version);
        if (!is_candidate(rung, chain, device))
            continue;
        if (best < 0 || is_faster(rung, rung_at(best), chain, device))
            best = version;
    }
    return best;
}
