/* The second launch of a product whose k is split among blocks: it adds the splits up and ends the chain.
 *
 * Idea: blocks of few_rows and of hopper that share a tile's k, or whose tiles hold no whole groups, leave
 * their sums in the workspace as float32. Here a team of threads takes a group of one row, adds the splits
 * up, and does all that follows the product (few_rows/ending.h). A block has some neighbouring groups, whose
 * part of the vectors of parameters it brings to shared memory once, before the sums are there, and ends them
 * in one row after the other.
 *
 * Bytes: the sums once, mostly from the L2 cache, and y once. Operations: few. Limit: how a launch begins and
 * ends; it begins while the one before it ends (griddepcontrol). */
#include "few_rows/second_launch.h"

#include "few_rows/ending.h"
#include "shared/plan.h"

#define END_THREADS 256
#define END_WARPS (END_THREADS / LANES)
#define MOST_SHARED_VALUES 2048
#define MOST_TURNS 8

/* With `values`, what a block may have without asking. More of vectors is read where it is. */
#define MOST_STAGED_BYTES (39 << 10)

struct end_args {
    float *partial; /* (splits, batch, channels) */
    int splits;
    int team;        /* threads for a group: some lanes, or the block */
    int groups;      /* neighbours, that a block has */
    int rows_a_turn; /* of the block */
    int turns;
    int64_t batch;
    struct ending ending;
};

/* The sum over the splits of four neighbours, or of one. */
static __forceinline__ __device__ void add_splits(float *sum, const struct end_args *args,
                                                  const float *partial, int at_once) {
    int64_t distance = args->batch * args->ending.norm.channels;
#pragma unroll
    for (int i = 0; i < at_once; i++)
        sum[i] = 0.0f;
#pragma unroll 4
    for (int split = 0; split < args->splits; split++) {
        float part[FOUR];
        read_values(part, partial + split * distance, at_once);
#pragma unroll
        for (int i = 0; i < at_once; i++)
            sum[i] += part[i];
    }
}

/* The group of a team: size 0 for a team without work, which still takes part in the sums. */
struct group_place {
    int size;
    int64_t row;
    int64_t channel;
};

/* Groups of four, 8, 12 ... 128 channels: a lane has four neighbours. */
static __forceinline__ __device__ void end_in_lanes(const struct end_args *args, const float *const *vector,
                                                    const float *partial, struct group_place at,
                                                    const struct members *team) {
    float v[FOUR] = {0.0f};
    bool present = FOUR * team->member < at.size;
    if (present)
        add_splits(v, args, partial + FOUR * team->member, FOUR);
    end_four(&args->ending, vector, v, present, at.row, at.channel + FOUR * team->member);
}

/* Other groups of which a thread has up to four values: they are as far from each other as the team has
 * threads, so that what neighbours read is beside each other. first_value: shared memory for the group's
 * first value. */
static __forceinline__ __device__ void end_in_registers(const struct end_args *args,
                                                        const float *const *vector, const float *partial,
                                                        struct group_place at, const struct members *team,
                                                        float *first_value) {
    const struct ending *ending = &args->ending;
    int64_t distance = args->batch * ending->norm.channels;
    int place[FOUR]; /* of the values in their group */
    float v[FOUR] = {0.0f};
#pragma unroll
    for (int i = 0; i < FOUR; i++)
        place[i] = team->member + i * team->count;
#pragma unroll 2
    for (int split = 0; split < args->splits; split++) {
#pragma unroll
        for (int i = 0; i < FOUR; i++)
            if (place[i] < at.size)
                v[i] += partial[split * distance + place[i]];
    }
#pragma unroll
    for (int i = 0; i < FOUR; i++)
        if (place[i] < at.size)
            begin_ending(ending, vector, &v[i], 1, in_row(ending, at.row, at.channel + place[i]));
    if (team->member == 0)
        *first_value = v[0];
    if (team->count > LANES)
        __syncthreads();
    else
        __syncwarp();
    float sums[2] = {0.0f, 0.0f}, pivot = *first_value;
#pragma unroll
    for (int i = 0; i < FOUR; i++)
        sums[0] += place[i] < at.size ? v[i] - pivot : 0.0f;
    sums_of_members(sums, team);
    float mean = pivot + sums[0] * ending->one_over_size;
    struct differences total = {0.0f, 0.0f};
#pragma unroll
    for (int i = 0; i < FOUR; i++)
        add_difference(&total, place[i] < at.size ? v[i] - mean : 0.0f);
    sums[0] = total.sum;
    sums[1] = total.squares;
    sums_of_members(sums, team);
    total.sum = sums[0];
    total.squares = sums[1];
    struct moments moments = moments_of(mean, total, ending->one_over_size, ending->norm.eps);
#pragma unroll
    for (int i = 0; i < FOUR; i++) {
        int64_t channel = at.channel + place[i];
        if (place[i] >= at.size)
            continue;
        v[i] = normalised(v[i], moments);
        end_normalised(ending, vector, &v[i], 1, in_row(ending, at.row, channel));
        store_element(ending->y, at.row * ending->norm.channels + channel, v[i], ending->type);
    }
}

/* Larger groups. `value`: memory for the group's values, which may be that of its sums. */
static __forceinline__ __device__ void end_in_memory(const struct end_args *args, const float *const *vector,
                                                     float *value, const float *partial,
                                                     struct group_place at, const struct members *team,
                                                     int at_once) {
    const struct ending *ending = &args->ending;
#pragma unroll 1
    for (int i = at_once * team->member; i < at.size; i += at_once * team->count) {
        float sum[FOUR];
        add_splits(sum, args, partial + i, at_once);
        begin_ending(ending, vector, sum, at_once, in_row(ending, at.row, at.channel + i));
        write_values(value + i, sum, at_once);
    }
    __syncthreads(); /* everyone reads the group's first value */
    end_group_by(ending, vector, value, at.size, at.row, at.channel, team, at_once);
}

__global__ void __launch_bounds__(END_THREADS, 4) few_rows_end_kernel(struct end_args args) {
    __shared__ float values[MOST_SHARED_VALUES];
    __shared__ float of_warp[END_WARPS][2];
    const struct ending *ending = &args.ending;
    int team_number = threadIdx.x / args.team, channels = (int)ending->norm.channels;
    int row_of_turn = team_number / args.groups;
    int first_channel = blockIdx.x * args.groups * ending->size, left = channels - first_channel;
    struct members team = {(int)(threadIdx.x % args.team), args.team, of_warp};
    struct group_place at;
    at.channel = first_channel + team_number % args.groups * ending->size;
    bool has_group = at.channel < channels && row_of_turn < args.rows_a_turn;
    int64_t first_row = (int64_t)blockIdx.y * args.turns * args.rows_a_turn;
    const float *const *vector = (const float *const *)dynamic_shared;
    stage_vectors(ending, dynamic_shared, first_channel,
                  args.groups * ending->size < left ? args.groups * ending->size : left);
    __syncthreads();
    griddepcontrol_wait();
#pragma unroll 1
    for (int turn = 0; turn < args.turns; turn++, first_row += args.rows_a_turn) {
        at.row = first_row + row_of_turn;
        at.size = has_group && at.row < args.batch ? ending->size : 0;
        float *partial = args.partial + at.row * channels + at.channel;
        /* in turns, so that nobody writes what somebody may still read */
        float *value = values + turn % 2 * (MOST_SHARED_VALUES / 2);
        if (lanes_hold_group(ending))
            end_in_lanes(&args, vector, partial, at, &team);
        else if (ending->norm.groups > 0 && ending->size <= FOUR * args.team)
            end_in_registers(&args, vector, partial, at, &team, &value[team_number]);
        else if (ending->fours)
            end_in_memory(&args, vector, ending->size <= MOST_SHARED_VALUES / 2 ? value : partial, partial,
                          at, &team, FOUR);
        else
            end_in_memory(&args, vector,
                          ending->size <= MOST_SHARED_VALUES / 2 ? value + team_number : partial, partial, at,
                          &team, 1);
    }
}

EARLY_LAUNCHER(few_rows_end_kernel, struct end_args)

/* ---- The host's part ---- */

/* The threads that end a group, of END_THREADS in a block. */
static int end_team_of(const struct ending *ending) {
    return ending->size > LARGEST_WARP_GROUP ? END_THREADS : ending->lanes;
}

/* What a block takes of shared memory for the vectors. */
static int64_t staged_bytes_of(const struct end_args *args) {
    int64_t here = (int64_t)args->groups * args->ending.size, channels = args->ending.norm.channels;
    int vectors = args->ending.direct ? 0 : args->ending.vectors;
    return staged_bytes(vectors, (int)(here < channels ? here : channels));
}

/* How the launch is cut: neighbouring groups of a block, the rows that it has at once, and how often. */
static struct end_args cut_rows(const fgn_chain *chain, const fgn_device *device) {
    struct end_args args;
    memset(&args, 0, sizeof args);
    args.ending = ending_of(chain, NULL);
    args.batch = chain->batch;
    args.team = end_team_of(&args.ending);
    int teams = END_THREADS / args.team;
    int64_t groups = chain->out_features / args.ending.size;
    args.groups = groups < teams ? (int)groups : teams;
    args.rows_a_turn = teams / args.groups;
    args.ending.direct = staged_bytes_of(&args) > MOST_STAGED_BYTES;
    int64_t most_rows = 65535; /* of a grid */
    int64_t turns = tiles(chain->batch, args.rows_a_turn), columns = tiles(groups, args.groups);
    int64_t enough = tiles(turns * columns, 8 * (int64_t)device->multiprocessors);
    enough = enough < MOST_TURNS ? enough : MOST_TURNS;
    enough = tiles(turns, most_rows) > enough ? tiles(turns, most_rows) : enough;
    args.turns = enough > 0 ? (int)enough : 1; /* a batch may be empty */
    return args;
}

bool second_launch_fits(const fgn_chain *chain, const fgn_device *device) {
    struct end_args args = cut_rows(chain, device);
    return !args.ending.direct || chain->vector_type == FGN_FLOAT32;
}

void plan_second_launch(const fgn_chain *chain, const fgn_device *device, int splits, fgn_plan *plan) {
    struct end_args args = cut_rows(chain, device);
    int64_t groups = chain->out_features / args.ending.size, bytes = (int64_t)bytes_of_sums(chain, splits);
    fgn_launch *end = add_launch(plan, "few_rows_end_kernel", tiles(groups, args.groups), END_THREADS);
    end->grid[1] = (unsigned)tiles(chain->batch, (int64_t)args.turns * args.rows_a_turn);
    end->shared_bytes = (int)staged_bytes_of(&args);
    end->computes = FGN_ADD_SUMS;
    add_read(end, bytes, bytes);
    add_ending(end, chain);
    add_y(end, chain);
}

cudaError_t run_second_launch(const fgn_plan *plan, const fgn_launch *planned, const fgn_chain *chain,
                              float *sums, int splits, void *y, cudaStream_t stream) {
    struct end_args args = cut_rows(chain, &plan->device);
    args.ending.y = y;
    args.ending.aligned_y = is_aligned_for_four(y);
    args.partial = sums;
    args.splits = splits;
    bool early = plan->device.major >= 9;
    return launch_few_rows_end_kernel(grid_of(planned), block_of(planned), planned->shared_bytes, stream,
                                      early, args);
}
