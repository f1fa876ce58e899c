/* What the two kernels of norm_keeping share. */
#pragma once

#include "backward/backward.h"
#include "backward/channels.h"

static inline struct division division_of_norm(const struct kept_norm *norm) {
    bool aligned = is_aligned_16(norm->v) && is_aligned_16(norm->y) &&
                   vectors_are_aligned(norm->scale, norm->shift, &norm->before, &norm->after);
    return division_of(norm->channels, norm->groups, aligned);
}

/* As many blocks as a large GPU holds at once: so many to each multiprocessor. */
#define BLOCKS_OF_MULTIPROCESSOR 4
#define LARGE_BLOCKS_OF_MULTIPROCESSOR 2

/* From so many values on the large kernels are faster: the others' threads would have several turns. */
#define FEWEST_LARGE_VALUES (1 << 22)

/* The slots of VALUES values that a thread of a large kernel has. */
#define LARGE_SLOTS_16 4
#define LARGE_SLOTS_32 2

#define MOST_ROWS_OF_GRID 65535 /* CUDA's limit for gridDim.y */

/* What a norm launches. */
struct norm_launch {
    const char *kernel;
    dim3 grid;
    dim3 block;
    struct division division;
    bool is_large;
    int columns; /* slots of a thread that are in one row: as many as a group needs so that a warp holds it */
};

static inline const char *norm_kernel_of(fgn_type type, bool is_large) {
    switch (type) {
    case FGN_FLOAT16:
        return is_large ? "norm_keeping_large_float16_kernel" : "norm_keeping_float16_kernel";
    case FGN_BFLOAT16:
        return is_large ? "norm_keeping_large_bfloat16_kernel" : "norm_keeping_bfloat16_kernel";
    default:
        return is_large ? "norm_keeping_large_float32_kernel" : "norm_keeping_float32_kernel";
    }
}

/* A plan can say it before there are tensors: all addresses that are aligned to 16 bytes have the same. */
static inline struct norm_launch launch_of_norm(const struct kept_norm *norm) {
    struct norm_launch launch = {"norm_keeping_wide_kernel", {1, 1, 1}, {THREADS, 1, 1},
                                 division_of_norm(norm),     false,     1};
    struct division *division = &launch.division;
    if (division->parts > 1) {
        launch.grid.x = (unsigned)division->groups;
        launch.grid.y = (unsigned)(norm->batch < MOST_ROWS_OF_GRID ? norm->batch : MOST_ROWS_OF_GRID);
        return launch;
    }
    launch.is_large = division->width == VALUES && norm->batch * norm->channels >= FEWEST_LARGE_VALUES;
    launch.kernel = norm_kernel_of(norm->type, launch.is_large);
    int slots = !launch.is_large ? 1 : norm->type == FGN_FLOAT32 ? LARGE_SLOTS_32 : LARGE_SLOTS_16;
    while (launch.columns < slots && division->group_size > LANES * VALUES * launch.columns)
        launch.columns *= 2;
    division->team = power_of_two_above(tiles(division->group_size, VALUES * launch.columns), THREADS);
    int64_t useful = (int64_t)division->groups * division->team;
    division->across = power_of_two_above(useful, division->team > LANES ? division->team : LANES);

    int rows = rows_at_once(division);
    int64_t turns = tiles(norm->batch, (int64_t)rows * slots / launch.columns);
    int blocks = launch.is_large ? LARGE_BLOCKS_OF_MULTIPROCESSOR : BLOCKS_OF_MULTIPROCESSOR;
    int64_t most = most_row_blocks(blocks * MULTIPROCESSORS, division);
    launch.block.x = (unsigned)division->across;
    launch.block.y = (unsigned)rows;
    launch.grid.x = (unsigned)strips_of(division);
    launch.grid.y = (unsigned)(turns < most ? turns : most);
    return launch;
}

/* For groups of more than SEGMENT channels (norm_keeping_wide.cu). */
cudaError_t norm_keeping_wide(const struct kept_norm *norm, cudaStream_t stream);
