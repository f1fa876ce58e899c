/* The launch after the product for groups of 2 or 4 channels, of large tensors.
 *
 * Idea: a thread's vector of 8 values has whole groups, so it finds their moments alone, in its registers. It
 * reads and writes the tensor as if groups had 8 channels (norm_of_rows.h): a thread has several whole
 * vectors, one row below the other, and loads the next ones meanwhile. With vectors of one group
 * (norm_forward.cu) half of a thread's values or more would be missing.
 *
 * Bytes: v read once and y written once, 8 for each element, 4 in a 16-bit type. Operations: about 12 for
 * each element and the chain's own.
 *
 * Limit: memory; with exponentials, instruction issue. */
#include "norm/norm_of_rows.h"
#include "sim/launchers.h"

/* Finds the moments of `size` neighbours, and turns these into differences from the mean without its rest. */
static __forceinline__ __device__ struct moments moments_of_neighbours(float *value, int size,
                                                                       const struct norm_forward_args *args) {
    float sum = 0.0f;
    struct differences total = {0.0f, 0.0f};
#pragma unroll
    for (int j = 0; j < size; j++)
        sum += value[j];
    float mean = rounded(sum * args->one_over_size);
#pragma unroll
    for (int j = 0; j < size; j++) {
        value[j] -= mean;
        add_difference(&total, value[j]);
    }
    return moments_of(mean, total, args->one_over_size, args->norm.eps);
}

/* Normalises the groups of a slot and keeps their moments if the backward wants them. row: of the tensor;
 * is_there: whether that row exists. */
static __forceinline__ __device__ void normalise_groups_of_slot(float *value, const float *scale,
                                                                const float *shift,
                                                                const struct norm_forward_args *args,
                                                                int first, int64_t row, bool is_there,
                                                                int size) {
    const struct kept_norm *norm = &args->norm;
#pragma unroll
    for (int begin = 0; begin < VALUES; begin += size) {
        struct moments moments = moments_of_neighbours(value + begin, size, args);
        if (norm->moments && is_there) {
            struct kept_moments kept = {moments.mean + moments.mean_rest, moments.inverse_deviation};
            norm->moments[row * norm->groups + (first + begin) / size] = kept;
        }
#pragma unroll
        for (int j = begin; j < begin + size; j++)
            value[j] = scaled(value[j], moments, scale[j], shift[j], true);
    }
}

static __forceinline__ __device__ void normalise_rows_of_tiny(const struct norm_forward_args *args, int slots,
                                                              int size, fgn_type type) {
    const struct kept_norm *norm = &args->norm;
    struct slots place = slots_of_thread(args, slots, VALUES, false);
    int rows_of_turn = slots * blockDim.y;
    int64_t row = (int64_t)blockIdx.y * rows_of_turn, rows_of_grid = (int64_t)gridDim.y * rows_of_turn;
    griddepcontrol_wait();

    float scale[VALUES], shift[VALUES];
    struct words next[MOST_SLOTS];
    load_turn(next, args, &place, turn_from(row, norm), slots, type);
    load_scale_and_shift(scale, shift, norm, &place.channels[0], type);
    for (; row < norm->batch; row += rows_of_grid) {
        struct turn turn = turn_from(row, norm);
        float value[MOST_SLOTS * VALUES];
#pragma unroll
        for (int i = 0; i < slots; i++)
            values_of(value + i * VALUES, &next[i], &place.channels[i], type);
        load_turn(next, args, &place, turn_from(row + rows_of_grid, norm), slots, type);
        apply_to_slots(&norm->before, BEFORE, value, args, &place, turn, slots, type);
#pragma unroll
        for (int i = 0; i < slots; i++) {
            struct channels channels = channels_in(&place, i, turn);
            normalise_groups_of_slot(value + i * VALUES, scale, shift, args, channels.first,
                                     row + place.row[i], channels.count > 0, size);
        }
        apply_to_slots(&norm->after, AFTER, value, args, &place, turn, slots, type);
        store_turn(value, args, &place, turn, slots, type);
    }
}

#ifdef __CUDACC__

static __forceinline__ __device__ void normalise_tiny(const struct norm_forward_args *args, int slots,
                                                      fgn_type type) {
    if (args->norm.channels == 4 * args->norm.groups)
        normalise_rows_of_tiny(args, slots, 4, type);
    else
        normalise_rows_of_tiny(args, slots, 2, type);
}

#else

/* On the simulator all kernels share one copy of the code, which is compiled once. */
static CALLED __device__ void normalise_tiny(const struct norm_forward_args *args, int slots, fgn_type type) {
    normalise_rows_of_tiny(args, slots, (int)(args->norm.channels / args->norm.groups), type);
}

#endif

#ifdef JIT_COMPILED

extern "C" __global__ void __launch_bounds__(THREADS, known.blocks)
    jit_kernel(struct norm_forward_args given) {
    const struct norm_forward_args args = {known_norm(given.norm), known.division, 0, 1, given.one_over_size};
    normalise_rows_of_tiny(&args, known.slots, known.channels / known.groups, (fgn_type)known.type);
}

#else

__global__ void __launch_bounds__(THREADS, LARGE_BLOCKS_OF_MULTIPROCESSOR)
    norm_forward_tiny_float32_kernel(struct norm_forward_args args) {
    normalise_tiny(&args, LARGE_SLOTS_32, FGN_FLOAT32);
}

__global__ void __launch_bounds__(THREADS, LARGE_BLOCKS_OF_MULTIPROCESSOR)
    norm_forward_tiny_float16_kernel(struct norm_forward_args args) {
    normalise_tiny(&args, LARGE_SLOTS_16, FGN_FLOAT16);
}

__global__ void __launch_bounds__(THREADS, LARGE_BLOCKS_OF_MULTIPROCESSOR)
    norm_forward_tiny_bfloat16_kernel(struct norm_forward_args args) {
    normalise_tiny(&args, LARGE_SLOTS_16, FGN_BFLOAT16);
}

EARLY_LAUNCHER(norm_forward_tiny_float32_kernel, struct norm_forward_args)
EARLY_LAUNCHER(norm_forward_tiny_float16_kernel, struct norm_forward_args)
EARLY_LAUNCHER(norm_forward_tiny_bfloat16_kernel, struct norm_forward_args)

/* ---- The host ---- */

cudaError_t norm_forward_tiny(const struct kept_norm *norm, const struct norm_launch *launch,
                              cudaStream_t stream) {
    struct norm_forward_args args = {*norm, launch->division, 0, 1,
                                     (float)norm->groups / (float)norm->channels};
    int slots = slots_of_thread_in(launch->form, norm->type);
    cudaError_t error;
    if (launched_norm_jit("norm/norm_forward_tiny.cu", norm, launch, slots, LARGE_BLOCKS_OF_MULTIPROCESSOR,
                          &args, stream, &error))
        return error;
    switch (norm->type) {
    case FGN_FLOAT16:
        return launch_norm_forward_tiny_float16_kernel(launch->grid, launch->block, 0, stream, true, args);
    case FGN_BFLOAT16:
        return launch_norm_forward_tiny_bfloat16_kernel(launch->grid, launch->block, 0, stream, true, args);
    default:
        return launch_norm_forward_tiny_float32_kernel(launch->grid, launch->block, 0, stream, true, args);
    }
}

#endif
