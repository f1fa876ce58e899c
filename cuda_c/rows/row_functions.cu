/* A function of a row as one launch: softmax, RMSNorm, LayerNorm, and reductions to one value per row.
 *
 * Idea: such a function needs a whole row before it can give its first value, so it cannot be in the epilogue
 * of a product, whose blocks have tiles of a few columns. But it needs to know only two numbers of a row: the
 * largest value and a sum. A team of threads shares a row, and combines what its threads know
 * (function_of_row.h). The operators before and after are applied to values in registers. If the sum before
 * it is wanted too, as in a transformer's residual stream, the kernel also writes u = before(v). This file
 * plans the launch; its kernels are in short_rows.cu and long_rows.cu.
 *
 * Bytes: v read once and, for softmax and the norms, y written once: 8 for each element, 4 in a 16-bit type.
 * These functions read rows of more than LONG_SLOTS segments twice (LayerNorm three times), from a cache
 * after the first time. Operations: about 4 for each element, and an exponential or two.
 *
 * Limit: memory; with exponentials, instruction issue; where the tensor is small, instructions that come from
 * memory. */
#include "rows/rows.h"

/* How a launch divides the rows. In a long row a thread has several slots of VALUES values. */
struct rows_launch {
    dim3 grid;
    dim3 block;
    struct division division;
    bool is_long;
};

/* From this many values on, threads have several slots if a window fills them: a thread's fixed work serves
 * all slots, and more loads are in flight. */
#define FEWEST_VALUES_OF_LONG (1 << 20)

/* A thread's vector may not cross the end of a row, so rows that windows do not fill have vectors of one.
 */
static struct rows_launch launch_of_rows(const struct rows *rows) {
    bool aligned = is_aligned_16(rows->v) && is_aligned_16(rows->y) && is_aligned_16(rows->between) &&
                   operands_are_aligned(&rows->before) && operands_are_aligned(&rows->after) &&
                   rows->features == rows->windows * rows->window;
    struct rows_launch launch;
    struct division *division = &launch.division;
    *division = division_of(rows->windows * rows->window, rows->windows, aligned);
    division->width = division->width == VALUES ? VALUES : 1; /* the kernels know no other vectors */
    launch.is_long = rows->window > SEGMENT || (rows->window >= VALUES * LONG_SLOTS &&
                                                rows->batch * rows->features >= FEWEST_VALUES_OF_LONG);
    int slots = launch.is_long ? LONG_SLOTS : 1;
    division->team = power_of_two_above(tiles(division->group_size, VALUES * slots), THREADS);
    while (division->team < THREADS && division->team * VALUES < rows->window &&
           rows->batch * rows->windows * division->team < MULTIPROCESSORS * THREADS)
        division->team *= 2; /* few rows: fewer slots, so that every multiprocessor has something to do */
    division->parts = (int)tiles(division->group_size, VALUES * division->team);
    int64_t threads = (int64_t)division->groups * division->team;
    division->across = power_of_two_above(threads, division->team > LANES ? division->team : LANES);
    int64_t strips = tiles(threads, division->across);
    int64_t most = (launch.is_long ? BLOCKS_OF_LONG : BLOCKS_OF_SHORT) * MULTIPROCESSORS / strips;
    int64_t turns = tiles(rows->batch, rows_at_once(division));
    const dim3 grid = {(unsigned)strips, (unsigned)(turns < most ? turns : most > 1 ? most : 1), 1};
    const dim3 block = {(unsigned)division->across, (unsigned)rows_at_once(division), 1};
    launch.grid = grid;
    launch.block = block;
    return launch;
}

cudaError_t rows_forward(const struct rows *rows, cudaStream_t stream) {
    if (rows->function == FGN_VALUES)
        return values_forward(rows, stream);
    if (rows->has_second)
        return pooled_rows(rows, stream);
    if (are_small_windows(rows))
        return small_windows(rows, stream);
    struct rows_launch launch = launch_of_rows(rows);
    struct rows_args args = {*rows, launch.division};
    return launch.is_long ? launch_long_rows(launch.grid, launch.block, &args, stream)
                          : launch_short_rows(launch.grid, launch.block, &args, stream);
}
