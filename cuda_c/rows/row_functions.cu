/* A function of a row as one launch: softmax, RMSNorm, LayerNorm, and reductions to one value per row.
 *
 * Idea: such a function needs a whole row before it can give its first value, so it cannot be in the epilogue
 * of a product, whose blocks have tiles of a few columns. But it needs to know only two numbers of a row: the
 * largest value and a sum. A thread keeps both for its own values, and adds further values without reading
 * the old ones again: for a larger value, it multiplies the sum of exponentials by exp(old largest - new
 * largest), the online softmax of Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018).
 * Then a team combines its threads' numbers by shuffles and shared memory. The operators before and after are
 * applied to values in registers, as in norm/operators_alone.cu.
 *
 * LayerNorm needs the mean before it can add up the differences from it, so its team combines twice. If
 * the sum before it is wanted too, as in a transformer's residual stream, the kernel also writes u =
 * before(v).
 *
 * Bytes: v read once and, for softmax and the norms, y written once: 8 for each element, 4 in a 16-bit type.
 * These functions read rows of more than LONG_SLOTS segments twice, the second time from a cache. Operations:
 * about 4 for each element, and an exponential or two.
 *
 * Limit: memory; with exponentials, instruction issue. */
#include "ptx/griddepcontrol.h"
#include "rows/known.h"
#include "sim/launchers.h"

/* The slots of a thread in a long row. */
#define LONG_SLOTS 4

/* As many blocks as a large GPU holds at once. */
#define BLOCKS_OF_SHORT 3
#define BLOCKS_OF_LONG 2

struct rows_args {
    struct rows rows;
    struct division division;
};

/* ---- The kernels ---- */

/* The thread's places in some parts of a window, one for each slot: a part is a team's share in one slot.
 * Rows and parts beyond the last one have no channels. */
struct places {
    struct gradient_row slot[LONG_SLOTS];
};

/* Callers pass constants for `slots`, `width` and `type`, here and below. */
static __forceinline__ __device__ struct places places_in_window(const struct rows_args *args, int64_t row,
                                                                 int window, int part, int slots, int width,
                                                                 fgn_type type) {
    const struct rows *rows = &args->rows;
    const struct division *division = &args->division;
    int size = division->team * VALUES;
    int offset = (threadIdx.x & (division->team - 1)) * width;
    struct places places;
#pragma unroll
    for (int i = 0; i < slots; i++) {
        struct gradient_row *place = &places.slot[i];
        struct channels *channels = &place->channels;
        int before = (part + i) * size, left = division->group_size - before;
        left = (left < size ? left : size) - offset;
        channels->team = division->team;
        channels->width = width;
        channels->first = window * division->group_size + before + offset;
        channels->count = 0;
        if (left > 0 && row < rows->batch && window < division->groups) /* vectors are a team apart */
            channels->count =
                width == VALUES ? VALUES : (left - 1) / (division->team * width) * width + width;
        place->row_start = row * rows->features;
        place->type = type;
        place->vector_type = rows->vector_type;
        place->only_common = false;
    }
    return places;
}

static __forceinline__ __device__ void load_slots(struct words *words, const struct rows_args *args,
                                                  const struct places *places, int slots, fgn_type type) {
#pragma unroll
    for (int i = 0; i < slots; i++)
        load_words(&words[i], args->rows.v, places->slot[i].row_start, &places->slot[i].channels, type);
}

/* Computes u = before(v) from loaded values. */
static __forceinline__ __device__ void values_of_slots(float *value, const struct words *words,
                                                       const struct rows_args *args,
                                                       const struct places *places, int slots,
                                                       fgn_type type) {
#pragma unroll
    for (int i = 0; i < slots; i++)
        values_of(value + i * VALUES, &words[i], &places->slot[i].channels, type);
    apply_to_slots(&args->rows.before, value, places->slot, slots);
}

/* Adds to what the thread knows of a row. Each slot is first computed alone, so that exponentials do not wait
 * for each other. */
static __forceinline__ __device__ struct known known_with_slots(struct known known, const float *value,
                                                                const struct rows_args *args,
                                                                const struct places *places, int slots) {
    const fgn_row_function function = args->rows.function;
    if (sums_exponentials(function) && args->division.parts <= slots) {
#pragma unroll
        for (int i = 0; i < slots; i++)
            known =
                combined(FGN_ROW_MAX, known, largest_of_slot(value + i * VALUES, &places->slot[i].channels));
        return known;
    }
    struct known of_slot[LONG_SLOTS];
#pragma unroll
    for (int i = 0; i < slots; i++)
        of_slot[i] = known_of_slot(function, value + i * VALUES, &places->slot[i].channels);
#pragma unroll
    for (int i = 0; i < slots; i++)
        known = combined(function, known, of_slot[i]);
    return known;
}

/* Writes a window's one value, which all threads of its team know. */
static __forceinline__ __device__ void store_result(const struct rows_args *args, float result, int64_t row,
                                                    int window, fgn_type type) {
    const struct rows *rows = &args->rows;
    struct gradient_row place = {{window, 1, 1, 1}, row * rows->windows, type, rows->vector_type, false};
    float value[VALUES] = {result};
    if (row >= rows->batch || window >= rows->windows)
        return;
    apply_to_results(&rows->after, value, &place);
    if ((threadIdx.x & (args->division.team - 1)) == 0)
        store_element(rows->y, place.row_start + window, value[0], type);
}

static __forceinline__ __device__ void store_slots(float *value, const struct rows_args *args,
                                                   const struct places *places, struct known known,
                                                   struct moments moments, bool are_exponentials, int slots,
                                                   fgn_type type) {
    const struct rows *rows = &args->rows;
    give_values(rows->function, value, slots * VALUES, known, moments, are_exponentials, 1.0f / rows->window,
                rows->eps);
    apply_to_slots(&rows->after, value, places->slot, slots);
#pragma unroll
    for (int i = 0; i < slots; i++)
        store_values(rows->y, places->slot[i].row_start, value + i * VALUES, &places->slot[i].channels, type);
}

/* Writes u, the result of the operators before the function. */
static __forceinline__ __device__ void store_between(const float *value, const struct rows_args *args,
                                                     const struct places *places, int slots, fgn_type type) {
#pragma unroll
    for (int i = 0; i < slots; i++)
        store_values(args->rows.between, places->slot[i].row_start, value + i * VALUES,
                     &places->slot[i].channels, type);
}

/* For a row that the team's registers hold. */
static __forceinline__ __device__ struct moments moments_of_row(const float *value, float mean,
                                                                const struct rows_args *args,
                                                                const struct places *places, int slots,
                                                                int thread, struct known *shared) {
    struct known known = {0.0f, 0.0f};
#pragma unroll
    for (int i = 0; i < slots; i++)
        known = combined(FGN_LAYER_NORM, known,
                         differences_of_slot(value + i * VALUES, &places->slot[i].channels, mean));
    known = known_of_team(FGN_LAYER_NORM, known, args->division.team, thread, shared);
    struct differences total = {known.most, known.sum};
    return moments_of(mean, total, 1.0f / args->rows.window, args->rows.eps);
}

/* The same, for a row in the team's registers whose largest value is known. */
static __forceinline__ __device__ struct known known_with_exponentials(struct known largest, float *value,
                                                                       const struct rows_args *args,
                                                                       const struct places *places, int slots,
                                                                       int thread, struct known *shared) {
    struct known known = {-INFINITY, 0.0f};
#pragma unroll
    for (int i = 0; i < slots; i++)
        known.sum += exponentials_of_slot(args->rows.function, value + i * VALUES, &places->slot[i].channels,
                                          pivot_of(largest.most))
                         .sum;
    known = known_of_team(FGN_ROW_SUM, known, args->division.team, thread, shared);
    known.most = largest.most;
    return known;
}

static __forceinline__ __device__ void function_of_rows(const struct rows_args *args, int slots, int width,
                                                        fgn_type type) {
    __shared__ struct known shared[WARPS];
    const struct rows *rows = &args->rows;
    const fgn_row_function function = rows->function;
    int thread = threadIdx.y * blockDim.x + threadIdx.x, parts = args->division.parts;
    int window = (blockIdx.x * blockDim.x + threadIdx.x) / args->division.team;
    int64_t row = (int64_t)blockIdx.y * blockDim.y + threadIdx.y, step = (int64_t)gridDim.y * blockDim.y;
    float value[LONG_SLOTS * VALUES];
    struct words next[LONG_SLOTS];
    griddepcontrol_wait();
    struct places places = places_in_window(args, row, window, 0, slots, width, type);
    load_slots(next, args, &places, slots, type);
    for (; row - threadIdx.y < rows->batch; row += step) {
        struct known known = of_nothing(function);
        for (int part = 0;;) {
            values_of_slots(value, next, args, &places, slots, type);
            if (rows->between)
                store_between(value, args, &places, slots, type);
            known = known_with_slots(known, value, args, &places, slots);
            part += slots;
            if (part >= parts)
                break;
            places = places_in_window(args, row, window, part, slots, width, type);
            load_slots(next, args, &places, slots, type);
        }
        /* the next row is loaded while the team combines */
        struct places of_next = places_in_window(args, row + step, window, 0, slots, width, type);
        load_slots(next, args, &of_next, slots, type);
        bool is_held = sums_exponentials(function) && parts <= slots;
        known = known_of_team(is_held ? FGN_ROW_MAX : function, known, args->division.team, thread, shared);
        if (is_held)
            known = known_with_exponentials(known, value, args, &places, slots, thread, shared);
        struct moments moments = {0.0f, 0.0f, 0.0f};
        if (function == FGN_LAYER_NORM)
            moments = moments_of_row(value, known.sum / rows->window, args, &places, slots, thread, shared);
        if (reduces(function)) {
            store_result(args, result_of(function, known, 1.0f / rows->window), row, window, type);
            places = of_next;
            continue;
        }
        for (int part = 0;;
             part += slots) { /* the last parts are in registers still; the others come again */
            store_slots(value, args, &places, known, moments, is_held, slots, type);
            if (part + slots >= parts)
                break;
            struct words again[LONG_SLOTS];
            places = places_in_window(args, row, window, part, slots, width, type);
            load_slots(again, args, &places, slots, type);
            values_of_slots(value, again, args, &places, slots, type);
        }
        places = of_next;
    }
}

#ifdef __CUDACC__

static __forceinline__ __device__ void rows_of_type(const struct rows_args *args, int slots, fgn_type type) {
    if (args->division.width == VALUES)
        function_of_rows(args, slots, VALUES, type);
    else /* values one by one have no room for several slots */
        function_of_rows(args, 1, 1, type);
}

#else

/* On the simulator all kernels share one copy of the code, which is compiled once. */
static CALLED __device__ void rows_of_type(const struct rows_args *args, int slots, fgn_type type) {
    int width = args->division.width;
    function_of_rows(args, width == VALUES ? slots : 1, width, type);
}

#endif

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_SHORT) short_rows_float32_kernel(struct rows_args args) {
    rows_of_type(&args, 1, FGN_FLOAT32);
}

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_SHORT) short_rows_float16_kernel(struct rows_args args) {
    rows_of_type(&args, 1, FGN_FLOAT16);
}

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_SHORT)
    short_rows_bfloat16_kernel(struct rows_args args) {
    rows_of_type(&args, 1, FGN_BFLOAT16);
}

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_LONG) long_rows_float32_kernel(struct rows_args args) {
    rows_of_type(&args, LONG_SLOTS, FGN_FLOAT32);
}

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_LONG) long_rows_float16_kernel(struct rows_args args) {
    rows_of_type(&args, LONG_SLOTS, FGN_FLOAT16);
}

__global__ void __launch_bounds__(THREADS, BLOCKS_OF_LONG) long_rows_bfloat16_kernel(struct rows_args args) {
    rows_of_type(&args, LONG_SLOTS, FGN_BFLOAT16);
}

EARLY_LAUNCHER(short_rows_float32_kernel, struct rows_args)
EARLY_LAUNCHER(short_rows_float16_kernel, struct rows_args)
EARLY_LAUNCHER(short_rows_bfloat16_kernel, struct rows_args)
EARLY_LAUNCHER(long_rows_float32_kernel, struct rows_args)
EARLY_LAUNCHER(long_rows_float16_kernel, struct rows_args)
EARLY_LAUNCHER(long_rows_bfloat16_kernel, struct rows_args)

/* ---- The host ---- */

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

bool fits_registers(const struct rows *rows) {
    struct rows_launch launch = launch_of_rows(rows);
    return launch.division.width == VALUES && launch.division.parts <= (launch.is_long ? LONG_SLOTS : 1);
}

cudaError_t rows_forward(const struct rows *rows, cudaStream_t stream) {
    if (rows->function == FGN_VALUES)
        return values_forward(rows, stream);
    if (are_small_windows(rows))
        return small_windows(rows, stream);
    struct rows_launch launch = launch_of_rows(rows);
    struct rows_args args = {*rows, launch.division};
    switch (rows->type) {
    case FGN_FLOAT16:
        return launch.is_long
                   ? launch_long_rows_float16_kernel(launch.grid, launch.block, 0, stream, true, args)
                   : launch_short_rows_float16_kernel(launch.grid, launch.block, 0, stream, true, args);
    case FGN_BFLOAT16:
        return launch.is_long
                   ? launch_long_rows_bfloat16_kernel(launch.grid, launch.block, 0, stream, true, args)
                   : launch_short_rows_bfloat16_kernel(launch.grid, launch.block, 0, stream, true, args);
    default:
        return launch.is_long
                   ? launch_long_rows_float32_kernel(launch.grid, launch.block, 0, stream, true, args)
                   : launch_short_rows_float32_kernel(launch.grid, launch.block, 0, stream, true, args);
    }
}
