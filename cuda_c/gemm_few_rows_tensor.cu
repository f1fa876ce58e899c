/* The chain for few rows, on tensor cores: up to 64 rows of x, as fast as the weight can be read.
 *
 * Idea: a product of so few rows is a copy of the weight that ends in the tensor cores. Every byte of the
 * weight is read once: a lane copies to shared memory (cp.async) exactly what it will multiply itself, two
 * steps ahead. So each lane has a queue of its own and waits for no other thread, and a multiprocessor has at
 * least 64 KB in flight, of which it needs some 25 (4.3 TB/s of 132 multiprocessors times 700 ns).
 * k may come in any order if it is the same on both sides: a lane's 16 bytes, neighbours in memory, are the
 * lane's operands of two mma as they stand. x is small: the block brings a step's part of it to shared
 * memory, in the order of the mma's operands.
 *
 * float32: v = p0 + p1 + p2 exactly, with three bfloat16 (8 bits each make 24), and the product is the six
 * p_i q_j with i + j <= 2; what they leave out is below float32's last bit. For tf32 two pieces and three
 * products do. For float32 the smallest products are added first, and what the tensor cores add up (they
 * truncate) is added to ordinary registers after each step. A value is scaled by 2^24 before, so that the
 * pieces of the smallest float are bfloat16 numbers too; where that is too much (above 2^80 in the sum, or
 * infinity, or NaN in the factors) the output is computed again with ordinary multiply-adds.
 *
 * Work: 8 warps of 32 columns each, side by side or on different k. Few rows: 2 side by side, 4 along k; 64
 * rows: 8 side by side, which share the step of x. Blocks that are too few to fill the GPU split k further.
 * Then, or where a group of GroupNorm is wider than a block, the sums go to the workspace and a second, small
 * kernel adds and normalises; it is launched early (griddepcontrol), to be there when the first one ends.
 *
 * Bytes: the weight once. Operations: 2 batch a weight, times the number of products.
 *
 * Limit: memory bandwidth; with 64 rows of float32 the tensor cores, as six products cost six times. */
#include "few_rows_ending.h"
#include "ladder.h"
#include "ptx_few_rows.h"
#include "team.h"

#define MOST_ROWS 64
#define WARPS 8
#define THREADS (WARPS * LANES)
#define WARP_COLUMNS 32
#define TILE_ROWS 16   /* of an mma */
#define TILE_COLUMNS 8 /* of an mma */
#define COLUMN_TILES (WARP_COLUMNS / TILE_COLUMNS)

/* A step: 128 bytes along k of each of a warp's columns; a lane copies eight times 16 bytes of them. */
#define STEP_BYTES 128
#define CHUNK 16 /* bytes */
#define CHUNKS (STEP_BYTES / CHUNK)
#define LANE_COPIES (WARP_COLUMNS * CHUNKS / LANES)
#ifndef MOST_SLOTS
#define MOST_SLOTS 3 /* steps in a queue; GPUs with less shared memory have FEWEST_SLOTS */
#endif
#define FEWEST_SLOTS 2

/* x of a step, as operands of an mma: of 16 rows and 16 k, a unit. */
#define MOST_FRAGMENTS 3     /* the pieces of float32, or the two halves of a step of a 16-bit type */
#define FRAGMENT_UNITS 2     /* 32 k */
#define MOST_TILES_IN_STEP 4 /* of rows, over all warps along k */

#define SCALE 0x1p24f
#define UNSCALE 0x1p-48f
#define PIECES_FLOAT32 3
#define PIECES_TF32 2

struct x_step {
    uint4 operand[MOST_FRAGMENTS][FRAGMENT_UNITS][MOST_TILES_IN_STEP][LANES];
};

/* Shared memory begins with it; the queues follow: [slot][warp][copy][lane] of 16 bytes. */
struct few_rows_memory {
    struct x_step x[2]; /* one is read while the next is written */
};

struct few_rows_args {
    const void *x;      /* (batch, in_features) */
    const void *weight; /* (out_features, in_features) */
    int64_t batch;
    int64_t in_features;
    int64_t out_features;
    fgn_type type;
    int pieces;    /* of a factor; 1 for a 16-bit type */
    bool chunks;   /* rows are made of aligned chunks */
    int slots;     /* steps in a queue */
    int across;    /* warps side by side */
    int splits;    /* of k, among blocks */
    int64_t steps; /* along k, of all blocks */
    int64_t column_blocks;
    float *partial; /* (splits, batch, out_features); NULL when blocks end the chain themselves */
    struct ending ending;
};

static inline __host__ __device__ int bytes_of(fgn_type type) {
    return type == FGN_FLOAT32 ? 4 : 2;
}

/* ---- Where a warp works ---- */

struct warp_place {
    int across; /* which of the warps side by side */
    int along;  /* which of those along k */
    int warps_along;
    int64_t first_column;
    int64_t first_step; /* of its own: then every warps_along-th */
    int64_t end_step;
    int rounds; /* of the block */
};

static inline __device__ struct warp_place place_of_warp(const struct few_rows_args *args) {
    int warp = threadIdx.x / LANES;
    int64_t split = blockIdx.x / args->column_blocks, column_block = blockIdx.x % args->column_blocks;
    int64_t first = args->steps * split / args->splits, end = args->steps * (split + 1) / args->splits;
    struct warp_place place;
    place.across = warp % args->across;
    place.along = warp / args->across;
    place.warps_along = WARPS / args->across;
    place.first_column = (column_block * args->across + place.across) * WARP_COLUMNS;
    place.first_step = first + place.along;
    place.end_step = end;
    place.rounds = (int)tiles(end - first, place.warps_along);
    return place;
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

/* The bytes of a row that the block's steps cover, from `at` on; none or a negative number past their end. */
static inline __device__ int bytes_left(const struct few_rows_args *args, const struct warp_place *place,
                                        int64_t at, int element_bytes) {
    int64_t end = place->end_step * STEP_BYTES, row_end = args->in_features * element_bytes;
    return (int)((end < row_end ? end : row_end) - at);
}

/* ---- The weight ---- */

/* What a lane brings of each of the warp's steps: chunks t and t + 4 of columns g, g + 8, g + 16 and g + 24,
 * where g = lane / 4 and t = lane % 4. */
#define LANE_COLUMNS (WARP_COLUMNS / 8)

struct weight_source {
    const unsigned char *column[LANE_COLUMNS]; /* where the next step's first chunk is */
    int left;                                  /* bytes from there to the end */
};

static inline __device__ struct weight_source
weight_source(const struct few_rows_args *args, const struct warp_place *place, int element_bytes) {
    int lane = threadIdx.x % LANES;
    int64_t at = place->first_step * STEP_BYTES + lane % 4 * CHUNK;
    struct weight_source source;
    source.left = bytes_left(args, place, at, element_bytes);
#pragma unroll
    for (int i = 0; i < LANE_COLUMNS; i++) {
        int64_t column = place->first_column + lane / 4 + 8 * i;
        /* columns past the end repeat the last one: their sums are not stored */
        column = column < args->out_features ? column : args->out_features - 1;
        source.column[i] =
            (const unsigned char *)args->weight + column * args->in_features * element_bytes + at;
    }
    return source;
}

/* Starts to bring the warp's next step into the lane's part of a slot, as one group of copies. */
static __forceinline__ __device__ void start_copies(const struct few_rows_args *args,
                                                    struct weight_source *source, uint4 *slot,
                                                    int warps_along, int element_bytes) {
    int left = source->left;
    if (args->chunks) {
#pragma unroll
        for (int i = 0; i < LANE_COPIES; i++)
            copy_async_once_16_or_zero(slot + i * LANES, source->column[i / 2] + i % 2 * (STEP_BYTES / 2),
                                       left > i % 2 * (STEP_BYTES / 2));
    } else {
#pragma unroll
        for (int i = 0; i < LANE_COPIES; i++) {
            uint4 chunk = gather_chunk(source->column[i / 2] + i % 2 * (STEP_BYTES / 2),
                                       left - i % 2 * (STEP_BYTES / 2), element_bytes);
            slot[i * LANES] = chunk;
        }
    }
    copy_async_commit();
#pragma unroll
    for (int i = 0; i < LANE_COLUMNS; i++)
        source->column[i] += warps_along * STEP_BYTES;
    source->left -= warps_along * STEP_BYTES;
}

/* ---- float32 as bfloat16 pieces ---- */

/* Piece i of two floats becomes pair[i]. */
static __forceinline__ __device__ void split(float a, float b, uint32_t *pair, int pieces) {
    a *= SCALE;
    b *= SCALE;
#pragma unroll
    for (int i = 0; i < pieces; i++) {
        uint32_t bits = bfloat16_pair(a, b);
        pair[i] = bits;
        a -= __uint_as_float(bits << 16);
        b -= __uint_as_float(bits & 0xffff0000u);
    }
}

/* ---- x ---- */

/* That a thread brings for each step. */
#define X_CHUNKS (MOST_TILES_IN_STEP * TILE_ROWS * CHUNKS / THREADS)

/* What a thread brings of x: a chunk of each round's steps. `to` is where its first word goes in a struct
 * x_step. Chunk t of rows g and g + 8 is for lane 4 g + t. Of a 16-bit type it is two words of each unit;
 * four floats are two words of each piece, chunk t in the first unit and t + 4 in the second. */
struct x_source {
    const unsigned char *from;
    int left; /* bytes from there to the end */
    int to;
    bool present; /* false: beyond the rows of x, or the warps along k */
};

static inline __device__ struct x_source
x_source(const struct few_rows_args *args, const struct warp_place *place, int i, int row_tiles, int pieces) {
    int element_bytes = pieces == 1 ? 2 : 4;
    int number = threadIdx.x + i * THREADS;
    int chunk = number % CHUNKS;
    int row = number / CHUNKS % (row_tiles * TILE_ROWS);
    int along = number / (CHUNKS * TILE_ROWS * row_tiles);
    int64_t at = (place->first_step - place->along + along) * STEP_BYTES + chunk * CHUNK;
    struct x_source source;
    source.present = along < place->warps_along && row < args->batch;
    source.from = (const unsigned char *)args->x + row * args->in_features * element_bytes + at;
    source.left = source.present ? bytes_left(args, place, at, element_bytes) : 0;
    int fragment = pieces == 1 ? chunk / 4 : 0, unit = pieces == 1 ? 0 : chunk / 4;
    int tile = along * row_tiles + row / TILE_ROWS, lane = row % 8 * 4 + chunk % 4;
    int operand = ((fragment * FRAGMENT_UNITS + unit) * MOST_TILES_IN_STEP + tile) * LANES + lane;
    source.to = operand * 4 + row / 8 % 2;
    return source;
}

static __forceinline__ __device__ uint4 load_x(const struct few_rows_args *args, struct x_source *source,
                                               int warps_along, int element_bytes) {
    uint4 chunk = make_uint4(0, 0, 0, 0);
    if (source->left > 0)
        chunk = args->chunks ? *(const uint4 *)source->from
                             : gather_chunk(source->from, source->left, element_bytes);
    source->from += warps_along * STEP_BYTES;
    source->left -= warps_along * STEP_BYTES;
    return chunk;
}

static __forceinline__ __device__ void store_x(struct x_step *x, const struct x_source *source, uint4 chunk,
                                               int pieces) {
    if (!source->present)
        return;
    const int unit_words = sizeof x->operand[0][0] / sizeof(uint32_t);
    uint32_t *to = (uint32_t *)x + source->to;
    if (pieces == 1) {
        to[0] = chunk.x;
        to[2] = chunk.y;
        to[unit_words] = chunk.z;
        to[unit_words + 2] = chunk.w;
        return;
    }
    uint32_t pair[2][MOST_FRAGMENTS];
    split(__uint_as_float(chunk.x), __uint_as_float(chunk.y), pair[0], pieces);
    split(__uint_as_float(chunk.z), __uint_as_float(chunk.w), pair[1], pieces);
#pragma unroll
    for (int piece = 0; piece < pieces; piece++) {
        to[piece * FRAGMENT_UNITS * unit_words] = pair[0][piece];
        to[piece * FRAGMENT_UNITS * unit_words + 2] = pair[1][piece];
    }
}

/* Rows that x does not have are zeros. */
static inline __device__ void clear_x(struct few_rows_memory *memory) {
    uint4 *chunk = (uint4 *)memory->x;
    for (int i = threadIdx.x; i < (int)(sizeof memory->x / CHUNK); i += THREADS)
        chunk[i] = make_uint4(0, 0, 0, 0);
    __syncthreads();
}

/* ---- The product ---- */

/* A lane's operands of a step of the weight: of `units` times 16 k. */
#define MOST_UNITS 4
struct weight_operands {
    uint32_t b[MOST_UNITS][COLUMN_TILES][PIECES_FLOAT32][2];
};

static __forceinline__ __device__ void load_weight(struct weight_operands *w, const uint4 *slot, int pieces) {
#pragma unroll
    for (int i = 0; i < LANE_COPIES; i++) {
        uint4 chunk = slot[i * LANES];
        int tile = i / 2, half = i % 2;
        if (pieces == 1) {
            w->b[2 * half][tile][0][0] = chunk.x;
            w->b[2 * half][tile][0][1] = chunk.y;
            w->b[2 * half + 1][tile][0][0] = chunk.z;
            w->b[2 * half + 1][tile][0][1] = chunk.w;
        } else {
            uint32_t pair[2][PIECES_FLOAT32];
            split(__uint_as_float(chunk.x), __uint_as_float(chunk.y), pair[0], pieces);
            split(__uint_as_float(chunk.z), __uint_as_float(chunk.w), pair[1], pieces);
#pragma unroll
            for (int piece = 0; piece < pieces; piece++) {
                w->b[half][tile][piece][0] = pair[0][piece];
                w->b[half][tile][piece][1] = pair[1][piece];
            }
        }
    }
}

/* The sums of 16 rows of x and the warp's columns, as an mma leaves them. */
typedef float tile_sums[COLUMN_TILES][4];

/* One mma for each column tile, with 16 k: they do not wait for each other. */
static __forceinline__ __device__ void multiply_unit(tile_sums sum, uint4 x, const struct weight_operands *w,
                                                     int unit, int w_piece, fgn_type type) {
    uint32_t a[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
    for (int tile = 0; tile < COLUMN_TILES; tile++)
        mma_16x8x16(sum[tile], a, w->b[unit][tile][w_piece], type);
}

/* sum += the products of one step with `row_tiles` tiles of x. */
static __forceinline__ __device__ void multiply_step(tile_sums *sum, const struct x_step *x, int first_tile,
                                                     const struct weight_operands *w, int row_tiles,
                                                     int pieces, fgn_type type) {
    int lane = threadIdx.x % LANES;
#pragma unroll
    for (int tile = 0; tile < row_tiles; tile++) {
        if (pieces == 1) {
#pragma unroll
            for (int unit = 0; unit < MOST_UNITS; unit++)
                multiply_unit(sum[tile], x->operand[unit / 2][unit % 2][first_tile + tile][lane], w, unit, 0,
                              type);
            continue;
        }
        uint4 a[PIECES_FLOAT32][FRAGMENT_UNITS];
#pragma unroll
        for (int i = 0; i < pieces * FRAGMENT_UNITS; i++)
            a[i / FRAGMENT_UNITS][i % FRAGMENT_UNITS] =
                x->operand[i / FRAGMENT_UNITS][i % FRAGMENT_UNITS][first_tile + tile][lane];
        /* tf32 can do with what the tensor cores add up */
        tile_sums step_sum = {{0.0f}};
        tile_sums *into = pieces == PIECES_FLOAT32 ? &step_sum : &sum[tile];
        /* the smallest products first */
#pragma unroll
        for (int order = pieces - 1; order >= 0; order--) {
#pragma unroll
            for (int piece = 0; piece <= order; piece++) {
#pragma unroll
                for (int unit = 0; unit < FRAGMENT_UNITS; unit++)
                    multiply_unit(*into, a[piece][unit], w, unit, order - piece, FGN_BFLOAT16);
            }
        }
        if (pieces == PIECES_FLOAT32) {
#pragma unroll
            for (int i = 0; i < COLUMN_TILES * 4; i++)
                sum[tile][i / 4][i % 4] += step_sum[i / 4][i % 4];
        }
    }
}

/* What a warp sums up for one output, with ordinary multiply-adds: for factors beyond the pieces' range. */
static __noinline__ __device__ float plain_sum(const float *x, const float *weight, int64_t in_features,
                                               struct warp_place place) {
    const int step_elements = STEP_BYTES / sizeof(float);
    float sum = 0.0f;
    for (int64_t step = place.first_step; step < place.end_step; step += place.warps_along) {
        float step_sum = 0.0f;
        for (int64_t k = step * step_elements; k < (step + 1) * step_elements && k < in_features; k++)
            step_sum = fmaf(x[k], weight[k], step_sum);
        sum += step_sum;
    }
    return sum;
}

static inline __device__ bool is_finite(float v) {
    return fabsf(v) <= 3.402823466e38f;
}

/* ---- After the product ---- */

/* The block's sums in shared memory: (warps along k, rows, columns). Rows are 8 floats longer than the
 * block's columns, so that lanes of an mma, which store pairs, meet in no bank. */
static inline __host__ __device__ int parked_pitch(int across) {
    return across * WARP_COLUMNS + 8;
}

/* The output of a sum that may be scaled, or not have been finite. */
static inline __device__ float output_of(const struct few_rows_args *args, const struct warp_place *place,
                                         float sum, int64_t row, int64_t column, int pieces) {
    if (pieces == 1)
        return sum;
    if (is_finite(sum) || row >= args->batch || column >= args->out_features)
        return sum * UNSCALE;
    return plain_sum((const float *)args->x + row * args->in_features,
                     (const float *)args->weight + column * args->in_features, args->in_features, *place);
}

static __forceinline__ __device__ void park(const struct few_rows_args *args, const struct warp_place *place,
                                            float *parked, tile_sums *sum, int row_tiles, int pieces) {
    int lane = threadIdx.x % LANES;
    int pitch = parked_pitch(args->across);
#pragma unroll
    for (int i = 0; i < row_tiles * COLUMN_TILES * 2; i++) {
        int tile = i / (2 * COLUMN_TILES), column_tile = i / 2 % COLUMN_TILES, upper = i % 2;
        int row = tile * TILE_ROWS + 8 * upper + lane / 4;
        int column = column_tile * TILE_COLUMNS + lane % 4 * 2;
        const float *pair = &sum[tile][column_tile][2 * upper];
        float2 output =
            make_float2(output_of(args, place, pair[0], row, place->first_column + column, pieces),
                        output_of(args, place, pair[1], row, place->first_column + column + 1, pieces));
        *(float2 *)&parked[(place->along * row_tiles * TILE_ROWS + row) * pitch +
                           place->across * WARP_COLUMNS + column] = output;
    }
}

/* Adds up the warps along k, and hands the sums on: to the workspace, or with the operators before the norm
 * back to shared memory. */
static __forceinline__ __device__ void
add_warps(const struct few_rows_args *args, const struct warp_place *place, float *parked, int row_tiles) {
    int pitch = parked_pitch(args->across);
    int columns = args->across * WARP_COLUMNS;
    int64_t split = blockIdx.x / args->column_blocks;
    int64_t block_column = blockIdx.x % args->column_blocks * columns;
    for (int i = threadIdx.x; i < row_tiles * TILE_ROWS * columns; i += THREADS) {
        int row = i / columns, column = i % columns;
        if (row >= args->batch || block_column + column >= args->out_features)
            continue;
        float sum = 0.0f;
        for (int along = 0; along < place->warps_along; along++)
            sum += parked[(along * row_tiles * TILE_ROWS + row) * pitch + column];
        if (args->partial) {
            args->partial[(split * args->batch + row) * args->out_features + block_column + column] = sum;
        } else {
            begin_ending(&args->ending, &sum, 1, block_column + column, 0);
            parked[row * pitch + column] = sum;
        }
    }
}

/* That a thread of the second launch works on together, and so the fewest channels worth a thread. */
#define VALUES_AT_ONCE 4

/* The most channels that a warp rather than a block ends. */
#define LARGEST_WARP_GROUP 128

/* The channels that one team ends together: a group, or where there is no norm, any number. */
static inline __host__ __device__ int64_t group_size(const struct ending *ending) {
    int64_t channels = ending->norm.channels;
    if (ending->norm.groups > 0)
        return channels / ending->norm.groups;
    return channels < LARGEST_WARP_GROUP ? channels : LARGEST_WARP_GROUP;
}

/* The lanes that end a group of up to LARGEST_WARP_GROUP channels, some for each. */
static inline __host__ __device__ int lanes_of_group(int64_t size) {
    return power_of_two_above(tiles(size, VALUES_AT_ONCE), LANES);
}

/* A team of lanes for each row and group of the block's columns. */
static __forceinline__ __device__ void end_groups(const struct few_rows_args *args, const float *parked) {
    int columns = args->across * WARP_COLUMNS;
    int64_t block_column = blockIdx.x % args->column_blocks * columns;
    int64_t columns_here = args->out_features - block_column;
    columns_here = columns_here < columns ? columns_here : columns;
    int size = (int)group_size(&args->ending);
    int groups = (int)tiles(columns_here, size);
    struct members team = {0, lanes_of_group(size), NULL};
    team.member = threadIdx.x % team.count;
    int teams = THREADS / team.count, items = (int)args->batch * groups;
#pragma unroll 1
    for (int first_item = 0; first_item < items; first_item += teams) {
        int item = first_item + threadIdx.x / team.count; /* past the last one: a team without work */
        int row = item / groups, first = item % groups * size;
        int here = size < columns_here - first ? size : (int)(columns_here - first);
        end_group(&args->ending, parked + row * parked_pitch(args->across) + first, item < items ? here : 0,
                  1.0f / size, row, block_column + first, &team);
    }
}

/* The whole kernel, for constants `row_tiles`, `pieces` and `type`. */
static __forceinline__ __device__ void few_rows(const struct few_rows_args *args, int row_tiles, int pieces,
                                                fgn_type type) {
    struct few_rows_memory *memory = (struct few_rows_memory *)dynamic_shared;
    struct warp_place place = place_of_warp(args);
    uint4 *queue = (uint4 *)(memory + 1) + threadIdx.x / LANES * (LANE_COPIES * LANES) + threadIdx.x % LANES;
    const int slot_chunks = WARPS * LANE_COPIES * LANES;
    tile_sums sum[MOST_ROWS / TILE_ROWS];
#pragma unroll
    for (int i = 0; i < row_tiles * COLUMN_TILES * 4; i++)
        sum[i / (COLUMN_TILES * 4)][i / 4 % COLUMN_TILES][i % 4] = 0.0f;
    griddepcontrol_launch_dependents();

    clear_x(memory);
    const int element_bytes = pieces == 1 ? 2 : 4;
    struct weight_source w = weight_source(args, &place, element_bytes);
    int filling = 0, reading = 0; /* slots */
    for (; filling < args->slots - 1; filling++)
        start_copies(args, &w, queue + filling * slot_chunks, place.warps_along, element_bytes);
    struct x_source x[X_CHUNKS];
    uint4 x_coming[X_CHUNKS];
#pragma unroll
    for (int i = 0; i < X_CHUNKS; i++) {
        x[i] = x_source(args, &place, i, row_tiles, pieces);
        x_coming[i] = load_x(args, &x[i], place.warps_along, element_bytes);
    }
#pragma unroll 1
    for (int round = 0; round < place.rounds; round++) {
        struct x_step *x_here = &memory->x[round % 2];
#pragma unroll
        for (int i = 0; i < X_CHUNKS; i++) {
            store_x(x_here, &x[i], x_coming[i], pieces);
            x_coming[i] = load_x(args, &x[i], place.warps_along, element_bytes);
        }
        start_copies(args, &w, queue + filling * slot_chunks, place.warps_along, element_bytes);
        filling = filling + 1 < args->slots ? filling + 1 : 0;
        __syncthreads(); /* x is here; the step before it, in the other half, has been read by everyone */
        if (args->slots == MOST_SLOTS)
            copy_async_wait(MOST_SLOTS - 1);
        else
            copy_async_wait(FEWEST_SLOTS - 1);
        struct weight_operands weight;
        load_weight(&weight, queue + reading * slot_chunks, pieces);
        reading = reading + 1 < args->slots ? reading + 1 : 0;
        multiply_step(sum, x_here, place.along * row_tiles, &weight, row_tiles, pieces, type);
    }
    copy_async_wait(0);
    __syncthreads(); /* nobody reads or fills the memory any more */
    float *parked = (float *)dynamic_shared;
    park(args, &place, parked, sum, row_tiles, pieces);
    __syncthreads();
    add_warps(args, &place, parked, row_tiles);
    if (args->partial)
        return;
    __syncthreads();
    end_groups(args, parked);
}

static __forceinline__ __device__ void few_rows_of_any_type(const struct few_rows_args *args, int row_tiles) {
    if (args->type == FGN_FLOAT16)
        few_rows(args, row_tiles, 1, FGN_FLOAT16);
    else if (args->type == FGN_BFLOAT16)
        few_rows(args, row_tiles, 1, FGN_BFLOAT16);
    else if (args->pieces == PIECES_TF32)
        few_rows(args, row_tiles, PIECES_TF32, FGN_FLOAT32);
    else
        few_rows(args, row_tiles, PIECES_FLOAT32, FGN_FLOAT32);
}

__global__ void __launch_bounds__(THREADS, 1) few_rows_16_kernel(struct few_rows_args args) {
    few_rows_of_any_type(&args, 1);
}

__global__ void __launch_bounds__(THREADS, 1) few_rows_32_kernel(struct few_rows_args args) {
    few_rows_of_any_type(&args, 2);
}

__global__ void __launch_bounds__(THREADS, 1) few_rows_64_kernel(struct few_rows_args args) {
    few_rows_of_any_type(&args, 4);
}

LAUNCHER(few_rows_16_kernel, struct few_rows_args)
LAUNCHER(few_rows_32_kernel, struct few_rows_args)
LAUNCHER(few_rows_64_kernel, struct few_rows_args)

/* ---- The second launch ---- */

#define END_THREADS 256
#define END_WARPS (END_THREADS / LANES)
#define MOST_SHARED_VALUES 4096

struct end_args {
    float *partial; /* (splits, batch, channels) */
    int splits;
    int team; /* threads for a group: a warp or the block */
    int size; /* channels in a group */
    int groups;
    int64_t batch;
    struct ending ending;
};

__global__ void __launch_bounds__(END_THREADS) few_rows_end_kernel(struct end_args args) {
    __shared__ float values[MOST_SHARED_VALUES];
    __shared__ float of_warp[END_WARPS];
    griddepcontrol_wait();
    int teams = END_THREADS / args.team;
    int64_t item = (int64_t)blockIdx.x * teams + threadIdx.x / args.team;
    int64_t channels = args.ending.norm.channels;
    int64_t row = item / args.groups, channel = item % args.groups * args.size;
    bool present = row < args.batch;
    int size = !present ? 0 : args.size < channels - channel ? args.size : (int)(channels - channel);
    struct members team = {(int)(threadIdx.x % args.team), args.team, of_warp};
    float *partial = args.partial + row * channels + channel;
    float *value =
        teams * args.size <= MOST_SHARED_VALUES ? values + threadIdx.x / args.team * args.size : partial;
    for (int first = team.member; first < size; first += VALUES_AT_ONCE * team.count) {
        float sum[VALUES_AT_ONCE] = {0.0f};
        for (int split = 0; split < args.splits; split++) {
#pragma unroll
            for (int i = 0; i < VALUES_AT_ONCE; i++)
                if (first + i * team.count < size)
                    sum[i] += partial[split * args.batch * channels + first + i * team.count];
        }
#pragma unroll
        for (int i = 0; i < VALUES_AT_ONCE; i++) {
            int at = first + i * team.count;
            if (at < size) {
                begin_ending(&args.ending, &sum[i], 1, channel + at, 0);
                value[at] = sum[i];
            }
        }
    }
    __syncthreads(); /* everyone reads the group's first value */
    end_group(&args.ending, value, size, 1.0f / args.size, row, channel, &team);
}

EARLY_LAUNCHER(few_rows_end_kernel, struct end_args)

static cudaError_t end_few_rows(const struct few_rows_args *args, bool early, cudaStream_t stream) {
    struct end_args end = {args->partial, args->splits, LANES, (int)group_size(&args->ending), 0,
                           args->batch,   args->ending};
    end.groups = (int)tiles(args->out_features, end.size);
    end.team = end.size > LARGEST_WARP_GROUP ? END_THREADS : lanes_of_group(end.size);
    dim3 grid = {(unsigned)tiles(args->batch * end.groups, END_THREADS / end.team), 1, 1};
    dim3 block = {END_THREADS, 1, 1};
    return launch_few_rows_end_kernel(grid, block, 0, stream, early, end);
}

/* ---- The host's part ---- */

/* What a second launch costs, in bytes that could be read meanwhile. */
#define LAUNCH_COST (8 << 20)
#define MOST_SPLITS 16
#define FEWEST_ROUNDS 4

static int attribute_of_device(enum cudaDeviceAttr attribute) {
    int device = 0, value = 0;
    if (cudaGetDevice(&device) == cudaSuccess)
        cudaDeviceGetAttribute(&value, attribute, device);
    return value;
}

static int row_tiles_of(const fgn_chain *chain) {
    return power_of_two_above(tiles(chain->batch, TILE_ROWS), MOST_ROWS / TILE_ROWS);
}

/* So that there are as many tiles of x in a step whatever the batch. */
static int warps_across(const fgn_chain *chain) {
    return WARPS / MOST_TILES_IN_STEP * row_tiles_of(chain);
}

/* Whether a block has whole groups. */
static bool blocks_hold_groups(const fgn_chain *chain) {
    return chain->groups == 0 ||
           warps_across(chain) * WARP_COLUMNS % (chain->out_features / chain->groups) == 0;
}

static bool ends_in_one_launch(const fgn_chain *chain, int splits) {
    return splits == 1 && blocks_hold_groups(chain);
}

static int64_t steps_of(const fgn_chain *chain) {
    return tiles(chain->in_features * bytes_of(chain->type), STEP_BYTES);
}

/* Into how many parts blocks should split k: what costs the fewest bytes, where a multiprocessor without work
 * costs what it could have read. */
static int splits_of(const fgn_chain *chain) {
    int64_t column_blocks = tiles(chain->out_features, warps_across(chain) * WARP_COLUMNS);
    int64_t rounds = steps_of(chain) / (WARPS / warps_across(chain));
    int64_t multiprocessors = attribute_of_device(cudaDevAttrMultiProcessorCount);
    double weight_bytes = (double)chain->out_features * chain->in_features * bytes_of(chain->type);
    double least = 0.0;
    int best = 1;
    for (int splits = 1; splits <= MOST_SPLITS && (splits == 1 || rounds / splits >= FEWEST_ROUNDS);
         splits++) {
        double blocks = (double)column_blocks * splits;
        double places = (double)tiles(column_blocks * splits, multiprocessors) * multiprocessors;
        double cost = weight_bytes * places / blocks;
        if (!ends_in_one_launch(chain, splits))
            cost += LAUNCH_COST + 8.0 * splits * chain->batch * chain->out_features;
        if (splits == 1 || cost < least) {
            least = cost;
            best = splits;
        }
    }
    return best;
}

/* What the rungs that multiply larger batches in tensor cores ask before they take this one. */
bool has_few_rows(const fgn_chain *chain) {
    return chain->batch <= MOST_ROWS;
}

static const char *refusal(const fgn_chain *chain) {
    if (!has_few_rows(chain))
        return "a batch of at most 64";
#ifdef __CUDACC__
    if (attribute_of_device(cudaDevAttrComputeCapabilityMajor) < 8)
        return "a GPU of compute capability 8.0";
#endif
    return NULL;
}

static int launches(const fgn_chain *chain) {
    return ends_in_one_launch(chain, splits_of(chain)) ? 1 : 2;
}

static unsigned long long workspace_bytes(const fgn_chain *chain) {
    int splits = splits_of(chain);
    if (ends_in_one_launch(chain, splits))
        return 0;
    return (unsigned long long)splits * chain->batch * chain->out_features * sizeof(float);
}

static unsigned long long prepared_bytes(const fgn_chain *chain) {
    (void)chain;
    return 0;
}

static cudaError_t prepare(const fgn_chain *chain, void *prepared, cudaStream_t stream) {
    (void)chain, (void)prepared, (void)stream;
    return cudaSuccess;
}

static struct ending ending_of(const fgn_chain *chain, void *y) {
    struct ending ending = {chain->bias,
                            operators_of(chain->before_count, chain->before),
                            {NULL,
                             chain->norm_scale,
                             chain->norm_shift,
                             NULL,
                             chain->type,
                             chain->batch,
                             chain->out_features,
                             chain->groups,
                             chain->eps,
                             operators_of(chain->after_count, chain->after),
                             {NULL, NULL}},
                            y,
                            chain->type};
    return ending;
}

static cudaError_t forward(const fgn_chain *chain, const void *x, void *y, void *workspace,
                           cudaStream_t stream) {
    struct few_rows_args args;
    int bytes = bytes_of(chain->type);
    args.x = x;
    args.weight = chain->weight;
    args.batch = chain->batch;
    args.in_features = chain->in_features;
    args.out_features = chain->out_features;
    args.type = chain->type;
    args.pieces = chain->type != FGN_FLOAT32     ? 1
                  : chain->precision == FGN_TF32 ? PIECES_TF32
                                                 : PIECES_FLOAT32;
    args.chunks = chain->in_features * bytes % CHUNK == 0 && (uintptr_t)x % CHUNK == 0 &&
                  (uintptr_t)chain->weight % CHUNK == 0;
    args.across = warps_across(chain);
    args.splits = splits_of(chain);
    args.steps = steps_of(chain);
    args.column_blocks = tiles(chain->out_features, args.across * WARP_COLUMNS);
    args.partial = ends_in_one_launch(chain, args.splits) ? NULL : (float *)workspace;
    args.ending = ending_of(chain, y);

    const void *const kernels[] = {(const void *)few_rows_16_kernel, (const void *)few_rows_32_kernel,
                                   (const void *)few_rows_64_kernel};
    cudaError_t (*const launch[])(dim3, dim3, size_t, cudaStream_t, struct few_rows_args) = {
        launch_few_rows_16_kernel, launch_few_rows_32_kernel, launch_few_rows_64_kernel};
    int kernel = row_tiles_of(chain) / 2;
    const size_t slot_bytes = WARPS * WARP_COLUMNS * STEP_BYTES;
    size_t shared_bytes = sizeof(struct few_rows_memory) + MOST_SLOTS * slot_bytes;
    args.slots = MOST_SLOTS;
#ifdef __CUDACC__
    if (shared_bytes > (size_t)attribute_of_device(cudaDevAttrMaxSharedMemoryPerBlockOptin)) {
        args.slots = FEWEST_SLOTS;
        shared_bytes = sizeof(struct few_rows_memory) + FEWEST_SLOTS * slot_bytes;
    }
#endif
    cudaError_t error =
        cudaFuncSetAttribute(kernels[kernel], cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes);
    if (error != cudaSuccess)
        return error;
    dim3 grid = {(unsigned)(args.column_blocks * args.splits), 1, 1};
    dim3 block = {THREADS, 1, 1};
    error = launch[kernel](grid, block, shared_bytes, stream, args);
    if (error == cudaSuccess && args.partial)
        error = end_few_rows(&args, attribute_of_device(cudaDevAttrComputeCapabilityMajor) >= 9, stream);
    return error;
}

const struct tensor_rung gemm_few_rows_tensor = {refusal,        launches, workspace_bytes,
                                                 prepared_bytes, prepare,  forward};
