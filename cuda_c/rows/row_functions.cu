/* A function of a row as one launch: softmax, RMSNorm, and what makes one value of a row.
 *
 * Idea: such a function needs a whole row before it can give its first value, so it cannot be in the epilogue
 * of a product, whose blocks have tiles of a few columns. What it needs to know of a row is little, though:
 * the largest value and a sum. A thread has both of its own values, and adds further values to them without
 * reading the old ones again: where a larger value comes, the sum of exponentials is multiplied by exp(old
 * largest - new largest), the online softmax of Milakov and Gimelshein, "Online normalizer calculation for
 * softmax" (2018). A team of threads then combines what its threads know, by shuffles and shared memory. The
 * operators before and after are applied to values in registers, as in norm/operators_alone.cu.
 *
 * Bytes: v read once and, by softmax and RMSNorm, y written once: 8 for each element, 4 in a 16-bit type.
 * Rows of more than LONG_SLOTS segments are read twice for these, the second time from a cache. Operations:
 * about 4 for each element, and an exponential or two.
 *
 * Limit: memory; with exponentials the issue of instructions. */
#include "norm/channels.h"
#include "ptx/griddepcontrol.h"
#include "rows/rows.h"
#include "sim/launchers.h"

/* The slots of a thread that has a part of a long row. */
#define LONG_SLOTS 4

/* As many blocks as a large GPU holds at once. */
#define BLOCKS_OF_SHORT 3
#define BLOCKS_OF_LONG 2

struct rows_args {
    struct rows rows;
    struct division division;
};

/* ---- What is known of values ---- */

/* The largest value, or for a minimum the smallest, and a sum: of the values, of their squares, or of
 * exp(value - largest). */
struct known {
    float most;
    float sum;
};

static __forceinline__ __device__ bool sums_exponentials(fgn_row_function function) {
    return function == FGN_LOGSUMEXP || function == FGN_SOFTMAX || function == FGN_LOG_SOFTMAX;
}

static __forceinline__ __device__ bool finds_most(fgn_row_function function) {
    return function == FGN_ROW_MAX || function == FGN_ROW_MIN || sums_exponentials(function);
}

static __forceinline__ __device__ bool sums_squares(fgn_row_function function) {
    return function == FGN_RMS_NORM || function == FGN_ROW_LENGTH;
}

static __forceinline__ __device__ struct known of_nothing(fgn_row_function function) {
    struct known known = {function == FGN_ROW_MIN ? INFINITY : -INFINITY, 0.0f};
    return known;
}

/* What exponentials are taken relative to: the largest value, or 0 where that is no number to subtract. */
static __forceinline__ __device__ float pivot_of(float most) {
    return fabsf(most) < INFINITY ? most : 0.0f;
}

/* The larger of two values, or for a minimum the smaller; NaN where one of them is. */
static __forceinline__ __device__ float further(fgn_row_function function, float a, float b) {
    float found = function == FGN_ROW_MIN ? min_or_nan(b, a) : max_or_nan(b, a);
    return a != a ? a : found;
}

/* A sum of exponentials relative to another pivot. An empty sum stays empty, however far the pivots are. */
static __forceinline__ __device__ float moved(float sum, float from, float to) {
    return sum == 0.0f ? 0.0f : sum * fast_exp(from - to);
}

static __forceinline__ __device__ struct known combined(fgn_row_function function, struct known a,
                                                        struct known b) {
    struct known both;
    both.most = further(function, a.most, b.most);
    if (sums_exponentials(function)) {
        float pivot = pivot_of(both.most);
        both.sum = moved(a.sum, pivot_of(a.most), pivot) + moved(b.sum, pivot_of(b.most), pivot);
    } else {
        both.sum = a.sum + b.sum;
    }
    return both;
}

/* What a thread's values of a slot say. */
static __forceinline__ __device__ struct known known_of_slot(fgn_row_function function, const float *value,
                                                             const struct channels *channels) {
    struct known known = of_nothing(function);
    if (finds_most(function)) {
#pragma unroll
        for (int j = 0; j < VALUES; j++) {
            float next = further(function, known.most, value[j]);
            known.most = is_there(channels, j) ? next : known.most;
        }
    }
    float pivot = pivot_of(known.most);
#pragma unroll
    for (int j = 0; j < VALUES; j++) {
        float term = sums_squares(function)        ? value[j] * value[j]
                     : sums_exponentials(function) ? fast_exp(value[j] - pivot)
                                                   : value[j];
        known.sum += is_there(channels, j) ? term : 0.0f;
    }
    return known;
}

/* What the whole team knows, in every thread of it. The whole block calls it together; `shared` has room for
 * each warp, and may be read by others until all of them are here. */
static __forceinline__ __device__ struct known known_of_team(fgn_row_function function, struct known known,
                                                             int team, int thread, struct known *shared) {
#pragma unroll 1
    for (int distance = (team < LANES ? team : LANES) / 2; distance > 0; distance /= 2) {
        struct known other = {__shfl_xor_sync(0xffffffffu, known.most, distance),
                              __shfl_xor_sync(0xffffffffu, known.sum, distance)};
        known = combined(function, known, other);
    }
    if (team <= LANES)
        return known;
    int warp = thread / LANES, warps = team / LANES, first = warp & -warps;
    __syncthreads();
    if (thread % LANES == 0)
        shared[warp] = known;
    __syncthreads();
    known = shared[first];
#pragma unroll 1
    for (int other = first + 1; other < first + warps; other++)
        known = combined(function, known, shared[other]);
    return known;
}

/* ---- The function ---- */

static __forceinline__ __device__ float result_of(fgn_row_function function, struct known known,
                                                  float one_over_size) {
    if (function == FGN_ROW_SUM)
        return known.sum;
    if (function == FGN_ROW_MEAN)
        return known.sum * one_over_size;
    if (function == FGN_ROW_LENGTH)
        return sqrtf(known.sum);
    if (function == FGN_LOGSUMEXP)
        return pivot_of(known.most) + logf(known.sum);
    return known.most;
}

/* Softmax and RMSNorm are y = (w - less) times, where w is v or exp(v - largest). A row with an infinity that
 * is its largest value has no softmax, as in torch. */
static __forceinline__ __device__ void give_values(fgn_row_function function, float *value,
                                                   struct known known, float one_over_size, float eps) {
    float times = 1.0f, less = 0.0f;
    float most = fabsf(known.most) < INFINITY ? known.most : NAN;
    if (function == FGN_RMS_NORM)
        times = rsqrtf(known.sum * one_over_size + eps);
    else if (function == FGN_SOFTMAX)
        times = 1.0f / known.sum;
    else
        less = logf(known.sum);
#pragma unroll
    for (int j = 0; j < VALUES; j++) {
        float w = function == FGN_RMS_NORM ? value[j] : value[j] - most;
        w = function == FGN_SOFTMAX ? fast_exp(w) : w - less;
        value[j] = w * times;
    }
}

/* ---- The kernels ---- */

static __forceinline__ __device__ void apply_to_slot(const struct operators *list, float *value,
                                                     const struct gradient_row *place) {
#pragma unroll 1
    for (int i = 0; i < list->count; i++) {
        const fgn_pointwise *step = &list->step[i];
        if (step->channel || step->tensor) {
            float operand[VALUES];
            load_operand(operand, step, place);
            if (step->tensor)
                apply_with_operands(add, value, VALUES, operand, evenly_spaced, 1);
            else
                apply_operand(step, value, VALUES, operand, evenly_spaced, 1);
        } else {
            apply_constants(step, value, VALUES);
        }
    }
}

/* The thread's place in a part of a window: no channels in a part beyond the last one. */
static __forceinline__ __device__ struct gradient_row
place_in_window(const struct rows_args *args, int64_t row, int window, int part, fgn_type type) {
    const struct rows *rows = &args->rows;
    int parts = args->division.parts;
    struct gradient_row place = {channels_of(&args->division, window * parts + part), row * rows->features,
                                 type, rows->vector_type, false};
    if (row >= rows->batch || part >= parts)
        place.channels.count = 0;
    return place;
}

/* u = before(v) in a slot. */
static __forceinline__ __device__ struct gradient_row
load_slot(float *value, const struct rows_args *args, int64_t row, int window, int part, fgn_type type) {
    struct gradient_row place = place_in_window(args, row, window, part, type);
    load_values(value, args->rows.v, place.row_start, &place.channels, type);
    apply_to_slot(&args->rows.before, value, &place);
    return place;
}

/* Writes a window's one value, which all threads of its team have. */
static __forceinline__ __device__ void store_result(const struct rows_args *args, float result, int64_t row,
                                                    int window, fgn_type type) {
    const struct rows *rows = &args->rows;
    struct gradient_row place = {{window, 1, 1, 1}, row * rows->windows, type, rows->vector_type, false};
    float value[VALUES] = {result};
    if (row >= rows->batch || window >= rows->windows)
        return;
    apply_to_slot(&rows->after, value, &place);
    if ((threadIdx.x & (args->division.team - 1)) == 0)
        store_element(rows->y, place.row_start + window, value[0], type);
}

/* `slots` and `type` are constants wherever this is called. */
static __forceinline__ __device__ void function_of_rows(const struct rows_args *args, int slots,
                                                        fgn_type type) {
    __shared__ struct known shared[WARPS];
    const struct rows *rows = &args->rows;
    const fgn_row_function function = rows->function;
    int thread = threadIdx.y * blockDim.x + threadIdx.x, parts = args->division.parts;
    int window = (blockIdx.x * blockDim.x + threadIdx.x) / args->division.team;
    float one_over_size = 1.0f / rows->window, value[LONG_SLOTS * VALUES];
    griddepcontrol_wait();
    int64_t first = (int64_t)blockIdx.y * blockDim.y, step = (int64_t)gridDim.y * blockDim.y;
    for (; first < rows->batch; first += step) {
        int64_t row = first + threadIdx.y;
        struct known known = of_nothing(function);
        for (int part = 0; part < parts; part += slots)
#pragma unroll
            for (int i = 0; i < slots; i++) {
                struct gradient_row place = load_slot(value + i * VALUES, args, row, window, part + i, type);
                known =
                    combined(function, known, known_of_slot(function, value + i * VALUES, &place.channels));
            }
        known = known_of_team(function, known, args->division.team, thread, shared);
        if (reduces(function)) {
            store_result(args, result_of(function, known, one_over_size), row, window, type);
            continue;
        }
        for (int part = 0; part < parts; part += slots)
#pragma unroll
            for (int i = 0; i < slots; i++) {
                struct gradient_row place = place_in_window(args, row, window, part + i, type);
                if (parts > slots) /* the registers have the last part */
                    load_slot(value + i * VALUES, args, row, window, part + i, type);
                give_values(function, value + i * VALUES, known, one_over_size, rows->eps);
                apply_to_slot(&rows->after, value + i * VALUES, &place);
                store_values(rows->y, place.row_start, value + i * VALUES, &place.channels, type);
            }
    }
}

#ifdef __CUDACC__

static __forceinline__ __device__ void rows_of_type(const struct rows_args *args, int slots, fgn_type type) {
    function_of_rows(args, slots, type);
}

#else

/* On the simulator all kernels share one copy of the code, which is compiled once. */
static CALLED __device__ void rows_of_type(const struct rows_args *args, int slots, fgn_type type) {
    function_of_rows(args, slots, type);
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

static const char *kernel_of(fgn_type type, bool is_long) {
    static const char *const kernels[][2] = {
        [FGN_FLOAT32] = {"short_rows_float32_kernel", "long_rows_float32_kernel"},
        [FGN_FLOAT16] = {"short_rows_float16_kernel", "long_rows_float16_kernel"},
        [FGN_BFLOAT16] = {"short_rows_bfloat16_kernel", "long_rows_bfloat16_kernel"},
    };
    return kernels[type][is_long];
}

/* A vector of a thread may not cross the end of a row, so rows that windows do not fill have vectors of one.
 */
struct rows_launch launch_of_rows(const struct rows *rows) {
    bool aligned = is_aligned_16(rows->v) && is_aligned_16(rows->y) && operands_are_aligned(&rows->before) &&
                   operands_are_aligned(&rows->after) && rows->features == rows->windows * rows->window;
    struct division division = division_of(rows->windows * rows->window, rows->windows, aligned);
    struct rows_launch launch = {NULL, {1, 1, 1}, {1, 1, 1}, division, division.parts > 1};
    int blocks = launch.is_long ? BLOCKS_OF_LONG : BLOCKS_OF_SHORT;
    int64_t threads = (int64_t)division.groups * division.team;
    if (launch.is_long) /* a team has all parts of its window */
        launch.division.across = division.team;
    int64_t strips = tiles(threads, launch.division.across), most = blocks * MULTIPROCESSORS / strips;
    launch.block.x = (unsigned)launch.division.across;
    launch.block.y = (unsigned)rows_at_once(&launch.division);
    launch.grid.x = (unsigned)strips;
    int64_t turns = tiles(rows->batch, launch.block.y);
    launch.grid.y = (unsigned)(turns < most ? turns : most > 1 ? most : 1);
    launch.kernel = kernel_of(rows->type, launch.is_long);
    return launch;
}

cudaError_t rows_forward(const struct rows *rows, cudaStream_t stream) {
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
