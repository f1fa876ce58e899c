/* The second launch of a product that splits k among blocks, or whose tiles hold no whole groups. It adds up
 * the splits and ends the chain.
 *
 * Idea: the product's blocks leave their sums in the workspace as float32. A block here takes some rows of
 * some neighbouring groups, in three passes over its values. First it reads the sums in the order of memory,
 * adds up the splits and stores them in shared memory. Then each team of threads finds a group's moments.
 * Last, all threads normalise in the order of memory and write y. So it reads and writes whole sectors for
 * any group size. It copies the parameter vectors to shared memory once, before the product's launch has
 * ended, for several turns of rows.
 *
 * Bytes: the sums once, mostly from the L2 cache, and y once. Operations: few. Limit: the start and end of a
 * launch; it starts while the one before ends (griddepcontrol). For large outputs, L2's bandwidth. */
#include "few_rows/second_launch.h"

#include "few_rows/ending.h"
#include "shared/plan.h"

#define END_THREADS 256
#define END_WARPS (END_THREADS / LANES)
#define COMMON_VALUES 4096 /* of a block's turn, where a group has no more */
#define COMMON_COLUMNS 128 /* at least this many side by side, so that a block reads long parts of a row */
#define VALUES_OF_MEMBER 8 /* about this many of a group for each thread of a team */
#define LARGEST_WARP_TEAM 1024 /* the most channels of a group whose moments a warp finds alone */
#define MOST_TURNS 8
#define BLOCKS_OF_MULTIPROCESSOR 4

struct end_args {
    float *partial; /* (splits, batch, channels) */
    int splits;
    int64_t batch;
    int columns; /* of a block: neighbouring groups */
    int rows;    /* of a turn */
    int turns;
    int across_log2;  /* 1 << across_log2 threads are side by side in a row */
    int team_log2;    /* 1 << team_log2 of them find a group's moments */
    bool fours;       /* columns come in fours */
    bool in_place;    /* values stay in the workspace: shared memory is too small for a group */
    int vector_bytes; /* of shared memory */
    int moment_bytes;
    struct ending ending;
};

/* What a block works on in one turn. `value` has its groups side by side, row after row. */
struct turn {
    float *value;
    struct moments *moments; /* of each group */
    int64_t first_row, first_channel;
    int rows, columns, groups;
};

/* Adds the splits of four neighbours, or of one. */
static __forceinline__ __device__ void add_splits(float *sum, const struct end_args *args,
                                                  const float *partial, int at_once) {
    int64_t distance = args->batch * args->ending.norm.channels;
#pragma unroll
    for (int i = 0; i < at_once; i++)
        sum[i] = 0.0f;
#pragma unroll 8
    for (int split = 0; split < args->splits; split++) {
        float part[FOUR];
        read_values(part, partial + split * distance, at_once);
#pragma unroll
        for (int i = 0; i < at_once; i++)
            sum[i] += part[i];
    }
}

/* A thread's first place in a row; the passes over a turn take its neighbours with it. */
static __forceinline__ __device__ int first_column(const struct end_args *args, int at_once) {
    return at_once * (threadIdx.x & ((1 << args->across_log2) - 1));
}

/* First pass: the sums and the operators before the norm. A thread keeps its columns from row to row. */
static __forceinline__ __device__ void bring_values(const struct end_args *args, const float *const *vector,
                                                    const struct turn *turn, int at_once) {
    const struct ending *ending = &args->ending;
#pragma unroll 1
    for (int i = first_column(args, at_once); i < turn->columns; i += at_once << args->across_log2) {
        int row = threadIdx.x >> args->across_log2;
        struct value_place at = in_row(ending, turn->first_row + row, turn->first_channel + i);
        const float *partial = args->partial + at.row * ending->norm.channels + at.channel;
        float *value = turn->value + row * turn->columns + i;
        float bias[FOUR];
        read_vector(bias, vector[BIAS], at.channel, at_once, 0.0f);
        int step = END_THREADS >> args->across_log2;
#pragma unroll 1
        for (; row < turn->rows; row += step, at.row += step) {
            float sum[FOUR];
            add_splits(sum, args, partial, at_once);
#pragma unroll
            for (int j = 0; j < at_once; j++)
                sum[j] += bias[j];
            apply_with_vectors(&ending->before, vector + FIRST_OPERAND, sum, at_once, at);
            write_values(value, sum, at_once);
            partial += step * ending->norm.channels;
            value += step * turn->columns;
        }
    }
}

/* Second pass: a team finds the moments of one group after the other. */
static __forceinline__ __device__ void find_moments(const struct end_args *args, const struct turn *turn,
                                                    const struct members *team) {
    const struct ending *ending = &args->ending;
    int groups = turn->rows * turn->groups, teams = END_THREADS >> team->log2;
#pragma unroll 1
    for (int first = 0; first < groups; first += teams) {
        int group = first + (threadIdx.x >> team->log2);
        int size = group < groups ? ending->size : 0; /* 0: without work, which still takes part in sums */
        struct moments moments = moments_of_values(ending, turn->value + group * ending->size, size, team);
        if (team->member == 0 && size > 0)
            turn->moments[group] = moments;
    }
}

/* Normalises `at_once` neighbours, perhaps of several groups. `moments` are those of the first one's group,
 * and `place` is its place in that group. */
static __forceinline__ __device__ void normalise(float *v, const struct moments *moments, int place, int size,
                                                 int at_once) {
    struct moments of_group = *moments;
#pragma unroll
    for (int i = 0; i < at_once; i++) {
        if (i > 0 && place + i == size) {
            of_group = *++moments;
            place -= size;
        }
        v[i] = normalised(v[i], of_group);
    }
}

/* Third pass: the norm, what follows it, and y. */
static __forceinline__ __device__ void write_values_of_y(const struct end_args *args,
                                                         const float *const *vector, const struct turn *turn,
                                                         int at_once) {
    const struct ending *ending = &args->ending;
    bool has_norm = ending->norm.groups > 0;
#pragma unroll 1
    for (int i = first_column(args, at_once); i < turn->columns; i += at_once << args->across_log2) {
        int row = threadIdx.x >> args->across_log2, group = (unsigned)i / ending->size;
        struct value_place at = in_row(ending, turn->first_row + row, turn->first_channel + i);
        float scale[FOUR], shift[FOUR];
        read_vector(scale, vector[SCALE], at.channel, at_once, 1.0f);
        read_vector(shift, vector[SHIFT], at.channel, at_once, 0.0f);
        int step = END_THREADS >> args->across_log2;
#pragma unroll 1
        for (; row < turn->rows; row += step, at.row += step) {
            float v[FOUR];
            read_values(v, turn->value + row * turn->columns + i, at_once);
            if (has_norm) {
                normalise(v, turn->moments + row * turn->groups + group, i - group * ending->size,
                          ending->size, at_once);
#pragma unroll
                for (int j = 0; j < at_once; j++)
                    v[j] = v[j] * scale[j] + shift[j];
                apply_with_vectors(&ending->norm.after, vector + FIRST_OPERAND + ending->before.count, v,
                                   at_once, at);
            }
            write_y(ending, at.row * ending->norm.channels + at.channel, v, at_once);
        }
    }
}

static __forceinline__ __device__ void end_turn(const struct end_args *args, const float *const *vector,
                                                const struct turn *turn, const struct members *team,
                                                int at_once) {
    bring_values(args, vector, turn, at_once);
    __syncthreads();
    if (args->ending.norm.groups > 0) {
        find_moments(args, turn, team);
        __syncthreads();
    }
    write_values_of_y(args, vector, turn, at_once);
    __syncthreads(); /* the next turn has the same memory */
}

__global__ void __launch_bounds__(END_THREADS, BLOCKS_OF_MULTIPROCESSOR)
    few_rows_end_kernel(struct end_args args) {
    const struct ending *ending = &args.ending;
    const float *const *vector = (const float *const *)dynamic_shared;
    float *of_warps = (float *)(dynamic_shared + args.vector_bytes + args.moment_bytes);
    struct members team = {(int)threadIdx.x & ((1 << args.team_log2) - 1), args.team_log2,
                           (float (*)[2])of_warps};
    struct turn turn;
    turn.first_channel = (int64_t)blockIdx.x * args.columns;
    int64_t left = ending->norm.channels - turn.first_channel;
    turn.columns = args.columns < left ? args.columns : (int)left;
    turn.groups = turn.columns / ending->size;
    turn.moments = (struct moments *)(dynamic_shared + args.vector_bytes);
    load_vectors(ending, dynamic_shared, turn.first_channel, turn.columns);
    __syncthreads();
    griddepcontrol_wait();
    turn.first_row = (int64_t)blockIdx.y * args.turns * args.rows;
#pragma unroll 1
    for (int i = 0; i < args.turns && turn.first_row < args.batch; i++, turn.first_row += args.rows) {
        turn.rows = args.rows < args.batch - turn.first_row ? args.rows : (int)(args.batch - turn.first_row);
        turn.value = of_warps + 2 * END_WARPS;
        if (args.fours) {
            end_turn(&args, vector, &turn, &team, FOUR);
        } else if (!args.in_place) {
            end_turn(&args, vector, &turn, &team, 1);
        } else {
            turn.value = args.partial + turn.first_row * ending->norm.channels + turn.first_channel;
            end_turn(&args, vector, &turn, &team, 1);
        }
    }
}

EARLY_LAUNCHER(few_rows_end_kernel, struct end_args)

/* ---- The host's part ---- */

static int lesser_of(int64_t a, int64_t b) {
    return (int)(a < b ? a : b);
}

/* How many neighbouring groups: at least COMMON_COLUMNS columns, and a multiple of four if channels are. */
static int columns_of(int64_t channels, int size) {
    int64_t groups = tiles(COMMON_COLUMNS, size), in_fours = size % FOUR == 0 ? 1 : size % 2 == 0 ? 2 : FOUR;
    if (channels % FOUR == 0)
        groups = tiles(groups, in_fours) * in_fours;
    return lesser_of(groups * size, channels);
}

/* The number of threads that find a group's moments: a warp at most, or the block. */
static int team_of(int size, int groups) {
    if (size > LARGEST_WARP_TEAM)
        return END_THREADS;
    int team = power_of_two_above(tiles(size, VALUES_OF_MEMBER), LANES);
    while (team < LANES && 2 * team * groups <= END_THREADS)
        team *= 2;
    return team;
}

static int in_sixteens(int64_t bytes) {
    return (int)(tiles(bytes, 16) * 16);
}

/* The bytes of shared memory that a block needs. */
static int64_t shared_bytes_of(const struct end_args *args) {
    int64_t values = args->in_place ? 0 : (int64_t)args->rows * args->columns;
    return args->vector_bytes + args->moment_bytes + (2 * END_WARPS + values) * (int64_t)sizeof(float);
}

/* If shared memory is too small for all, decides what stays outside: the values stay in the workspace, or the
 * vectors are read from global memory. */
static void fit_in_shared_memory(struct end_args *args, int64_t most_bytes) {
    int groups = args->rows * (args->columns / args->ending.size);
    args->moment_bytes = in_sixteens(groups * (int64_t)sizeof(struct moments));
    args->in_place = args->columns > most_bytes / (int)sizeof(float);
    if (!args->in_place) {
        args->vector_bytes = in_sixteens(loaded_vector_bytes(args->ending.vectors, args->columns));
        if (shared_bytes_of(args) <= most_bytes)
            return;
    }
    args->ending.direct = true;
    args->vector_bytes = in_sixteens(loaded_vector_bytes(0, 0));
    args->in_place |= shared_bytes_of(args) > most_bytes;
    args->fours &= !args->in_place;
}

/* The division of the launch. */
static struct end_args cut_rows(const fgn_chain *chain, const fgn_device *device) {
    struct end_args args;
    memset(&args, 0, sizeof args);
    args.ending = ending_of(chain, NULL);
    args.batch = chain->batch;
    int64_t channels = chain->out_features, most_rows = 65535; /* of a grid */
    args.columns = columns_of(channels, args.ending.size);
    args.fours = channels % FOUR == 0 && args.columns % FOUR == 0;
    int64_t wanted = BLOCKS_OF_MULTIPROCESSOR * (int64_t)device->multiprocessors;
    int64_t rows_for_all = tiles(chain->batch * tiles(channels, args.columns), wanted);
    args.rows = lesser_of(rows_for_all, COMMON_VALUES / args.columns);
    args.rows = args.rows > 1 ? args.rows : 1;
    int across = power_of_two_above(tiles(args.columns, args.fours ? FOUR : 1), END_THREADS);
    args.across_log2 = log2_of(across);
    args.team_log2 = log2_of(team_of(args.ending.size, args.rows * (args.columns / args.ending.size)));
    fit_in_shared_memory(&args, most_shared_bytes(device));
    int64_t turns = tiles(rows_for_all, args.rows);
    turns = turns < MOST_TURNS ? turns : MOST_TURNS;
    int64_t fewest = tiles(tiles(chain->batch, args.rows), most_rows);
    turns = turns > fewest ? turns : fewest;
    args.turns = turns > 0 ? (int)turns : 1; /* a batch may be empty */
    return args;
}

bool second_launch_fits(const fgn_chain *chain, const fgn_device *device) {
    struct end_args args = cut_rows(chain, device);
    return !args.ending.direct || (chain->vector_type == FGN_FLOAT32 && args.ending.ones == 0);
}

void plan_second_launch(const fgn_chain *chain, const fgn_device *device, int splits, fgn_plan *plan) {
    struct end_args args = cut_rows(chain, device);
    int64_t blocks = tiles(chain->out_features, args.columns), bytes = (int64_t)bytes_of_sums(chain, splits);
    fgn_launch *end = add_launch(plan, "few_rows_end_kernel", blocks, END_THREADS);
    end->grid[1] = (unsigned)tiles(chain->batch, (int64_t)args.turns * args.rows);
    end->shared_bytes = (int)shared_bytes_of(&args);
    end->computes = FGN_ADD_SUMS;
    add_read(end, bytes, bytes);
    add_ending(end, chain);
    add_y(end, chain);
}

cudaError_t run_second_launch(const fgn_plan *plan, const fgn_launch *planned, const fgn_chain *chain,
                              float *sums, int splits, void *y, cudaStream_t stream) {
    static bool allowed[MOST_DEVICES];
    cudaError_t error = allow_shared_memory((const void *)few_rows_end_kernel, &plan->device, allowed);
    if (error != cudaSuccess)
        return error;
    struct end_args args = cut_rows(chain, &plan->device);
    args.ending.y = y;
    args.ending.aligned_y = is_aligned_for_four(y);
    args.partial = sums;
    args.splits = splits;
    bool early = plan->device.major >= 9;
    return launch_few_rows_end_kernel(grid_of(planned), block_of(planned), planned->shared_bytes, stream,
                                      early, args);
}
