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

/* All of a launch's maps. `pitch`: of both factors, in elements. */
static bool describe_matrices(struct hopper_args *args, const fgn_chain *chain, struct configuration config,
                              const void *x, const void *weight, int64_t pitch) {
    int x_box = args->tiling.tile_rows / parts_of_x(&args->tiling);
    int w_box = rows_of_w_copy(&args->tiling, config), lane = config.lane_columns;
    int64_t batch = chain->batch, in = chain->in_features, out = chain->out_features;
    if (is_float32_accurate(chain)) {
        struct matrix high_x = {args->x_halves.high, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, batch, in, pitch};
        struct matrix high_w = {args->w_halves.high, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, out, in, pitch};
        struct matrix low_x = high_x, low_w = high_w;
        low_x.at = args->x_halves.low;
        low_w.at = args->w_halves.low;
        return describe(&args->maps.x, high_x, x_box, 2) && describe(&args->maps.x_low, low_x, x_box, 2) &&
               describe(&args->maps.w, high_w, w_box, lane) &&
               describe(&args->maps.w_low, low_w, w_box, lane);
    }
    /* TMA rounds TFLOAT32 to tf32; wgmma alone would truncate. */
    CUtensorMapDataType type = chain->type == FGN_FLOAT32   ? CU_TENSOR_MAP_DATA_TYPE_TFLOAT32
                               : chain->type == FGN_FLOAT16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                                            : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    int bytes = element_bytes_of(chain);
    struct matrix of_x = {x, type, bytes, batch, in, pitch}, of_w = {weight, type, bytes, out, in, pitch};
    return describe(&args->maps.x, of_x, x_box, 2) && describe(&args->maps.w, of_w, w_box, lane);
}
