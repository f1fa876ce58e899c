/* The launch after the product for groups of an odd number of channels: 5, 25, 125.
 *
 * Idea: a thread with values of one group only (norm_forward.cu) would read them one by one here. So a block
 * divides its tile in two ways. First it divides by memory: each thread reads 16 bytes or more, of whatever
 * groups, applies the operators before the norm and writes the results to shared memory. Then it divides by
 * groups: a team of lanes finds the moments of a (row, group) there, and leaves them in shared memory. Then
 * by memory again: each thread still has its values, takes the moments of each value's group, and does the
 * rest.
 *
 * A tile is a strip of whole groups and whole vectors, such as 200 channels in groups of 25, or several of
 * them side by side, in as many rows as the block has threads for. Lanes that begin a group apart read
 * different banks, because a group's size is odd.
 *
 * Bytes: v read once and y written once, 8 for each element, 4 in a 16-bit type, and 20 of shared memory, or
 * 24 for float32. Operations: about 25 for each element and the chain's own.
 *
 * Limit: instruction issue. For groups of an even size, with vectors of 2 or 4 channels, norm_forward.cu is
 * faster. Its short kernels also take groups whose size has a least common multiple with 8 above SEGMENT, and
 * rows that are not aligned to 16 bytes. */
#include "norm/norm_of_rows.h"
#include "sim/launchers.h"

struct norm_forward_staged_args {
    struct norm_forward_args keeping; /* its division is not used */
    int strip;                        /* channels of a tile */
    int rows;                         /* of a tile */
    int group_size;
    int team_log2; /* of the lanes that share a group */
};

/* A (row, group)'s moments in shared memory. The mean's rest is separate: 16-bit types need none. */
struct mean_and_inverse {
    float mean;
    float inverse_deviation;
};

/* The thread's vector of the tile as the one slot that norm_of_rows.h knows: a row and eight channels. */
static __forceinline__ __device__ struct slots slot_of_tile(const struct norm_forward_staged_args *args) {
    int across = args->strip / VALUES, row = threadIdx.x / across;
    int channel = blockIdx.x * args->strip + (threadIdx.x - row * across) * VALUES;
    int channels = (int)args->keeping.norm.channels;
    bool is_there = row < args->rows && channel < channels;
    struct slots place;
    place.channels[0].team = 1;
    place.channels[0].width = VALUES;
    place.channels[0].first = channel;
    place.channels[0].count = is_there ? VALUES : 0;
    place.row[0] = row;
    place.offset[0] = (uint32_t)(row * channels + channel);
    place.in_one_row = false;
    return place;
}

/* Keeps the moments of a (row, group) of the tile for the backward. */
static __forceinline__ __device__ void keep_moments_of(const struct norm_forward_staged_args *args,
                                                       struct moments moments, int64_t first_row, int pair) {
    const struct kept_norm *norm = &args->keeping.norm;
    int groups_of_strip = args->strip / args->group_size, row_of_tile = pair / groups_of_strip;
    int64_t row = first_row + row_of_tile;
    int64_t group = (int64_t)blockIdx.x * groups_of_strip + pair - row_of_tile * groups_of_strip;
    if (row < norm->batch && group < norm->groups) {
        struct kept_moments kept = {moments.mean + moments.mean_rest, moments.inverse_deviation};
        norm->moments[row * norm->groups + group] = kept;
    }
}

/* Finds the moments of every (row, group) of the tile. All threads of the block call it. */
static __forceinline__ __device__ void find_moments(const struct norm_forward_staged_args *args,
                                                    const float *tile, struct mean_and_inverse *found,
                                                    float *mean_rest, int64_t first_row, bool has_rest) {
    const struct norm_forward_args *keeping = &args->keeping;
    int size = args->group_size, team = 1 << args->team_log2, member = threadIdx.x & (team - 1);
    int pairs = args->rows * args->strip / size;
#pragma unroll 1
    for (int first = 0; first < pairs; first += THREADS >> args->team_log2) {
        int pair = first + (threadIdx.x >> args->team_log2);
        int begin = pair * size + member, end = pair < pairs ? (pair + 1) * size : 0;
        float sum = 0.0f;
#pragma unroll 4
        for (int e = begin; e < end; e += team)
            sum += tile[e];
        float mean = team_sum(sum, team) * keeping->one_over_size, totals[2] = {0.0f, 0.0f};
#pragma unroll 4
        for (int e = begin; e < end; e += team) {
            float difference = tile[e] - mean;
            totals[0] += difference * difference;
            totals[1] += difference;
        }
        team_sums(totals, has_rest ? 2 : 1, team);
        struct differences total = {has_rest ? totals[1] : 0.0f, totals[0]};
        struct moments moments = moments_of(mean, total, keeping->one_over_size, keeping->norm.eps);
        if (member > 0 || pair >= pairs)
            continue;
        const struct mean_and_inverse two = {moments.mean, moments.inverse_deviation};
        found[pair] = two;
        if (has_rest)
            mean_rest[pair] = moments.mean_rest;
        if (keeping->norm.moments)
            keep_moments_of(args, moments, first_row, pair);
    }
}

static __forceinline__ __device__ void normalise_staged(const struct norm_forward_staged_args *args,
                                                        fgn_type type) {
    __shared__ __align__(16) float tile[SEGMENT];
    __shared__ struct mean_and_inverse found[SEGMENT];
    __shared__ float mean_rest[SEGMENT];
    const bool has_rest = type == FGN_FLOAT32;
    const struct norm_forward_args *keeping = &args->keeping;
    const struct kept_norm *norm = &keeping->norm;
    struct slots place = slot_of_tile(args);
    bool is_in_tile = place.row[0] < args->rows;
    int64_t row = (int64_t)blockIdx.y * args->rows, rows_of_grid = (int64_t)gridDim.y * args->rows;
    int pair[VALUES]; /* that each of the thread's values is of */
#pragma unroll
    for (int j = 0; j < VALUES; j++)
        pair[j] = is_in_tile ? (int)(threadIdx.x * VALUES + j) / args->group_size : 0;
    griddepcontrol_wait();

    float scale[VALUES], shift[VALUES];
    load_scale_and_shift(scale, shift, norm, &place.channels[0], type);
    struct words next;
    load_turn(&next, keeping, &place, turn_from(row, norm), 1, type);
    for (; row < norm->batch; row += rows_of_grid) {
        struct turn turn = turn_from(row, norm);
        float value[VALUES];
        values_of(value, &next, &place.channels[0], type);
        load_turn(&next, keeping, &place, turn_from(row + rows_of_grid, norm), 1, type);
        apply_to_slots(&norm->before, BEFORE, value, keeping, &place, turn, 1, type);
        if (is_in_tile) {
            struct words words;
            words_of(&words, value, &place.channels[0], FGN_FLOAT32);
            store_neighbours(tile + threadIdx.x * VALUES, words.word, VALUES * 4);
        }
        __syncthreads();
        find_moments(args, tile, found, mean_rest, row, has_rest);
        __syncthreads();
        /* the next values replace these, which nobody reads any more */
#pragma unroll
        for (int j = 0; j < VALUES; j++) {
            struct mean_and_inverse of_group = found[pair[j]];
            struct moments moments = {0.0f, has_rest ? mean_rest[pair[j]] : 0.0f, of_group.inverse_deviation};
            value[j] = scaled(value[j] - of_group.mean, moments, scale[j], shift[j], has_rest);
        }
        apply_to_slots(&norm->after, AFTER, value, keeping, &place, turn, 1, type);
        store_turn(value, keeping, &place, turn, 1, type);
    }
}

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_MULTIPROCESSOR)
    norm_forward_staged_float32_kernel(struct norm_forward_staged_args args) {
    normalise_staged(&args, FGN_FLOAT32);
}

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_MULTIPROCESSOR)
    norm_forward_staged_float16_kernel(struct norm_forward_staged_args args) {
    normalise_staged(&args, FGN_FLOAT16);
}

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_MULTIPROCESSOR)
    norm_forward_staged_bfloat16_kernel(struct norm_forward_staged_args args) {
    normalise_staged(&args, FGN_BFLOAT16);
}

EARLY_LAUNCHER(norm_forward_staged_float32_kernel, struct norm_forward_staged_args)
EARLY_LAUNCHER(norm_forward_staged_float16_kernel, struct norm_forward_staged_args)
EARLY_LAUNCHER(norm_forward_staged_bfloat16_kernel, struct norm_forward_staged_args)

/* ---- The host ---- */

cudaError_t norm_forward_staged(const struct kept_norm *norm, const struct norm_launch *launch,
                                cudaStream_t stream) {
    int size = launch->division.group_size;
    struct norm_forward_staged_args args = {
        {*norm, launch->division, 0, 1, 1.0f / size}, launch->strip, launch->rows, size, 0};
    int pairs = launch->rows * launch->strip / size;
    while (2 << args.team_log2 <= LANES && pairs << (args.team_log2 + 1) <= THREADS)
        args.team_log2++;
    switch (norm->type) {
    case FGN_FLOAT16:
        return launch_norm_forward_staged_float16_kernel(launch->grid, launch->block, 0, stream, true, args);
    case FGN_BFLOAT16:
        return launch_norm_forward_staged_bfloat16_kernel(launch->grid, launch->block, 0, stream, true, args);
    default:
        return launch_norm_forward_staged_float32_kernel(launch->grid, launch->block, 0, stream, true, args);
    }
}
