/* The sizes of rung 10: the compile-time constants of a kernel, and the division of a matrix. It is plain C:
 * the host code of both machines reads it too.
 *
 * A tile of the product is one or two strips side by side. One set of accumulators covers a strip: 64 rows
 * and `width` columns. The strip *owns* as many columns as make whole groups of the norm (or an equal part of
 * one group); the others are computed and not stored. So with 96 channels to a group a tile of two strips of
 * 96 columns owns all it computes, and with 12 it owns 2 x 120 of 2 x 128.
 *
 * A step of 128 bytes along k of the largest tile, 128 rows by 256 columns, moves 16 KiB of x and 32
 * KiB of w; if two blocks share w, each of them copies one half. Meanwhile 128 x 256 x 64
 * multiply-adds of 16-bit factors take 1024 clocks. That is 32 bytes per clock and multiprocessor; the
 * L2 cache delivers up to 42. Ping-pong tiles of 64 rows need 48 in pairs, and 32 if four blocks share
 * w. */
#pragma once

#include "shared/rung.h"
#include "shared/team.h"

/* A function that the compiler evaluates if its arguments are constants. */
#ifdef __CUDACC__
#define CONSTANT static constexpr __host__ __device__
#else
#define CONSTANT static inline
#endif

#define WARPGROUP 128
#define TEAMS 2           /* of consumers, in a block */
#define WARPGROUP_ROWS 64 /* that a wgmma multiplies */
#define COMMON_ROWS (TEAMS * WARPGROUP_ROWS)
#define STEP_BYTES 128 /* of each row, along k: as wide as a swizzle atom */
#define MOST_STAGES 8
#define MOST_CLUSTER 8
#define MOST_SPLITS_OF_K 8
#define MOST_ROW_BLOCKS 2 /* of a cluster: more were slower */
#define MOST_STRIPS 2
#define WIDEST_STRIP 128
#define TILE_COLUMNS (MOST_STRIPS * WIDEST_STRIP) /* of the widest tile */
#define SMALLEST_SORTED_GROUP 4                   /* of norm_powers_of_two.h */
#define SLAB 8 /* columns in which wgmma leaves two neighbouring sums in each lane of a quad */

/* Stages begin at multiples of 1024 bytes, because the swizzle depends on the address. The barriers take the
 * first 1024 bytes, so that their addresses follow from the stages' without a register. */
#define STAGE_ALIGNMENT 1024
#define BARRIERS_BYTES STAGE_ALIGNMENT

/* The shared memory of a block, all of it. */
#define MOST_SHARED_BYTES (227 * 1024)

/* The kind of product. SPLIT_FLOAT32: two float16 halves of each factor (halves.h), three products. FP8:
 * 8-bit floats (quantise.h). */
enum wgmma_factors {
    BFLOAT16_FACTORS,
    FLOAT16_FACTORS,
    TF32_FACTORS,
    SPLIT_FLOAT32_FACTORS,
    FP8_FACTORS,
    FACTORS
};

/* Rows of these factors are scaled, which the epilogue undoes. */
CONSTANT bool are_scaled(enum wgmma_factors factors) {
    return factors == SPLIT_FLOAT32_FACTORS || factors == FP8_FACTORS;
}

/* Whether a step's products are added up apart from the steps before: see multiply_apart(). */
CONSTANT bool add_apart(enum wgmma_factors factors) {
    return factors == SPLIT_FLOAT32_FACTORS || factors == FP8_FACTORS;
}

/* All users pass constants: the compiler sees each kernel's own. */
struct configuration {
    enum wgmma_factors factors;
    int strips;       /* of a tile */
    int width;        /* of a strip: the N of its wgmma */
    int members;      /* warpgroups of a team: one for each strip, or one for both */
    int lane_columns; /* neighbouring columns that a lane has: 2 as wgmma leaves them, more where TMA sorts w
                       */
};

CONSTANT int tile_columns(struct configuration c) {
    return c.strips * c.width;
}

/* A thread's sums of a strip: 64 rows among 128 threads. */
CONSTANT int strip_sums(struct configuration c) {
    return WARPGROUP_ROWS * c.width / WARPGROUP;
}

CONSTANT int strips_of_warpgroup(struct configuration c) {
    return c.strips / c.members;
}

CONSTANT bool is_sorted(struct configuration c) {
    return c.lane_columns > 2;
}

CONSTANT int threads_of(struct configuration c) {
    return (TEAMS * c.members + 1) * WARPGROUP;
}

/* Neighbouring columns of a quad: each of its four lanes has `lane_columns` of them. */
CONSTANT int quad_columns(struct configuration c) {
    return QUAD * c.lane_columns;
}

/* Values of y in 16 bytes. */
CONSTANT int values_of_16_bytes(struct configuration c) {
    return c.factors == TF32_FACTORS || c.factors == SPLIT_FLOAT32_FACTORS ? 4 : 8;
}

/* The kernels for each kind of factors. */
enum shape {
    SORTED_WIDE,   /* 2 strips of 128 columns, in an order that gives a lane 16 bytes of y */
    SORTED_NARROW, /* 1 such strip */
    WIDE,          /* 2 strips of 128 columns as wgmma leaves them */
    WIDE_96,
    NARROW,
    NARROW_64,
    SHAPES
};

CONSTANT struct configuration configuration_of(enum wgmma_factors factors, enum shape shape) {
    bool narrow = shape == SORTED_NARROW || shape == NARROW || shape == NARROW_64;
    bool sorted = shape == SORTED_WIDE || shape == SORTED_NARROW;
    bool is_32_bit = factors == TF32_FACTORS || factors == SPLIT_FLOAT32_FACTORS; /* y */
    struct configuration c = {factors, narrow ? 1 : 2,
                              shape == WIDE_96     ? 96
                              : shape == NARROW_64 ? 64
                                                   : 128,
                              narrow || add_apart(factors) ? 1 : 2,
                              !sorted     ? 2
                              : is_32_bit ? 4
                                          : 8};
    return c;
}

/* Checks what every configuration has to satisfy. */
CONSTANT bool is_valid(struct configuration c) {
    return c.width % 32 == 0 && c.width <= WIDEST_STRIP && /* stores take 32 columns of a quad together */
           c.strips <= MOST_STRIPS && c.strips % c.members == 0 &&
           strips_of_warpgroup(c) * strip_sums(c) <= 128 && /* registers */
           (!is_sorted(c) || c.lane_columns == values_of_16_bytes(c)) && c.width % quad_columns(c) == 0;
}

CONSTANT bool are_valid(enum wgmma_factors factors) {
    for (int shape = 0; shape < SHAPES; shape++)
        if (!is_valid(configuration_of(factors, (enum shape)shape)))
            return false;
    return true;
}

#ifdef __CUDACC__ /* to C a function's value is no constant */
static_assert(are_valid(BFLOAT16_FACTORS) && are_valid(FLOAT16_FACTORS) && are_valid(TF32_FACTORS) &&
              are_valid(SPLIT_FLOAT32_FACTORS) && are_valid(FP8_FACTORS));
#endif

/* Division by a number that the host knows, as a product and a shift: an ordinary division takes a warp some
 * 40 instructions. q = n m / 2^(31 + s) rounded down, with 2^s the power of two from d on and m = 2^(31 + s)
 * / d rounded up, is n / d for all n below 2^31, since n (m d - 2^(31 + s)) < 2^31 2^s (Granlund and
 * Montgomery, "Division by invariant integers using multiplication", 1994). */
struct divisor {
    uint32_t by;
    uint32_t multiplier;
    uint32_t shift;
};

/* by: 0 counts as 1: it comes from an empty matrix, where nobody divides. */
static inline struct divisor divisor_of(uint32_t by) {
    struct divisor divisor = {by > 0 ? by : 1, 0, 31};
    while ((uint64_t)1 << (divisor.shift - 31) < divisor.by)
        divisor.shift++;
    divisor.multiplier = (uint32_t)((((uint64_t)1 << divisor.shift) + divisor.by - 1) / divisor.by);
    return divisor;
}

static inline __host__ __device__ uint32_t divided(uint32_t number, struct divisor divisor) {
    return (uint32_t)((uint64_t)number * divisor.multiplier >> divisor.shift);
}

/* The order of a split's cluster tiles: bands of 8 side by side, so that concurrent tiles share rows and
 * columns in the L2 cache. The last band may be narrower. */
#define BAND 8

/* The division of the matrix. A cluster computes a cluster tile at a time, one tile for each block:
 * `row_blocks` tiles below each other, which share w, times `column_blocks` side by side, which share x. */
struct tiling {
    int tile_rows; /* COMMON_ROWS: of both teams; WARPGROUP_ROWS: each team has tiles of its own */
    int row_blocks;
    int column_blocks;
    int cluster_columns; /* from one cluster tile to the next */
    int block_columns;   /* from one block of a cluster tile to the next one beside it */
    int owned;           /* columns of a strip, from one strip to the next */
    int clusters_down;   /* cluster tiles below each other */
    int clusters_across; /* and side by side */
    bool ends_later;     /* tiles leave their sums in the workspace, and a second launch ends the chain */
    int splits;          /* of k, among cluster tiles; 1 but where the chain is ended later */
    int split_steps;     /* steps of a cluster tile; the last split has what is left */
    int group_strips;    /* strips that a group is cut into; 1: strips have whole groups */
    int stages;
    int stage_bytes;
    struct divisor band;      /* cluster tiles of a band: see place_of_cluster_tile() */
    struct divisor last_band; /* the last band's cluster tiles side by side */
    uint32_t moments_at;      /* in shared memory, bytes from the barriers on */
    uint32_t vectors_at;
    uint32_t shared_bytes;
};

/* Ping-pong: each team has its own tiles. */
static inline __host__ __device__ bool has_own_tiles(int tile_rows) {
    return tile_rows == WARPGROUP_ROWS;
}

/* The cluster tiles of a launch: each cluster takes one after the other. */
static inline __host__ __device__ int cluster_tiles_of(const struct tiling *tiling) {
    return tiling->clusters_down * tiling->clusters_across * tiling->splits;
}

static inline __host__ __device__ int cluster_of(const struct tiling *tiling) {
    return tiling->row_blocks * tiling->column_blocks;
}

/* How many parts of x the sharing blocks copy: of three blocks, two copy a half each. */
static inline __host__ __device__ int parts_of_x(const struct tiling *tiling) {
    return tiling->column_blocks >= 8   ? 8
           : tiling->column_blocks >= 4 ? 4
           : tiling->column_blocks >= 2 ? 2
                                        : 1;
}

/* Rows of w in one copy: a strip, or a block's part of a shared strip. */
static inline __host__ __device__ int rows_of_w_copy(const struct tiling *tiling,
                                                     struct configuration config) {
    return tiling->row_blocks > 1 ? tile_columns(config) / tiling->row_blocks : config.width;
}

struct barriers {
    uint64_t full[MOST_STAGES];
    uint64_t empty[MOST_STAGES];
    uint64_t exchanged[2][TEAMS];
    uint64_t may_multiply[TEAMS];
};

static_assert(sizeof(struct barriers) <= BARRIERS_BYTES, "no room for the barriers");
