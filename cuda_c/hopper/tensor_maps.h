/* How TMA sees the matrices: tensor maps, encoded on the host by the driver. */
#pragma once

#include "hopper/arguments.h"
#include "hopper/plan.h"

/* A row-major matrix. A row takes `pitch` elements, padding included. */
struct matrix {
    const void *at;
    CUtensorMapDataType type;
    int element_bytes;
    int64_t rows;
    int64_t columns;
    int64_t pitch;
};

/* A box is `box_rows` rows and 128 bytes, swizzled, and zero outside the matrix.
 *
 * lane_columns above 2: the box's rows come in blocks of 4 * lane_columns, in an order that gives each lane
 * of a quad neighbouring columns of the product. wgmma leaves columns 2 t, 2 t + 1, 8 + 2 t, 8 + 2 t + 1, ...
 * in lane t; if row 8 t + 2 j + e of w is at place 8 j + 2 t + e of the box, these are columns 8 t, 8 t + 1,
 * ... For TMA w is then a tensor of five dimensions: k, e, t, j and the blocks. */
static bool describe(CUtensorMap *map, struct matrix matrix, int box_rows, int lane_columns) {
    cuuint32_t box_columns = STEP_BYTES / matrix.element_bytes;
    cuuint64_t columns = (cuuint64_t)matrix.columns, rows = (cuuint64_t)matrix.rows;
    cuuint64_t row = (cuuint64_t)matrix.pitch * matrix.element_bytes;
    if (lane_columns > 2) {
        cuuint32_t block_rows = QUAD * lane_columns;
        cuuint64_t sizes[5] = {columns, 2, QUAD, (cuuint64_t)lane_columns / 2, rows / block_rows};
        cuuint64_t strides[4] = {row, lane_columns * row, 2 * row, block_rows * row};
        cuuint32_t box[5] = {box_columns, 2, QUAD, (cuuint32_t)lane_columns / 2, box_rows / block_rows};
        return encode_tensor_map(map, matrix.type, matrix.at, 5, sizes, strides, box);
    }
    cuuint64_t sizes[2] = {columns, rows};
    cuuint32_t box[2] = {box_columns, (cuuint32_t)box_rows};
    return encode_tensor_map(map, matrix.type, matrix.at, 2, sizes, &row, box);
}

/* Where the kernel finds the factors. */
struct factor_places {
    const void *x;
    const void *w;
    const void *x_low; /* of split factors, or NULL */
    const void *w_low;
    const void *w_unscale; /* of scaled factors, of the type of the chain's vectors, or NULL */
    int64_t pitch;         /* of all of them, in elements */
};

/* TMA rounds TFLOAT32 to tf32; wgmma alone would truncate. */
static CUtensorMapDataType type_of(enum wgmma_factors factors) {
    return factors == FP8_FACTORS        ? CU_TENSOR_MAP_DATA_TYPE_UINT8
           : factors == TF32_FACTORS     ? CU_TENSOR_MAP_DATA_TYPE_TFLOAT32
           : factors == BFLOAT16_FACTORS ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                         : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
}

/* All of a launch's maps. */
static bool describe_matrices(struct hopper_args *args, const fgn_chain *chain, struct configuration config,
                              const struct factor_places *at) {
    int x_box = args->tiling.tile_rows / parts_of_x(&args->tiling);
    int w_box = rows_of_w_copy(&args->tiling, config), lane = config.lane_columns;
    int bytes = element_bytes_of(chain);
    CUtensorMapDataType type = type_of(config.factors);
    struct matrix x = {at->x, type, bytes, chain->batch, chain->in_features, at->pitch};
    struct matrix w = {at->w, type, bytes, chain->out_features, chain->in_features, at->pitch};
    if (!describe(&args->maps.x, x, x_box, 2) || !describe(&args->maps.w, w, w_box, lane))
        return false;
    x.at = at->x_low;
    w.at = at->w_low;
    return !at->x_low ||
           (describe(&args->maps.x_low, x, x_box, 2) && describe(&args->maps.w_low, w, w_box, lane));
}
