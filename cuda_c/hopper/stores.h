/* From a strip's sums to its part of y.
 *
 * Sorted strips are stored as they are: TMA has ordered w's rows so that a lane has 16 bytes of neighbours.
 * In others a lane has two columns in every eight. If rows of y begin at multiples of 16 bytes, the lanes of
 * a quad exchange words until each has 16 bytes; otherwise they store pairs or single values.
 */
#pragma once

#include "hopper/arguments.h"
#include "shared/epilogue.h"

/* The place of a thread's sums of a strip. */
struct sums_place {
    int64_t row;    /* of the first; the second is 8 below */
    int64_t column; /* of the strip's first one */
    int owned;      /* columns that are stored */
    int vectors;    /* where in shared memory: bytes, from the lane's first column on */
};

/* The index of the sum of the lane's neighbouring column `i` in a block of quad_columns(), in its first or
 * second row. */
static __device__ __forceinline__ int sum_at(int block, int row, int i, struct configuration config) {
    return block * 2 * config.lane_columns + i / 2 * 4 + row * 2 + i % 2;
}

static __device__ __forceinline__ uint32_t packed(float a, float b, struct configuration config) {
    return pair_of_type(a, b, config.factors == FLOAT16_FACTORS ? FGN_FLOAT16 : FGN_BFLOAT16);
}

/* Two of the lane's neighbours in 16 bits. */
static __device__ __forceinline__ uint32_t packed_sums(const float *sum, int block, int row, int i,
                                                       struct configuration config) {
    const float *v = &sum[sum_at(block, row, i, config)];
    return packed(v[0], v[1], config);
}

/* The lane's columns of a block in one of its rows, 16 bytes of y. */
static __device__ __forceinline__ uint4 sorted_bytes(const float *sum, int block, int row,
                                                     struct configuration config) {
    const float *v = &sum[sum_at(block, row, 0, config)], *w = &sum[sum_at(block, row, 2, config)];
    if (config.lane_columns == 4)
        return make_uint4(__float_as_uint(v[0]), __float_as_uint(v[1]), __float_as_uint(w[0]),
                          __float_as_uint(w[1]));
    return make_uint4(packed_sums(sum, block, row, 0, config), packed_sums(sum, block, row, 2, config),
                      packed_sums(sum, block, row, 4, config), packed_sums(sum, block, row, 6, config));
}

/* Stores the strip's columns of one row. Only the last strip of a row of y has fewer columns than its width.
 */
static __device__ __forceinline__ void store_sorted(const struct sums_place *place, unsigned char *to,
                                                    const float *sum, int row, struct configuration config) {
    int columns = quad_columns(config), first = threadIdx.x % QUAD * config.lane_columns;
    int value_bytes = 16 / config.lane_columns;
    to += first * value_bytes;
#pragma unroll
    for (int block = 0; block < config.width / columns; block++)
        if (block * columns < place->owned) /* a block has all of its columns or none */
            *(uint4 *)(to + block * columns * value_bytes) = sorted_bytes(sum, block, row, config);
}

/* Transposes four words of each lane of a quad: word j of lane i becomes word i of lane j. */
static __device__ __forceinline__ void transpose_words(uint32_t *word) {
    bool odd = threadIdx.x % 2, upper = threadIdx.x / 2 % 2;
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        uint32_t other = __shfl_xor_sync(0xffffffffu, odd ? word[i] : word[i + 1], 1);
        word[i] = odd ? other : word[i];
        word[i + 1] = odd ? word[i + 1] : other;
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        uint32_t other = __shfl_xor_sync(0xffffffffu, upper ? word[i] : word[i + 2], 2);
        word[i] = upper ? other : word[i];
        word[i + 2] = upper ? word[i + 2] : other;
    }
}

/* Stores the first `count` of eight 16-bit values. */
static __device__ __forceinline__ void store_some_words(unsigned char *to, const uint32_t *word, int count) {
#pragma unroll
    for (int i = 0; i < 8; i++)
        if (i < count)
            ((uint16_t *)to)[i] = (uint16_t)(word[i / 2] >> i % 2 * 16);
}

/* Stores 16-bit values: 32 columns of the quad at a time, one slab for each lane. */
static __device__ __forceinline__ void store_wide_16_bit(const struct sums_place *place, unsigned char *to,
                                                         const float *sum, int row, bool present,
                                                         struct configuration config) {
#pragma unroll
    for (int slab = 0; slab < config.width / SLAB; slab += QUAD) {
        uint32_t word[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            word[i] = packed(sum[(slab + i) * 4 + 2 * row], sum[(slab + i) * 4 + 2 * row + 1], config);
        transpose_words(word);
        int column = (slab + threadIdx.x % QUAD) * SLAB, left = place->owned - column;
        if (present && left >= SLAB)
            *(uint4 *)(to + column * 2) = make_uint4(word[0], word[1], word[2], word[3]);
        else if (present && left > 0)
            store_some_words(to + column * 2, word, left);
    }
}

/* Stores 32-bit values: 16 columns of the quad at a time. An even lane takes half of the first of two slabs,
 * an odd lane half of the second. */
static __device__ __forceinline__ void store_wide_32_bit(const struct sums_place *place, unsigned char *to,
                                                         const float *sum, int row, bool present,
                                                         struct configuration config) {
    bool odd = threadIdx.x % 2;
#pragma unroll
    for (int slab = 0; slab < config.width / SLAB; slab += 2) {
        const float *a = sum + slab * 4 + 2 * row, *b = a + 4;
        float x = __shfl_xor_sync(0xffffffffu, odd ? a[0] : b[0], 1);
        float y = __shfl_xor_sync(0xffffffffu, odd ? a[1] : b[1], 1);
        float4 v = odd ? make_float4(x, y, b[0], b[1]) : make_float4(a[0], a[1], x, y);
        int column = (slab + odd) * SLAB + threadIdx.x / 2 % 2 * 4, left = place->owned - column;
        float *at = (float *)to + column;
        if (present && left >= 4) {
            *(float4 *)at = v;
        } else if (present) {
            if (left > 0)
                at[0] = v.x;
            if (left > 1)
                at[1] = v.y;
            if (left > 2)
                at[2] = v.z;
        }
    }
}

static __device__ __forceinline__ void store_narrow(const struct sums_place *place, unsigned char *to,
                                                    const float *sum, int row, bool pairs,
                                                    struct configuration config) {
#pragma unroll
    for (int slab = 0; slab < config.width / SLAB; slab++) {
        const float *v = sum + slab * 4 + 2 * row;
        int column = slab * SLAB + threadIdx.x % QUAD * 2, left = place->owned - column;
        if (values_of_16_bytes(config) == 8) {
            uint32_t word = packed(v[0], v[1], config);
            uint16_t *at = (uint16_t *)to + column;
            if (pairs && left >= 2) {
                *(uint32_t *)at = word;
            } else {
                if (left > 0)
                    at[0] = (uint16_t)word;
                if (left > 1)
                    at[1] = (uint16_t)(word >> 16);
            }
        } else {
            float *at = (float *)to + column;
            if (pairs && left >= 2) {
                *(float2 *)at = make_float2(v[0], v[1]);
            } else {
                if (left > 0)
                    at[0] = v[0];
                if (left > 1)
                    at[1] = v[1];
            }
        }
    }
}

static __device__ __forceinline__ void store_sums(const struct hopper_args *args,
                                                  const struct sums_place *place, const float *sum,
                                                  struct configuration config) {
    int value_bytes = 16 / values_of_16_bytes(config);
    /* the strip's alignment may differ from its row's */
    bool wide = args->wide_stores && place->column % values_of_16_bytes(config) == 0;
    bool pairs = args->pair_stores && place->column % 2 == 0;
#pragma unroll
    for (int row = 0; row < 2; row++) {
        int64_t at = (place->row + 8 * row) * args->out_features + place->column;
        unsigned char *to = (unsigned char *)args->y + at * value_bytes;
        bool present = place->row + 8 * row < args->batch;
        if (is_sorted(config)) {
            if (present)
                store_sorted(place, to, sum, row, config);
        } else if (wide && values_of_16_bytes(config) == 8) {
            store_wide_16_bit(place, to, sum, row, present, config);
        } else if (wide) {
            store_wide_32_bit(place, to, sum, row, present, config);
        } else if (present) {
            store_narrow(place, to, sum, row, pairs, config);
        }
    }
}

/* Stores a strip's sums in the workspace, float32 in every precision. */
static __device__ __forceinline__ void store_unfinished(const struct hopper_args *args,
                                                        const struct sums_place *place, int split,
                                                        const float *sum, struct configuration config) {
    bool pairs = args->out_features % 2 == 0 && place->column % 2 == 0;
    int first = threadIdx.x % QUAD * config.lane_columns;
#pragma unroll
    for (int row = 0; row < 2; row++) {
        if (place->row + 8 * row >= args->batch)
            continue;
        float *to = args->sums + (split * args->batch + place->row + 8 * row) * args->out_features +
                    place->column + first;
        int owned = place->owned - first;
#pragma unroll
        for (int block = 0; block < config.width / quad_columns(config); block++) {
            int column = block * quad_columns(config);
#pragma unroll
            for (int i = 0; i < config.lane_columns; i += 2) {
                float2 v =
                    make_float2(sum[sum_at(block, row, i, config)], sum[sum_at(block, row, i + 1, config)]);
                if (pairs && column + i + 1 < owned) {
                    *(float2 *)(to + column + i) = v;
                } else {
                    if (column + i < owned)
                        to[column + i] = v.x;
                    if (column + i + 1 < owned)
                        to[column + i + 1] = v.y;
                }
            }
        }
    }
}
