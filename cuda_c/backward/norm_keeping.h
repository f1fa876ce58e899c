/* Which kernel makes y of the product, and how its launch is divided. */
#pragma once

#include "backward/backward.h"
#include "backward/channels.h"

static inline bool is_norm_aligned(const struct kept_norm *norm) {
    return is_aligned_16(norm->v) && is_aligned_16(norm->y) &&
           vectors_are_aligned(norm->scale, norm->shift, &norm->before, &norm->after);
}

/* As many blocks as a large GPU holds at once: so many to each multiprocessor. */
#define BLOCKS_OF_MULTIPROCESSOR 4
#define LARGE_BLOCKS_OF_MULTIPROCESSOR 2

/* From so many values on the large kernels are faster: the others' threads would have several turns. */
#define FEWEST_LARGE_VALUES (1 << 22)

/* The slots of VALUES values that a thread of a large kernel has. */
#define LARGE_SLOTS_16 4
#define LARGE_SLOTS_32 2
#define LARGE_SHORT_SLOTS 2

#define MOST_ROWS_OF_GRID 65535 /* CUDA's limit for gridDim.y */

/* The kernels that a norm may launch. */
enum norm_form {
    SMALL_NORM,
    LARGE_NORM,
    SHORT_NORM,       /* vectors of fewer than VALUES */
    LARGE_SHORT_NORM, /* vectors of 4 or 2 */
    STAGED_NORM,      /* vectors of 1, where tiles of whole groups and whole vectors of VALUES fit a block */
    WIDE_NORM,        /* groups of more than SEGMENT channels */
};

/* What a norm launches. */
struct norm_launch {
    enum norm_form form;
    const char *kernel;
    dim3 grid;
    dim3 block;
    struct division division;
    int columns; /* slots of a thread that are in one row: as many as a group needs so that a warp holds it */
    int strip;   /* STAGED_NORM: channels of a tile, */
    int rows;    /* and its rows */
};

static inline const char *norm_kernel_of(fgn_type type, enum norm_form form) {
    static const char *const kernels[][5] = {
        [FGN_FLOAT32] = {"norm_keeping_float32_kernel", "norm_keeping_large_float32_kernel",
                         "norm_keeping_short_float32_kernel", "norm_keeping_large_short_float32_kernel",
                         "norm_keeping_staged_float32_kernel"},
        [FGN_FLOAT16] = {"norm_keeping_float16_kernel", "norm_keeping_large_float16_kernel",
                         "norm_keeping_short_float16_kernel", "norm_keeping_large_short_float16_kernel",
                         "norm_keeping_staged_float16_kernel"},
        [FGN_BFLOAT16] = {"norm_keeping_bfloat16_kernel", "norm_keeping_large_bfloat16_kernel",
                          "norm_keeping_short_bfloat16_kernel", "norm_keeping_large_short_bfloat16_kernel",
                          "norm_keeping_staged_bfloat16_kernel"},
    };
    return form == WIDE_NORM ? "norm_keeping_wide_kernel" : kernels[type][form];
}

/* The fewest channels that are whole groups and whole vectors. */
static inline int64_t groups_and_vectors(int group_size) {
    int64_t channels = group_size;
    while (channels % VALUES != 0)
        channels *= 2;
    return channels;
}

static inline int64_t at_most(int64_t value, int64_t most) {
    return value < most ? value : most;
}

/* Tiles of as many strips side by side, and then of as many rows, as the block has threads for. */
static inline void divide_into_tiles(struct norm_launch *launch, const struct kept_norm *norm) {
    int64_t least = groups_and_vectors(launch->division.group_size);
    launch->strip = (int)(least * at_most(SEGMENT / least, norm->channels / least));
    launch->rows = SEGMENT / launch->strip;
    launch->grid.x = (unsigned)tiles(norm->channels, launch->strip);
    int64_t most = BLOCKS_OF_MULTIPROCESSOR * MULTIPROCESSORS / launch->grid.x;
    launch->grid.y = (unsigned)at_most(tiles(norm->batch, launch->rows), most > 1 ? most : 1);
}

static inline int slots_of_thread_in(enum norm_form form, fgn_type type) {
    if (form == LARGE_NORM)
        return type == FGN_FLOAT32 ? LARGE_SLOTS_32 : LARGE_SLOTS_16;
    return form == LARGE_SHORT_NORM ? LARGE_SHORT_SLOTS : 1;
}

/* Teams of threads, each of which holds its slots of a group. */
static inline void divide_into_teams(struct norm_launch *launch, const struct kept_norm *norm) {
    struct division *division = &launch->division;
    int slots = slots_of_thread_in(launch->form, norm->type);
    while (launch->columns < slots && division->group_size > LANES * VALUES * launch->columns)
        launch->columns *= 2;
    division->team = power_of_two_above(tiles(division->group_size, VALUES * launch->columns), THREADS);
    int64_t useful = (int64_t)division->groups * division->team;
    division->across = power_of_two_above(useful, division->team > LANES ? division->team : LANES);

    int rows = rows_at_once(division);
    int64_t turns = tiles(norm->batch, (int64_t)rows * slots / launch->columns);
    int blocks = slots > 1 ? LARGE_BLOCKS_OF_MULTIPROCESSOR : BLOCKS_OF_MULTIPROCESSOR;
    launch->block.x = (unsigned)division->across;
    launch->block.y = (unsigned)rows;
    launch->grid.x = (unsigned)strips_of(division);
    launch->grid.y = (unsigned)at_most(turns, most_row_blocks(blocks * MULTIPROCESSORS, division));
}

/* A plan can say it before there are tensors: all addresses that are aligned to 16 bytes have the same. */
static inline struct norm_launch launch_of_norm(const struct kept_norm *norm) {
    bool aligned = is_norm_aligned(norm);
    struct norm_launch launch = {
        WIDE_NORM, NULL, {1, 1, 1}, {THREADS, 1, 1}, division_of(norm->channels, norm->groups, aligned),
        1,         0,    0};
    if (launch.division.parts > 1) {
        launch.grid.x = (unsigned)launch.division.groups;
        launch.grid.y = (unsigned)at_most(norm->batch, MOST_ROWS_OF_GRID);
    } else if (aligned && launch.division.width == 1 && norm->channels % VALUES == 0 &&
               groups_and_vectors(launch.division.group_size) <= SEGMENT) {
        launch.form = STAGED_NORM;
        divide_into_tiles(&launch, norm);
    } else {
        bool is_large = norm->batch * norm->channels >= FEWEST_LARGE_VALUES;
        if (launch.division.width == VALUES)
            launch.form = is_large ? LARGE_NORM : SMALL_NORM;
        else
            launch.form = is_large && launch.division.width > 1 ? LARGE_SHORT_NORM : SHORT_NORM;
        divide_into_teams(&launch, norm);
    }
    launch.kernel = norm_kernel_of(norm->type, launch.form);
    return launch;
}

/* For groups of more than SEGMENT channels (norm_keeping_wide.cu). */
cudaError_t norm_keeping_wide(const struct kept_norm *norm, const struct norm_launch *launch,
                              cudaStream_t stream);

/* For groups of an odd number of channels (norm_keeping_staged.cu). */
cudaError_t norm_keeping_staged(const struct kept_norm *norm, const struct norm_launch *launch,
                                cudaStream_t stream);
