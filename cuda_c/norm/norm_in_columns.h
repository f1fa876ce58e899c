/* y = after(GroupNorm(before(v))) of some rows; a lane has several slots of a row. The kernels of
 * norm_forward_columns.cu and norm_forward_many_columns.cu call this. */
#pragma once

#include "norm/norm_of_rows.h"

/* The slots of a lane, the neighbours of a vector (a slot has one vector or several), and the type: constants
 * in the code of a turn. `in_use` slots have values of the row. If `in_use` is a constant, one slot's
 * arithmetic goes on while another waits; if not, each slot is a branch. A constant three takes 0.75 to 0.95
 * of the time of four slots with three in use. A constant four needs too many registers: it takes 1.1 to 1.2
 * of the time. */
struct columns_form {
    int slots;
    int in_use;
    int width;
    fgn_type type;
};

static __forceinline__ __device__ int size_of(struct columns_form form) {
    return form.type == FGN_FLOAT32 ? 4 : 2;
}

/* A slot in the form of channels.h, with `count` channels. */
static __forceinline__ __device__ struct channels slot_of(struct columns_form form, int count) {
    const struct channels slot = {0, 1, form.width, count};
    return slot;
}

/* A thread's part of its group: vectors of neighbours, each `team` vectors after the one before. */
struct lane {
    int group;
    int first;          /* channel of its first vector */
    int step;           /* channels from one of its vectors to the next */
    int vectors;        /* how many exist, the first ones of its slots */
    int vectors_of_row; /* the same, or none where the row is not there */
};

static __forceinline__ __device__ struct lane lane_of_thread(const struct norm_forward_args *args,
                                                             struct columns_form form) {
    int team = args->division.team, vectors = args->division.group_size / form.width;
    int member = threadIdx.x & (team - 1);
    struct lane lane;
    lane.group = (blockIdx.x * blockDim.x + threadIdx.x) >> args->team_log2;
    lane.first = (lane.group * vectors + member) * form.width;
    lane.step = team * form.width;
    int left = lane.group < args->division.groups ? vectors - member : 0;
    lane.vectors = (left + team - 1) >> args->team_log2;
    lane.vectors_of_row = 0;
    return lane;
}

/* Loads slot `slot` of the lane, from its first vector on, elements of `size` bytes; zeros if there is none.
 * Callers pass the form, sizes and numbers of slots as constants. */
static __forceinline__ __device__ void load_slot_of(struct words *words, const char *first, int size,
                                                    const struct lane *lane, int vectors, int slot,
                                                    struct columns_form form) {
    const int of_slot = VALUES / form.width, words_of_vector = form.width * size / 4;
#pragma unroll
    for (int j = 0; j < VALUES; j++)
        words->word[j] = 0;
#pragma unroll
    for (int i = 0; i < of_slot; i++)
        if (slot * of_slot + i < vectors)
            load_neighbours(words->word + i * words_of_vector,
                            first + (slot * of_slot + i) * lane->step * size, form.width * size);
}

static __forceinline__ __device__ void load_operand_of(float *operand, const char *first, fgn_type type,
                                                       const struct lane *lane, int vectors, int slot,
                                                       struct columns_form form) {
    const struct channels whole = slot_of(form, VALUES);
    struct words words;
    load_slot_of(&words, first, type == FGN_FLOAT32 ? 4 : 2, lane, vectors, slot, form);
    values_of(operand, &words, &whole, type);
}

/* Operators that have a tensor or a vector of channels. at: the lane's first element in the tensor. It loads
 * several slots before it uses the first. */
static __forceinline__ __device__ void apply_operand_to_columns(const fgn_pointwise *step, float *value,
                                                                const struct norm_forward_args *args,
                                                                const struct lane *lane, int64_t at,
                                                                struct columns_form form) {
    const struct channels whole = slot_of(form, VALUES);
    const int at_once = form.type == FGN_FLOAT32 ? 2 : FEW_COLUMNS;
    if (step->one) {
        float operand[VALUES];
        load_of_step(operand, step, &whole, args->norm.vector_type, form.type);
#pragma unroll
        for (int slot = 0; slot < form.slots; slot++)
            if (slot < form.in_use)
                apply_operand(step, value + slot * VALUES, VALUES, operand, evenly_spaced, 1);
        return;
    }
    bool is_float32 = !step->tensor && args->norm.vector_type == FGN_FLOAT32;
    int vectors = step->tensor ? lane->vectors_of_row : lane->vectors;
    const char *first = step->tensor ? (const char *)step->tensor + at * size_of(form)
                                     : (const char *)step->channel + lane->first * (is_float32 ? 4 : 2);
#pragma unroll
    for (int slot = 0; slot < form.slots; slot += at_once) {
        struct words words[FEW_COLUMNS];
        if (!is_float32 || form.type == FGN_FLOAT32)
#pragma unroll
            for (int i = 0; i < at_once && slot + i < form.slots; i++)
                load_slot_of(&words[i], first, size_of(form), lane, vectors, slot + i, form);
#pragma unroll
        for (int i = 0; i < at_once; i++)
            if (slot + i < form.in_use) {
                float operand[VALUES], *of_slot = value + (slot + i) * VALUES;
                if (is_float32 && form.type != FGN_FLOAT32)
                    load_operand_of(operand, first, FGN_FLOAT32, lane, vectors, slot + i, form);
                else
                    values_of(operand, &words[i], &whole, form.type);
                if (step->tensor)
                    apply_with_operands(add, of_slot, VALUES, operand, evenly_spaced, 1);
                else
                    apply_operand(step, of_slot, VALUES, operand, evenly_spaced, 1);
            }
    }
}

static __forceinline__ __device__ void apply_to_columns(const struct operators *list, enum list which,
                                                        float *value, const struct norm_forward_args *args,
                                                        const struct lane *lane, int64_t at,
                                                        struct columns_form form) {
#pragma unroll STEPS_AT_ONCE
    for (int i = 0; i < count_of(list, which); i++) {
        const fgn_pointwise step = step_of(list, which, i);
        if (step.channel || step.tensor)
            apply_operand_to_columns(&step, value, args, lane, at, form);
        else
#pragma unroll
            for (int slot = 0; slot < form.slots; slot += FEW_COLUMNS) {
                const int at_most = form.slots - slot < FEW_COLUMNS ? form.slots - slot : FEW_COLUMNS;
                if (slot + at_most <= form.in_use)
                    apply_constants(&step, value + slot * VALUES, at_most * VALUES);
                else if (slot < form.in_use)
                    apply_constants(&step, value + slot * VALUES, (at_most - 1) * VALUES);
            }
        end_step(value, form.slots * VALUES);
    }
}

/* Adds the values that exist, or their squares. */
static __forceinline__ __device__ float sum_of_columns(const float *value, bool squares,
                                                       const struct lane *lane, struct columns_form form) {
    const int of_slot = VALUES / form.width;
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < form.slots * of_slot; i++)
        if (i / of_slot < form.in_use) {
            float of_vector = 0.0f;
#pragma unroll
            for (int j = 0; j < form.width; j++) {
                float v = value[i * form.width + j];
                of_vector += squares ? v * v : v;
            }
            sum += i < lane->vectors ? of_vector : 0.0f;
        }
    return sum;
}

/* Finds the moments of the thread's group. The values become differences from the mean without its rest. For
 * 16-bit values the rest is below their rounding error, and is not computed. */
static __forceinline__ __device__ struct moments moments_of_columns(float *value,
                                                                    const struct norm_forward_args *args,
                                                                    const struct lane *lane,
                                                                    struct columns_form form) {
    const bool has_rest = form.type == FGN_FLOAT32;
    int team = args->division.team;
    float mean = rounded(team_sum(sum_of_columns(value, false, lane, form), team) * args->one_over_size);
#pragma unroll
    for (int i = 0; i < form.slots; i++)
        if (i < form.in_use)
#pragma unroll
            for (int j = 0; j < VALUES; j++)
                value[i * VALUES + j] -= mean;
    float totals[2] = {sum_of_columns(value, true, lane, form), 0.0f};
    if (has_rest)
        totals[1] = sum_of_columns(value, false, lane, form);
    team_sums(totals, has_rest ? 2 : 1, team);
    struct differences total = {totals[1], totals[0]};
    return moments_of(mean, total, args->one_over_size, args->norm.eps);
}

/* A vector of the strip's channels as floats in shared memory. A strip has at most SEGMENT channels, VALUES
 * for each thread. */
static __forceinline__ __device__ void stage_vector(float *staged, const void *vector, float otherwise,
                                                    const struct norm_forward_args *args, int strip,
                                                    fgn_type type, struct columns_form form) {
    int channels = (blockDim.x >> args->team_log2) * args->division.group_size;
    int c = (threadIdx.y * blockDim.x + threadIdx.x) * VALUES;
    int left =
        channels < (int)args->norm.channels - strip ? channels - c : (int)args->norm.channels - strip - c;
    const struct channels slot = slot_of(form, left < VALUES ? left : VALUES);
    const char *from = vector ? (const char *)vector + (strip + c) * (type == FGN_FLOAT32 ? 4 : 2) : NULL;
    float value[VALUES];
    load_vector(value, from, otherwise, &slot, type, type);
    store_values(staged, c, value, &slot, FGN_FLOAT32);
}

static __forceinline__ __device__ void stage_vectors(float *scale, float *shift,
                                                     const struct norm_forward_args *args, int strip,
                                                     struct columns_form form) {
    const struct kept_norm *norm = &args->norm;
    if (norm->vector_type == form.type) {
        stage_vector(scale, norm->scale, 1.0f, args, strip, form.type, form);
        stage_vector(shift, norm->shift, 0.0f, args, strip, form.type, form);
    } else {
        stage_vector(scale, norm->scale, 1.0f, args, strip, FGN_FLOAT32, form);
        stage_vector(shift, norm->shift, 0.0f, args, strip, FGN_FLOAT32, form);
    }
}

/* Prefetches the strip's channels of a vector while the launch before this one still works, as
 * ask_for_channels() does. */
static __forceinline__ __device__ void ask_for_vector(const void *vector,
                                                      const struct norm_forward_args *args, int strip) {
#ifdef __CUDACC__
    int bytes = args->norm.vector_type == FGN_FLOAT32 ? 4 : 2;
    int c = strip + (threadIdx.y * blockDim.x + threadIdx.x) * VALUES;
    if (vector && blockIdx.y == 0 && c < (int)args->norm.channels)
        asm volatile("prefetch.global.L2 [%0];" ::"l"((const char *)vector + c * bytes));
#else
    (void)vector, (void)args, (void)strip;
#endif
}

/* (v - rest) / deviation * scale + shift. scale, shift: of the lane's first vector. */
static __forceinline__ __device__ void scale_columns(float *value, struct moments moments,
                                                     const struct lane *lane, const float *scale,
                                                     const float *shift, struct columns_form form) {
#pragma unroll
    for (int i = 0; i < form.slots; i++)
        if (i < form.in_use) {
            float of_scale[VALUES], of_shift[VALUES];
            load_operand_of(of_scale, (const char *)scale, FGN_FLOAT32, lane, lane->vectors, i, form);
            load_operand_of(of_shift, (const char *)shift, FGN_FLOAT32, lane, lane->vectors, i, form);
#pragma unroll
            for (int j = 0; j < VALUES; j++) {
                float *v = &value[i * VALUES + j];
                *v = scaled(*v, moments, of_scale[j], of_shift[j], form.type == FGN_FLOAT32);
            }
        }
}

static __forceinline__ __device__ void load_row(struct words *words, const char *first,
                                                const struct lane *lane, bool is_there,
                                                struct columns_form form) {
#pragma unroll
    for (int i = 0; i < form.slots; i++)
        load_slot_of(&words[i], first, size_of(form), lane, is_there ? lane->vectors : 0, i, form);
}

static __forceinline__ __device__ void store_row(char *first, const float *value, const struct lane *lane,
                                                 struct columns_form form) {
    const struct channels whole = slot_of(form, VALUES);
    const int of_slot = VALUES / form.width, bytes = form.width * size_of(form);
#pragma unroll
    for (int i = 0; i < form.slots; i++) {
        struct words result;
        words_of(&result, value + i * VALUES, &whole, form.type);
#pragma unroll
        for (int k = 0; k < of_slot; k++)
            if (i * of_slot + k < lane->vectors_of_row)
                store_neighbours(first + (i * of_slot + k) * lane->step * size_of(form),
                                 result.word + k * bytes / 4, bytes);
    }
}

/* Computes the block's rows; each thread has one in a turn. */
static __forceinline__ __device__ void normalise_rows_in_columns(const struct norm_forward_args *args,
                                                                 float *scale, float *shift,
                                                                 struct columns_form form) {
    const struct channels whole = slot_of(form, VALUES);
    const struct kept_norm *norm = &args->norm;
    int strip = blockIdx.x * (blockDim.x >> args->team_log2) * args->division.group_size;
    struct lane lane = lane_of_thread(args, form);
    const float *scale_of_lane = scale + (lane.first - strip), *shift_of_lane = shift + (lane.first - strip);
    ask_for_vector(norm->scale, args, strip);
    ask_for_vector(norm->shift, args, strip);
    griddepcontrol_wait();

    const int64_t rows_of_grid = (int64_t)gridDim.y * blockDim.y;
    const int64_t bytes_of_turn = rows_of_grid * norm->channels * size_of(form);
    int64_t row = (int64_t)blockIdx.y * blockDim.y + threadIdx.y, at = row * norm->channels + lane.first;
    const char *from = (const char *)norm->v + at * size_of(form);
    struct words words[MANY_COLUMNS];
    load_row(words, from, &lane, row < norm->batch, form);
    stage_vectors(scale, shift, args, strip, form);
    __syncthreads();
    for (; row - threadIdx.y < norm->batch; row += rows_of_grid, at += rows_of_grid * norm->channels) {
        lane.vectors_of_row = row < norm->batch ? lane.vectors : 0;
        float value[MANY_COLUMNS * VALUES];
#pragma unroll
        for (int i = 0; i < form.slots; i++)
            values_of(value + i * VALUES, &words[i], &whole, form.type);
        from += bytes_of_turn;
        load_row(words, from, &lane, row + rows_of_grid < norm->batch, form);
        apply_to_columns(&norm->before, BEFORE, value, args, &lane, at, form);
        struct moments moments = moments_of_columns(value, args, &lane, form);
        if (norm->moments && (threadIdx.x & (args->division.team - 1)) == 0 && lane.vectors_of_row > 0) {
            struct kept_moments kept = {moments.mean + moments.mean_rest, moments.inverse_deviation};
            norm->moments[row * norm->groups + lane.group] = kept;
        }
        scale_columns(value, moments, &lane, scale_of_lane, shift_of_lane, form);
        apply_to_columns(&norm->after, AFTER, value, args, &lane, at, form);
        store_row((char *)norm->y + at * size_of(form), value, &lane, form);
    }
}

#ifdef __CUDACC__

static __forceinline__ __device__ void normalise_columns(const struct norm_forward_args *args, int most,
                                                         int width, fgn_type type) {
    __shared__ __align__(16) float scale[SEGMENT];
    __shared__ __align__(16) float shift[SEGMENT];
    const struct columns_form three = {3, 3, width, type}, any = {most, args->columns, width, type};
    if (most == FEW_COLUMNS && args->columns == 3)
        normalise_rows_in_columns(args, scale, shift, three);
    else
        normalise_rows_in_columns(args, scale, shift, any);
}

#else

/* On the simulator all kernels share one copy of the code, which is compiled once. */
static CALLED __device__ void normalise_columns(const struct norm_forward_args *args, int most, int width,
                                                fgn_type type) {
    __shared__ __align__(16) float scale[SEGMENT];
    __shared__ __align__(16) float shift[SEGMENT];
    const struct columns_form form = {args->columns, args->columns, width, type};
    (void)most;
    normalise_rows_in_columns(args, scale, shift, form);
}

#endif

/* ---- The host ---- */

typedef cudaError_t (*columns_launcher)(dim3 grid, dim3 block, size_t dynamic_shared_bytes,
                                        cudaStream_t stream, bool early, struct norm_forward_args args);

/* The kernels of norm_forward_many_columns.cu. */
columns_launcher launcher_of_many_columns(fgn_type type);
