/* The epilogue of gemm_9_tensor_core.cu: from the sums in a warp's registers to y, 16 rows at a time.
 *
 * The steps: unscaling of split factors, bias, operators, GroupNorm, scale and shift, operators, stores. A
 * group of 8, 16 or 32 channels is in the registers of one warp (fragment_norm.h); the moments of a wider one
 * are combined from those of several warps, through shared memory. */
#pragma once

#include "shared/element.h"
#include "shared/epilogue.h"
#include "shared/apply_operators.h"
#include "shared/fragment_norm.h"
#include "tensor_core/tile_product.h"

/* The place of a lane's values of 16 rows. */
struct lane_rows {
    int64_t row; /* of the first; the other one is 8 below */
    int64_t column;
    int row_in_tile;
    int last; /* the last column that exists, from this one on; operands of later ones are not read */
};

/* value[i]'s column, from the lane's first one on. */
static __forceinline__ __device__ int column_of_value(int i, int last) {
    int column = i / 4 * MMA_COLUMNS + i % 2;
    return column < last ? column : last;
}

static __forceinline__ __device__ struct lane_rows row_place(const struct tensor_core_args *args,
                                                             const struct lane_place *place, int row_tile) {
    struct lane_rows at;
    at.row_in_tile = place->warp_row + row_tile * MMA_ROWS + place->lane / QUAD;
    at.row = place->first_row + at.row_in_tile;
    at.column = place->first_column + place->warp_column + place->lane % QUAD * 2;
    int64_t last = args->out_features - 1 - at.column;
    at.last = last < WARP_ROWS ? (int)last : WARP_ROWS; /* negative: none */
    return at;
}

/* The address of a vector's value for the lane's first column, if that exists. */
static __forceinline__ __device__ const float *operand_of(const void *vector, const struct lane_rows *at) {
    return (const float *)vector + at->column + (at->last < 0 ? at->last : 0);
}

static __forceinline__ __device__ int last_operand(const struct lane_rows *at) {
    return at->last < 0 ? 0 : at->last;
}

static __forceinline__ __device__ void undo_scaling(const struct tensor_core_args *args,
                                                    const struct lane_rows *at, float *value, int count) {
    const float *of_column = operand_of(args->w_unscale, at);
    float of_row[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int64_t row = at->row + 8 * i;
        of_row[i] = args->x_unscale[row < args->batch ? row : args->batch - 1];
    }
#pragma unroll
    for (int i = 0; i < count; i++) {
        value[i] = unscaled(value[i], of_row[i / 2 % 2], of_column[column_of_value(i, last_operand(at))]);
    }
}

/* Adds the operator's tensor to the lane's values, in two rows, 8 apart. */
static __forceinline__ __device__ void add_tensor_to_values(const struct operators *list,
                                                            const fgn_pointwise *step,
                                                            const struct lane_rows *at, int64_t rows,
                                                            float *value, int count) {
    int64_t first_column = at->column + (at->last < 0 ? at->last : 0);
#pragma unroll
    for (int i = 0; i < count; i++) {
        int64_t row = at->row + 8 * (i / 2 % 2);
        value[i] += tensor_operand(list, step, row < rows ? row : rows - 1,
                                   first_column + column_of_value(i, last_operand(at)));
    }
}

static __forceinline__ __device__ void apply_to_values(const struct operators *list,
                                                       const struct lane_rows *at, int64_t rows, float *value,
                                                       int count) {
#pragma unroll 1
    for (int i = 0; i < list->count; i++) {
        const fgn_pointwise *step = &list->step[i];
        if (step->kind == FGN_ADD_TENSOR)
            add_tensor_to_values(list, step, at, rows, value, count);
        else
            apply_operator_with(step, value, count,
                                step->one ? (const float *)step->channel : operand_of(step->channel, at),
                                column_of_value, step->one ? 0 : last_operand(at));
    }
}

/* ---- GroupNorm ---- */

/* The moments of each warp's part of a group that is wider than the warp's columns. */
struct shared_moments {
    float2 mean_and_squares[TILE_ROWS][WARPS_ACROSS];
};

/* Normalises a group that several warps share, with `columns` columns each. All threads of the block call
 * this together. */
static __forceinline__ __device__ void normalise_with_other_warps(const struct tensor_core_args *args,
                                                                  const struct lane_rows *at, float *value,
                                                                  int columns) {
    struct shared_moments *moments = (struct shared_moments *)dynamic_shared;
    int warp = threadIdx.x / LANES % WARPS_ACROSS;
    int count = args->group_size / columns, first = warp / count * count;
    float mean[MOST_FRAGMENTS], squares[MOST_FRAGMENTS];
    moments_of_fragments(value, 2, columns, QUAD, mean, squares);
#pragma unroll
    for (int i = 0; i < 2; i++)
        if (threadIdx.x % QUAD == 0)
            moments->mean_and_squares[at->row_in_tile + 8 * i][warp] = make_float2(mean[i], squares[i]);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 2; i++) {
        struct partial_moments partial = {&moments->mean_and_squares[at->row_in_tile + 8 * i][first], 1,
                                          count, columns, args->group_size};
        float2 by = from_part_to_group(&partial, warp - first, args->eps);
#pragma unroll
        for (int j = 0; j < columns / QUAD; j++) {
            float *v = &value[at_fragment(i, columns, j)];
            *v = *v * by.x + by.y;
        }
    }
}

static __forceinline__ __device__ void normalise(const struct tensor_core_args *args,
                                                 const struct lane_rows *at, float *value, int columns) {
    switch (args->group_size) {
    case 8:
        normalise_groups(value, columns, 8, QUAD, args->eps);
        break;
    case 16:
        normalise_groups(value, columns, 16, QUAD, args->eps);
        break;
    case 32:
        normalise_groups(value, columns, 32, QUAD, args->eps);
        break;
    default:
        normalise_with_other_warps(args, at, value, columns);
        break;
    }
}

static __forceinline__ __device__ void scale_and_shift_values(const struct tensor_core_args *args,
                                                              const struct lane_rows *at, float *value,
                                                              int count) {
    const float *scale = operand_of(args->scale, at), *shift = operand_of(args->shift, at);
#pragma unroll
    for (int i = 0; i < count; i++) {
        int column = column_of_value(i, last_operand(at));
        value[i] = value[i] * (args->scale ? scale[column] : 1.0f) + (args->shift ? shift[column] : 0.0f);
    }
}

/* ---- The stores ---- */

static __forceinline__ __device__ void store_pair(void *y, int64_t at, const float *value, bool both,
                                                  bool pairs, fgn_type type) {
    if (pairs && type == FGN_FLOAT32) {
        *(float2 *)((float *)y + at) = make_float2(value[0], value[1]);
    } else if (pairs) {
        *(uint32_t *)((uint16_t *)y + at) = pair_of_type(value[0], value[1], type);
    } else {
        for (int i = 0; i < 1 + both; i++) {
            if (type == FGN_FLOAT32)
                ((float *)y)[at + i] = value[i];
            else
                ((uint16_t *)y)[at + i] =
                    type == FGN_FLOAT16 ? float16_bits(value[i]) : bfloat16_bits(value[i]);
        }
    }
}

/* Callers pass a constant for `type`. */
static __forceinline__ __device__ void store_values(const struct tensor_core_args *args,
                                                    const struct lane_rows *at, const float *value, int count,
                                                    fgn_type type) {
    int pair_bytes = type == FGN_FLOAT32 ? 8 : 4;
    bool pairs = args->out_features % 2 == 0 && (uintptr_t)args->y % pair_bytes == 0;
#pragma unroll
    for (int i = 0; i < count; i += 2) {
        int64_t row = at->row + i / 2 % 2 * 8;
        int column = i / 4 * MMA_COLUMNS;
        if (row < args->batch && column <= at->last)
            store_pair(args->y, row * args->out_features + at->column + column, value + i, column < at->last,
                       pairs, type);
    }
}

static __forceinline__ __device__ void finish_rows(const struct tensor_core_args *args,
                                                   const struct lane_rows *at, float *value,
                                                   struct tile_product product) {
    int columns = product.column_tiles * MMA_COLUMNS, count = product.column_tiles * 4;
    if (product.halves == 2)
        undo_scaling(args, at, value, count);
    if (args->bias) {
        const float *bias = operand_of(args->bias, at);
#pragma unroll
        for (int i = 0; i < count; i++)
            value[i] += bias[column_of_value(i, last_operand(at))];
    }
    apply_to_values(&args->before, at, args->batch, value, count);
    if (args->group_size > 0) {
        normalise(args, at, value, columns);
        scale_and_shift_values(args, at, value, count);
        apply_to_values(&args->after, at, args->batch, value, count);
    }
    if (args->y_type == FGN_FLOAT32)
        store_values(args, at, value, count, FGN_FLOAT32);
    else
        store_values(args, at, value, count, product.type);
}

/* The warp's four sets of 16 rows take turns in the same registers, so that their code exists once. */
static __forceinline__ __device__ void finish_tile(const struct tensor_core_args *args,
                                                   const struct lane_place *place, warp_sums sum,
                                                   struct tile_product product) {
    __syncthreads(); /* the last stage has been read, by every warp */
#pragma unroll 1
    for (int row_tile = 0; row_tile < ROW_TILES; row_tile++) {
        struct lane_rows at = row_place(args, place, row_tile);
        finish_rows(args, &at, sum[0], product);
#pragma unroll
        for (int i = 0; i < ROW_TILES - 1; i++)
#pragma unroll
            for (int j = 0; j < product.column_tiles * 4; j++)
                sum[i][j] = sum[i + 1][j];
    }
}
