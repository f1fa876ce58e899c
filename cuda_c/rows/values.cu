/* Operators alone, which may read their input again: y = after(before(v)), such as x * gelu(x) or x * scale +
 * x; or half of each row of v with the other half as its gate, a * gelu(b).
 *
 * Idea: as in norm/operators_alone.cu, operators are applied in registers; a thread keeps its channels, goes
 * down the rows, and loads the values of its next row before it works on this one. Here a row of v may be
 * longer than its result, so that half of a product's row can be read in place, and an operator without a
 * tensor reads v again. The second read comes from the L1 cache, where the thread's first load has put it,
 * and takes no registers until then.
 *
 * Bytes: v read once, both halves where one is the gate, and y written once: 8 for each element, 4 in a
 * 16-bit type, and what other operators read. Operations: the operators' own.
 *
 * Limit: memory; with exponentials, instruction issue. */
#include "ptx/griddepcontrol.h"
#include "rows/known.h"
#include "sim/launchers.h"

struct values_args {
    struct rows rows;
    struct division division;
};

/* value = step(value), with v again if the step has no tensor. */
static __forceinline__ __device__ void apply_after(const fgn_pointwise *step, float *value,
                                                   const struct rows *rows, int64_t row,
                                                   const struct gradient_row *place) {
    float operand[VALUES];
    if (step->tensor || step->channel || !takes_tensor(step))
        load_operand(operand, step, place);
    else
        load_values(operand, rows->again, row * rows->v_features, &place->channels, place->type);
    apply_called(step, value, operand);
}

/* Callers pass a constant for `type`. */
static __forceinline__ __device__ void apply_to_values(const struct values_args *args, fgn_type type) {
    const struct rows *rows = &args->rows;
    const struct division *division = &args->division;
    int segment = blockIdx.x * (blockDim.x / division->team) + threadIdx.x / division->team;
    struct gradient_row place = {channels_of(division, segment), 0, type, rows->vector_type, false};
    int64_t row = (int64_t)blockIdx.y * blockDim.y + threadIdx.y, step = (int64_t)gridDim.y * blockDim.y;
    griddepcontrol_wait();
    if (row >= rows->batch || place.channels.count == 0)
        return;
    struct words next;
    load_words(&next, rows->v, row * rows->v_features, &place.channels, type);
    for (; row < rows->batch; row += step) {
        struct words here = next;
        if (row + step < rows->batch)
            load_words(&next, rows->v, (row + step) * rows->v_features, &place.channels, type);
        float value[VALUES];
        place.row_start = row * rows->features;
        values_of(value, &here, &place.channels, type);
        apply_to_slots(&rows->before, value, &place, 1);
#pragma unroll 1
        for (int i = 0; i < rows->after.count; i++)
            apply_after(&rows->after.step[i], value, rows, row, &place);
        store_values(rows->y, place.row_start, value, &place.channels, type);
    }
}

#define BLOCKS_OF_VALUES 3 /* of a multiprocessor */

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
    struct values_args args = {*rows, division_of(rows->features, 1, aligned)};
    struct division *division = &args.division;
    while (rows->v_features % division->width != 0)
        division->width /= 2;
    int64_t turns = tiles(rows->batch, rows_at_once(division));
    int64_t most = most_row_blocks(BLOCKS_OF_VALUES * MULTIPROCESSORS, division);
    const dim3 grid = {(unsigned)strips_of(division), (unsigned)(turns < most ? turns : most), 1};
    const dim3 block = {(unsigned)division->across, (unsigned)rows_at_once(division), 1};
    switch (rows->type) {
    case FGN_FLOAT16:
        return launch_values_float16_kernel(grid, block, 0, stream, true, args);
    case FGN_BFLOAT16:
        return launch_values_bfloat16_kernel(grid, block, 0, stream, true, args);
    default:
        return launch_values_float32_kernel(grid, block, 0, stream, true, args);
    }
}
