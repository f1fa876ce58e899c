/* The launch after the product for wide groups: a lane has several slots of 8 values of a row, its columns.
 *
 * Idea: where a group has more vectors than a warp has lanes (norm_keeping.cu), several warps would share it,
 * and wait for each other at each sum. So a lane takes up to 4 or 8 slots side by side: 32 lanes hold up to
 * 2048 channels, and sums need shuffles only. As any number of slots will do, few lanes idle: 384 channels
 * are 16 lanes with 3 slots each, 96 are 4 lanes with 3.
 *
 * A lane's scale and shift are too many for its registers. The block has them in shared memory as floats,
 * converted once: blocks are as many as the GPU holds and go down the rows, with the same channels in each.
 * The values of the next row are on their way while those of this one are worked on; without that, large
 * tensors take 1.2 to 1.4 times as long.
 *
 * Bytes: v read once and y written once, 8 for each element, 4 in a 16-bit type, and 8 of shared memory.
 * Operations: about 12 instructions for each element and the chain's own.
 *
 * Limit: memory, which is used at up to 90 % of a copy's bandwidth; with exponentials, or with more than 4
 * slots, for which a multiprocessor has registers of 8 warps only, the issue of instructions. Groups whose
 * size 8 does not divide are left to norm_keeping.cu. */
#include "backward/norm_of_rows.h"
#include "shared/launchers.h"

/* What a thread has of its group: vectors of VALUES neighbours, each `team` vectors after the one before.
 */
struct lane {
    int group;
    int first;          /* channel of its first vector */
    int vectors;        /* that there are, the first ones of its slots */
    int vectors_of_row; /* the same, or none where the row is not there */
};

static __forceinline__ __device__ struct lane lane_of_thread(const struct norm_keeping_args *args) {
    int team = args->division.team, vectors = args->division.group_size / VALUES;
    int member = threadIdx.x & (team - 1);
    struct lane lane;
    lane.group = (blockIdx.x * blockDim.x + threadIdx.x) >> args->team_log2;
    lane.first = (lane.group * vectors + member) * VALUES;
    int left = lane.group < args->division.groups ? vectors - member : 0;
    lane.vectors = (left + team - 1) >> args->team_log2;
    lane.vectors_of_row = 0;
    return lane;
}

/* The lane's vector i of a row that begins at `row`, elements of `bytes`; zeros where there is none. `bytes`,
 * `type` and `most`, how many columns the kernel has, are constants wherever functions are called. */
static __forceinline__ __device__ void load_vector_of(struct words *words, const char *row, int bytes,
                                                      const struct norm_keeping_args *args,
                                                      const struct lane *lane, int vectors, int i) {
#pragma unroll
    for (int j = 0; j < VALUES; j++)
        words->word[j] = 0;
    if (i < vectors)
        load_neighbours(words->word, row + (lane->first + i * args->division.team * VALUES) * bytes,
                        VALUES * bytes);
}

static __forceinline__ __device__ void load_operand_of(float *operand, const char *row, fgn_type type,
                                                       const struct norm_keeping_args *args,
                                                       const struct lane *lane, int vectors, int i) {
    const struct channels whole = {0, 1, VALUES, VALUES};
    struct words words;
    load_vector_of(&words, row, type == FGN_FLOAT32 ? 4 : 2, args, lane, vectors, i);
    values_of(operand, &words, &whole, type);
}

/* Operators that have a tensor or a vector of channels. */
static __forceinline__ __device__ void apply_operand_to_columns(const fgn_pointwise *step, float *value,
                                                                const struct norm_keeping_args *args,
                                                                const struct lane *lane, int64_t row_start,
                                                                int most, fgn_type type) {
    const int bytes = type == FGN_FLOAT32 ? 4 : 2;
    const char *row = (const char *)step->tensor + row_start * bytes, *vector = (const char *)step->channel;
#pragma unroll
    for (int i = 0; i < most; i++)
        if (i < args->columns) {
            float operand[VALUES], *of_slot = value + i * VALUES;
            if (step->tensor) {
                load_operand_of(operand, row, type, args, lane, lane->vectors_of_row, i);
                apply_with_operands(add, of_slot, VALUES, operand, evenly_spaced, 1);
                continue;
            }
            if (args->norm.vector_type == type)
                load_operand_of(operand, vector, type, args, lane, lane->vectors, i);
            else
                load_operand_of(operand, vector, FGN_FLOAT32, args, lane, lane->vectors, i);
            apply_operand(step, of_slot, VALUES, operand, evenly_spaced, 1);
        }
}

static __forceinline__ __device__ void apply_to_columns(const struct operators *list, float *value,
                                                        const struct norm_keeping_args *args,
                                                        const struct lane *lane, int64_t row_start, int most,
                                                        fgn_type type) {
#pragma unroll 1
    for (int i = 0; i < list->count; i++) {
        const fgn_pointwise *step = &list->step[i];
        if (step->channel || step->tensor)
            apply_operand_to_columns(step, value, args, lane, row_start, most, type);
        else
#pragma unroll
            for (int slot = 0; slot < most; slot += FEW_COLUMNS)
                if (slot < args->columns)
                    apply_constants(step, value + slot * VALUES, FEW_COLUMNS * VALUES);
    }
}

/* The sum of the values that there are, or of their squares. */
static __forceinline__ __device__ float sum_of_columns(const float *value, bool squares,
                                                       const struct norm_keeping_args *args,
                                                       const struct lane *lane, int most) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < most; i++)
        if (i < args->columns) {
            float of_vector = 0.0f;
#pragma unroll
            for (int j = 0; j < VALUES; j++) {
                float v = value[i * VALUES + j];
                of_vector += squares ? v * v : v;
            }
            sum += i < lane->vectors ? of_vector : 0.0f;
        }
    return sum;
}

/* The moments of the thread's group. The values become differences from the mean without its rest. Of 16-bit
 * values the rest is less than what their rounding left out, and is not asked for. */
static __forceinline__ __device__ struct moments moments_of_columns(float *value,
                                                                    const struct norm_keeping_args *args,
                                                                    const struct lane *lane, int most,
                                                                    fgn_type type) {
    int team = args->division.team;
    float mean = team_sum(sum_of_columns(value, false, args, lane, most), team) * args->one_over_size;
#pragma unroll
    for (int i = 0; i < most * VALUES; i++)
        value[i] -= mean;
    float totals[2] = {sum_of_columns(value, true, args, lane, most), 0.0f};
    if (type == FGN_FLOAT32)
        totals[1] = sum_of_columns(value, false, args, lane, most);
    team_sums(totals, type == FGN_FLOAT32 ? 2 : 1, team);
    struct differences total = {totals[1], totals[0]};
    return moments_of(mean, total, args->one_over_size, args->norm.eps);
}

/* A vector of the strip's channels as floats in shared memory. A strip has at most SEGMENT channels, VALUES
 * for each thread. */
static __forceinline__ __device__ void stage_vector(float *staged, const void *vector, float otherwise,
                                                    const struct norm_keeping_args *args, int strip,
                                                    fgn_type type) {
    const int bytes = type == FGN_FLOAT32 ? 4 : 2;
    int channels = (blockDim.x >> args->team_log2) * args->division.group_size;
    int c = (threadIdx.y * blockDim.x + threadIdx.x) * VALUES;
    if (c >= channels || strip + c >= (int)args->norm.channels)
        return;
    const struct channels whole = {0, 1, VALUES, VALUES};
    const char *from = vector ? (const char *)vector + (strip + c) * bytes : NULL;
    float value[VALUES];
    load_vector(value, from, otherwise, &whole, type, type);
    store_values(staged, c, value, &whole, FGN_FLOAT32);
}

static __forceinline__ __device__ void
stage_vectors(float *scale, float *shift, const struct norm_keeping_args *args, int strip, fgn_type type) {
    const struct kept_norm *norm = &args->norm;
    if (norm->vector_type == type) {
        stage_vector(scale, norm->scale, 1.0f, args, strip, type);
        stage_vector(shift, norm->shift, 0.0f, args, strip, type);
    } else {
        stage_vector(scale, norm->scale, 1.0f, args, strip, FGN_FLOAT32);
        stage_vector(shift, norm->shift, 0.0f, args, strip, FGN_FLOAT32);
    }
}

/* Asks for the strip's channels of a vector while the launch before this one still works, as
 * ask_for_channels() does. */
static __forceinline__ __device__ void ask_for_vector(const void *vector,
                                                      const struct norm_keeping_args *args, int strip) {
#ifdef __CUDACC__
    int bytes = args->norm.vector_type == FGN_FLOAT32 ? 4 : 2;
    int c = strip + (threadIdx.y * blockDim.x + threadIdx.x) * VALUES;
    if (vector && blockIdx.y == 0 && c < (int)args->norm.channels)
        asm volatile("prefetch.global.L2 [%0];" ::"l"((const char *)vector + c * bytes));
#else
    (void)vector, (void)args, (void)strip;
#endif
}

/* (v - rest) / deviation * scale + shift. */
static __forceinline__ __device__ void scale_columns(float *value, struct moments moments,
                                                     const struct norm_keeping_args *args,
                                                     const struct lane *lane, const float *scale,
                                                     const float *shift, int most) {
#pragma unroll
    for (int i = 0; i < most; i++)
        if (i < args->columns) {
            float of_scale[VALUES], of_shift[VALUES];
            load_operand_of(of_scale, (const char *)scale, FGN_FLOAT32, args, lane, lane->vectors, i);
            load_operand_of(of_shift, (const char *)shift, FGN_FLOAT32, args, lane, lane->vectors, i);
#pragma unroll
            for (int j = 0; j < VALUES; j++) {
                float *v = &value[i * VALUES + j];
                *v = (*v - moments.mean_rest) * moments.inverse_deviation * of_scale[j] + of_shift[j];
            }
        }
}

/* The values of the thread's row of the block's turn, as they are in memory. */
static __forceinline__ __device__ void load_row(struct words *words, const struct norm_keeping_args *args,
                                                const struct lane *lane, int64_t first_row, int most,
                                                fgn_type type) {
    const int bytes = type == FGN_FLOAT32 ? 4 : 2;
    int64_t row = first_row + threadIdx.y;
    int vectors = row < args->norm.batch ? lane->vectors : 0;
    const char *from = (const char *)args->norm.v + row * args->norm.channels * bytes;
#pragma unroll
    for (int i = 0; i < most; i++)
        load_vector_of(&words[i], from, bytes, args, lane, vectors, i);
}

/* The block's rows, one of each thread in a turn. */
static __forceinline__ __device__ void normalise_rows_in_columns(const struct norm_keeping_args *args,
                                                                 int most, fgn_type type) {
    __shared__ __align__(16) float scale[SEGMENT];
    __shared__ __align__(16) float shift[SEGMENT];
    const struct channels whole = {0, 1, VALUES, VALUES};
    const struct kept_norm *norm = &args->norm;
    const int bytes = type == FGN_FLOAT32 ? 4 : 2;
    int strip = blockIdx.x * (blockDim.x >> args->team_log2) * args->division.group_size;
    struct lane lane = lane_of_thread(args), of_strip = lane;
    of_strip.first -= strip;
    ask_for_vector(norm->scale, args, strip);
    ask_for_vector(norm->shift, args, strip);
    griddepcontrol_wait();

    const int64_t begin = (int64_t)blockIdx.y * blockDim.y, rows_of_grid = (int64_t)gridDim.y * blockDim.y;
    struct words words[MANY_COLUMNS];
    load_row(words, args, &lane, begin, most, type);
    stage_vectors(scale, shift, args, strip, type);
    for (int64_t first_row = begin; first_row < norm->batch; first_row += rows_of_grid) {
        int64_t row = first_row + threadIdx.y, row_start = row * norm->channels;
        lane.vectors_of_row = row < norm->batch ? lane.vectors : 0;
        float value[MANY_COLUMNS * VALUES];
#pragma unroll
        for (int i = 0; i < most; i++)
            values_of(value + i * VALUES, &words[i], &whole, type);
        load_row(words, args, &lane, first_row + rows_of_grid, most, type);
        apply_to_columns(&norm->before, value, args, &lane, row_start, most, type);
        struct moments moments = moments_of_columns(value, args, &lane, most, type);
        if (norm->moments && (threadIdx.x & (args->division.team - 1)) == 0 && lane.vectors_of_row > 0) {
            struct kept_moments kept = {moments.mean + moments.mean_rest, moments.inverse_deviation};
            norm->moments[row * norm->groups + lane.group] = kept;
        }
        if (first_row == begin)
            __syncthreads();
        scale_columns(value, moments, args, &of_strip, scale, shift, most);
        apply_to_columns(&norm->after, value, args, &lane, row_start, most, type);
        char *to = (char *)norm->y + (row_start + lane.first) * bytes;
#pragma unroll
        for (int i = 0; i < most; i++) {
            struct words result;
            words_of(&result, value + i * VALUES, &whole, type);
            if (i < lane.vectors_of_row)
                store_neighbours(to + i * args->division.team * VALUES * bytes, result.word, VALUES * bytes);
        }
    }
}

#ifdef __CUDACC__

static __forceinline__ __device__ void normalise_columns(const struct norm_keeping_args *args, int most,
                                                         fgn_type type) {
    normalise_rows_in_columns(args, most, type);
}

#else

/* On the simulator all kernels share one copy of the code, which is compiled once. */
static CALLED __device__ void normalise_columns(const struct norm_keeping_args *args, int most,
                                                fgn_type type) {
    normalise_rows_in_columns(args, most, type);
}

#endif

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_FEW_COLUMNS)
    norm_keeping_columns_float32_kernel(struct norm_keeping_args args) {
    normalise_columns(&args, FEW_COLUMNS, FGN_FLOAT32);
}

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_FEW_COLUMNS)
    norm_keeping_columns_float16_kernel(struct norm_keeping_args args) {
    normalise_columns(&args, FEW_COLUMNS, FGN_FLOAT16);
}

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_FEW_COLUMNS)
    norm_keeping_columns_bfloat16_kernel(struct norm_keeping_args args) {
    normalise_columns(&args, FEW_COLUMNS, FGN_BFLOAT16);
}

EARLY_LAUNCHER(norm_keeping_columns_float32_kernel, struct norm_keeping_args)
EARLY_LAUNCHER(norm_keeping_columns_float16_kernel, struct norm_keeping_args)
EARLY_LAUNCHER(norm_keeping_columns_bfloat16_kernel, struct norm_keeping_args)

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_MANY_COLUMNS)
    norm_keeping_many_columns_float32_kernel(struct norm_keeping_args args) {
    normalise_columns(&args, MANY_COLUMNS, FGN_FLOAT32);
}

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_MANY_COLUMNS)
    norm_keeping_many_columns_float16_kernel(struct norm_keeping_args args) {
    normalise_columns(&args, MANY_COLUMNS, FGN_FLOAT16);
}

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_MANY_COLUMNS)
    norm_keeping_many_columns_bfloat16_kernel(struct norm_keeping_args args) {
    normalise_columns(&args, MANY_COLUMNS, FGN_BFLOAT16);
}

EARLY_LAUNCHER(norm_keeping_many_columns_float32_kernel, struct norm_keeping_args)
EARLY_LAUNCHER(norm_keeping_many_columns_float16_kernel, struct norm_keeping_args)
EARLY_LAUNCHER(norm_keeping_many_columns_bfloat16_kernel, struct norm_keeping_args)

/* ---- The host ---- */

typedef cudaError_t (*columns_launcher)(dim3 grid, dim3 block, size_t dynamic_shared_bytes,
                                        cudaStream_t stream, bool early, struct norm_keeping_args args);

cudaError_t norm_keeping_columns(const struct kept_norm *norm, const struct norm_launch *launch,
                                 cudaStream_t stream) {
    static const columns_launcher launchers[][2] = {
        [FGN_FLOAT32] = {launch_norm_keeping_columns_float32_kernel,
                         launch_norm_keeping_many_columns_float32_kernel},
        [FGN_FLOAT16] = {launch_norm_keeping_columns_float16_kernel,
                         launch_norm_keeping_many_columns_float16_kernel},
        [FGN_BFLOAT16] = {launch_norm_keeping_columns_bfloat16_kernel,
                          launch_norm_keeping_many_columns_bfloat16_kernel},
    };
    struct norm_keeping_args args = {*norm, launch->division, log2_of(launch->division.team), launch->columns,
                                     1.0f / launch->division.group_size};
    return launchers[norm->type][launch->form == MANY_COLUMNS_NORM](launch->grid, launch->block, 0, stream,
                                                                    true, args);
}
