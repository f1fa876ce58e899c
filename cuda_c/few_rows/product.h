/* The product in gemm_few_rows_tensor.cu: which part of a stage a warp multiplies, and in which form.
 *
 * Chunks are the rows of ldmatrix's matrices, so words t of two chunks are a lane's operands of one mma: two
 * times two neighbouring 16-bit values (16 k), or two tf32 values (8 k). A step makes four mma. Factors are
 * rounded to tf32, because mma itself would truncate them, which makes all products a little too small. x is
 * rounded once for all warps, in its stage; each lane rounds its own weights.
 *
 * float32 accuracy: v = p0 + p1 + p2 exactly, with three bfloat16 (8 bits each make 24), and the product is
 * the six p_i q_j with i + j <= 2; the others are below float32's last bit. The smallest products are added
 * first. Tensor cores truncate, so their sums are added to ordinary registers after each step. A value is
 * first scaled by 2^24, so that the pieces of the smallest float are bfloat16 numbers too. If that is too
 * much (above 2^80 in the sum, or infinity or NaN in the factors), the output is computed again with ordinary
 * multiply-adds. The pieces of x are made once for all warps, and put beside the stages. A lane makes those
 * of the weight itself, from chunks t and t + 4 of a column. */
#pragma once

#include "few_rows/ring.h"

#define SCALE 0x1p24f
#define UNSCALE 0x1p-48f
#define PIECES 3

/* Piece i of two floats becomes pair[i]. */
static __forceinline__ __device__ void split(float a, float b, uint32_t *pair) {
    a *= SCALE;
    b *= SCALE;
#pragma unroll
    for (int i = 0; i < PIECES; i++) {
        uint32_t bits = bfloat16_pair(a, b);
        pair[i] = bits;
        a -= __uint_as_float(bits << 16);
        b -= __uint_as_float(bits & 0xffff0000u);
    }
}

static __forceinline__ __device__ void split_chunk(uint4 chunk, uint32_t low[PIECES], uint32_t high[PIECES]) {
    split(__uint_as_float(chunk.x), __uint_as_float(chunk.y), low);
    split(__uint_as_float(chunk.z), __uint_as_float(chunk.w), high);
}

/* ---- x, by the thread that has copied it and before others see it ---- */

/* Rounds x to tf32. */
static __forceinline__ __device__ void round_x(const struct few_rows_args *args,
                                               const struct lane_sources *from, int stage) {
    uint4 *x = x_in_stage(args, stage);
#pragma unroll
    for (int i = 0; i < 2 * X_SHARE; i++) {
        if (from->rows_left[i / 2] <= i % 2 * COPY_LINES)
            continue;
        uint4 *at = &x[place_of_copy(from, x_copy(i / 2) + i % 2)];
        uint4 chunk = *at;
        *at = make_uint4(cvt_rna_tf32(chunk.x), cvt_rna_tf32(chunk.y), cvt_rna_tf32(chunk.z),
                         cvt_rna_tf32(chunk.w));
    }
}

/* Its pieces: [k_tile % 2][tile][piece][16 rows of PIECE_CHUNKS] */

#define PIECE_CHUNKS (CHUNKS / 2)
#define PIECE_TILE (TILE_ROWS * PIECE_CHUNKS) /* chunks */

static inline __host__ __device__ int pieces_bytes_of(int tiles_in_stage) {
    return 2 * tiles_in_stage * PIECES * PIECE_TILE * CHUNK;
}

/* The place of a chunk in a row, as in a stage, but with four chunks in a row. */
static inline __device__ int place_in_piece(int row, int chunk) {
    return row * PIECE_CHUNKS + (chunk ^ row / 2 % PIECE_CHUNKS);
}

static inline __device__ uint4 *pieces_of_x(const struct few_rows_args *args, int k_tile, int tile,
                                            int tiles_in_stage) {
    return (uint4 *)(dynamic_shared + args->stages * args->stage_bytes) +
           (k_tile % 2 * tiles_in_stage + tile) * (PIECES * PIECE_TILE);
}

/* Splits a chunk of x: the two pairs of chunk t or t + 4 become words t of the two chunks that make an mma.
 */
static __forceinline__ __device__ void store_pieces(uint4 *pieces, int row, int chunk, uint4 floats) {
    uint32_t low[PIECES], high[PIECES];
    split_chunk(floats, low, high);
    int first = place_in_piece(row, chunk / 4 * 2), second = place_in_piece(row, chunk / 4 * 2 + 1);
#pragma unroll
    for (int piece = 0; piece < PIECES; piece++) {
        ((uint32_t *)&pieces[piece * PIECE_TILE + first])[chunk % 4] = low[piece];
        ((uint32_t *)&pieces[piece * PIECE_TILE + second])[chunk % 4] = high[piece];
    }
}

/* Makes pieces of x. */
static __forceinline__ __device__ void split_x(const struct few_rows_args *args,
                                               const struct lane_sources *from, int k_tile, int stage,
                                               int tiles_in_stage) {
    const uint4 *x = x_in_stage(args, stage);
    int lane = threadIdx.x % LANES;
#pragma unroll
    for (int i = 0; i < 2 * X_SHARE; i++) {
        if (from->rows_left[i / 2] <= i % 2 * COPY_LINES)
            continue;
        int copy = x_copy(i / 2) + i % 2; /* of four rows */
        store_pieces(pieces_of_x(args, k_tile, copy / 4, tiles_in_stage),
                     copy % 4 * COPY_LINES + lane / CHUNKS, lane % CHUNKS, x[place_of_copy(from, copy)]);
    }
}

/* Rows beyond x have pieces of zero too. */
static __forceinline__ __device__ void clear_pieces(const struct few_rows_args *args, int tiles_in_stage) {
    uint4 *pieces = pieces_of_x(args, 0, 0, tiles_in_stage);
    for (int i = threadIdx.x; i < 2 * tiles_in_stage * PIECES * PIECE_TILE; i += THREADS)
        pieces[i] = make_uint4(0, 0, 0, 0);
    __syncthreads();
}

/* ---- The operands of mma ---- */

/* A lane's factors in a step of the weight: for each half of the step and each tile of columns two words per
 * mma. A half has two mma, or three pieces. */
struct weight_operands {
    uint32_t b[2][PIECES][COLUMN_TILES][2];
};

static __forceinline__ __device__ void load_weight(struct weight_operands *w, const uint4 *stage,
                                                   enum mma_factors factors) {
    int lane = threadIdx.x % LANES;
#pragma unroll
    for (int i = 0; i < 2 * COLUMN_TILES; i++) {
        int tile = i / 2, half = i % 2;
        if (factors == FLOAT32_PIECES_MMA) {
            uint32_t low[PIECES], high[PIECES];
            split_chunk(stage[tile * EIGHT + place_in_eight(lane / 4, half * 4 + lane % 4)], low, high);
#pragma unroll
            for (int piece = 0; piece < PIECES; piece++) {
                w->b[half][piece][tile][0] = low[piece];
                w->b[half][piece][tile][1] = high[piece];
            }
            continue;
        }
        uint32_t word[4];
        ldmatrix_x4(word, &stage[tile * EIGHT + place_in_eight(lane % 8, half * 4 + lane / 8)]);
#pragma unroll
        for (int j = 0; j < 4; j++)
            w->b[half][j / 2][tile][j % 2] = factors == TF32_MMA ? cvt_rna_tf32(word[j]) : word[j];
    }
}

/* The same for 16 rows of x. */
struct x_operands {
    uint32_t a[2][PIECES][4];
};

static __forceinline__ __device__ void load_x(struct x_operands *x, const uint4 *tile,
                                              enum mma_factors factors) {
    int lane = threadIdx.x % LANES;
    int upper = lane / 8 % 2, second = lane / 16; /* of a matrix: eight rows, and chunk */
#pragma unroll
    for (int half = 0; half < 2; half++) {
        if (factors == FLOAT32_PIECES_MMA) {
#pragma unroll
            for (int piece = 0; piece < PIECES; piece++)
                ldmatrix_x4(x->a[half][piece],
                            &tile[piece * PIECE_TILE + place_in_piece(lane % 16, half * 2 + second)]);
            continue;
        }
#pragma unroll
        for (int i = 0; i < 2; i++)
            ldmatrix_x4(x->a[half][i],
                        &tile[upper * EIGHT + place_in_eight(lane % 8, half * 4 + i * 2 + second)]);
    }
}

/* Sums of 16 rows of x and the warp's columns, in an mma's order. */
typedef float tile_sums[COLUMN_TILES][4];

/* One mma for each column tile: they do not wait for each other. */
static __forceinline__ __device__ void
multiply_columns(tile_sums sum, const uint32_t a[4], uint32_t b[COLUMN_TILES][2], enum mma_factors factors) {
#pragma unroll
    for (int tile = 0; tile < COLUMN_TILES; tile++) {
        if (factors == TF32_MMA)
            mma_m16n8k8_tf32(sum[tile], a, b[tile]);
        else
            mma_m16n8k16(sum[tile], a, b[tile], factors == FLOAT16_MMA ? FGN_FLOAT16 : FGN_BFLOAT16);
    }
}

/* sum += the products of one step of 16 rows. */
static __forceinline__ __device__ void multiply_rows(tile_sums sum, const struct x_operands *x,
                                                     struct weight_operands *w, enum mma_factors factors) {
    if (factors != FLOAT32_PIECES_MMA) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            multiply_columns(sum, x->a[i / 2][i % 2], w->b[i / 2][i % 2], factors);
        return;
    }
    tile_sums step_sum = {{0.0f}};
    /* the smallest products first */
#pragma unroll
    for (int order = PIECES - 1; order >= 0; order--) {
#pragma unroll
        for (int piece = 0; piece <= order; piece++) {
#pragma unroll
            for (int half = 0; half < 2; half++)
                multiply_columns(step_sum, x->a[half][piece], w->b[half][order - piece], factors);
        }
    }
#pragma unroll
    for (int i = 0; i < COLUMN_TILES * 4; i++)
        sum[i / 4][i % 4] += step_sum[i / 4][i % 4];
}

/* sum += the products of the warp's step with row_tiles tiles of x. */
static __forceinline__ __device__ void multiply_step(const struct few_rows_args *args, tile_sums *sum,
                                                     const struct warp_place *place,
                                                     struct weight_operands *w, int k_tile, int stage,
                                                     int row_tiles, enum mma_factors factors) {
    int first_tile = place->along * row_tiles;
    const uint4 *tile = factors == FLOAT32_PIECES_MMA
                            ? pieces_of_x(args, k_tile, first_tile, place->warps_along * row_tiles)
                            : x_in_stage(args, stage) + first_tile * 2 * EIGHT;
#pragma unroll
    for (int i = 0; i < row_tiles; i++) {
        struct x_operands x;
        load_x(&x, tile + i * (factors == FLOAT32_PIECES_MMA ? PIECES * PIECE_TILE : 2 * EIGHT), factors);
        multiply_rows(sum[i], &x, w, factors);
    }
}

/* ---- Beyond the pieces' range ---- */

/* One output, which a warp computes again with ordinary multiply-adds. */
static CALLED __device__ float plain_sum(const float *x, const float *weight, int64_t in_features,
                                         int first_step, int end_step, int warps_along) {
    const int step_elements = STEP_BYTES / sizeof(float);
    float sum = 0.0f;
    for (int64_t step = first_step; step < end_step; step += warps_along) {
        float step_sum = 0.0f;
        for (int64_t k = step * step_elements; k < (step + 1) * step_elements && k < in_features; k++)
            step_sum = fmaf(x[k], weight[k], step_sum);
        sum += step_sum;
    }
    return sum;
}

static inline __device__ bool is_finite(float v) {
    return fabsf(v) <= 3.402823466e38f;
}
