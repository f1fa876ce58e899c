/* The way of x and the weight to shared memory, in gemm_few_rows_tensor.cu: a ring of slots, each for a
 * round, which is a step of every warp along k.
 *
 * A slot keeps chunks as lanes of an mma want them. With g = lane / 4 and t = lane % 4 a lane's operands come
 * from rows (of x) or columns (of the weight) g, g + 8, ..., and k may come in any order if it is the same on
 * both sides: so the lane's k are those of chunks t and t + 4 of a step, and the 32 lanes' chunks are 512
 * bytes side by side. A warp brings the chunks of its own columns, and its share of the block's x. */
#pragma once

#include "few_rows.h"

#define WEIGHT_SLOT_BYTES (WARPS * WARP_COLUMNS * STEP_BYTES)
#define X_TILE_BYTES (TILE_ROWS * STEP_BYTES)
#define LAST_PIECE_BYTES                                                                                     \
    (X_TILE_BYTES / 2) /* of FLOAT32_PIECES: what does not fit in the place of x itself */

#define LANE_COLUMNS (WARP_COLUMNS / 8)
#define X_SHARE 2 /* eight rows of x that a warp brings each round, at most so many times */
#define MOST_TILES_IN_SLOT (WARPS * X_SHARE / 2)

static inline __host__ __device__ int slot_bytes_of(int tiles_in_slot, enum factors factors) {
    return WEIGHT_SLOT_BYTES +
           tiles_in_slot * (X_TILE_BYTES + (factors == FLOAT32_PIECES ? LAST_PIECE_BYTES : 0));
}

/* The parts of a slot, from this lane's first chunk on. */

static inline __device__ uint4 *weight_in_slot(const struct few_rows_args *args, int slot) {
    return (uint4 *)(dynamic_shared + slot * args->slot_bytes) +
           threadIdx.x / LANES * (2 * LANE_COLUMNS * LANES) + threadIdx.x % LANES;
}

/* Of eight rows of x: the upper and the lower half of each tile. */
static inline __device__ uint4 *x_in_slot(const struct few_rows_args *args, int slot, int eight_rows) {
    return (uint4 *)(dynamic_shared + slot * args->slot_bytes + WEIGHT_SLOT_BYTES) +
           eight_rows * (2 * LANES) + threadIdx.x % LANES;
}

static inline __device__ uint2 *last_piece_in_slot(const struct few_rows_args *args, int slot, int eight_rows,
                                                   int tiles_in_slot) {
    return (uint2 *)(dynamic_shared + slot * args->slot_bytes + WEIGHT_SLOT_BYTES +
                     tiles_in_slot * X_TILE_BYTES) +
           eight_rows * (2 * LANES) + threadIdx.x % LANES;
}

/* What a lane brings: the first chunk of each round, and the one half a step behind it. */
struct lane_sources {
    const unsigned char *column[LANE_COLUMNS];
    int column_left; /* bytes from there to the end of the block's k */
    const unsigned char *row[X_SHARE];
    int row_left[X_SHARE];
    bool row_present[X_SHARE]; /* false: beyond the rows of x, or of a slot */
};

static inline __device__ int bytes_left(const struct few_rows_args *args, const struct warp_place *place,
                                        int64_t at, int element_bytes) {
    int64_t end = (int64_t)place->end_step * STEP_BYTES, row_end = args->in_features * element_bytes;
    return (int)((end < row_end ? end : row_end) - at);
}

static inline __device__ struct lane_sources lane_sources(const struct few_rows_args *args,
                                                          const struct warp_place *place, int row_tiles,
                                                          int element_bytes) {
    int warp = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    int64_t pitch = args->in_features * element_bytes;
    struct lane_sources from;
    int64_t at = (int64_t)(place->first_step + place->along) * STEP_BYTES + lane % 4 * CHUNK;
    from.column_left = bytes_left(args, place, at, element_bytes);
#pragma unroll
    for (int i = 0; i < LANE_COLUMNS; i++) {
        int64_t column = place->first_column + lane / 4 + 8 * i;
        /* columns past the end repeat the last one: their sums are not stored */
        column = column < args->out_features ? column : args->out_features - 1;
        from.column[i] = (const unsigned char *)args->weight + column * pitch + at;
    }
#pragma unroll
    for (int i = 0; i < X_SHARE; i++) {
        int eight_rows = warp + i * WARPS;
        int along = eight_rows / (2 * row_tiles);
        int row = eight_rows % (2 * row_tiles) * 8 + lane / 4;
        at = (int64_t)(place->first_step + along) * STEP_BYTES + lane % 4 * CHUNK;
        from.row_present[i] = along < place->warps_along && row < place->rows;
        from.row_left[i] = bytes_left(args, place, at, element_bytes);
        from.row[i] = (const unsigned char *)args->x + (place->first_row + row) * pitch + at;
    }
    return from;
}

/* Up to `left` bytes at `from` and zeros for the rest of a chunk, for rows that are not made of chunks. */
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

/* Starts to bring a round into a slot. */
static __forceinline__ __device__ void start_copies(const struct few_rows_args *args,
                                                    const struct lane_sources *from, int slot) {
    uint4 *weight = weight_in_slot(args, slot);
#pragma unroll
    for (int i = 0; i < 2 * LANE_COLUMNS; i++) {
        int behind = i % 2 * (STEP_BYTES / 2);
        copy_async_once_16_or_zero(weight + i * LANES, from->column[i / 2] + behind,
                                   from->column_left > behind);
    }
#pragma unroll
    for (int i = 0; i < 2 * X_SHARE; i++) {
        int behind = i % 2 * (STEP_BYTES / 2);
        if (from->row_present[i / 2])
            copy_async_16_or_zero(x_in_slot(args, slot, threadIdx.x / LANES + i / 2 * WARPS) + i % 2 * LANES,
                                  from->row[i / 2] + behind, from->row_left[i / 2] > behind);
    }
}

/* The same where rows are not made of chunks, by ordinary loads and stores. */
static __forceinline__ __device__ void gather(const struct few_rows_args *args,
                                              const struct lane_sources *from, int slot, int element_bytes) {
    uint4 *weight = weight_in_slot(args, slot);
#pragma unroll
    for (int i = 0; i < 2 * LANE_COLUMNS; i++) {
        int behind = i % 2 * (STEP_BYTES / 2);
        uint4 chunk = gather_chunk(from->column[i / 2] + behind, from->column_left - behind, element_bytes);
        weight[i * LANES] = chunk;
    }
#pragma unroll
    for (int i = 0; i < 2 * X_SHARE; i++) {
        int behind = i % 2 * (STEP_BYTES / 2);
        if (!from->row_present[i / 2])
            continue;
        uint4 chunk = gather_chunk(from->row[i / 2] + behind, from->row_left[i / 2] - behind, element_bytes);
        x_in_slot(args, slot, threadIdx.x / LANES + i / 2 * WARPS)[i % 2 * LANES] = chunk;
    }
}

/* Brings a round, as one group of copies, and goes on to the next. */
static __forceinline__ __device__ void bring_round(const struct few_rows_args *args,
                                                   struct lane_sources *from, int slot, int warps_along,
                                                   int element_bytes) {
    if (args->chunks)
        start_copies(args, from, slot);
    else
        gather(args, from, slot, element_bytes);
    int step = warps_along * STEP_BYTES;
#pragma unroll
    for (int i = 0; i < LANE_COLUMNS; i++)
        from->column[i] += step;
    from->column_left -= step;
#pragma unroll
    for (int i = 0; i < X_SHARE; i++) {
        from->row[i] += step;
        from->row_left[i] -= step;
    }
}

/* Rows that x does not have are zeros, in every slot. */
static inline __device__ void clear_absent_rows(const struct few_rows_args *args,
                                                const struct lane_sources *from, int tiles_in_slot,
                                                enum factors factors) {
#pragma unroll
    for (int i = 0; i < X_SHARE; i++) {
        int eight_rows = threadIdx.x / LANES + i * WARPS;
        if (from->row_present[i] || eight_rows >= 2 * tiles_in_slot)
            continue;
        for (int slot = 0; slot < args->slots; slot++) {
            for (int half = 0; half < 2; half++) {
                x_in_slot(args, slot, eight_rows)[half * LANES] = make_uint4(0, 0, 0, 0);
                if (factors == FLOAT32_PIECES)
                    last_piece_in_slot(args, slot, eight_rows, tiles_in_slot)[half * LANES] =
                        make_uint2(0, 0);
            }
        }
    }
}
