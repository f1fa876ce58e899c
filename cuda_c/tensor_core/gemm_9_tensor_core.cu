/* GEMM, rung 9: tensor cores, on every GPU that has those of compute capability 8.0.
 *
 * Idea: a warp multiplies 16x8 outputs by 16 k in one instruction (mma.sync), 2048 multiply-adds where it had
 * 32. The rest of the kernel is about feeding it:
 *   - global to shared memory: asynchronous copies of 16 bytes (cp.async), two or three steps ahead, so no
 *     register holds what is on its way;
 *   - shared memory to registers: ldmatrix, four 8x8 matrices at once, those of the next 32 bytes of k while
 *     this 32 are multiplied. A row of a step is 64 bytes, four pieces; piece p is stored at p ^ (row / 2 %
 * 4), so the eight rows of a matrix lie in different banks;
 *   - GroupNorm in the registers that hold the sums (quad_norm.h), between warps through shared memory.
 *
 * Precisions: bfloat16, float16 and tf32 with 128x256 outputs a block, 64x64 a warp. float32 from two float16
 * halves of each factor (halves.h) costs three products, and has 128x128 outputs a block, for it has twice
 * the operands. The tensor cores cut off what they add, so they add up 16 k only, which is then added to the
 * sums by ordinary additions: four for three mma, and in other units.
 *
 * Bytes: inputs once, y once, as far as the L2 cache holds what several tiles share. Operations: 2 batch
 * in_features out_features, three times that for float32.
 *
 * Limit: the tensor cores at the rate of mma.sync, which is all they have up to compute capability 8.9.
 *
 * Groups of 8, 16, 32, ... channels up to the width of a tile are normalised in it, in one launch. Others
 * take a second one, group_norm_2_block.cu, and a float32 intermediate: for 16-bit types in the workspace.
 *
 * Next (gemm_10_hopper.cu): instructions that only compute capability 9.0 has, of which one multiplies 64x256
 * outputs straight from shared memory, twice as fast. */
#include "shared/element.h"
#include "shared/halves.h"
#include "shared/rung.h"
#include "ladder/float32_chain.h"
#include "shared/pointwise.h"
#include "ptx/cp_async.h"
#include "ptx/mma.h"
#include "shared/quad_norm.h"
#include "shared/team.h"

/* Eight warps, two by four. */
#define WARPS_DOWN 2
#define WARPS_ACROSS 4
#define THREADS (WARPS_DOWN * WARPS_ACROSS * LANES)

/* An mma: 16 rows, 8 columns, and 32 bytes of k in two pieces. */
#define MMA_ROWS 16
#define MMA_COLUMNS 8
#define PIECE 16 /* bytes */

/* A warp's part of the tile, in mma. */
#define ROW_TILES 4
#define MOST_COLUMN_TILES 8
#define SPLIT_COLUMN_TILES 4
#define WARP_ROWS (ROW_TILES * MMA_ROWS)
#define TILE_ROWS (WARPS_DOWN * WARP_ROWS)
#define ROW_SUMS (MOST_COLUMN_TILES * 4) /* a lane's sums in 16 rows */

/* A step along k: with 16-bit factors 32 k. */
#define STEP_BYTES 64
#define STEP_PIECES (STEP_BYTES / PIECE)
#define STEP_UNITS (STEP_PIECES / 2)

/* The steps in shared memory, those that are on their way too: 96 KB, which all these GPUs have. */
#define SLOTS 4
#define SPLIT_SLOTS 3
#define SHARED_BYTES (96 << 10)

/* What a thread copies of a matrix: one piece of every 64th row. */
#define ROWS_BETWEEN (THREADS / STEP_PIECES)

/* Tiles are taken in bands of this many columns of tiles, so that what runs at one time shares rows and
 * columns in the L2 cache. */
#define BAND 8

struct tensor_core_args {
    const void *x[2]; /* (batch, in_features); of split factors, the high and the low halves */
    const void *w[2]; /* (out_features, in_features) */
    int64_t batch;
    int64_t out_features;
    int64_t row_bytes; /* of x and w, up to where the next row begins */
    bool pieces;       /* rows are made of aligned pieces */
    int64_t row_tiles;
    int64_t column_tiles;
    const float *x_unscale; /* (batch,), of split factors */
    const float *w_unscale; /* (out_features,) */
    struct condition held;  /* of split factors: whether halves hold them */
    const float *bias;
    struct operators before;
    int group_size; /* 0: the norm is not here */
    float eps;
    const float *scale;
    const float *shift;
    struct operators after;
    void *y;
    fgn_type y_type;
};

/* What is multiplied: constants wherever they are used. */
struct product {
    fgn_type type;    /* of the factors; FGN_FLOAT32: tf32 */
    int halves;       /* 2 of split factors, else 1 */
    int column_tiles; /* of a warp */
    int slots;
    bool pieces; /* rows are made of aligned pieces */
};

static __forceinline__ __device__ int tile_columns(struct product product) {
    return WARPS_ACROSS * product.column_tiles * MMA_COLUMNS;
}

/* ---- Where a block and a lane work ---- */

struct place {
    int64_t first_row; /* of the block */
    int64_t first_column;
    int warp_row; /* of the warp in the block's tile */
    int warp_column;
    int lane;
};

static __forceinline__ __device__ struct place place_of_thread(const struct tensor_core_args *args,
                                                               struct product product) {
    int64_t band_tiles = args->row_tiles * BAND;
    int64_t first_column = blockIdx.x / band_tiles * BAND, in_band = blockIdx.x % band_tiles;
    int64_t width = args->column_tiles - first_column < BAND ? args->column_tiles - first_column : BAND;
    int warp = threadIdx.x / LANES;
    struct place place = {
        in_band / width * TILE_ROWS, (first_column + in_band % width) * tile_columns(product),
        warp / WARPS_ACROSS * WARP_ROWS, warp % WARPS_ACROSS * product.column_tiles * MMA_COLUMNS,
        (int)(threadIdx.x % LANES)};
    return place;
}

/* ---- Global to shared memory ---- */

/* A slot: the rows of x, those of its low halves, the columns of w (which are rows in memory), its low
 * halves. The pieces of a row are neighbours, in an order of their own. */
static __forceinline__ __device__ int piece_in_slot(int row, int piece) {
    return row * STEP_PIECES + (piece ^ (row / 2 % STEP_PIECES));
}

static __forceinline__ __device__ int slot_pieces(struct product product) {
    return product.halves * (TILE_ROWS + tile_columns(product)) * STEP_PIECES;
}

/* What a thread copies of x or w. Rows that do not exist repeat the last one: their sums are not stored. */
struct source {
    const unsigned char *from[2]; /* its piece of its first row, in the step that comes next */
    uint32_t apart;               /* bytes from one of its rows to the next */
    int last;                     /* the last of its rows that exists */
};

static __forceinline__ __device__ struct source source_of(const struct tensor_core_args *args,
                                                          const void *const *matrix, int64_t first,
                                                          int64_t rows, int halves) {
    int64_t row = first + threadIdx.x / STEP_PIECES;
    row = row < rows ? row : rows - 1;
    int64_t at = row * args->row_bytes + threadIdx.x % STEP_PIECES * PIECE;
    int64_t last = (rows - 1 - row) / ROWS_BETWEEN;
    struct source source;
    source.from[0] = (const unsigned char *)matrix[0] + at;
    source.from[1] = halves == 2 ? (const unsigned char *)matrix[1] + at : NULL;
    source.apart = (uint32_t)args->row_bytes * ROWS_BETWEEN;
    source.last = last < ROWS_BETWEEN ? (int)last : ROWS_BETWEEN;
    return source;
}

/* One piece of which `left` bytes exist, in a row that is not made of aligned pieces. */
static __forceinline__ __device__ void gather_piece(uint4 *to, const unsigned char *from, int left,
                                                    fgn_type type) {
    if (type == FGN_FLOAT32) {
#pragma unroll 1
        for (int i = 0; i < PIECE / 4; i++)
            ((uint32_t *)to)[i] = 4 * i < left ? ((const uint32_t *)from)[i] : 0;
    } else {
#pragma unroll 1
        for (int i = 0; i < PIECE / 2; i++)
            ((uint16_t *)to)[i] = 2 * i < left ? ((const uint16_t *)from)[i] : 0;
    }
}

/* Starts to copy `rows` rows of the next step, of which the thread's piece has `left` bytes; beyond the end
 * of a row are zeros. */
static __forceinline__ __device__ void start_rows(struct source *source, uint4 *to, int rows, int left,
                                                  struct product product) {
    int own = piece_in_slot(threadIdx.x / STEP_PIECES, threadIdx.x % STEP_PIECES);
#pragma unroll
    for (int half = 0; half < product.halves; half++) {
#pragma unroll
        for (int i = 0; i < rows / ROWS_BETWEEN; i++) {
            uint4 *piece = to + (half * rows + i * ROWS_BETWEEN) * STEP_PIECES + own;
            uint32_t row = (uint32_t)(i < source->last ? i : source->last);
            const unsigned char *from = source->from[half] + (uint64_t)row * source->apart;
            if (product.pieces)
                cp_async_16_or_zero(piece, from, left > 0);
            else
                gather_piece(piece, from, left, product.type);
        }
        source->from[half] += STEP_BYTES;
    }
}

struct copies {
    struct source x;
    struct source w;
    int left; /* bytes in a row from the thread's piece of the next step on */
};

/* Starts to copy the next step, as one group of copies. */
static __forceinline__ __device__ void start_step(struct copies *copies, uint4 *slot,
                                                  struct product product) {
    start_rows(&copies->x, slot, TILE_ROWS, copies->left, product);
    start_rows(&copies->w, slot + product.halves * TILE_ROWS * STEP_PIECES, tile_columns(product),
               copies->left, product);
    copies->left -= STEP_BYTES;
    cp_async_commit_group();
}

/* ---- Shared memory to registers, and the product ---- */

/* A lane's operands of a unit: 32 bytes of k. */
struct operands {
    uint32_t x[2][ROW_TILES][4];
    uint32_t w[2][MOST_COLUMN_TILES][2];
};

static __forceinline__ __device__ void round_to_tf32(uint32_t *word, int count) {
#pragma unroll
    for (int i = 0; i < count; i++)
        word[i] = cvt_rna_tf32(word[i]);
}

/* The four matrices of an ldmatrix are rows 0-7 and 8-15 of x, first with the first piece of k, then with the
 * second: the operands of an mma. Of w they are columns 0-7 with both pieces, then columns 8-15. */
static __forceinline__ __device__ void load_operands(struct operands *operands, const uint4 *slot, int unit,
                                                     const struct place *place, struct product product) {
    const uint4 *w = slot + product.halves * TILE_ROWS * STEP_PIECES;
    int lane = place->lane;
    int row = place->warp_row + lane % 16, x_piece = 2 * unit + lane / 16;
    int column = place->warp_column + lane / 16 * 8 + lane % 8, w_piece = 2 * unit + lane / 8 % 2;
#pragma unroll
    for (int half = 0; half < product.halves; half++) {
#pragma unroll
        for (int i = 0; i < ROW_TILES; i++) {
            int at = piece_in_slot(row, x_piece) + (half * TILE_ROWS + i * MMA_ROWS) * STEP_PIECES;
            ldmatrix_x4(operands->x[half][i], slot + at);
            if (product.type == FGN_FLOAT32)
                round_to_tf32(operands->x[half][i], 4);
        }
#pragma unroll
        for (int i = 0; i < product.column_tiles; i += 2) {
            int at = piece_in_slot(column, w_piece) +
                     (half * tile_columns(product) + i * MMA_COLUMNS) * STEP_PIECES;
            ldmatrix_x4(operands->w[half][i], w + at);
            if (product.type == FGN_FLOAT32)
                round_to_tf32(operands->w[half][i], 4);
        }
    }
}

/* The sums of a warp's part of the tile, 16 rows after another. Of each mma a lane has, with g = lane / 4 and
 * t = lane % 4, columns 2 t and 2 t + 1 of row g, then of row g + 8. */
typedef float warp_sums[ROW_TILES][ROW_SUMS];

static __forceinline__ __device__ void mma(float *sum, const uint32_t *x, const uint32_t *w,
                                           struct product product) {
    if (product.type == FGN_FLOAT32)
        mma_m16n8k8_tf32(sum, x, w);
    else
        mma_m16n8k16(sum, x, w, product.type);
}

static __forceinline__ __device__ void multiply_unit(warp_sums sum, const struct operands *operands,
                                                     struct product product) {
#pragma unroll
    for (int i = 0; i < ROW_TILES; i++) {
#pragma unroll
        for (int turn = 0; turn < product.column_tiles; turn++) {
            /* back and forth, so that one operand stays in the register file's reuse cache */
            int j = i % 2 ? product.column_tiles - 1 - turn : turn;
            mma(&sum[i][4 * j], operands->x[0][i], operands->w[0][j], product);
        }
    }
}

/* The same of split factors: high low + low high + high high, the small products first, and the mma of one
 * kind after one another, which do not wait for each other. */
static __forceinline__ __device__ void multiply_split_unit(warp_sums sum, const struct operands *operands,
                                                           struct product product) {
    const int of_x[] = {0, 1, 0}, of_w[] = {1, 0, 0};
#pragma unroll
    for (int i = 0; i < ROW_TILES; i++) {
        float part[ROW_SUMS] = {0.0f};
#pragma unroll
        for (int kind = 0; kind < 3; kind++)
#pragma unroll
            for (int j = 0; j < product.column_tiles; j++)
                mma(&part[4 * j], operands->x[of_x[kind]][i], operands->w[of_w[kind]][j], product);
#pragma unroll
        for (int j = 0; j < product.column_tiles * 4; j++)
            sum[i][j] += part[j];
    }
}

/* The tile's sums. */
static __forceinline__ __device__ void multiply_tile(const struct tensor_core_args *args,
                                                     const struct place *place, warp_sums sum,
                                                     struct product product) {
    uint4 *slots = (uint4 *)dynamic_shared;
    const int pieces = slot_pieces(product);
    struct copies copies = {source_of(args, args->x, place->first_row, args->batch, product.halves),
                            source_of(args, args->w, place->first_column, args->out_features, product.halves),
                            (int)args->row_bytes - (int)(threadIdx.x % STEP_PIECES) * PIECE};
    int steps = (int)tiles(args->row_bytes, STEP_BYTES);
    /* a step past the end is a group without copies but for zeros: so groups can be counted */
    for (int step = 0; step < product.slots - 1; step++)
        start_step(&copies, slots + step * pieces, product);
    cp_async_wait_group(product.slots - 2);
    __syncthreads();

    struct operands operands[2];
    load_operands(&operands[0], slots, 0, place, product);
    int reading = 0, writing = product.slots - 1;
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
        const uint4 *slot = slots + reading * pieces;
        start_step(&copies, slots + writing * pieces, product);
        writing = writing + 1 < product.slots ? writing + 1 : 0;
        reading = reading + 1 < product.slots ? reading + 1 : 0;
#pragma unroll
        for (int unit = 0; unit < STEP_UNITS; unit++) {
            struct operands *next = &operands[(unit + 1) % 2];
            if (unit + 1 < STEP_UNITS) {
                load_operands(next, slot, unit + 1, place, product);
            } else {
                /* the next step has come, and everyone has read the slot that is filled next */
                cp_async_wait_group(product.slots - 2);
                __syncthreads();
                load_operands(next, slots + reading * pieces, 0, place, product);
            }
            if (product.halves == 2)
                multiply_split_unit(sum, &operands[unit % 2], product);
            else
                multiply_unit(sum, &operands[unit % 2], product);
        }
    }
    cp_async_wait_group(0);
}

/* ---- From the sums to y, 16 rows at a time ---- */

/* Where a lane's values of 16 rows belong. */
struct row_place {
    int64_t row; /* of the first; the other one is 8 below */
    int64_t column;
    int row_in_tile;
    int last; /* the last column that exists, from this one on; operands of later ones are not read */
};

/* value[i]'s column, from the lane's first one on. */
static __forceinline__ __device__ int column_of_value(int i, int last) {
    int column = i / 4 * MMA_COLUMNS + i % 2;
    return column < last ? column : last;
}

static __forceinline__ __device__ struct row_place row_place(const struct tensor_core_args *args,
                                                             const struct place *place, int row_tile) {
    struct row_place at;
    at.row_in_tile = place->warp_row + row_tile * MMA_ROWS + place->lane / QUAD;
    at.row = place->first_row + at.row_in_tile;
    at.column = place->first_column + place->warp_column + place->lane % QUAD * 2;
    int64_t last = args->out_features - 1 - at.column;
    at.last = last < WARP_ROWS ? (int)last : WARP_ROWS; /* negative: none */
    return at;
}

/* Where a lane finds a vector's value for its first column, if it has a column that exists. */
static __forceinline__ __device__ const float *operand_of(const void *vector, const struct row_place *at) {
    return (const float *)vector + at->column + (at->last < 0 ? at->last : 0);
}

static __forceinline__ __device__ int last_operand(const struct row_place *at) {
    return at->last < 0 ? 0 : at->last;
}

static __forceinline__ __device__ void undo_scaling(const struct tensor_core_args *args,
                                                    const struct row_place *at, float *value, int count) {
    const float *of_column = operand_of(args->w_unscale, at);
    float of_row[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int64_t row = at->row + 8 * i;
        of_row[i] = args->x_unscale[row < args->batch ? row : args->batch - 1];
    }
#pragma unroll
    for (int i = 0; i < count; i++) {
        /* the smaller factor first: their product may be too small or too large for a float */
        float a = of_row[i / 2 % 2], b = of_column[column_of_value(i, last_operand(at))];
        value[i] = value[i] * fminf(a, b) * fmaxf(a, b);
    }
}

/* Adds the operator's tensor where the lane's values are: in two rows, 8 apart. */
static __forceinline__ __device__ void add_tensor_to_values(const struct operators *list,
                                                            const fgn_pointwise *step,
                                                            const struct row_place *at, int64_t rows,
                                                            float *value, int count) {
    int64_t first_column = at->column + (at->last < 0 ? at->last : 0);
#pragma unroll
    for (int i = 0; i < count; i++) {
        int64_t row = at->row + 8 * (i / 2 % 2);
        value[i] += tensor_operand(list, step, row < rows ? row : rows - 1,
                                   first_column + column_of_value(i, last_operand(at)));
    }
}

static __forceinline__ __device__ void apply_to_values(const struct operators *list,
                                                       const struct row_place *at, int64_t rows, float *value,
                                                       int count) {
#pragma unroll 1
    for (int i = 0; i < list->count; i++) {
        const fgn_pointwise *step = &list->step[i];
        if (step->kind == FGN_ADD_TENSOR)
            add_tensor_to_values(list, step, at, rows, value, count);
        else
            apply_operator_with(step, value, count, operand_of(step->channel, at), column_of_value,
                                last_operand(at));
    }
}

/* ---- GroupNorm ---- */

/* The moments of what each warp has of a group that is wider than a warp's part. */
struct shared_moments {
    float2 mean_and_squares[TILE_ROWS][WARPS_ACROSS];
};

/* Several halves, quarters, ... of a group with n values each combine as
 *     mean = sum of means / parts     squares = sum of (squares + n (its mean - mean)^2)
 * (Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances",
 * 1979). All threads of the block call this together. */
static __forceinline__ __device__ void normalise_with_other_warps(const struct tensor_core_args *args,
                                                                  const struct row_place *at, float *value,
                                                                  int columns) {
    struct shared_moments *moments = (struct shared_moments *)dynamic_shared;
    int warp = threadIdx.x / LANES % WARPS_ACROSS;
    int parts = args->group_size / columns, first = warp / parts * parts;
    float mean[MOST_UNITS], squares[MOST_UNITS];
    moments_of_units(value, 2, columns, QUAD, mean, squares);
#pragma unroll
    for (int i = 0; i < 2; i++)
        if (threadIdx.x % QUAD == 0)
            moments->mean_and_squares[at->row_in_tile + 8 * i][warp] = make_float2(mean[i], squares[i]);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const float2 *of_part = &moments->mean_and_squares[at->row_in_tile + 8 * i][first];
        float pivot = of_part[0].x, common = 0.0f, all = 0.0f;
        for (int part = 0; part < parts; part++)
            common += of_part[part].x - pivot;
        common = pivot + common / parts;
        for (int part = 0; part < parts; part++) {
            float apart = of_part[part].x - common;
            all += of_part[part].y + columns * apart * apart;
        }
        float factor = rsqrtf(all / args->group_size + args->eps);
        float apart = mean[i] - common;
#pragma unroll
        for (int j = 0; j < columns / QUAD; j++) {
            float *v = &value[at_unit(i, columns, j)];
            *v = (*v + apart) * factor;
        }
    }
}

static __forceinline__ __device__ void normalise(const struct tensor_core_args *args,
                                                 const struct row_place *at, float *value, int columns) {
    switch (args->group_size) {
    case 8:
        normalise_groups(value, columns, 8, QUAD, args->eps);
        break;
    case 16:
        normalise_groups(value, columns, 16, QUAD, args->eps);
        break;
    case 32:
        normalise_groups(value, columns, 32, QUAD, args->eps);
        break;
    default:
        normalise_with_other_warps(args, at, value, columns);
        break;
    }
}

static __forceinline__ __device__ void scale_and_shift_values(const struct tensor_core_args *args,
                                                              const struct row_place *at, float *value,
                                                              int count) {
    const float *scale = operand_of(args->scale, at), *shift = operand_of(args->shift, at);
#pragma unroll
    for (int i = 0; i < count; i++) {
        int column = column_of_value(i, last_operand(at));
        value[i] = value[i] * (args->scale ? scale[column] : 1.0f) + (args->shift ? shift[column] : 0.0f);
    }
}

/* ---- The stores ---- */

static __forceinline__ __device__ void store_pair(void *y, int64_t at, const float *value, bool both,
                                                  bool pairs, fgn_type type) {
    if (pairs && type == FGN_FLOAT32) {
        *(float2 *)((float *)y + at) = make_float2(value[0], value[1]);
    } else if (pairs) {
        *(uint32_t *)((uint16_t *)y + at) =
            type == FGN_FLOAT16 ? float16_pair(value[0], value[1]) : bfloat16_pair(value[0], value[1]);
    } else {
        for (int i = 0; i < 1 + both; i++) {
            if (type == FGN_FLOAT32)
                ((float *)y)[at + i] = value[i];
            else
                ((uint16_t *)y)[at + i] =
                    type == FGN_FLOAT16 ? float16_bits(value[i]) : bfloat16_bits(value[i]);
        }
    }
}

/* `type` is a constant where this is called. */
static __forceinline__ __device__ void store_values(const struct tensor_core_args *args,
                                                    const struct row_place *at, const float *value, int count,
                                                    fgn_type type) {
    int pair_bytes = type == FGN_FLOAT32 ? 8 : 4;
    bool pairs = args->out_features % 2 == 0 && (uintptr_t)args->y % pair_bytes == 0;
#pragma unroll
    for (int i = 0; i < count; i += 2) {
        int64_t row = at->row + i / 2 % 2 * 8;
        int column = i / 4 * MMA_COLUMNS;
        if (row < args->batch && column <= at->last)
            store_pair(args->y, row * args->out_features + at->column + column, value + i, column < at->last,
                       pairs, type);
    }
}

static __forceinline__ __device__ void finish_rows(const struct tensor_core_args *args,
                                                   const struct row_place *at, float *value,
                                                   struct product product) {
    int columns = product.column_tiles * MMA_COLUMNS, count = product.column_tiles * 4;
    if (product.halves == 2)
        undo_scaling(args, at, value, count);
    if (args->bias) {
        const float *bias = operand_of(args->bias, at);
#pragma unroll
        for (int i = 0; i < count; i++)
            value[i] += bias[column_of_value(i, last_operand(at))];
    }
    apply_to_values(&args->before, at, args->batch, value, count);
    if (args->group_size > 0) {
        normalise(args, at, value, columns);
        scale_and_shift_values(args, at, value, count);
        apply_to_values(&args->after, at, args->batch, value, count);
    }
    if (args->y_type == FGN_FLOAT32)
        store_values(args, at, value, count, FGN_FLOAT32);
    else
        store_values(args, at, value, count, product.type);
}

/* The four times 16 rows take turns in the same registers, so that the code is there once. */
static __forceinline__ __device__ void finish_tile(const struct tensor_core_args *args,
                                                   const struct place *place, warp_sums sum,
                                                   struct product product) {
    __syncthreads(); /* the last slot has been read, by every warp */
#pragma unroll 1
    for (int row_tile = 0; row_tile < ROW_TILES; row_tile++) {
        struct row_place at = row_place(args, place, row_tile);
        finish_rows(args, &at, sum[0], product);
#pragma unroll
        for (int i = 0; i < ROW_TILES - 1; i++)
#pragma unroll
            for (int j = 0; j < product.column_tiles * 4; j++)
                sum[i][j] = sum[i + 1][j];
    }
}

/* ---- The kernels ---- */

static __forceinline__ __device__ void run_block(const struct tensor_core_args *args,
                                                 struct product product) {
    if (!holds(args->held))
        return;
    struct place place = place_of_thread(args, product);
    warp_sums sum = {{0.0f}};
    product.pieces = true;
    if (args->pieces) {
        multiply_tile(args, &place, sum, product);
    } else if (product.halves == 1) {
        product.pieces = false;
        multiply_tile(args, &place, sum, product);
    }
    finish_tile(args, &place, sum, product);
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
#define HAS_TENSOR_CORES true
#else
#define HAS_TENSOR_CORES false
#endif

__global__ void __launch_bounds__(THREADS, 1) tensor_core_bfloat16_kernel(struct tensor_core_args args) {
    struct product product = {FGN_BFLOAT16, 1, MOST_COLUMN_TILES, SLOTS, true};
    if (HAS_TENSOR_CORES)
        run_block(&args, product);
}

__global__ void __launch_bounds__(THREADS, 1) tensor_core_float16_kernel(struct tensor_core_args args) {
    struct product product = {FGN_FLOAT16, 1, MOST_COLUMN_TILES, SLOTS, true};
    if (HAS_TENSOR_CORES)
        run_block(&args, product);
}

__global__ void __launch_bounds__(THREADS, 1) tensor_core_tf32_kernel(struct tensor_core_args args) {
    struct product product = {FGN_FLOAT32, 1, MOST_COLUMN_TILES, SLOTS, true};
    if (HAS_TENSOR_CORES)
        run_block(&args, product);
}

__global__ void __launch_bounds__(THREADS, 1) tensor_core_split_float32_kernel(struct tensor_core_args args) {
    struct product product = {FGN_FLOAT16, 2, SPLIT_COLUMN_TILES, SPLIT_SLOTS, true};
    if (HAS_TENSOR_CORES)
        run_block(&args, product);
}

LAUNCHER(tensor_core_bfloat16_kernel, struct tensor_core_args)
LAUNCHER(tensor_core_float16_kernel, struct tensor_core_args)
LAUNCHER(tensor_core_tf32_kernel, struct tensor_core_args)
LAUNCHER(tensor_core_split_float32_kernel, struct tensor_core_args)

/* ---- The host's side ---- */

static int columns_of_tile(const fgn_chain *chain) {
    return WARPS_ACROSS * MMA_COLUMNS * (is_float32_accurate(chain) ? SPLIT_COLUMN_TILES : MOST_COLUMN_TILES);
}

/* Whether the norm can be in the product's kernel. */
static bool normalises_in_tile(const fgn_chain *chain) {
    int64_t size = group_size_of(chain);
    return size >= CHUNK && size <= columns_of_tile(chain) && (size & (size - 1)) == 0;
}

static bool has_second_launch(const fgn_chain *chain) {
    return chain->groups > 0 && !normalises_in_tile(chain);
}

/* The intermediate of a 16-bit chain; of a float32 chain y is one. */
static bool has_intermediate(const fgn_chain *chain) {
    return has_second_launch(chain) && chain->type != FGN_FLOAT32;
}

static const char *refusal(const fgn_chain *chain, const fgn_device *device) {
    if (chain->vector_type != FGN_FLOAT32)
        return "vectors in float32";
    if (device->major < 8 && !is_simulator(device))
        return "a GPU of compute capability 8.0";
    return NULL;
}

/* Of the kernels and their names: by fgn_type, then the split one. */
static int kernel_of(const fgn_chain *chain) {
    return is_float32_accurate(chain) ? 3 : (int)chain->type;
}

/* Split factors: the halves of x before, and float32 in their stead after. */
static void plan(const fgn_chain *chain, const fgn_device *device, fgn_plan *plan) {
    static const char *const names[] = {"tensor_core_tf32_kernel", "tensor_core_float16_kernel",
                                        "tensor_core_bfloat16_kernel", "tensor_core_split_float32_kernel"};
    bool halves = is_float32_accurate(chain);
    if (halves)
        plan_halves(chain, device, plan);
    int columns = columns_of_tile(chain);
    int64_t blocks = tiles(chain->batch, TILE_ROWS) * tiles(chain->out_features, columns);
    fgn_launch *product = add_launch(plan, names[kernel_of(chain)], blocks, THREADS);
    product->shared_bytes = SHARED_BYTES;
    set_tile(product, TILE_ROWS, columns, chain->in_features,
             STEP_BYTES / (halves ? (int)sizeof(uint16_t) : element_bytes(chain->type)));
    set_stages(product, halves ? SPLIT_SLOTS : SLOTS, 0, 0);
    if (halves)
        add_product_of_halves(product, chain);
    else
        add_product(product, chain);
    if (has_second_launch(chain)) {
        add_bias_vector(product, chain);
        add_before(product, chain, 0, chain->before_count);
        add_written(product, sizeof(float) * outputs_of(chain),
                    has_intermediate(chain) ? FGN_WRITES_WORKSPACE : FGN_WRITES_Y);
        plan->workspace_bytes += has_intermediate(chain) ? sizeof(float) * outputs_of(chain) : 0;
        group_norm_2_block.plan(chain, chain->after_count, plan);
    } else {
        add_ending(product, chain);
        add_y(product, chain);
    }
    if (halves)
        plan_float32_chain(chain, device, plan);
}

static cudaError_t launch_product(const fgn_plan *plan, const fgn_launch *planned, const fgn_chain *chain,
                                  struct tensor_core_args *args, cudaStream_t stream) {
    static bool allowed[4][MOST_DEVICES];
    const void *const kernels[] = {
        (const void *)tensor_core_tf32_kernel, (const void *)tensor_core_float16_kernel,
        (const void *)tensor_core_bfloat16_kernel, (const void *)tensor_core_split_float32_kernel};
    cudaError_t (*const launch[])(dim3, dim3, size_t, cudaStream_t, struct tensor_core_args) = {
        launch_tensor_core_tf32_kernel, launch_tensor_core_float16_kernel, launch_tensor_core_bfloat16_kernel,
        launch_tensor_core_split_float32_kernel};
    int kernel = kernel_of(chain);
    args->row_tiles = tiles(chain->batch, planned->tile_rows);
    args->column_tiles = tiles(chain->out_features, planned->tile_columns);
    cudaError_t error = allow_shared_memory(kernels[kernel], &plan->device, allowed[kernel]);
    if (error != cudaSuccess)
        return error;
    return launch[kernel](grid_of(planned), block_of(planned), planned->shared_bytes, stream, *args);
}

/* The factors as they are, or as halves. */
static cudaError_t set_factors(const fgn_plan *plan, const fgn_chain *chain, const void *x, void *workspace,
                               struct tensor_core_args *args, cudaStream_t stream) {
    if (!is_float32_accurate(chain)) {
        args->x[0] = x;
        args->w[0] = chain->weight;
        args->row_bytes = chain->in_features * (chain->type == FGN_FLOAT32 ? 4 : 2);
        args->pieces = args->row_bytes % PIECE == 0 && (uintptr_t)x % PIECE == 0 &&
                       (uintptr_t)chain->weight % PIECE == 0;
        return cudaSuccess;
    }
    struct factor_halves factors = factor_halves_at(plan, chain, workspace);
    args->x[0] = factors.x.high;
    args->x[1] = factors.x.low;
    args->w[0] = factors.w.high;
    args->w[1] = factors.w.low;
    args->x_unscale = factors.x.unscale;
    args->w_unscale = factors.w.unscale;
    args->held.either = factors.x.unheld;
    args->held.or_this = factors.w.unheld;
    args->held.unless = true;
    args->row_bytes = halves_pitch(chain->in_features) * sizeof(uint16_t);
    args->pieces = true;
    return make_factor_halves(plan, chain, (const float *)x, factors, stream);
}

static cudaError_t forward(const fgn_plan *plan, const fgn_chain *chain, const void *x, void *y,
                           void *workspace, cudaStream_t stream) {
    const fgn_launch *product = &plan->launch[halves_launches(plan)];
    struct tensor_core_args args;
    memset(&args, 0, sizeof args);
    args.batch = chain->batch;
    args.out_features = chain->out_features;
    args.bias = (const float *)chain->bias;
    args.before = operators_before(chain);
    args.group_size = normalises_in_tile(chain) ? (int)group_size_of(chain) : 0;
    args.eps = chain->eps;
    args.scale = (const float *)chain->norm_scale;
    args.shift = (const float *)chain->norm_shift;
    args.after = operators_after(chain);
    args.y = has_intermediate(chain) ? workspace : y;
    args.y_type = has_second_launch(chain) ? FGN_FLOAT32 : chain->type;
    cudaError_t error = set_factors(plan, chain, x, workspace, &args, stream);
    if (error == cudaSuccess)
        error = launch_product(plan, product, chain, &args, stream);
    if (error == cudaSuccess && has_second_launch(chain)) {
        struct group_norm norm = norm_of(chain, (const float *)args.y, y, chain->type, args.held);
        error = group_norm_2_block.launch(product + 1, &norm, NULL, stream);
    }
    if (error == cudaSuccess && is_float32_accurate(chain)) {
        struct condition unheld = {args.held.either, args.held.or_this, false};
        error = launch_float32_chain(plan, chain, (const float *)x, (float *)y, unheld, stream);
    }
    return error;
}

RUNG tensor_core_rung = {
    {"tensor_core", "tensor_core/gemm_9_tensor_core.cu", "tensor_core/gemm_9_tensor_core.cu",
     "tensor cores by mma.sync, copies that fill no register", "a GPU of compute capability 8.0"},
    &group_norm_2_block,
    refusal,
    plan,
    prepare_halves,
    forward,
};
