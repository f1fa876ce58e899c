/* The product of gemm_9_tensor_core.cu: a block's tile of x W^T, in its warps' registers.
 *
 * cp.async fills a ring buffer of stages in shared memory; a stage holds one k step (64 bytes) of the tile's
 * rows of x and columns of w. ldmatrix loads the operands of half a step into registers while mma.sync
 * multiplies the half before it. Rows of 64 bytes are four 16-byte chunks; chunk c is stored at c ^ (row / 2
 * % 4), so that no two of the eight rows of a matrix share a bank. */
#pragma once

#include "ptx/cp_async.h"
#include "ptx/mma.h"
#include "shared/rung.h"
#include "shared/team.h"

/* Eight warps, two by four. */
#define WARPS_DOWN 2
#define WARPS_ACROSS 4
#define THREADS (WARPS_DOWN * WARPS_ACROSS * LANES)

/* An mma has 16 rows, 8 columns, and 32 bytes of k in two chunks. */
#define MMA_ROWS 16
#define MMA_COLUMNS 8
#define CHUNK_BYTES 16 /* bytes */

/* A warp's part of the tile, in mma. */
#define ROW_TILES 4
#define MOST_COLUMN_TILES 8
#define SPLIT_COLUMN_TILES 4
#define WARP_ROWS (ROW_TILES * MMA_ROWS)
#define TILE_ROWS (WARPS_DOWN * WARP_ROWS)
#define ROW_SUMS (MOST_COLUMN_TILES * 4) /* a lane's sums in 16 rows */

/* A step along k: with 16-bit factors 32 k. */
#define STEP_BYTES 64
#define STEP_CHUNKS (STEP_BYTES / CHUNK_BYTES)
#define STEP_HALVES (STEP_CHUNKS / 2)

/* The stages in shared memory, including those being filled: 96 KB, which all these GPUs have. */
#define STAGES 4
#define SPLIT_STAGES 3
#define SHARED_BYTES (96 << 10)

/* A thread's share of a matrix's copy: one chunk of every 64th row. */
#define ROWS_BETWEEN (THREADS / STEP_CHUNKS)

/* Tiles are taken in bands of this many columns of tiles, so that concurrent tiles share rows and columns in
 * the L2 cache. */
#define BAND 8

struct tensor_core_args {
    const void *x[2]; /* (batch, in_features); of split factors, the high and the low halves */
    const void *w[2]; /* (out_features, in_features) */
    int64_t batch;
    int64_t out_features;
    int64_t row_bytes; /* of x and w, up to where the next row begins */
    bool chunks;       /* rows are made of aligned chunks */
    int64_t row_tiles;
    int64_t column_tiles;
    const float *x_unscale; /* (batch,), of split factors */
    const float *w_unscale; /* (out_features,) */
    struct condition held;  /* of split factors: whether halves hold them */
    const float *bias;
    struct operators before;
    int group_size; /* 0: the norm is not here */
    float eps;
    const float *scale;
    const float *shift;
    struct operators after;
    void *y;
    fgn_type y_type;
};

/* What a kernel multiplies. All members are compile-time constants. */
struct tile_product {
    fgn_type type;    /* of the factors; FGN_FLOAT32: tf32 */
    int halves;       /* 2 of split factors, else 1 */
    int column_tiles; /* of a warp */
    int stages;
    bool chunks; /* rows are made of aligned chunks */
};

static __forceinline__ __device__ int tile_columns(struct tile_product product) {
    return WARPS_ACROSS * product.column_tiles * MMA_COLUMNS;
}

/* ---- Where a block and a lane work ---- */

struct lane_place {
    int64_t first_row; /* of the block */
    int64_t first_column;
    int warp_row; /* of the warp in the block's tile */
    int warp_column;
    int lane;
};

static __forceinline__ __device__ struct lane_place place_of_thread(const struct tensor_core_args *args,
                                                                    struct tile_product product) {
    int64_t band_tiles = args->row_tiles * BAND;
    int64_t first_column = blockIdx.x / band_tiles * BAND, in_band = blockIdx.x % band_tiles;
    int64_t width = args->column_tiles - first_column < BAND ? args->column_tiles - first_column : BAND;
    int warp = threadIdx.x / LANES;
    struct lane_place place = {
        in_band / width * TILE_ROWS, (first_column + in_band % width) * tile_columns(product),
        warp / WARPS_ACROSS * WARP_ROWS, warp % WARPS_ACROSS * product.column_tiles * MMA_COLUMNS,
        (int)(threadIdx.x % LANES)};
    return place;
}

/* ---- Global to shared memory ---- */

/* A stage: the rows of x, those of its low halves, the columns of w (which are rows in memory), its low
 * halves. The chunks of a row are adjacent, in a swizzled order. */
static __forceinline__ __device__ int chunk_in_stage(int row, int chunk) {
    return row * STEP_CHUNKS + (chunk ^ (row / 2 % STEP_CHUNKS));
}

static __forceinline__ __device__ int stage_chunks(struct tile_product product) {
    return product.halves * (TILE_ROWS + tile_columns(product)) * STEP_CHUNKS;
}

/* A thread's copies of x or w. Rows that do not exist repeat the last one: their sums are not stored. */
struct source {
    const unsigned char *from[2]; /* its chunk of its first row, in the step that comes next */
    uint32_t stride;              /* bytes from one of its rows to the next */
    int last;                     /* the last of its rows that exists */
};

static __forceinline__ __device__ struct source source_of(const struct tensor_core_args *args,
                                                          const void *const *matrix, int64_t first,
                                                          int64_t rows, int halves) {
    int64_t row = first + threadIdx.x / STEP_CHUNKS;
    row = row < rows ? row : rows - 1;
    int64_t at = row * args->row_bytes + threadIdx.x % STEP_CHUNKS * CHUNK_BYTES;
    int64_t last = (rows - 1 - row) / ROWS_BETWEEN;
    struct source source;
    source.from[0] = (const unsigned char *)matrix[0] + at;
    source.from[1] = halves == 2 ? (const unsigned char *)matrix[1] + at : NULL;
    source.stride = (uint32_t)args->row_bytes * ROWS_BETWEEN;
    source.last = last < ROWS_BETWEEN ? (int)last : ROWS_BETWEEN;
    return source;
}

/* Loads a chunk with `left` bytes from a row that is not made of aligned chunks. */
static __forceinline__ __device__ void gather_chunk(uint4 *to, const unsigned char *from, int left,
                                                    fgn_type type) {
    if (type == FGN_FLOAT32) {
#pragma unroll 1
        for (int i = 0; i < CHUNK_BYTES / 4; i++)
            ((uint32_t *)to)[i] = 4 * i < left ? ((const uint32_t *)from)[i] : 0;
    } else {
#pragma unroll 1
        for (int i = 0; i < CHUNK_BYTES / 2; i++)
            ((uint16_t *)to)[i] = 2 * i < left ? ((const uint16_t *)from)[i] : 0;
    }
}

/* Starts to copy `rows` rows of the next step. The thread's chunk has `left` bytes; beyond the end of a row
 * are zeros. */
static __forceinline__ __device__ void start_rows(struct source *source, uint4 *to, int rows, int left,
                                                  struct tile_product product) {
    int own = chunk_in_stage(threadIdx.x / STEP_CHUNKS, threadIdx.x % STEP_CHUNKS);
#pragma unroll
    for (int half = 0; half < product.halves; half++) {
#pragma unroll
        for (int i = 0; i < rows / ROWS_BETWEEN; i++) {
            uint4 *chunk = to + (half * rows + i * ROWS_BETWEEN) * STEP_CHUNKS + own;
            uint32_t row = (uint32_t)(i < source->last ? i : source->last);
            const unsigned char *from = source->from[half] + (uint64_t)row * source->stride;
            if (product.chunks)
                cp_async_16_or_zero(chunk, from, left > 0);
            else
                gather_chunk(chunk, from, left, product.type);
        }
        source->from[half] += STEP_BYTES;
    }
}

struct copies {
    struct source x;
    struct source w;
    int left; /* bytes in a row from the thread's chunk of the next step on */
};

/* Starts to copy the next step, as one group of copies. */
static __forceinline__ __device__ void start_step(struct copies *copies, uint4 *stage,
                                                  struct tile_product product) {
    start_rows(&copies->x, stage, TILE_ROWS, copies->left, product);
    start_rows(&copies->w, stage + product.halves * TILE_ROWS * STEP_CHUNKS, tile_columns(product),
               copies->left, product);
    copies->left -= STEP_BYTES;
    cp_async_commit_group();
}

/* ---- Shared memory to registers, and the product ---- */

/* A lane's operands of a half_step: 32 bytes of k. */
struct operands {
    uint32_t x[2][ROW_TILES][4];
    uint32_t w[2][MOST_COLUMN_TILES][2];
};

static __forceinline__ __device__ void round_to_tf32(uint32_t *word, int count) {
#pragma unroll
    for (int i = 0; i < count; i++)
        word[i] = cvt_rna_tf32(word[i]);
}

/* The four matrices of an ldmatrix are rows 0-7 and 8-15 of x, first with the first chunk of k, then with the
 * second: the operands of an mma. For w they are columns 0-7 with both chunks, then columns 8-15. */
static __forceinline__ __device__ void load_operands(struct operands *operands, const uint4 *stage,
                                                     int half_step, const struct lane_place *place,
                                                     struct tile_product product) {
    const uint4 *w = stage + product.halves * TILE_ROWS * STEP_CHUNKS;
    int lane = place->lane;
    int row = place->warp_row + lane % 16, x_chunk = 2 * half_step + lane / 16;
    int column = place->warp_column + lane / 16 * 8 + lane % 8, w_chunk = 2 * half_step + lane / 8 % 2;
#pragma unroll
    for (int half = 0; half < product.halves; half++) {
#pragma unroll
        for (int i = 0; i < ROW_TILES; i++) {
            int at = chunk_in_stage(row, x_chunk) + (half * TILE_ROWS + i * MMA_ROWS) * STEP_CHUNKS;
            ldmatrix_x4(operands->x[half][i], stage + at);
            if (product.type == FGN_FLOAT32)
                round_to_tf32(operands->x[half][i], 4);
        }
#pragma unroll
        for (int i = 0; i < product.column_tiles; i += 2) {
            int at = chunk_in_stage(column, w_chunk) +
                     (half * tile_columns(product) + i * MMA_COLUMNS) * STEP_CHUNKS;
            ldmatrix_x4(operands->w[half][i], w + at);
            if (product.type == FGN_FLOAT32)
                round_to_tf32(operands->w[half][i], 4);
        }
    }
}

/* The sums of a warp's part of the tile, 16 rows after another. From each mma a lane has, with g = lane / 4
 * and t = lane % 4, columns 2 t and 2 t + 1 of row g, then of row g + 8. */
typedef float warp_sums[ROW_TILES][ROW_SUMS];

static __forceinline__ __device__ void mma(float *sum, const uint32_t *x, const uint32_t *w,
                                           struct tile_product product) {
    if (product.type == FGN_FLOAT32)
        mma_m16n8k8_tf32(sum, x, w);
    else
        mma_m16n8k16(sum, x, w, product.type);
}

static __forceinline__ __device__ void multiply_half_step(warp_sums sum, const struct operands *operands,
                                                          struct tile_product product) {
#pragma unroll
    for (int i = 0; i < ROW_TILES; i++) {
#pragma unroll
        for (int turn = 0; turn < product.column_tiles; turn++) {
            /* back and forth, so that one operand stays in the register file's reuse cache */
            int j = i % 2 ? product.column_tiles - 1 - turn : turn;
            mma(&sum[i][4 * j], operands->x[0][i], operands->w[0][j], product);
        }
    }
}

/* The same for split factors: high low + low high + high high. The small products come first; mma of one kind
 * follow each other, because they do not wait for each other. */
static __forceinline__ __device__ void
multiply_split_half_step(warp_sums sum, const struct operands *operands, struct tile_product product) {
    const int of_x[] = {0, 1, 0}, of_w[] = {1, 0, 0};
#pragma unroll
    for (int i = 0; i < ROW_TILES; i++) {
        float part[ROW_SUMS] = {0.0f};
#pragma unroll
        for (int kind = 0; kind < 3; kind++)
#pragma unroll
            for (int j = 0; j < product.column_tiles; j++)
                mma(&part[4 * j], operands->x[of_x[kind]][i], operands->w[of_w[kind]][j], product);
#pragma unroll
        for (int j = 0; j < product.column_tiles * 4; j++)
            sum[i][j] += part[j];
    }
}

/* Computes the tile's sums. */
static __forceinline__ __device__ void multiply_tile(const struct tensor_core_args *args,
                                                     const struct lane_place *place, warp_sums sum,
                                                     struct tile_product product) {
    uint4 *stages = (uint4 *)dynamic_shared;
    const int chunks = stage_chunks(product);
    struct copies copies = {source_of(args, args->x, place->first_row, args->batch, product.halves),
                            source_of(args, args->w, place->first_column, args->out_features, product.halves),
                            (int)args->row_bytes - (int)(threadIdx.x % STEP_CHUNKS) * CHUNK_BYTES};
    int steps = (int)tiles(args->row_bytes, STEP_BYTES);
    /* a step past the end copies zeros: it is a group too, so that groups can be counted */
    for (int step = 0; step < product.stages - 1; step++)
        start_step(&copies, stages + step * chunks, product);
    cp_async_wait_group(product.stages - 2);
    __syncthreads();

    struct operands operands[2];
    load_operands(&operands[0], stages, 0, place, product);
    int reading = 0, writing = product.stages - 1;
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
        const uint4 *stage = stages + reading * chunks;
        start_step(&copies, stages + writing * chunks, product);
        writing = writing + 1 < product.stages ? writing + 1 : 0;
        reading = reading + 1 < product.stages ? reading + 1 : 0;
#pragma unroll
        for (int half_step = 0; half_step < STEP_HALVES; half_step++) {
            struct operands *next = &operands[(half_step + 1) % 2];
            if (half_step + 1 < STEP_HALVES) {
                load_operands(next, stage, half_step + 1, place, product);
            } else {
                /* the next step has come, and everyone has read the stage that is filled next */
                cp_async_wait_group(product.stages - 2);
                __syncthreads();
                load_operands(next, stages + reading * chunks, 0, place, product);
            }
            if (product.halves == 2)
                multiply_split_half_step(sum, &operands[half_step % 2], product);
            else
                multiply_half_step(sum, &operands[half_step % 2], product);
        }
    }
    cp_async_wait_group(0);
}
