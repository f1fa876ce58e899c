/* The product in gemm_few_rows_tensor.cu: what a warp multiplies of a slot, and what the numbers are then.
 *
 * Words 2 i and 2 i + 1 of a chunk are a lane's operands of one mma: two times two neighbouring 16-bit values
 * (16 k), or two tf32 values (8 k); chunks t and t + 4 make four mma.
 *
 * float32 accuracy: v = p0 + p1 + p2 exactly, with three bfloat16 (8 bits each make 24), and the product is
 * the six p_i q_j with i + j <= 2; what they leave out is below float32's last bit. The smallest products are
 * added first, and what the tensor cores add up (they truncate) is added to ordinary registers after each
 * step. A value is scaled by 2^24 before, so that the pieces of the smallest float are bfloat16 numbers too;
 * where that is too much (above 2^80 in the sum, or infinity, or NaN in the factors) the output is computed
 * again with ordinary multiply-adds. */
#pragma once

#include "few_rows_queue.h"

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

static __forceinline__ __device__ uint4 round_chunk(uint4 chunk) {
    return make_uint4(tf32_bits(chunk.x), tf32_bits(chunk.y), tf32_bits(chunk.z), tf32_bits(chunk.w));
}

/* Makes factors of the float32 that this thread has brought of x, in their place, before others see them:
 * words 0 and 1 become the first piece, words 2 and 3 the second. */
static __forceinline__ __device__ void convert_x(const struct few_rows_args *args,
                                                 const struct lane_sources *from, int slot, int tiles_in_slot,
                                                 enum factors factors) {
    if (factors != TF32_FACTORS && factors != FLOAT32_PIECES)
        return;
#pragma unroll
    for (int i = 0; i < 2 * X_SHARE; i++) {
        if (!from->row_present[i / 2])
            continue;
        int eight_rows = threadIdx.x / LANES + i / 2 * WARPS;
        uint4 *x = x_in_slot(args, slot, eight_rows) + i % 2 * LANES;
        if (factors == TF32_FACTORS) {
            *x = round_chunk(*x);
            continue;
        }
        uint32_t low[PIECES], high[PIECES];
        split_chunk(*x, low, high);
        *x = make_uint4(low[0], high[0], low[1], high[1]);
        last_piece_in_slot(args, slot, eight_rows, tiles_in_slot)[i % 2 * LANES] =
            make_uint2(low[2], high[2]);
    }
}

static __forceinline__ __device__ void chunk_words(uint32_t *word, uint4 chunk) {
    word[0] = chunk.x;
    word[1] = chunk.y;
    word[2] = chunk.z;
    word[3] = chunk.w;
}

/* A lane's factors in a step of the weight: of chunk t or t + 4 and each of its columns, the two words of an
 * mma's operand; four words or three pieces for two of them. */
#define MOST_OPERANDS PIECES
struct weight_operands {
    uint32_t b[2][MOST_OPERANDS][COLUMN_TILES][2];
};

static __forceinline__ __device__ void load_weight(struct weight_operands *w, const uint4 *slot,
                                                   enum factors factors) {
#pragma unroll
    for (int i = 0; i < 2 * LANE_COLUMNS; i++) {
        uint4 chunk = slot[i * LANES];
        int half = i % 2, tile = i / 2;
        if (factors == FLOAT32_PIECES) {
            uint32_t low[PIECES], high[PIECES];
            split_chunk(chunk, low, high);
#pragma unroll
            for (int piece = 0; piece < PIECES; piece++) {
                w->b[half][piece][tile][0] = low[piece];
                w->b[half][piece][tile][1] = high[piece];
            }
            continue;
        }
        uint32_t word[4];
        chunk_words(word, factors == TF32_FACTORS ? round_chunk(chunk) : chunk);
#pragma unroll
        for (int pair = 0; pair < 2; pair++) {
            w->b[half][pair][tile][0] = word[2 * pair];
            w->b[half][pair][tile][1] = word[2 * pair + 1];
        }
    }
}

/* The same of 16 rows of x. */
struct x_operands {
    uint32_t a[2][MOST_OPERANDS][4];
};

static __forceinline__ __device__ void load_x(struct x_operands *x, const uint4 *slot,
                                              const uint2 *last_piece, enum factors factors) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int upper = i / 2, half = i % 2;
        uint32_t word[4];
        chunk_words(word, slot[i * LANES]);
#pragma unroll
        for (int pair = 0; pair < 2; pair++) {
            x->a[half][pair][upper] = word[2 * pair];
            x->a[half][pair][upper + 2] = word[2 * pair + 1];
        }
        if (factors == FLOAT32_PIECES) {
            uint2 words = last_piece[i * LANES];
            x->a[half][2][upper] = words.x;
            x->a[half][2][upper + 2] = words.y;
        }
    }
}

/* The sums of 16 rows of x and the warp's columns, as an mma leaves them. */
typedef float tile_sums[COLUMN_TILES][4];

/* One mma for each column tile: they do not wait for each other. */
static __forceinline__ __device__ void multiply_columns(tile_sums sum, const uint32_t a[4],
                                                        uint32_t b[COLUMN_TILES][2], enum factors factors) {
#pragma unroll
    for (int tile = 0; tile < COLUMN_TILES; tile++) {
        if (factors == TF32_FACTORS)
            mma_16x8x8_tf32(sum[tile], a, b[tile]);
        else
            mma_16x8x16(sum[tile], a, b[tile], factors == FLOAT16_FACTORS ? FGN_FLOAT16 : FGN_BFLOAT16);
    }
}

/* sum += the products of one step of 16 rows. */
static __forceinline__ __device__ void multiply_rows(tile_sums sum, const struct x_operands *x,
                                                     struct weight_operands *w, enum factors factors) {
    if (factors != FLOAT32_PIECES) {
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

/* sum += the products of the warp's step in a slot. */
static __forceinline__ __device__ void multiply_step(const struct few_rows_args *args, tile_sums *sum,
                                                     const struct warp_place *place, int slot, int row_tiles,
                                                     enum factors factors) {
    struct weight_operands w;
    load_weight(&w, weight_in_slot(args, slot), factors);
    int first_tile = place->along * row_tiles, tiles_in_slot = place->warps_along * row_tiles;
#pragma unroll
    for (int tile = 0; tile < row_tiles; tile++) {
        int eight_rows = 2 * (first_tile + tile);
        struct x_operands x;
        load_x(&x, x_in_slot(args, slot, eight_rows),
               last_piece_in_slot(args, slot, eight_rows, tiles_in_slot), factors);
        multiply_rows(sum[tile], &x, &w, factors);
    }
}

/* ---- Beyond the pieces' range ---- */

/* What a warp sums up for one output, with ordinary multiply-adds. */
static __noinline__ __device__ float plain_sum(const float *x, const float *weight, int64_t in_features,
                                               struct warp_place place) {
    const int step_elements = STEP_BYTES / sizeof(float);
    float sum = 0.0f;
    for (int64_t step = place.first_step + place.along; step < place.end_step; step += place.warps_along) {
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

/* The output of a sum that may be scaled, or not have been finite; row and column are those of the block and
 * of the warp. */
static inline __device__ float output_of(const struct few_rows_args *args, const struct warp_place *place,
                                         float sum, int row, int column, enum factors factors) {
    if (factors != FLOAT32_PIECES)
        return sum;
    if (is_finite(sum) || row >= place->rows || place->first_column + column >= args->out_features)
        return sum * UNSCALE;
    return plain_sum((const float *)args->x + (place->first_row + row) * args->in_features,
                     (const float *)args->weight + (place->first_column + column) * args->in_features,
                     args->in_features, *place);
}
