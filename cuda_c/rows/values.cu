/* Operators alone, which may read their input again: y = after(before(v)), such as x * gelu(x) or x * scale +
 * x; or half of each row of v with the other half as its gate, a * gelu(b).
 *
 * Idea: operators are applied in registers. The threads take the vectors of the result in turns, and a thread
 * loads its next vector before it works on this one. A row of v may be longer than its result, so that half
 * of a product's row can be read in place, and an operator without a tensor reads v again. The second read
 * comes from the L1 cache, where the thread's first load has put it, and takes no registers until then.
 *
 * Bytes: v read once, both halves where one is the gate, and y written once: 8 for each element, 4 in a
 * 16-bit type, and what other operators read. Operations: the operators' own.
 *
 * Limit: memory; with exponentials, instruction issue. */
#include "ptx/griddepcontrol.h"
#include "rows/operated.h"
#include "rows/rows.h"
#include "sim/launchers.h"

struct values_args {
    struct rows rows;
    int width; /* neighbours in one access */
};

/* The place in the result, of which a thread has VALUES neighbours. `width`: neighbours in one access. */
static __forceinline__ __device__ struct gradient_row place_of(const struct rows *rows, int width,
                                                               const struct turn *turn, fgn_type type) {
    int first = (int)turn->vector * VALUES, left = (int)rows->features - first;
    int count = turn->row >= rows->batch ? 0 : left < VALUES ? left : VALUES;
    struct gradient_row place = {
        {first, 1, width, count}, turn->row * rows->features, type, rows->vector_type, false};
    return place;
}

/* Callers pass a constant for `type`. */
static __forceinline__ __device__ void apply_to_values(const struct values_args *args, fgn_type type) {
    const struct rows *rows = &args->rows;
    const unsigned vectors = (unsigned)tiles(rows->features, VALUES);
    struct turn turn = first_turn(vectors);
    struct gradient_row next_place = place_of(rows, args->width, &turn, type);
    struct words next;
    griddepcontrol_wait();
    load_words(&next, rows->v, turn.row * rows->v_features, &next_place.channels, type);
    while (next_place.channels.count > 0) {
        struct words here = next;
        struct gradient_row place = next_place;
        int64_t row = turn.row;
        take_turn(&turn, vectors);
        next_place = place_of(rows, args->width, &turn, type);
        load_words(&next, rows->v, turn.row * rows->v_features, &next_place.channels, type);
        float value[VALUES];
        values_of(value, &here, &place.channels, type);
        operate_all(&rows->before, BEFORE, value, &place);
#pragma unroll STEPS_AT_ONCE
        for (int i = 0; i < count_of(&rows->after, AFTER); i++) {
            fgn_pointwise step = step_of(&rows->after, AFTER, i);
            struct gradient_row of_step = place;
            if (takes_tensor(&step) && !step.tensor) { /* v again */
                step.tensor = rows->again;
                of_step.row_start = row * rows->v_features;
            }
            operate(step, value, &of_step);
        }
        store_values(rows->y, place.row_start, value, &place.channels, type);
    }
}

#define BLOCKS_OF_VALUES 3 /* of a multiprocessor */
#define BLOCKS_AT_ONCE (BLOCKS_OF_VALUES * MULTIPROCESSORS)

#ifdef JIT_COMPILED

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_OF_VALUES) jit_kernel(struct values_args given) {
    const struct values_args args = {known_rows(given.rows), known.division.width};
    apply_to_values(&args, (fgn_type)known.type);
}

#else

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_VALUES) values_float32_kernel(struct values_args args) {
    apply_to_values(&args, FGN_FLOAT32);
}

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_VALUES) values_float16_kernel(struct values_args args) {
    apply_to_values(&args, FGN_FLOAT16);
}

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_VALUES) values_bfloat16_kernel(struct values_args args) {
    apply_to_values(&args, FGN_BFLOAT16);
}

EARLY_LAUNCHER(values_float32_kernel, struct values_args)
EARLY_LAUNCHER(values_float16_kernel, struct values_args)
EARLY_LAUNCHER(values_bfloat16_kernel, struct values_args)

/* ---- The host ---- */

cudaError_t values_forward(const struct rows *rows, cudaStream_t stream) {
    bool aligned = is_aligned_16(rows->v) && is_aligned_16(rows->again) && is_aligned_16(rows->y) &&
                   operands_are_aligned(&rows->before) && operands_are_aligned(&rows->after);
    struct division division = division_of(rows->features, 1, aligned);
    while (rows->v_features % division.width != 0)
        division.width /= 2;
    const struct values_args args = {*rows, division.width};
    int64_t blocks = tiles(rows->batch * tiles(rows->features, VALUES), THREADS);
    const dim3 grid = {(unsigned)(blocks < BLOCKS_AT_ONCE ? blocks : BLOCKS_AT_ONCE), 1, 1};
    const dim3 block = {THREADS, 1, 1};
    cudaError_t error;
    if (launched_rows_jit("rows/values.cu", rows, &division, &args, grid, block, 0, stream, &error))
        return error;
    switch (rows->type) {
    case FGN_FLOAT16:
        return launch_values_float16_kernel(grid, block, 0, stream, true, args);
    case FGN_BFLOAT16:
        return launch_values_bfloat16_kernel(grid, block, 0, stream, true, args);
    default:
        return launch_values_float32_kernel(grid, block, 0, stream, true, args);
    }
}

#endif
