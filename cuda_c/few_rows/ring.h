/* How gemm_few_rows_tensor.cu copies x and the weight to shared memory: a ring of stages, each for a k tile,
 * which is a step of every warp along k. First comes what all parts of that kernel share: sizes, the kernel's
 * arguments, and the place of a warp.
 *
 * A stage keeps lines of a step, which are rows of x and columns of the weight, in the order of the two
 * matrices. Chunk c of line r lies at c ^ swizzle(r) of the line, so that no two of eight lanes share a bank.
 * That holds when they write the chunks of one line (a copy of 128 contiguous bytes), read one chunk of eight
 * lines (ldmatrix), or four chunks of two. A warp copies its own columns of the weight, and an eighth of the
 * block's rows of x. */
#pragma once

#include "few_rows/ending.h"
#include "shared/rung.h"
#include "ptx/cluster.h"
#include "ptx/cp_async.h"
#include "ptx/griddepcontrol.h"
#include "ptx/mma.h"
#include "sim/launchers.h"
#include "shared/team.h"

#define WARPS 8
#define WARPS_LOG2 3
#define MOST_CLUSTER 2 /* of four, too few find a place at once in the processors that may form clusters */
#define THREADS (WARPS * LANES)
#define WARP_COLUMNS 32
#define WARP_FOURS_LOG2 3 /* log2 of its fours of columns */
#define TILE_ROWS 16      /* of an mma */
#define TILE_COLUMNS 8    /* of an mma */
#define COLUMN_TILES (WARP_COLUMNS / TILE_COLUMNS)
#define MOST_ROW_TILES 4 /* of a block */
#define MOST_ROWS 16384  /* the tiles of other rungs are better for more */

/* A step: 128 bytes along k of each row of x and each of a warp's columns. */
#define STEP_BYTES 128
#define CHUNK 16 /* bytes */

/* What the mma multiplies: a 16-bit type as it is; float32 rounded to tf32, or as three bfloat16 pieces. */
enum mma_factors { FLOAT16_MMA, BFLOAT16_MMA, TF32_MMA, FLOAT32_PIECES_MMA };

static inline __host__ __device__ int element_bytes_of(enum mma_factors factors) {
    return factors == FLOAT16_MMA || factors == BFLOAT16_MMA ? 2 : 4;
}

struct few_rows_args {
    const void *x;      /* (batch, in_features) */
    const void *weight; /* (out_features, in_features) */
    int64_t batch;
    int64_t in_features;
    int64_t out_features;
    enum mma_factors factors;
    bool chunks;     /* rows are made of aligned chunks */
    int stages;      /* steps on their way or being multiplied */
    int stage_bytes; /* of shared memory */
    int across_log2; /* log2 of the warps side by side; the others work on other k */
    int cluster;     /* blocks that split k and end the chain together, or 1 */
    int steps;       /* along k, of all blocks */
    int split_steps; /* of a block */
    float *partial;  /* (splits, batch, out_features) if a second launch ends the chain, or NULL */
    int vectors_at;  /* in shared memory, where the block ends the chain: the vectors' values */
    struct ending ending;
};

/* The vectors that load_vectors() has loaded. */
static inline __device__ const float *const *loaded_vectors(const struct few_rows_args *args) {
    return (const float *const *)(dynamic_shared + args->vectors_at);
}

/* ---- Where a warp works ---- */

struct warp_place {
    int across; /* which of the warps side by side */
    int along;  /* which of those along k */
    int warps_along;
    int split;
    int rows; /* of the block */
    int first_row;
    int block_column; /* the block's first; columns are fewer than 2^24 */
    int first_column; /* the warp's first */
    int first_step;   /* the block's: the warp takes this one plus `along`, then every warps_along-th */
    int end_step;
    int k_tiles; /* of the block: each is a step of every warp along k */
};

/* blockIdx.x counts the blocks of a cluster first, then the columns; y counts the rows, z the splits without
 * clusters. */
static inline __device__ struct warp_place place_of_warp(const struct few_rows_args *args, int row_tiles) {
    int warp = threadIdx.x / LANES, along_log2 = WARPS_LOG2 - args->across_log2;
    int cluster_log2 = args->cluster - 1; /* of 1 or 2 */
    struct warp_place place;
    place.split = (blockIdx.x & (args->cluster - 1)) + blockIdx.z;
    place.warps_along = 1 << along_log2;
    place.along = warp >> args->across_log2;
    place.across = warp & ((1 << args->across_log2) - 1);
    place.first_row = blockIdx.y * (row_tiles * TILE_ROWS);
    int rows = (int)args->batch - place.first_row;
    place.rows = rows < row_tiles * TILE_ROWS ? rows : row_tiles * TILE_ROWS;
    place.block_column = (blockIdx.x >> cluster_log2) * WARP_COLUMNS << args->across_log2;
    place.first_column = place.block_column + place.across * WARP_COLUMNS;
    place.first_step = place.split * args->split_steps;
    int steps = args->steps - place.first_step;
    steps = steps < args->split_steps ? steps : args->split_steps;
    place.end_step = place.first_step + steps;
    place.k_tiles = (steps + place.warps_along - 1) >> along_log2; /* none, where no steps are left */
    return place;
}

/* ---- The ring ---- */

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

/* The place of a chunk in one of eight lines. */
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

/* Where this lane puts its chunk of a matrix's i-th copy. Four lines on, swizzle() differs by 2. */
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

/* Returns up to `left` bytes at `from`, and zeros for the rest of the chunk. */
static CALLED __device__ uint4 gather_chunk(const unsigned char *from, int left, int element_bytes) {
    uint4 chunk = make_uint4(0, 0, 0, 0);
    for (int i = 0; i < CHUNK && i < left; i += element_bytes) {
        if (element_bytes == 4)
            ((uint32_t *)&chunk)[i / 4] = *(const uint32_t *)(from + i);
        else
            ((uint16_t *)&chunk)[i / 2] = *(const uint16_t *)(from + i);
    }
    return chunk;
}

/* Does what start_copies() does by ordinary loads and stores, for rows that are not made of chunks. Few calls
 * need it, so it is a function, and its code is out of the way. */
static CALLED __device__ void gather(uint4 *weight, uint4 *x, struct lane_sources from, int element_bytes) {
#pragma unroll 1
    for (int i = 0; i < LANE_COLUMNS; i++) {
        int left = i * COPY_LINES < from.columns_left ? from.column_bytes : 0;
        uint4 chunk = gather_chunk(from.column + i * from.lines4, left, element_bytes);
        weight[place_of_copy(&from, i)] = chunk;
    }
#pragma unroll
    for (int i = 0; i < 2 * X_SHARE; i++) {
        if (from.rows_left[i / 2] <= i % 2 * COPY_LINES)
            continue;
        uint4 chunk =
            gather_chunk(from.row[i / 2] + i % 2 * from.lines4, from.row_bytes[i / 2], element_bytes);
        x[place_of_copy(&from, x_copy(i / 2) + i % 2)] = chunk;
    }
}

/* Copies a k tile, and goes on to the next. */
static __forceinline__ __device__ void load_k_tile(const struct few_rows_args *args,
                                                   struct lane_sources *from, int stage, int warps_along) {
    if (args->chunks)
        start_copies(args, from, stage);
    else
        gather(weight_in_stage(args, stage), x_in_stage(args, stage), *from, element_bytes_of(args->factors));
    int step = warps_along * STEP_BYTES;
    from->column += step;
    from->column_bytes -= step;
#pragma unroll
    for (int i = 0; i < X_SHARE; i++) {
        from->row[i] += step;
        from->row_bytes[i] -= step;
    }
}

/* Waits for the oldest of this thread's k tiles; all stages but one have a copy in flight.
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

/* Fills rows beyond x with zeros, in every stage. */
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
