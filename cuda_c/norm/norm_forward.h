/* The choice of the kernel after the product, and the division of its launch. */
#pragma once

#include "jit/jit.h"
#include "norm/channels.h"
#include "norm/norm.h"

/* What is the same in all calls of a kernel that is compiled for one. */
struct norm_facts {
    int type, vector_type, channels, groups;
    int keeps, has_scale, has_shift;
    int blocks;             /* of a multiprocessor */
    int slots, columns;     /* of a thread; columns: those in one row */
    int is_long, team_log2; /* as norm/norm_of_rows.h has them */
    struct division division;
    struct known_list before, after;
};

#ifdef JIT_COMPILED

static constexpr __device__ struct norm_facts known = FACTS;

/* The arguments of this call, with what is known as constants. */
static __forceinline__ __device__ struct kept_norm known_norm(struct kept_norm norm) {
    norm.type = (fgn_type)known.type;
    norm.vector_type = (fgn_type)known.vector_type;
    norm.channels = known.channels;
    norm.groups = known.groups;
    if (!known.keeps)
        norm.moments = NULL;
    if (!known.has_scale)
        norm.scale = NULL;
    if (!known.has_shift)
        norm.shift = NULL;
    return norm;
}

#include "jit/known.h"

#endif

static inline bool is_norm_aligned(const struct kept_norm *norm) {
    return is_aligned_16(norm->v) && is_aligned_16(norm->y) &&
           vectors_are_aligned(norm->scale, norm->shift, &norm->before, &norm->after);
}

/* As many blocks as a large GPU holds at once: this many per multiprocessor. */
#define BLOCKS_OF_MULTIPROCESSOR 4
#define LARGE_BLOCKS_OF_MULTIPROCESSOR 2

/* From this many values on the large kernels are faster: threads of the others would have several turns. */
#define FEWEST_LARGE_VALUES (1 << 22)

/* The slots of VALUES values that a thread of a large kernel has. */
#define LARGE_SLOTS_16 4
#define LARGE_SLOTS_32 2
#define LARGE_SHORT_SLOTS 2

/* The slots of a thread of a long group, and how many such blocks have enough registers. */
#define LONG_SLOTS 4
#define BLOCKS_OF_LONG_16 2
#define BLOCKS_OF_LONG_32 1

#define MOST_ROWS_OF_GRID 65535 /* CUDA's limit for gridDim.y */

/* Kernels whose lanes have several slots of a row: a few, or so many that a multiprocessor has registers for
 * one block only. Groups of 16-bit values that would fit a warp with one slot per lane are faster with
 * several from this many channels on. */
#define FEW_COLUMNS 4
#define MANY_COLUMNS 8
#define BLOCKS_OF_FEW_COLUMNS 2
#define BLOCKS_OF_MANY_COLUMNS 1
#define FEWEST_VALUES_OF_FEW_COLUMNS (1 << 20)
#define FEWEST_CHANNELS_OF_COLUMNS 128

/* Rows on which a thread of operators_alone_large.cu works together. */
#define ROWS_TOGETHER 4

#ifndef JIT_COMPILED

/* ---- The host ---- */

#include "shared/plan.h"

/* The kernels that a norm may launch. */
enum norm_form {
    SMALL_NORM,
    LARGE_NORM,
    SHORT_NORM,         /* vectors of fewer than VALUES */
    LARGE_SHORT_NORM,   /* vectors of 4 or 2 */
    FEW_COLUMNS_NORM,   /* several slots of a row to a lane */
    SHORT_COLUMNS_NORM, /* the same, of vectors of 4 */
    MANY_COLUMNS_NORM,
    STAGED_NORM, /* vectors of 1, where tiles of whole groups and whole vectors of VALUES fit a block */
    TINY_NORM,   /* groups of 2 or 4 channels, of large tensors */
    LONG_NORM,   /* groups of more than SEGMENT channels that a block's registers hold */
    WIDE_NORM,   /* other groups of more than SEGMENT channels */
    NO_NORM,     /* operators alone */
    LARGE_NO_NORM,
};

static inline bool has_columns(enum norm_form form) {
    return form >= FEW_COLUMNS_NORM && form <= MANY_COLUMNS_NORM;
}

/* What a norm launches. */
struct norm_launch {
    enum norm_form form;
    const char *kernel;
    dim3 grid;
    dim3 block;
    struct division division;
    int columns; /* slots of a thread that are in one row */
    int strip;   /* STAGED_NORM: channels of a tile, */
    int rows;    /* and its rows */
};

static inline const char *norm_kernel_of(fgn_type type, enum norm_form form) {
    static const char *const kernels[][WIDE_NORM] = {
        [FGN_FLOAT32] = {"norm_forward_float32_kernel", "norm_forward_large_float32_kernel",
                         "norm_forward_short_float32_kernel", "norm_forward_large_short_float32_kernel",
                         "norm_forward_columns_float32_kernel", "norm_forward_short_columns_float32_kernel",
                         "norm_forward_many_columns_float32_kernel", "norm_forward_staged_float32_kernel",
                         "norm_forward_tiny_float32_kernel", "norm_forward_long_float32_kernel"},
        [FGN_FLOAT16] = {"norm_forward_float16_kernel", "norm_forward_large_float16_kernel",
                         "norm_forward_short_float16_kernel", "norm_forward_large_short_float16_kernel",
                         "norm_forward_columns_float16_kernel", "norm_forward_short_columns_float16_kernel",
                         "norm_forward_many_columns_float16_kernel", "norm_forward_staged_float16_kernel",
                         "norm_forward_tiny_float16_kernel", "norm_forward_long_float16_kernel"},
        [FGN_BFLOAT16] = {"norm_forward_bfloat16_kernel", "norm_forward_large_bfloat16_kernel",
                          "norm_forward_short_bfloat16_kernel", "norm_forward_large_short_bfloat16_kernel",
                          "norm_forward_columns_bfloat16_kernel",
                          "norm_forward_short_columns_bfloat16_kernel",
                          "norm_forward_many_columns_bfloat16_kernel", "norm_forward_staged_bfloat16_kernel",
                          "norm_forward_tiny_bfloat16_kernel", "norm_forward_long_bfloat16_kernel"},
    };
    static const char *const without_norm[][2] = {
        [FGN_FLOAT32] = {"operators_alone_float32_kernel", "operators_alone_large_float32_kernel"},
        [FGN_FLOAT16] = {"operators_alone_float16_kernel", "operators_alone_large_float16_kernel"},
        [FGN_BFLOAT16] = {"operators_alone_bfloat16_kernel", "operators_alone_large_bfloat16_kernel"},
    };
    if (form >= NO_NORM)
        return without_norm[type][form - NO_NORM];
    return form == WIDE_NORM ? "norm_forward_wide_kernel" : kernels[type][form];
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

/* Fills the block's threads with strips side by side, and then with rows. */
static inline void divide_into_tiles(struct norm_launch *launch, const struct kept_norm *norm) {
    int64_t least = groups_and_vectors(launch->division.group_size);
    launch->strip = (int)(least * at_most(SEGMENT / least, norm->channels / least));
    launch->rows = SEGMENT / launch->strip;
    launch->grid.x = (unsigned)tiles(norm->channels, launch->strip);
    int64_t most = BLOCKS_OF_MULTIPROCESSOR * MULTIPROCESSORS / launch->grid.x;
    launch->grid.y = (unsigned)at_most(tiles(norm->batch, launch->rows), most > 1 ? most : 1);
}

static inline int slots_of_thread_in(enum norm_form form, fgn_type type) {
    if (form == LARGE_NORM || form == TINY_NORM)
        return type == FGN_FLOAT32 ? LARGE_SLOTS_32 : LARGE_SLOTS_16;
    return form == LARGE_SHORT_NORM ? LARGE_SHORT_SLOTS : 1;
}

/* Teams of threads; each thread holds its slots of a group. */
static inline void divide_into_teams(struct norm_launch *launch, const struct kept_norm *norm) {
    struct division *division = &launch->division;
    int slots = slots_of_thread_in(launch->form, norm->type);
    if (launch->form == LARGE_SHORT_NORM && division->group_size > LANES * VALUES)
        launch->columns = LARGE_SHORT_SLOTS;
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

static inline bool computes_exponentials(const struct kept_norm *norm) {
    bool found = false;
    for (int i = 0; i < norm->before.count; i++)
        found = found || has_exponential(norm->before.step[i].kind);
    for (int i = 0; i < norm->after.count; i++)
        found = found || has_exponential(norm->after.step[i].kind);
    return found;
}

/* Gives lanes as many slots of a row as leave the fewest lanes idle, if that is faster than one
 * slot. Many columns halve the number of warps, which matters if arithmetic takes longer than memory. */
static inline void choose_columns(struct norm_launch *launch, const struct kept_norm *norm) {
    struct division *division = &launch->division;
    bool is_narrow = division->group_size <= LANES * VALUES;
    bool may_have_many =
        !is_narrow && division->width == VALUES && norm->batch * norm->channels >= FEWEST_LARGE_VALUES;
    double of_many = computes_exponentials(norm) ? 1.8 : 1.15;
    double least = division->team; /* lanes of a group, idle ones included */
    if (is_narrow && division->group_size < FEWEST_CHANNELS_OF_COLUMNS)
        least *= 0.9;
    else if (!is_narrow)
        least = 2.0 * SEGMENT;
    for (int team = LANES; team >= 1; team /= 2) {
        int columns = (int)tiles(division->group_size, VALUES * team);
        double lanes = (double)team * columns * (columns > FEW_COLUMNS ? of_many : 1.0);
        if (columns < 2 || columns > (may_have_many ? MANY_COLUMNS : FEW_COLUMNS) || lanes > least)
            continue;
        least = lanes;
        division->team = team;
        launch->columns = columns;
        launch->form = columns > FEW_COLUMNS      ? MANY_COLUMNS_NORM
                       : division->width < VALUES ? SHORT_COLUMNS_NORM
                                                  : FEW_COLUMNS_NORM;
    }
}

static inline void divide_into_columns(struct norm_launch *launch, const struct kept_norm *norm) {
    struct division *division = &launch->division;
    int blocks = launch->form == MANY_COLUMNS_NORM ? BLOCKS_OF_MANY_COLUMNS : BLOCKS_OF_FEW_COLUMNS;
    division->across = power_of_two_above((int64_t)division->groups * division->team, LANES);
    launch->block.x = (unsigned)division->across;
    launch->block.y = (unsigned)rows_at_once(division);
    launch->grid.x = (unsigned)strips_of(division);
    launch->grid.y = (unsigned)at_most(tiles(norm->batch, launch->block.y),
                                       most_row_blocks(blocks * MULTIPROCESSORS, division));
}

/* Groups of 2 or 4 are read as groups of VALUES. */
static inline bool is_tiny(const struct norm_launch *launch, const struct kept_norm *norm) {
    int size = launch->division.group_size;
    return (size == 2 || size == 4) && launch->division.width == size && norm->channels % VALUES == 0 &&
           norm->batch * norm->channels >= FEWEST_LARGE_VALUES;
}

static inline void divide_into_vectors(struct norm_launch *launch, const struct kept_norm *norm) {
    launch->form = TINY_NORM;
    launch->division = division_of(norm->channels, norm->channels / VALUES, true);
    divide_into_teams(launch, norm);
}

/* A block for each group of a row. Its threads have up to four slots each. */
static inline void divide_into_long_rows(struct norm_launch *launch, const struct kept_norm *norm) {
    struct division *division = &launch->division;
    int blocks = norm->type == FGN_FLOAT32 ? BLOCKS_OF_LONG_32 : BLOCKS_OF_LONG_16;
    launch->form = LONG_NORM;
    launch->columns = division->parts;
    division->parts = 1;
    division->across = division->team;
    launch->grid.x = (unsigned)division->groups;
    launch->grid.y = (unsigned)at_most(norm->batch, most_row_blocks(blocks * MULTIPROCESSORS, division));
}

/* Whether a lane with several slots of a row may be faster. float32 in narrow groups waits for memory anyway.
 */
static inline bool may_have_columns(const struct norm_launch *launch, const struct kept_norm *norm) {
    bool is_narrow = launch->division.group_size <= LANES * VALUES;
    return launch->division.width >= VALUES / 2 &&
           norm->batch * norm->channels >= FEWEST_VALUES_OF_FEW_COLUMNS &&
           !(is_narrow && norm->type == FGN_FLOAT32);
}

/* From this many blocks on that kernel is faster (measured on an H100 in bfloat16). */
#define FEWEST_BLOCKS_OF_LARGE 512

/* Teams of threads side by side in a row, and blocks that go down the rows. */
static inline void divide_without_norm(struct norm_launch *launch, const struct kept_norm *norm) {
    struct division *division = &launch->division;
    int64_t turns = tiles(norm->batch, rows_at_once(division)), large = tiles(turns, ROWS_TOGETHER);
    bool is_large = division->width == VALUES && large * strips_of(division) >= FEWEST_BLOCKS_OF_LARGE;
    launch->form = is_large ? LARGE_NO_NORM : NO_NORM;
    launch->block.x = (unsigned)division->across;
    launch->block.y = (unsigned)rows_at_once(division);
    launch->grid.x = (unsigned)strips_of(division);
    int64_t most = most_row_blocks(BLOCKS_OF_MULTIPROCESSOR * MULTIPROCESSORS, division);
    launch->grid.y = (unsigned)(is_large ? at_most(large, MOST_ROWS_OF_GRID) : at_most(turns, most));
}

/* A plan knows it before there are tensors: it is the same for all addresses aligned to 16 bytes. */
static inline struct norm_launch launch_of_norm(const struct kept_norm *norm) {
    bool aligned = is_norm_aligned(norm);
    struct norm_launch launch = {
        WIDE_NORM, NULL, {1, 1, 1}, {THREADS, 1, 1}, division_of(norm->channels, norm->groups, aligned),
        1,         0,    0};
    if (norm->groups == 0) {
        divide_without_norm(&launch, norm);
    } else if (is_tiny(&launch, norm)) {
        divide_into_vectors(&launch, norm);
    } else if (launch.division.parts > 1 && launch.division.parts <= LONG_SLOTS &&
               launch.division.width == VALUES) {
        divide_into_long_rows(&launch, norm);
    } else if (launch.division.parts > 1) {
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
        if (may_have_columns(&launch, norm))
            choose_columns(&launch, norm);
        if (has_columns(launch.form))
            divide_into_columns(&launch, norm);
        else
            divide_into_teams(&launch, norm);
    }
    launch.kernel = norm_kernel_of(norm->type, launch.form);
    return launch;
}

/* Launches the kernel of this file that was compiled for the call, if there is one (jit/jit.h). slots,
 * blocks: of a thread and of a multiprocessor. args: as the file's kernel takes them. */
static inline bool launched_norm_jit(const char *file, const struct kept_norm *norm,
                                     const struct norm_launch *launch, int slots, int blocks,
                                     const void *args, cudaStream_t stream, cudaError_t *error) {
    const struct norm_facts facts = {
        (int)norm->type,
        (int)norm->vector_type,
        (int)norm->channels,
        (int)norm->groups,
        norm->moments != NULL,
        norm->scale != NULL,
        norm->shift != NULL,
        blocks,
        slots,
        launch->columns,
        launch->form == LONG_NORM,
        log2_of(launch->division.team),
        launch->division,
        known_list_of(&norm->before),
        known_list_of(&norm->after),
    };
    int64_t turns = tiles(norm->batch, launch->block.y * (launch->columns > 1 ? 1 : slots));
    const struct jit_call call = {file,
                                  (const int *)&facts,
                                  sizeof facts / sizeof(int),
                                  args,
                                  launch->grid,
                                  launch->block,
                                  0,
                                  norm->groups > 0 ? turns : 0,
                                  1};
    return launched_jit(&call, stream, error);
}

/* Without a norm (operators_alone.cu). */
cudaError_t operators_alone(const struct kept_norm *norm, const struct norm_launch *launch,
                            cudaStream_t stream);

/* The same for large tensors (operators_alone_large.cu). */
cudaError_t operators_alone_large(const struct kept_norm *norm, const struct norm_launch *launch,
                                  cudaStream_t stream);

/* For groups of 2 or 4 channels (norm_forward_tiny.cu). */
cudaError_t norm_forward_tiny(const struct kept_norm *norm, const struct norm_launch *launch,
                              cudaStream_t stream);

/* For groups of up to four SEGMENTs of channels (norm_forward_long.cu). */
cudaError_t norm_forward_long(const struct kept_norm *norm, const struct norm_launch *launch,
                              cudaStream_t stream);

/* For other groups of more than SEGMENT channels (norm_forward_wide.cu). */
cudaError_t norm_forward_wide(const struct kept_norm *norm, const struct norm_launch *launch,
                              cudaStream_t stream);

/* For groups of an odd number of channels (norm_forward_staged.cu). */
cudaError_t norm_forward_staged(const struct kept_norm *norm, const struct norm_launch *launch,
                                cudaStream_t stream);

/* Several slots of a row to a lane (norm_forward_columns.cu). */
cudaError_t norm_forward_columns(const struct kept_norm *norm, const struct norm_launch *launch,
                                 cudaStream_t stream);

#endif
