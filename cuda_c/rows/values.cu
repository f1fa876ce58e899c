/* Operators alone, which may read their input again: y = after(before(v)), such as x * gelu(x) or x * scale +
 * x; or half of each row of v with the other half as its gate, a * gelu(b).
 *
 * Idea: as in norm/operators_alone.cu, operators are applied in registers, to several rows of a thread at
 * once. Here a row of v may be longer than its result, so that half of a product's row can be read in place,
 * and an operator without a tensor reads v again. The second read comes from the L1 cache, where the thread's
 * first load has put it, and takes no registers until then.
 *
 * Bytes: v read once, both halves where one is the gate, and y written once: 8 for each element, 4 in a
 * 16-bit type, and what other operators read. Operations: the operators' own.
 *
 * Limit: memory; with exponentials, instruction issue. */
#include "norm/operators_down_rows.h"
#include "ptx/griddepcontrol.h"
#include "rows/known.h"
#include "sim/launchers.h"

struct values_args {
    struct rows rows;
    struct division division;
};

/* Callers pass a constant for `type`. */
static __forceinline__ __device__ void apply_to_values(const struct values_args *args, fgn_type type) {
    const struct rows *rows = &args->rows;
    struct operators_down_rows all = {rows->v,           rows->again,   rows->y,
                                      rows->vector_type, rows->batch,   rows->features,
                                      rows->v_features,  &rows->before, &rows->after};
    griddepcontrol_wait();
    apply_down_rows(&all, &args->division, type);
}

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_OPERATORS)
    values_float32_kernel(struct values_args args) {
    apply_to_values(&args, FGN_FLOAT32);
}

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_OPERATORS)
    values_float16_kernel(struct values_args args) {
    apply_to_values(&args, FGN_FLOAT16);
}

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_OPERATORS)
    values_bfloat16_kernel(struct values_args args) {
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
    int64_t blocks = row_blocks_of_operators(division, rows->batch);
    const dim3 grid = {(unsigned)strips_of(division), (unsigned)(blocks < 65535 ? blocks : 65535), 1};
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
