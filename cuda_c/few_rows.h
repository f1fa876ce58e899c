/* What the parts of gemm_few_rows_tensor.cu share: sizes, the arguments of its kernel, and where a warp
 * works. */
#pragma once

#include "few_rows_ending.h"
#include "ladder.h"
#include "ptx_few_rows.h"
#include "team.h"

#define WARPS 8
#define THREADS (WARPS * LANES)
#define WARP_COLUMNS 32
#define TILE_ROWS 16   /* of an mma */
#define TILE_COLUMNS 8 /* of an mma */
#define COLUMN_TILES (WARP_COLUMNS / TILE_COLUMNS)
#define MOST_ROW_TILES 4 /* of a block */

/* A step: 128 bytes along k of each row of x and each of a warp's columns. */
#define STEP_BYTES 128
#define CHUNK 16 /* bytes */

/* What the mma multiplies. A 16-bit type as it is; float32 rounded to tf32, or as three bfloat16 pieces. */
enum factors { FLOAT16_FACTORS, BFLOAT16_FACTORS, TF32_FACTORS, FLOAT32_PIECES };

static inline __host__ __device__ int element_bytes_of(enum factors factors) {
    return factors == FLOAT16_FACTORS || factors == BFLOAT16_FACTORS ? 2 : 4;
}

struct few_rows_args {
    const void *x;      /* (batch, in_features) */
    const void *weight; /* (out_features, in_features) */
    int64_t batch;
    int64_t in_features;
    int64_t out_features;
    enum factors factors;
    bool chunks;       /* rows are made of aligned chunks */
    int slots;         /* steps on their way or being multiplied */
    int slot_bytes;    /* of shared memory */
    int across;        /* warps side by side; the others work on other k */
    int splits;        /* of k, among blocks */
    int steps;         /* along k, of all blocks */
    int column_blocks; /* of across * WARP_COLUMNS columns */
    int row_blocks;    /* of row_tiles * TILE_ROWS rows */
    float *partial;    /* (splits, batch, out_features); NULL when blocks have whole sums and groups */
    bool blocks_end;   /* the chain, rather than a second launch; with splits: clusters of blocks */
    struct ending ending;
};

/* ---- Where a warp works ---- */

struct warp_place {
    int across; /* which of the warps side by side */
    int along;  /* which of those along k */
    int warps_along;
    int split;
    int rows; /* of the block */
    int64_t first_row;
    int64_t block_column; /* the block's first */
    int64_t first_column; /* the warp's first */
    int first_step;       /* the block's: the warp takes this one plus `along`, then every warps_along-th */
    int end_step;
    int rounds; /* of the block: a step of each warp along k */
};

/* Blocks that read the same part of the weight are near each other. */
static inline __device__ struct warp_place place_of_warp(const struct few_rows_args *args, int row_tiles) {
    unsigned warp = threadIdx.x / LANES, block = blockIdx.x;
    unsigned columns_of_blocks = block / (unsigned)args->row_blocks;
    unsigned row_block = block - columns_of_blocks * args->row_blocks;
    unsigned column_block = columns_of_blocks / (unsigned)args->splits;
    struct warp_place place;
    place.split = (int)(columns_of_blocks - column_block * args->splits);
    place.warps_along = (int)(WARPS / (unsigned)args->across);
    place.along = (int)(warp / (unsigned)args->across);
    place.across = (int)warp - place.along * args->across;
    place.first_row = (int64_t)row_block * (row_tiles * TILE_ROWS);
    int64_t rows = args->batch - place.first_row;
    place.rows = rows < row_tiles * TILE_ROWS ? (int)rows : row_tiles * TILE_ROWS;
    place.block_column = (int64_t)column_block * args->across * WARP_COLUMNS;
    place.first_column = place.block_column + place.across * WARP_COLUMNS;
    /* steps are fewer than 2^18, splits than 2^5 */
    place.first_step = (int)((unsigned)args->steps * place.split / args->splits);
    place.end_step = (int)((unsigned)args->steps * (place.split + 1) / args->splits);
    place.rounds = (place.end_step - place.first_step + place.warps_along - 1) / place.warps_along;
    return place;
}
