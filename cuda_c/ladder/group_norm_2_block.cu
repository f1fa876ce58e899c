/* GroupNorm, rung 2: a team of threads for every group, one kernel, and the operators after the norm in it.
 *
 * Idea: the threads of a team read neighbouring float4s of their group, add up their shares and exchange the
 * sums: by shuffles inside a warp, through shared memory between the warps of a block. Then the same threads
 * normalise, apply the operators that follow and write. A group of up to 1024 channels gets a team of at most
 * one warp; a larger one gets a block.
 *
 * Each pass reads the group again, but only the first reads it from memory: a group is small, and the second
 * and third find it in the L1 cache.
 *
 * y may have a 16-bit type: x is then a float32 intermediate, and only what is stored is rounded.
 *
 * Bytes: the tensor is read once and written once, 8 for each element, 6 with a 16-bit y.
 *
 * Limit: memory bandwidth, or the L2 cache's if that still has the GEMM's result.
 *
 * Next (gemm_8_one_kernel.cu): the values to normalise never were in memory. */
#include "shared/element.h"
#include "shared/plan.h"
#include "shared/moments.h"
#include "shared/apply_operators.h"
#include "shared/float4.h"
#include "shared/team.h"

#define THREADS 256
#define WARPS (THREADS / LANES)
#define LARGEST_TEAM_GROUP 1024

/* One thread's share of a group: every members-th item, starting at its own number. */
struct thread_items {
    const float *x;
    int64_t first; /* where the group begins in x and y */
    int64_t row;
    int64_t first_channel;
    int size; /* channels in the group; 0 for a team that is past the last group */
    int member;
    int members;
};

/* The three passes take `width` neighbouring channels at a time: four, in 16-byte accesses, or one if a size
 * or an address does not allow four. Callers pass a constant for `width`. */
static __forceinline__ __device__ void load(float *value, const float *from, int width) {
    if (width == 4)
        *(float4 *)value = *(const float4 *)from;
    else
        *value = *from;
}

static __forceinline__ __device__ void load_or(float *value, const float *from, int width, float otherwise) {
    if (from)
        load(value, from, width);
    else
        for (int j = 0; j < width; j++)
            value[j] = otherwise;
}

/* Stores y[at] and its neighbours in y's type, which callers pass as a constant. */
static __forceinline__ __device__ void store_as(void *y, int64_t at, const float *value, int width,
                                                fgn_type type) {
    if (type == FGN_FLOAT32 && width == 4)
        *(float4 *)((float *)y + at) = *(const float4 *)value;
    else if (type == FGN_FLOAT32)
        ((float *)y)[at] = *value;
    else if (width == 4)
        *(uint2 *)((uint16_t *)y + at) =
            type == FGN_FLOAT16
                ? make_uint2(float16_pair(value[0], value[1]), float16_pair(value[2], value[3]))
                : make_uint2(bfloat16_pair(value[0], value[1]), bfloat16_pair(value[2], value[3]));
    else
        ((uint16_t *)y)[at] = type == FGN_FLOAT16 ? float16_bits(*value) : bfloat16_bits(*value);
}

/* Adds the differences from `pivot`. */
static __forceinline__ __device__ float sum_from(float pivot, const struct thread_items *items, int width) {
    float sum = 0.0f;
    for (int i = width * items->member; i < items->size; i += width * items->members) {
        float4 four;
        float *value = (float *)&four;
        load(value, items->x + i, width);
        for (int j = 0; j < width; j++)
            sum += value[j] - pivot;
    }
    return sum;
}

static __forceinline__ __device__ struct differences
differences_from(float mean, const struct thread_items *items, int width) {
    struct differences total = {0.0f, 0.0f};
    for (int i = width * items->member; i < items->size; i += width * items->members) {
        float4 four;
        float *value = (float *)&four;
        load(value, items->x + i, width);
        for (int j = 0; j < width; j++)
            add_difference(&total, value[j] - mean);
    }
    return total;
}

static __forceinline__ __device__ void normalise(const struct group_norm *norm, struct moments moments,
                                                 const struct thread_items *items, int width, fgn_type type) {
    const float *scales = norm->scale ? norm->scale + items->first_channel : NULL;
    const float *shifts = norm->shift ? norm->shift + items->first_channel : NULL;
    for (int i = width * items->member; i < items->size; i += width * items->members) {
        float4 four, scale_four, shift_four;
        float *value = (float *)&four, *scale = (float *)&scale_four, *shift = (float *)&shift_four;
        load(value, items->x + i, width);
        load_or(scale, scales ? scales + i : NULL, width, 1.0f);
        load_or(shift, shifts ? shifts + i : NULL, width, 0.0f);
        for (int j = 0; j < width; j++)
            value[j] = normalised(value[j], moments) * scale[j] + shift[j];
        struct value_place at = {items->row, items->first_channel + i, 0, 1, norm->batch};
        apply_operators(&norm->after, value, width, at);
        store_as(norm->y, items->first + i, value, width, type);
    }
}

static inline __device__ struct thread_items items_of(const struct group_norm *norm, int64_t row, int group,
                                                      int member, int members) {
    int size = (int)(norm->channels / norm->groups);
    bool present = row < norm->batch && group < norm->groups;
    int64_t first_channel = (int64_t)group * size;
    int64_t first = row * norm->channels + first_channel;
    struct thread_items items = {norm->x + first,    first,  row,    first_channel,
                                 present ? size : 0, member, members};
    return items;
}

struct team_args {
    struct group_norm norm;
    float one_over_size;
    int width;
    int team; /* threads in a team */
};

static __forceinline__ __device__ void
normalise_as_team(const struct team_args *args, const struct thread_items *items, int width, fgn_type type) {
    float pivot = items->size > 0 ? items->x[0] : 0.0f;
    float mean = pivot + team_sum(sum_from(pivot, items, width), args->team) * args->one_over_size;
    struct differences total = differences_from(mean, items, width);
    total.sum = team_sum(total.sum, args->team);
    total.squares = team_sum(total.squares, args->team);
    struct moments moments = moments_of(mean, total, args->one_over_size, args->norm.eps);
    normalise(&args->norm, moments, items, width, type);
}

/* threadIdx.x counts the teams along a row, threadIdx.y the rows. */
static __forceinline__ __device__ void run_teams(const struct team_args *args, fgn_type type) {
    if (!holds(args->norm.condition))
        return;
    int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
    int group = (blockIdx.y * blockDim.x + threadIdx.x) / args->team;
    struct thread_items items = items_of(&args->norm, row, group, threadIdx.x % args->team, args->team);
    if (args->width == 4)
        normalise_as_team(args, &items, 4, type);
    else
        normalise_as_team(args, &items, 1, type);
}

__global__ void __launch_bounds__(THREADS) group_norm_team_kernel(struct team_args args) {
    run_teams(&args, FGN_FLOAT32);
}

__global__ void __launch_bounds__(THREADS) group_norm_team_to_float16_kernel(struct team_args args) {
    run_teams(&args, FGN_FLOAT16);
}

__global__ void __launch_bounds__(THREADS) group_norm_team_to_bfloat16_kernel(struct team_args args) {
    run_teams(&args, FGN_BFLOAT16);
}

/* Gives every thread the sum over the block. `partial` has one float for each warp. */
static __device__ float block_sum(float v, float *partial) {
    v = team_sum(v, LANES);
    __syncthreads(); /* the previous sum has been read */
    if (threadIdx.x % LANES == 0)
        partial[threadIdx.x / LANES] = v;
    __syncthreads();
    float sum = 0.0f;
    for (int warp = 0; warp < WARPS; warp++)
        sum += partial[warp];
    return sum;
}

static __forceinline__ __device__ void normalise_as_block(const struct team_args *args,
                                                          const struct thread_items *items, float *partial,
                                                          int width, fgn_type type) {
    float pivot = items->x[0];
    float mean = pivot + block_sum(sum_from(pivot, items, width), partial) * args->one_over_size;
    struct differences total = differences_from(mean, items, width);
    total.sum = block_sum(total.sum, partial);
    total.squares = block_sum(total.squares, partial);
    struct moments moments = moments_of(mean, total, args->one_over_size, args->norm.eps);
    normalise(&args->norm, moments, items, width, type);
}

static __forceinline__ __device__ void run_block(const struct team_args *args, float *partial,
                                                 fgn_type type) {
    if (!holds(args->norm.condition))
        return;
    struct thread_items items = items_of(&args->norm, blockIdx.x, blockIdx.y, threadIdx.x, THREADS);
    if (args->width == 4)
        normalise_as_block(args, &items, partial, 4, type);
    else
        normalise_as_block(args, &items, partial, 1, type);
}

__global__ void __launch_bounds__(THREADS) group_norm_block_kernel(struct team_args args) {
    __shared__ float partial[WARPS];
    run_block(&args, partial, FGN_FLOAT32);
}

__global__ void __launch_bounds__(THREADS) group_norm_block_to_float16_kernel(struct team_args args) {
    __shared__ float partial[WARPS];
    run_block(&args, partial, FGN_FLOAT16);
}

__global__ void __launch_bounds__(THREADS) group_norm_block_to_bfloat16_kernel(struct team_args args) {
    __shared__ float partial[WARPS];
    run_block(&args, partial, FGN_BFLOAT16);
}

LAUNCHER(group_norm_team_kernel, struct team_args)
LAUNCHER(group_norm_team_to_float16_kernel, struct team_args)
LAUNCHER(group_norm_team_to_bfloat16_kernel, struct team_args)
LAUNCHER(group_norm_block_kernel, struct team_args)
LAUNCHER(group_norm_block_to_float16_kernel, struct team_args)
LAUNCHER(group_norm_block_to_bfloat16_kernel, struct team_args)

typedef cudaError_t (*launch_function)(dim3 grid, dim3 block, size_t dynamic_shared_bytes,
                                       cudaStream_t stream, struct team_args args);

/* By fgn_type. */
static const launch_function launch_teams[] = {launch_group_norm_team_kernel,
                                               launch_group_norm_team_to_float16_kernel,
                                               launch_group_norm_team_to_bfloat16_kernel};
static const launch_function launch_block[] = {launch_group_norm_block_kernel,
                                               launch_group_norm_block_to_float16_kernel,
                                               launch_group_norm_block_to_bfloat16_kernel};
static const char *const team_kernels[] = {"group_norm_team_kernel", "group_norm_team_to_float16_kernel",
                                           "group_norm_team_to_bfloat16_kernel"};
static const char *const block_kernels[] = {"group_norm_block_kernel", "group_norm_block_to_float16_kernel",
                                            "group_norm_block_to_bfloat16_kernel"};

/* A group has as many threads as float4s, aligned or not. */
static int team_of(int64_t size) {
    if (size > LARGEST_TEAM_GROUP)
        return THREADS;
    return power_of_two_above(size % 4 == 0 ? size / 4 : size, LANES);
}

static void plan(const fgn_chain *chain, int after_count, fgn_plan *plan) {
    int64_t size = group_size_of(chain);
    fgn_launch *launch;
    if (size > LARGEST_TEAM_GROUP) {
        launch = add_launch(plan, block_kernels[chain->type], chain->batch, THREADS);
        launch->grid[1] = (unsigned)chain->groups;
    } else {
        /* as many teams side by side as fit in a row and a block, and then as many rows as fit */
        int64_t threads = chain->groups * team_of(size);
        int across = power_of_two_above(threads, THREADS), down = THREADS / across;
        launch = add_launch(plan, team_kernels[chain->type], tiles(chain->batch, down), across);
        launch->grid[1] = (unsigned)tiles(threads, across);
        launch->block[1] = (unsigned)down;
    }
    add_read(launch, sizeof(float) * outputs_of(chain), sizeof(float) * outputs_of(chain));
    add_norm(launch, chain);
    add_after(launch, chain, 0, after_count);
    add_y(launch, chain);
}

static cudaError_t launch(const fgn_launch *planned, const struct group_norm *norm, void *workspace,
                          cudaStream_t stream) {
    (void)workspace;
    int64_t size = norm->channels / norm->groups;
    bool fours = rows_hold_float4(norm->x, size) && rows_hold_float4((const float *)norm->y, size) &&
                 rows_hold_float4(norm->scale, size) && rows_hold_float4(norm->shift, size);
    struct team_args args = {*norm, 1.0f / size, fours ? 4 : 1, team_of(size)};
    const launch_function *launch_as = size > LARGEST_TEAM_GROUP ? launch_block : launch_teams;
    return launch_as[norm->y_type](grid_of(planned), block_of(planned), 0, stream, args);
}

NORM_RUNG group_norm_2_block = {plan, launch};
