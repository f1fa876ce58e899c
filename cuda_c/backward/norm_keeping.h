/* What the two kernels of norm_keeping share. */
#pragma once

#include "backward/backward.h"
#include "backward/channels.h"

static inline struct division division_of_norm(const struct kept_norm *norm) {
    bool aligned = is_aligned_16(norm->v) && is_aligned_16(norm->y) &&
                   vectors_are_aligned(norm->scale, norm->shift, &norm->before, &norm->after);
    return division_of(norm->channels, norm->groups, aligned);
}

/* As many blocks as a large GPU holds at once, four to a multiprocessor. */
#define BLOCKS_AT_ONCE 528

#define MOST_ROWS_OF_GRID 65535 /* CUDA's limit for gridDim.y */

/* What a norm launches. */
struct norm_launch {
    const char *kernel;
    dim3 grid;
    dim3 block;
};

/* The same for every address of its tensors, so that a plan can say it before there are any. */
static inline struct norm_launch launch_of_norm(const struct kept_norm *norm) {
    struct division division = division_of_norm(norm);
    struct norm_launch launch = {"norm_keeping_wide_kernel", {1, 1, 1}, {THREADS, 1, 1}};
    if (division.parts > 1) {
        launch.grid.x = (unsigned)division.groups;
        launch.grid.y = (unsigned)(norm->batch < MOST_ROWS_OF_GRID ? norm->batch : MOST_ROWS_OF_GRID);
        return launch;
    }
    int64_t row_steps = tiles(norm->batch, rows_at_once(&division));
    int64_t most = most_row_blocks(BLOCKS_AT_ONCE, &division);
    launch.kernel = norm->type == FGN_FLOAT16    ? "norm_keeping_float16_kernel"
                    : norm->type == FGN_BFLOAT16 ? "norm_keeping_bfloat16_kernel"
                                                 : "norm_keeping_float32_kernel";
    launch.block.x = (unsigned)division.across;
    launch.block.y = (unsigned)rows_at_once(&division);
    launch.grid.x = (unsigned)strips_of(&division);
    launch.grid.y = (unsigned)(row_steps < most ? row_steps : most);
    return launch;
}

/* For groups of more than SEGMENT channels (norm_keeping_wide.cu). */
cudaError_t norm_keeping_wide(const struct kept_norm *norm, cudaStream_t stream);
