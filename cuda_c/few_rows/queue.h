/* The way of x and the weight to shared memory, in gemm_few_rows_tensor.cu: a ring of stages, each for a
 * k tile, which is a step of every warp along k.
 *
 * A stage keeps lines of a step, which are rows of x and columns of the weight, in the order of the two
 * matrices. Chunk c of line r lies at c ^ swizzle(r) of the line, so that no two of eight lanes share a
 * bank, whether they write the chunks of one line (as copies do: 128 bytes, neighbours in memory), read one
 * chunk of eight lines (ldmatrix), or four chunks of two. A warp copies its own columns of the weight, and an
 * eighth of the block's rows of x. */
#pragma once

#include "few_rows/arguments.h"

#define CHUNKS (STEP_BYTES / CHUNK) /* of a line */
#define COPY_LINES (LANES / CHUNKS) /* that a warp copies at once */
#define LANE_COLUMNS (WARP_COLUMNS / COPY_LINES)
#define EIGHT (8 * CHUNKS) /* chunks of eight lines, which a matrix of ldmatrix is made of */

#define X_SHARE 2 /* times eight rows of x that a warp copies of each k tile, at most */
#define MOST_TILES_IN_STAGE (WARPS * X_SHARE / 2)

#define MOST_STAGES 5
#define FEWEST_STAGES 2

#define WEIGHT_STAGE_BYTES (WARPS * WARP_COLUMNS * STEP_BYTES)

static inline __host__ __device__ int stage_bytes_of(int tiles_in_stage) {
    return WEIGHT_STAGE_BYTES + tiles_in_stage * TILE_ROWS * STEP_BYTES;
}

static inline __device__ int swizzle(int line) {
    return line % 2 * 4 + line % 8 / 2;
}

/* Where a chunk of one of eight lines is. */
static inline __device__ int place_in_eight(int line, int chunk) {
    return line * CHUNKS + (chunk ^ swizzle(line));
}

static inline __device__ uint4 *weight_in_stage(const struct few_rows_args *args, int stage) {
    return (uint4 *)(dynamic_shared + stage * args->stage_bytes) +
           threadIdx.x / LANES * (WARP_COLUMNS * CHUNKS);
}

static inline __device__ uint4 *x_in_stage(const struct few_rows_args *args, int stage) {
    return (uint4 *)(dynamic_shared + stage * args->stage_bytes + WEIGHT_STAGE_BYTES);
}

/* What a lane copies: chunk lane % 8 of lines lane / 8, and every fourth from there on. */
struct lane_sources {
    const unsigned char *column;
    int columns_left; /* of the weight, from that column on */
    int column_bytes; /* from there to the end of the block's k */
    const unsigned char *row[X_SHARE];
    int rows_left[X_SHARE]; /* of x; none or a negative number: nothing to copy */
    int row_bytes[X_SHARE];
    int place;  /* among eight lines */
    int lines4; /* bytes to the fourth line from here */
};

static inline __device__ int bytes_left(const struct few_rows_args *args, const struct warp_place *place,
                                        int64_t at, int element_bytes) {
    int64_t end = (int64_t)place->end_step * STEP_BYTES, row_end = args->in_features * element_bytes;
    return (int)((end < row_end ? end : row_end) - at);
}

static inline __device__ struct lane_sources lane_sources(const struct few_rows_args *args,
                                                          const struct warp_place *place, int row_tiles,
                                                          int element_bytes) {
    int lane = threadIdx.x % LANES, line = lane / CHUNKS, chunk = lane % CHUNKS;
    int64_t pitch = args->in_features * element_bytes;
    int64_t at = (int64_t)(place->first_step + place->along) * STEP_BYTES + chunk * CHUNK;
    int columns_left = (int)args->out_features - (place->first_column + line);
    struct lane_sources from;
    from.column = (const unsigned char *)args->weight + (place->first_column + line) * pitch + at;
    from.columns_left = columns_left;
    from.column_bytes = bytes_left(args, place, at, element_bytes);
#pragma unroll
    for (int i = 0; i < X_SHARE; i++) {
        int eight_rows = threadIdx.x / LANES + i * WARPS;
        int along = eight_rows / (2 * row_tiles);
        int row = eight_rows % (2 * row_tiles) * 8 + line;
        at = (int64_t)(place->first_step + along) * STEP_BYTES + chunk * CHUNK;
        from.row[i] = (const unsigned char *)args->x + (place->first_row + row) * pitch + at;
        from.rows_left[i] = along < place->warps_along ? place->rows - row : 0;
        from.row_bytes[i] = bytes_left(args, place, at, element_bytes);
    }
    from.place = place_in_eight(line, chunk);
    from.lines4 = (int)(COPY_LINES * pitch);
    return from;
}

/* Where this lane's chunk of the i-th copy of a matrix goes: four lines on, swizzle() differs by 2. */
static inline __device__ int place_of_copy(const struct lane_sources *from, int i) {
    return i * (COPY_LINES * CHUNKS) + (from->place ^ i % 2 * 2);
}

/* The first of the two copies of eight rows of x. */
static inline __device__ int x_copy(int share) {
    return 2 * (threadIdx.x / LANES + share * WARPS);
}

/* Starts to copy a k tile into a stage. */
static __forceinline__ __device__ void start_copies(const struct few_rows_args *args,
                                                    const struct lane_sources *from, int stage) {
    uint4 *weight = weight_in_stage(args, stage), *x = x_in_stage(args, stage);
#pragma unroll
    for (int i = 0; i < LANE_COLUMNS; i++)
        cp_async_once_16_or_zero(weight + place_of_copy(from, i), from->column + i * from->lines4,
                                 from->column_bytes > 0 && i * COPY_LINES < from->columns_left);
#pragma unroll
    for (int i = 0; i < 2 * X_SHARE; i++)
        if (from->rows_left[i / 2] > i % 2 * COPY_LINES)
            cp_async_16_or_zero(x + place_of_copy(from, x_copy(i / 2) + i % 2),
                                from->row[i / 2] + i % 2 * from->lines4, from->row_bytes[i / 2] > 0);
}

/* Up to `left` bytes at `from` and zeros for the rest of a chunk. */
static __noinline__ __device__ uint4 gather_chunk(const unsigned char *from, int left, int element_bytes) {
    uint4 chunk = make_uint4(0, 0, 0, 0);
    for (int i = 0; i < CHUNK && i < left; i += element_bytes) {
        if (element_bytes == 4)
            ((uint32_t *)&chunk)[i / 4] = *(const uint32_t *)(from + i);
        else
            ((uint16_t *)&chunk)[i / 2] = *(const uint16_t *)(from + i);
    }
    return chunk;
}

/* The same as start_copies() where rows are not made of chunks, by ordinary loads and stores. */
static __forceinline__ __device__ void gather(const struct few_rows_args *args,
                                              const struct lane_sources *from, int stage, int element_bytes) {
    uint4 *weight = weight_in_stage(args, stage), *x = x_in_stage(args, stage);
#pragma unroll 1
    for (int i = 0; i < LANE_COLUMNS; i++) {
        int left = i * COPY_LINES < from->columns_left ? from->column_bytes : 0;
        uint4 chunk = gather_chunk(from->column + i * from->lines4, left, element_bytes);
        weight[place_of_copy(from, i)] = chunk;
    }
#pragma unroll
    for (int i = 0; i < 2 * X_SHARE; i++) {
        if (from->rows_left[i / 2] <= i % 2 * COPY_LINES)
            continue;
        uint4 chunk =
            gather_chunk(from->row[i / 2] + i % 2 * from->lines4, from->row_bytes[i / 2], element_bytes);
        x[place_of_copy(from, x_copy(i / 2) + i % 2)] = chunk;
    }
}

/* Copies a k tile, and goes on to the next. */
static __forceinline__ __device__ void load_k_tile(const struct few_rows_args *args,
                                                   struct lane_sources *from, int stage, int warps_along,
                                                   int element_bytes) {
    if (args->chunks)
        start_copies(args, from, stage);
    else
        gather(args, from, stage, element_bytes);
    int step = warps_along * STEP_BYTES;
    from->column += step;
    from->column_bytes -= step;
#pragma unroll
    for (int i = 0; i < X_SHARE; i++) {
        from->row[i] += step;
        from->row_bytes[i] -= step;
    }
}

/* Waits for the oldest of this thread's k tiles, when as many are on their way as fit in the stages but one.
 */
static __forceinline__ __device__ void wait_for_k_tile(int stages) {
    if (stages == MOST_STAGES)
        cp_async_wait_group(MOST_STAGES - 2);
    else if (stages == 4)
        cp_async_wait_group(2);
    else if (stages == 3)
        cp_async_wait_group(1);
    else
        cp_async_wait_group(0);
}

/* Rows that x does not have are zeros, in every stage. */
static inline __device__ void clear_absent_rows(const struct few_rows_args *args,
                                                const struct lane_sources *from, int tiles_in_stage) {
#pragma unroll
    for (int i = 0; i < 2 * X_SHARE; i++) {
        if (from->rows_left[i / 2] > i % 2 * COPY_LINES || x_copy(i / 2) >= 4 * tiles_in_stage)
            continue;
#pragma unroll 1
        for (int stage = 0; stage < args->stages; stage++)
            x_in_stage(args, stage)[place_of_copy(from, x_copy(i / 2) + i % 2)] = make_uint4(0, 0, 0, 0);
    }
}
