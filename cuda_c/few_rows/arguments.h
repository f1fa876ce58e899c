/* What the parts of gemm_few_rows_tensor.cu share: sizes, the arguments of its kernel, and where a warp
 * works. */
#pragma once

#include "few_rows/ending.h"
#include "shared/rung.h"
#include "ptx/cluster.h"
#include "ptx/cp_async.h"
#include "ptx/griddepcontrol.h"
#include "ptx/mma.h"
#include "shared/launchers.h"
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

/* What the mma multiplies. A 16-bit type as it is; float32 rounded to tf32, or as three bfloat16 pieces. */
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

/* The vectors that load_vectors() has brought. */
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

/* Blocks of a cluster follow each other in x, the columns follow them; rows are y, splits without clusters
 * are z. */
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
