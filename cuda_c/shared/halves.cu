/* Makes the two float16 halves of float32 matrices, which halves.h explains.
 *
 * Idea: a block for each row, or a warp for a short one. Two matrices with rows of one length are split in
 * one launch, one below the other. One pass finds the row's largest magnitude and the mean of its exponents,
 * a second one scales and splits. Between them each thread keeps 32 values of the row in registers; the rest
 * of a longer row is read again, from a cache.
 *
 * Bytes: 4 read and 4 written for each element.
 *
 * Limit: memory bandwidth. */
#include "shared/halves.h"
#include "shared/fingerprint.h"
#include "shared/plan.h"
#include "shared/split.h"
#include "shared/team.h"

#define THREADS 256
#define WARPS (THREADS / LANES)
#define KEPT 8 /* float4s of a row that a thread keeps */

struct halves_args {
    const float *matrix;
    const float *below; /* the matrix that follows, from row `above` on */
    int64_t above;
    int64_t rows; /* of both */
    int64_t columns;
    int team; /* threads for a row: a warp or the block */
    struct halves halves;
    bool fours; /* rows are made of aligned float4 */
    struct upkeep
        *upkeep; /* NULL, or the flag without which the launch does nothing: the matrix has changed */
};

static inline __device__ void look_at_float4(struct spread *spread, float4 four) {
    look_at(spread, four.x);
    look_at(spread, four.y);
    look_at(spread, four.z);
    look_at(spread, four.w);
}

/* Gives every thread the team's result. */
static inline __device__ struct spread spread_of_team(struct spread mine, struct spread *of_warp, int team) {
    for (int distance = LANES / 2; distance > 0; distance /= 2) {
        int largest = __shfl_xor_sync(0xffffffffu, mine.largest, distance);
        mine.largest = largest > mine.largest ? largest : mine.largest;
    }
    mine.exponents = team_sum(mine.exponents, LANES);
    mine.nonzero = team_sum(mine.nonzero, LANES);
    mine.infinite = team_sum(mine.infinite, LANES);
    if (team == LANES)
        return mine;
    if (threadIdx.x % LANES == 0)
        of_warp[threadIdx.x / LANES] = mine;
    __syncthreads();
    struct spread all = of_warp[0];
    for (int warp = 1; warp < WARPS; warp++) {
        all.largest = of_warp[warp].largest > all.largest ? of_warp[warp].largest : all.largest;
        all.exponents += of_warp[warp].exponents;
        all.nonzero += of_warp[warp].nonzero;
        all.infinite += of_warp[warp].infinite;
    }
    return all;
}

static inline __device__ void store_float4(uint16_t *high, uint16_t *low, float4 four, float factor) {
    struct half_pair a = split(four.x * factor), b = split(four.y * factor);
    struct half_pair c = split(four.z * factor), d = split(four.w * factor);
    uint2 highs = {a.high | (uint32_t)b.high << 16, c.high | (uint32_t)d.high << 16};
    uint2 lows = {a.low | (uint32_t)b.low << 16, c.low | (uint32_t)d.low << 16};
    *(uint2 *)high = highs;
    *(uint2 *)low = lows;
}

static __forceinline__ __device__ void split_row(const struct halves_args *given, int64_t number,
                                                 struct spread *of_warp) {
    const struct halves_args args = *given;
    int member = threadIdx.x % args.team;
    const float *row = number < args.above ? args.matrix + number * args.columns
                                           : args.below + (number - args.above) * args.columns;
    const int64_t first = 4 * member, between = 4 * args.team;
    float4 kept[KEPT];
    struct spread mine = {NO_EXPONENT, 0.0f, 0.0f, 0.0f};
    if (args.fours) {
#pragma unroll
        for (int j = 0; j < KEPT; j++) {
            int64_t i = first + j * between;
            kept[j] = i < args.columns ? *(const float4 *)(row + i) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        }
#pragma unroll
        for (int j = 0; j < KEPT; j++)
            if (j * between < args.columns) /* the same in all threads, so that a short row costs no more */
                look_at_float4(&mine, kept[j]);
        for (int64_t i = first + KEPT * between; i < args.columns; i += between)
            look_at_float4(&mine, *(const float4 *)(row + i));
    } else {
        for (int64_t i = member; i < args.columns; i += args.team)
            look_at(&mine, row[i]);
    }
    struct spread all = spread_of_team(mine, of_warp, args.team);
    int scale = scale_of_row(all);
    if (member == 0) {
        args.halves.unscale[number] = power_of_two(-scale);
        if (!is_held(all))
            *args.halves.unheld = 1; /* by as many threads as there are such rows, always 1 */
    }
    float factor = power_of_two(scale);
    int64_t pitch = halves_pitch(args.columns);
    uint16_t *high = args.halves.high + number * pitch, *low = args.halves.low + number * pitch;
    if (args.fours) {
#pragma unroll
        for (int j = 0; j < KEPT; j++) {
            int64_t i = first + j * between;
            if (i < args.columns)
                store_float4(high + i, low + i, kept[j], factor);
        }
        for (int64_t i = first + KEPT * between; i < args.columns; i += between)
            store_float4(high + i, low + i, *(const float4 *)(row + i), factor);
    } else {
        for (int64_t i = member; i < args.columns; i += args.team) {
            struct half_pair pair = split(row[i] * factor);
            high[i] = pair.high;
            low[i] = pair.low;
        }
    }
    if (member < pitch - args.columns)
        high[args.columns + member] = low[args.columns + member] = 0;
}

/* The last block to end its rows notes that the halves are up to date. */
static __forceinline__ __device__ void note_remade(struct upkeep *upkeep) {
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    __threadfence();
    if (atomicAdd(&upkeep->remade, 1u) == gridDim.x - 1) {
        __threadfence(); /* the others have read `changed` before it is written */
        upkeep->changed = 0;
        upkeep->remade = 0;
    }
}

__global__ void __launch_bounds__(THREADS) halves_kernel(struct halves_args args) {
    __shared__ struct spread of_warp[WARPS];
    if (args.upkeep && !args.upkeep->changed)
        return;
    int rows_at_once = THREADS / args.team;
    int64_t first = blockIdx.x * (int64_t)rows_at_once + threadIdx.x / args.team;
    for (int64_t number = first; number < args.rows; number += gridDim.x * (int64_t)rows_at_once) {
        split_row(&args, number, of_warp);
        if (args.team == THREADS)
            __syncthreads(); /* all have read `of_warp` */
    }
    if (args.upkeep)
        note_remade(args.upkeep);
}

LAUNCHER(halves_kernel, struct halves_args)

static unsigned long long aligned(unsigned long long bytes) {
    return (bytes + 255) / 256 * 256;
}

unsigned long long halves_bytes(int64_t rows, int64_t columns) {
    return 2 * aligned(rows * halves_pitch(columns) * sizeof(uint16_t)) + aligned(rows * sizeof(float)) +
           aligned(sizeof(int));
}

struct halves halves_at(void *memory, int64_t rows, int64_t columns) {
    unsigned char *at = (unsigned char *)memory;
    unsigned long long half = aligned(rows * halves_pitch(columns) * sizeof(uint16_t));
    struct halves halves = {(uint16_t *)at, (uint16_t *)(at + half), (float *)(at + 2 * half),
                            (int *)(at + 2 * half + aligned(rows * sizeof(float)))};
    return halves;
}

struct halves halves_below(struct halves halves, int64_t rows, int64_t columns) {
    int64_t values = rows * halves_pitch(columns);
    struct halves below = {halves.high + values, halves.low + values, halves.unscale + rows, halves.unheld};
    return below;
}

/* The threads for a row: a warp where it can keep the whole row in registers. */
static int team_of(int64_t columns) {
    return columns <= 4 * KEPT * LANES ? LANES : THREADS;
}

/* Usually nothing has to be made again, and blocks that only check take time too: so this many run at once.
 */
#define MOST_BLOCKS_THAT_LOOK 1056

static int64_t blocks_of(int64_t rows, int64_t columns, bool look) {
    int64_t blocks = tiles(rows, THREADS / team_of(columns));
    return look && blocks > MOST_BLOCKS_THAT_LOOK ? MOST_BLOCKS_THAT_LOOK : blocks;
}

static cudaError_t launch_halves(const float *matrix, int64_t rows, const float *below, int64_t rows_below,
                                 int64_t columns, struct halves halves, struct upkeep *upkeep,
                                 cudaStream_t stream) {
    bool aligned_rows = columns % 4 == 0 && (uintptr_t)matrix % 16 == 0 && (uintptr_t)below % 16 == 0;
    struct halves_args args = {matrix, below,        rows,  rows + rows_below, columns, team_of(columns),
                               halves, aligned_rows, upkeep};
    dim3 grid = {(unsigned)blocks_of(args.rows, columns, upkeep != NULL), 1, 1};
    dim3 block = {THREADS, 1, 1};
    return launch_halves_kernel(grid, block, 0, stream, args);
}

cudaError_t make_halves(const float *matrix, int64_t rows, const float *below, int64_t rows_below,
                        int64_t columns, struct halves halves, cudaStream_t stream) {
    cudaError_t error = cudaMemsetAsync(halves.unheld, 0, sizeof(int), stream);
    if (error != cudaSuccess)
        return error;
    return launch_halves(matrix, rows, below, rows_below, columns, halves, NULL, stream);
}

/* ---- The plan ---- */

/* A weight with fewer elements is split in each call, which takes less time than checking for a change.
 * The check takes two more launches, about 5 us on an H200; meanwhile memory moves 4 bytes for each of
 * this many elements. On the simulator the limit is lower, because tests want small weights to be kept
 * too. */
#define FEWEST_KEPT (4LL << 20)
#define FEWEST_KEPT_SIMULATED (3LL << 10)

/* Both halves of a matrix, and what undoes its scaling. */
static int64_t bytes_of_both(int64_t rows, int64_t columns) {
    return rows * (2 * halves_pitch(columns) * sizeof(uint16_t) + sizeof(float));
}

static void plan_proof(const fgn_chain *chain, fgn_plan *plan) {
    int64_t rows = chain->out_features, columns = chain->in_features;
    fgn_launch *proof = add_launch(plan, "fingerprint_kernel", fingerprint_blocks(rows * columns), THREADS);
    proof->computes = FGN_FINGERPRINT;
    proof->writes = FGN_WRITES_WORKSPACE;
    add_read(proof, sizeof(float) * rows * columns, 0);
    fgn_launch *halves = add_launch(plan, "halves_kernel", blocks_of(rows, columns, true), THREADS);
    halves->computes = FGN_WEIGHT_HALVES;
    halves->writes = FGN_WRITES_WORKSPACE;
    halves->stands_by = 1;
}

void plan_halves(const fgn_chain *chain, const fgn_device *device, fgn_plan *plan) {
    int64_t rows = chain->batch, columns = chain->in_features, below = chain->out_features;
    bool large = columns * below >= (is_simulator(device) ? FEWEST_KEPT_SIMULATED : FEWEST_KEPT);
    bool keeps = chain->frozen || large;
    if (keeps)
        plan->prepared_bytes = halves_bytes(below, columns) + (chain->frozen ? 0 : sizeof(struct upkeep));
    else
        rows += below;
    plan->workspace_bytes += halves_bytes(rows, columns);
    if (chain->x_is_split)
        return;
    fgn_launch *launch = add_launch(plan, "halves_kernel", blocks_of(rows, columns, false), THREADS);
    launch->computes = FGN_HALVES;
    add_read(launch, sizeof(float) * rows * columns, 0);
    add_written(launch, bytes_of_both(rows, columns), FGN_WRITES_WORKSPACE);
    if (keeps && !chain->frozen)
        plan_proof(chain, plan);
}

int halves_launches(const fgn_plan *plan) {
    if (!is_float32_accurate(&plan->chain) || plan->chain.x_is_split)
        return 0;
    return plan->prepared_bytes > 0 && !plan->chain.frozen ? 3 : 1;
}

void add_product_of_halves(fgn_launch *launch, const fgn_chain *chain) {
    int64_t x = bytes_of_both(chain->batch, chain->in_features);
    launch->computes |= FGN_PRODUCT;
    launch->operations = 3 * 2.0 * outputs_of(chain) * chain->in_features;
    add_read(launch, x, x);
    add_read(launch, bytes_of_both(chain->out_features, chain->in_features), 0);
}

/* ---- The factors of a chain ---- */

static struct upkeep *upkeep_of(const fgn_chain *chain, void *prepared) {
    unsigned long long halves = halves_bytes(chain->out_features, chain->in_features);
    return (struct upkeep *)((unsigned char *)prepared + halves);
}

/* For a frozen chain it makes the halves. Otherwise it notes that there are none yet; each call checks
 * whether they are up to date. */
cudaError_t prepare_halves(const fgn_chain *chain, void *prepared, cudaStream_t stream) {
    if (!chain->frozen)
        return cudaMemsetAsync(upkeep_of(chain, prepared), 0, sizeof(struct upkeep), stream);
    return make_halves((const float *)chain->weight, chain->out_features, NULL, 0, chain->in_features,
                       halves_at(prepared, chain->out_features, chain->in_features), stream);
}

struct factor_halves factor_halves_at(const fgn_plan *plan, const fgn_chain *chain, void *workspace) {
    int64_t columns = chain->in_features;
    struct factor_halves factors;
    if (plan->prepared_bytes > 0) {
        factors.x = halves_at(workspace, chain->batch, columns);
        factors.w = halves_at((void *)chain->prepared, chain->out_features, columns);
    } else {
        factors.x = halves_at(workspace, chain->batch + chain->out_features, columns);
        factors.w = halves_below(factors.x, chain->batch, columns);
    }
    return factors;
}

cudaError_t make_factor_halves(const fgn_plan *plan, const fgn_chain *chain, const float *x,
                               struct factor_halves factors, cudaStream_t stream) {
    const float *weight = (const float *)chain->weight;
    int64_t rows = chain->out_features, columns = chain->in_features;
    if (chain->x_is_split)
        return cudaSuccess;
    if (plan->prepared_bytes == 0)
        return make_halves(x, chain->batch, weight, rows, columns, factors.x, stream);
    cudaError_t error = make_halves(x, chain->batch, NULL, 0, columns, factors.x, stream);
    if (error != cudaSuccess || chain->frozen)
        return error;
    struct upkeep *upkeep = upkeep_of(chain, (void *)chain->prepared);
    error = take_fingerprint(weight, rows * columns, upkeep, factors.w.unheld, stream);
    if (error == cudaSuccess)
        error = launch_halves(weight, rows, NULL, 0, columns, factors.w, upkeep, stream);
    return error;
}
