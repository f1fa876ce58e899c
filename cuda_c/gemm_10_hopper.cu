/* GEMM, rung 10: the whole chain in one launch, on Hopper's own instructions.
 *
 * Idea: the tensor cores of a Hopper GPU want to be fed from shared memory by wgmma, and shared memory by the
 * copy engine; no thread of a consumer touches an operand. As many pairs of blocks as the GPU holds stay for
 * the whole launch and take one tile after the other: while a warpgroup normalises and stores its sums, the
 * other one still multiplies, and the producer fills the ring for the next tile. GroupNorm happens in the
 * registers that hold the sums, so the intermediate never is in memory.
 * hopper_tile.h multiplies, hopper_norm.h normalises.
 *
 * Precisions: bfloat16, float16, tf32, and float32 from two float16 halves of each factor (halves.h), which
 * costs three products.
 *
 * Bytes: inputs once, y once. Operations: 2 batch in_features out_features, three times that for float32.
 *
 * Limit: the tensor cores (1024 multiply-adds of 16-bit factors a clock and multiprocessor ... for which the
 * power that the GPU may draw sets the clock), and at the end the last tiles' epilogues, which nothing hides.
 *
 * Groups of 8, 16, ..., 256 channels are normalised inside a tile, groups of 512 inside a pair; for others
 * the rungs before are there. */
#include "ladder.h"
#include "halves.h"

#define NEEDS_HOPPER "a GPU of compute capability 9.0"

#ifdef __CUDACC__

#include "hopper_norm.h"
#include "hopper_tile.h"
#include "pointwise.h"
#include "element.h"

#define BLOCK_THREADS ((CONSUMERS + 1) * WARPGROUP)

/* The registers of a multiprocessor, 65536, are shared by the producer's warpgroup and the consumers. */
#define PRODUCER_REGISTERS 24
#define CONSUMER_REGISTERS 240

/* Tiles are taken in bands of this many columns, so that what runs at one time shares rows and columns in
 * the L2 cache. */
#define BAND 8

/* The vectors of parameters that an epilogue reads: bias, what undoes the columns' scaling, the norm's scale
 * and shift, and the operators' own. Each warpgroup has its tile's part of them in shared memory. */
#define MOST_VECTORS (4 + 2 * FGN_MAX_POINTWISE)
#define NO_VECTOR (-1)

struct vectors {
    int count;
    const float *from[MOST_VECTORS];
    int bias;
    int unscale;
    int scale;
    int shift;
    int before[FGN_MAX_POINTWISE];
    int after[FGN_MAX_POINTWISE];
};

struct hopper_args {
    struct hopper_copies copies;
    int64_t batch;
    int64_t out_features;
    int tile_rows;     /* COMMON_ROWS or WARPGROUP_ROWS */
    int step_elements; /* along k */
    int steps;
    int row_units; /* a unit is what a pair computes at a time */
    int column_units;
    bool pair_shares_w;
    int group_size; /* 0: the norm is not here */
    float eps;
    struct vectors vectors;
    struct operators before;
    struct operators after;
    struct halves x_halves; /* of split factors */
    struct halves w_halves;
    void *y;
    fgn_type y_type;
};

typedef float staged_vector[TILE_COLUMNS];

static __device__ __forceinline__ struct tile_place place_of_unit(const struct hopper_args *args, int unit,
                                                                  uint32_t rank) {
    int band_units = args->row_units * BAND;
    int first_column = unit / band_units * BAND;
    int width = args->column_units - first_column < BAND ? args->column_units - first_column : BAND;
    int row = unit % band_units / width;
    int column = first_column + unit % band_units % width;
    struct tile_place place;
    place.row = (args->pair_shares_w ? row * PAIR + rank : row) * args->tile_rows;
    place.column = (args->pair_shares_w ? column : column * PAIR + rank) * TILE_COLUMNS;
    return place;
}

/* The column of sum[i], beside the two that the lane has in the first eight. */
static __device__ __forceinline__ int column_of_sum(int i, int unused) {
    (void)unused;
    return i / 4 * CHUNK + i % 2;
}

/* What a thread's sums belong to. */
struct sums_place {
    int64_t row; /* of the first; the second is 8 below */
    int64_t column;
    int columns; /* of the matrix, from this one on */
    int vectors; /* where in shared memory: bytes, from the thread's first column on */
};

/* Starts to copy the tile's part of every vector. */
static __device__ __forceinline__ void stage_vectors(const struct hopper_args *args, staged_vector *staged,
                                                     int first_column, int warpgroup) {
    bar_sync(1 + warpgroup, WARPGROUP); /* the last tile's have been read */
    for (int v = 0; v < args->vectors.count; v++) {
        for (int i = threadIdx.x % WARPGROUP; i < TILE_COLUMNS; i += WARPGROUP) {
            bool present = first_column + i < args->out_features;
            cp_async_float(shared_address(&staged[v][i]),
                           args->vectors.from[v] + (present ? first_column + i : 0), present);
        }
    }
}

static __device__ __forceinline__ void await_vectors(int warpgroup) {
    cp_async_wait_all();
    bar_sync(1 + warpgroup, WARPGROUP);
}

static __device__ __forceinline__ const float *operand(const struct sums_place *place, int vector) {
    return (const float *)(dynamic_shared + place->vectors + vector * (int)sizeof(staged_vector));
}

/* A vector's values for sum[i] and sum[i + 1], which are the columns of sum[i + 2] and sum[i + 3] too. */
static __device__ __forceinline__ float2 operand_pair(const struct sums_place *place, int vector, int i) {
    return *(const float2 *)(operand(place, vector) + column_of_sum(i, 0));
}

static __device__ __forceinline__ void undo_scaling(const struct hopper_args *args,
                                                    const struct sums_place *place, float *sum) {
#pragma unroll
    for (int row = 0; row < 2; row++) {
        int64_t at = place->row + 8 * row;
        float a = args->x_halves.unscale[at < args->batch ? at : args->batch - 1];
#pragma unroll
        for (int i = 2 * row; i < SUMS; i += 4) {
            /* the smaller factor first: their product may be too small or too large for a float */
            float2 b = operand_pair(place, args->vectors.unscale, i);
            sum[i] = sum[i] * fminf(a, b.x) * fmaxf(a, b.x);
            sum[i + 1] = sum[i + 1] * fminf(a, b.y) * fmaxf(a, b.y);
        }
    }
}

static __device__ __forceinline__ void add_bias(const struct hopper_args *args,
                                                const struct sums_place *place, float *sum) {
#pragma unroll
    for (int i = 0; i < SUMS; i += 4) {
        float2 bias = operand_pair(place, args->vectors.bias, i);
        sum[i] += bias.x;
        sum[i + 1] += bias.y;
        sum[i + 2] += bias.x;
        sum[i + 3] += bias.y;
    }
}

static __device__ __forceinline__ void normalise(const struct hopper_args *args, float *sum,
                                                 struct hopper_memory *memory, int warpgroup, uint32_t turn) {
    switch (args->group_size) {
    case 8:
        normalise_groups(sum, TILE_COLUMNS, 8, args->eps);
        break;
    case 16:
        normalise_groups(sum, TILE_COLUMNS, 16, args->eps);
        break;
    case 32:
        normalise_groups(sum, TILE_COLUMNS, 32, args->eps);
        break;
    case 64:
        normalise_groups(sum, TILE_COLUMNS, 64, args->eps);
        break;
    case 128:
        normalise_groups(sum, TILE_COLUMNS, 128, args->eps);
        break;
    case 256:
        normalise_groups(sum, TILE_COLUMNS, 256, args->eps);
        break;
    default:
        normalise_with_other_block(sum, args->eps, memory, warpgroup, turn);
        break;
    }
}

static __device__ __forceinline__ void scale_and_shift_sums(const struct hopper_args *args,
                                                            const struct sums_place *place, float *sum) {
#pragma unroll
    for (int i = 0; i < SUMS; i += 4) {
        float2 scale = make_float2(1.0f, 1.0f), shift = make_float2(0.0f, 0.0f);
        if (args->vectors.scale != NO_VECTOR)
            scale = operand_pair(place, args->vectors.scale, i);
        if (args->vectors.shift != NO_VECTOR)
            shift = operand_pair(place, args->vectors.shift, i);
        sum[i] = sum[i] * scale.x + shift.x;
        sum[i + 1] = sum[i + 1] * scale.y + shift.y;
        sum[i + 2] = sum[i + 2] * scale.x + shift.x;
        sum[i + 3] = sum[i + 3] * scale.y + shift.y;
    }
}

/* ---- From registers to y ---- */

/* One value after the other: for rows that do not begin at multiples of 16 bytes. */
static __device__ __forceinline__ void store_values(const struct sums_place *place, const float *sum, int row,
                                                    void *y, fgn_type type) {
#pragma unroll
    for (int i = 0; i < SUMS; i++) {
        int column = column_of_sum(i, 0);
        if (i / 2 % 2 != row || column >= place->columns)
            continue;
        if (type == FGN_FLOAT32)
            ((float *)y)[column] = sum[i];
        else
            ((uint16_t *)y)[column] = type == FGN_FLOAT16 ? float16_bits(sum[i]) : bfloat16_bits(sum[i]);
    }
}

/* Two neighbouring floats a lane: a quad fills a sector of 32 bytes. */
static __device__ __forceinline__ void store_floats(const struct sums_place *place, const float *sum, int row,
                                                    float *y) {
#pragma unroll
    for (int i = 2 * row; i < SUMS; i += 4) {
        int column = column_of_sum(i, 0);
        if (column < place->columns)
            *(float2 *)(y + column) = make_float2(sum[i], sum[i + 1]);
    }
}

/* Two values in one register, by one instruction. */
static __device__ __forceinline__ uint32_t packed(float a, float b, fgn_type type) {
    if (type == FGN_FLOAT16) {
        __half2 pair = __floats2half2_rn(a, b);
        return *(uint32_t *)&pair;
    }
    __nv_bfloat162 pair = __floats2bfloat162_rn(a, b);
    return *(uint32_t *)&pair;
}

/* Transposes a 2 x 2 matrix whose rows are in two lanes, `distance` apart. */
static __device__ __forceinline__ void exchange(uint32_t *a, uint32_t *b, int distance) {
    bool upper = threadIdx.x & distance;
    uint32_t got = __shfl_xor_sync(0xffffffffu, upper ? *a : *b, distance);
    if (upper)
        *a = got;
    else
        *b = got;
}

#define ROW_PAIRS (SUMS / 4) /* of a thread, in one of its two rows */

/* Eight neighbouring 16-bit values a lane. A quad has two of every eight columns in each lane: four times
 * eight columns are transposed within it, so that each lane stores 16 bytes and the quad 64. */
static __device__ __forceinline__ void store_halves(const struct sums_place *place, const float *sum, int row,
                                                    uint16_t *y, bool present, fgn_type type) {
    uint32_t pair[ROW_PAIRS];
#pragma unroll
    for (int i = 0; i < ROW_PAIRS; i++)
        pair[i] = packed(sum[4 * i + 2 * row], sum[4 * i + 2 * row + 1], type);
#pragma unroll
    for (int i = 0; i < ROW_PAIRS; i += 2)
        exchange(&pair[i], &pair[i + 1], 1);
#pragma unroll
    for (int i = 0; i < ROW_PAIRS; i += QUAD) {
        exchange(&pair[i], &pair[i + 2], 2);
        exchange(&pair[i + 1], &pair[i + 3], 2);
    }
    int to_first_column = threadIdx.x % QUAD * (CHUNK - 2); /* of the lane's own eight, from its first two */
#pragma unroll
    for (int i = 0; i < ROW_PAIRS; i += QUAD) {
        int column = i * CHUNK + to_first_column;
        if (present && column < place->columns)
            *(uint4 *)(y + column) = make_uint4(pair[i], pair[i + 1], pair[i + 2], pair[i + 3]);
    }
}

static __device__ __forceinline__ void store_sums_as(const struct hopper_args *args,
                                                     const struct sums_place *place, const float *sum,
                                                     fgn_type type) {
    bool aligned = args->out_features % CHUNK == 0;
#pragma unroll
    for (int row = 0; row < 2; row++) {
        int64_t first = (place->row + 8 * row) * args->out_features + place->column;
        bool present = place->row + 8 * row < args->batch;
        if (aligned && type != FGN_FLOAT32)
            store_halves(place, sum, row, (uint16_t *)args->y + first, present, type);
        else if (aligned && present)
            store_floats(place, sum, row, (float *)args->y + first);
        else if (present)
            store_values(place, sum, row, (unsigned char *)args->y + first * (type == FGN_FLOAT32 ? 4 : 2),
                         type);
    }
}

/* The type is a constant in each branch. */
static __device__ __forceinline__ void store_sums(const struct hopper_args *args,
                                                  const struct sums_place *place, const float *sum) {
    switch (args->y_type) {
    case FGN_FLOAT32:
        store_sums_as(args, place, sum, FGN_FLOAT32);
        break;
    case FGN_FLOAT16:
        store_sums_as(args, place, sum, FGN_FLOAT16);
        break;
    case FGN_BFLOAT16:
        store_sums_as(args, place, sum, FGN_BFLOAT16);
        break;
    }
}

static __device__ __forceinline__ void apply_to_sums(const struct operators *list, const int *vector,
                                                     const struct sums_place *place, float *sum) {
#pragma unroll 1
    for (int i = 0; i < list->count; i++)
        apply_operator_with(&list->step[i], sum, SUMS, operand(place, vector[i]), column_of_sum, 0);
}

/* From the sums of a tile to its part of y. */
static __device__ __forceinline__ void finish_tile(const struct hopper_args *args, struct tile_place tile,
                                                   float *sum, struct hopper_memory *memory,
                                                   const staged_vector *staged, int warpgroup, uint32_t turn,
                                                   enum factors factors) {
    int lane = threadIdx.x % 32;
    int row_in_warpgroup = threadIdx.x % WARPGROUP / 32 * 16 + lane / QUAD;
    int first_column = lane % QUAD * 2;
    struct sums_place place = {tile.row + row_in_warpgroup, tile.column + first_column,
                               (int)(args->out_features - tile.column - first_column),
                               (int)((unsigned char *)&staged[0][first_column] - dynamic_shared)};
    if (factors == SPLIT_FLOAT32_FACTORS)
        undo_scaling(args, &place, sum);
    if (args->vectors.bias != NO_VECTOR)
        add_bias(args, &place, sum);
    apply_to_sums(&args->before, args->vectors.before, &place, sum);
    if (args->group_size > 0) {
        normalise(args, sum, memory, warpgroup, turn);
        scale_and_shift_sums(args, &place, sum);
        apply_to_sums(&args->after, args->vectors.after, &place, sum);
    }
    store_sums(args, &place, sum);
}

/* A constant for split factors: their products take three times as long, and always are of common tiles. */
static __device__ __forceinline__ int tile_rows_known(const struct hopper_args *args, enum factors factors) {
    return factors == SPLIT_FLOAT32_FACTORS ? COMMON_ROWS : args->tile_rows;
}

static __device__ __forceinline__ void produce(const struct hopper_args *args, struct hopper_memory *memory,
                                               enum factors factors) {
    uint32_t rank = cluster_rank();
    struct ring ring = start_of_ring(tile_rows_known(args, factors));
    int units = args->row_units * args->column_units;
    for (int unit = blockIdx.x / PAIR; unit < units; unit += gridDim.x / PAIR) {
        struct tile_place place = place_of_unit(args, unit, rank);
        for (int step = 0; step < args->steps; step++) {
            int k = step * args->step_elements;
            copy_step(memory, &args->copies.x, &args->copies.w, place, k, args->pair_shares_w, rank, &ring);
            if (factors == SPLIT_FLOAT32_FACTORS)
                copy_step(memory, &args->copies.x_low, &args->copies.w_low, place, k, args->pair_shares_w,
                          rank, &ring);
        }
    }
}

static __device__ __forceinline__ void consume(const struct hopper_args *args, struct hopper_memory *memory,
                                               int warpgroup, enum factors factors) {
    staged_vector *staged = (staged_vector *)(memory + 1) + warpgroup * args->vectors.count;
    int tile_rows = tile_rows_known(args, factors);
    bool own_tiles = has_own_tiles(tile_rows);
    int first_row = own_tiles ? 0 : warpgroup * WARPGROUP_ROWS; /* in a tile */
    uint32_t rank = cluster_rank(), turn = 0;
    struct ring ring = start_of_ring(tile_rows);
    int units = args->row_units * args->column_units, each = gridDim.x / PAIR;
    int first_unit = blockIdx.x / PAIR;
    if (own_tiles) {
        /* the second warpgroup begins with the second tile, and each leaves out the other's */
        if (warpgroup == 1)
            skip(&ring, args->steps);
        first_unit += warpgroup * each;
        each *= CONSUMERS;
    }
#pragma unroll 1
    for (int unit = first_unit; unit < units; unit += each) {
        float sum[SUMS];
        struct tile_place place = place_of_unit(args, unit, rank);
        stage_vectors(args, staged, place.column, warpgroup);
        if (own_tiles)
            await_turn(memory, warpgroup, turn);
        int last_slot = 0;
        if (factors == SPLIT_FLOAT32_FACTORS)
            multiply_split(memory, args->steps, first_row, &ring, sum);
        else
            last_slot = multiply(memory, args->steps, first_row, &ring, sum, factors);
        if (own_tiles) {
            end_turn(memory, warpgroup);
            skip(&ring, args->steps);
        }
        if (factors != SPLIT_FLOAT32_FACTORS)
            finish_multiplying(memory, last_slot, sum);
        await_vectors(warpgroup);
        place.row += first_row;
        finish_tile(args, place, sum, memory, staged, warpgroup, turn, factors);
        turn ^= 1;
    }
}

static __device__ __forceinline__ void run_block(const struct hopper_args *args, enum factors factors) {
    extern __shared__ unsigned char unaligned[];
    struct hopper_memory *memory = (struct hopper_memory *)(((uintptr_t)unaligned + SLOT_ALIGNMENT - 1) /
                                                            SLOT_ALIGNMENT * SLOT_ALIGNMENT);
    if (factors == SPLIT_FLOAT32_FACTORS && (*args->x_halves.unheld || *args->w_halves.unheld))
        return; /* the float32 rung, launched after this one, does the work */
    if (threadIdx.x == 0) {
        prefetch_tensormap(&args->copies.x);
        prefetch_tensormap(&args->copies.w);
    }
    prepare_barriers(memory, args->tile_rows);
    if (threadIdx.x < WARPGROUP) {
        setmaxnreg_dec(PRODUCER_REGISTERS);
        if (threadIdx.x == 0)
            produce(args, memory, factors);
    } else {
        setmaxnreg_inc(CONSUMER_REGISTERS);
        consume(args, memory, threadIdx.x / WARPGROUP - 1, factors);
    }
    cluster_sync(); /* a block's shared memory has to outlive what the other one sends there */
}

/* The library is built for other architectures too, which lack these instructions; refusal() keeps the
 * kernels from being launched there. */
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define HAS_HOPPER_INSTRUCTIONS true
#else
#define HAS_HOPPER_INSTRUCTIONS false
#endif

__global__ void __launch_bounds__(BLOCK_THREADS, 1)
    hopper_bfloat16_kernel(const __grid_constant__ struct hopper_args args) {
    if (HAS_HOPPER_INSTRUCTIONS)
        run_block(&args, BFLOAT16_FACTORS);
}

__global__ void __launch_bounds__(BLOCK_THREADS, 1)
    hopper_float16_kernel(const __grid_constant__ struct hopper_args args) {
    if (HAS_HOPPER_INSTRUCTIONS)
        run_block(&args, FLOAT16_FACTORS);
}

__global__ void __launch_bounds__(BLOCK_THREADS, 1)
    hopper_tf32_kernel(const __grid_constant__ struct hopper_args args) {
    if (HAS_HOPPER_INSTRUCTIONS)
        run_block(&args, TF32_FACTORS);
}

__global__ void __launch_bounds__(BLOCK_THREADS, 1)
    hopper_split_float32_kernel(const __grid_constant__ struct hopper_args args) {
    if (HAS_HOPPER_INSTRUCTIONS)
        run_block(&args, SPLIT_FLOAT32_FACTORS);
}

/* ---- The host's side ---- */

typedef CUresult (*encode_function)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                                    const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                                    const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                                    CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

/* The driver's cuTensorMapEncodeTiled, asked for at run time: the library then loads without a driver. */
static encode_function find_encode(void) {
    void *function = NULL;
    cudaDriverEntryPointQueryResult found;
    if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault,
                                         &found) != cudaSuccess)
        return NULL;
    return found == cudaDriverEntryPointSuccess ? (encode_function)function : NULL;
}

/* How the copy engine sees a row-major matrix: boxes of `box_rows` rows and 128 bytes, swizzled. What a box
 * has outside the matrix is zero. */
static bool describe(CUtensorMap *map, CUtensorMapDataType type, int element_bytes, const void *matrix,
                     int64_t rows, int64_t columns, int64_t pitch, int box_rows) {
    static encode_function encode = NULL;
    if (!encode)
        encode = find_encode();
    if (!encode)
        return false;
    cuuint64_t sizes[2] = {(cuuint64_t)columns, (cuuint64_t)rows};
    cuuint64_t strides[1] = {(cuuint64_t)pitch * element_bytes};
    cuuint32_t box[2] = {(cuuint32_t)(STEP_BYTES / element_bytes), (cuuint32_t)box_rows};
    cuuint32_t element_strides[2] = {1, 1};
    return encode(map, type, 2, (void *)matrix, sizes, strides, box, element_strides,
                  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                  CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

static bool is_split(const fgn_chain *chain) {
    return chain->type == FGN_FLOAT32 && chain->precision == FGN_IEEE;
}

static int element_bytes_of(const fgn_chain *chain) {
    return chain->type == FGN_FLOAT32 && !is_split(chain) ? 4 : 2;
}

static int64_t group_size_of(const fgn_chain *chain) {
    return chain->groups > 0 ? chain->out_features / chain->groups : 0;
}

static bool is_power_of_two(int64_t v) {
    return v > 0 && (v & (v - 1)) == 0;
}

/* Whether the norm can be in the product's kernel. */
static bool normalises_in_tile(const fgn_chain *chain) {
    int64_t size = group_size_of(chain);
    return is_power_of_two(size) && size >= CHUNK && size <= PAIR * TILE_COLUMNS;
}

/* Pairs of rows share w, which is the larger part of a slot; but a group of 512 needs a pair of columns, and
 * an odd number of row tiles would leave a block without work. */
static bool pairs_share_w(const fgn_chain *chain, int tile_rows) {
    return group_size_of(chain) != PAIR * TILE_COLUMNS && tiles(chain->batch, tile_rows) % PAIR == 0;
}

/* The longest product of which a warpgroup has tiles of its own. */
#ifndef MOST_OWN_STEPS
#define MOST_OWN_STEPS 32
#endif

static int tile_rows_of(const fgn_chain *chain, int steps) {
    return !is_split(chain) && steps <= MOST_OWN_STEPS ? WARPGROUP_ROWS : COMMON_ROWS;
}

static bool describe_matrices(struct hopper_args *args, const fgn_chain *chain, const void *x) {
    int x_box = args->pair_shares_w ? args->tile_rows : args->tile_rows / PAIR;
    int w_box = args->pair_shares_w ? TILE_COLUMNS / PAIR : TILE_COLUMNS;
    int64_t batch = chain->batch, in = chain->in_features, out = chain->out_features;
    if (is_split(chain)) {
        CUtensorMapDataType half = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
        int64_t pitch = halves_pitch(in);
        return describe(&args->copies.x, half, 2, args->x_halves.high, batch, in, pitch, x_box) &&
               describe(&args->copies.x_low, half, 2, args->x_halves.low, batch, in, pitch, x_box) &&
               describe(&args->copies.w, half, 2, args->w_halves.high, out, in, pitch, w_box) &&
               describe(&args->copies.w_low, half, 2, args->w_halves.low, out, in, pitch, w_box);
    }
    /* As TFLOAT32 the copy engine rounds to tf32; wgmma alone would cut the bits off. */
    CUtensorMapDataType type = chain->type == FGN_FLOAT32   ? CU_TENSOR_MAP_DATA_TYPE_TFLOAT32
                               : chain->type == FGN_FLOAT16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                                            : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    int bytes = element_bytes_of(chain);
    return describe(&args->copies.x, type, bytes, x, batch, in, in, x_box) &&
           describe(&args->copies.w, type, bytes, chain->weight, out, in, in, w_box);
}

typedef void (*hopper_kernel)(const struct hopper_args args);

static hopper_kernel kernel_for(const fgn_chain *chain) {
    if (chain->type == FGN_BFLOAT16)
        return hopper_bfloat16_kernel;
    if (chain->type == FGN_FLOAT16)
        return hopper_float16_kernel;
    return is_split(chain) ? hopper_split_float32_kernel : hopper_tf32_kernel;
}

static cudaError_t launch_kernel(const fgn_chain *chain, struct hopper_args *args, cudaStream_t stream) {
    int device, multiprocessors;
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
    hopper_kernel kernel = kernel_for(chain);
    size_t shared_bytes = SLOT_ALIGNMENT + sizeof(struct hopper_memory) +
                          CONSUMERS * args->vectors.count * sizeof(staged_vector);
    if (error == cudaSuccess)
        error = cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     (int)shared_bytes);
    if (error != cudaSuccess)
        return error;
    int units = args->row_units * args->column_units;
    int pairs = multiprocessors / PAIR < units ? multiprocessors / PAIR : units;
    cudaLaunchAttribute cluster;
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = PAIR;
    cluster.val.clusterDim.y = 1;
    cluster.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(pairs * PAIR, 1, 1);
    config.blockDim = dim3(BLOCK_THREADS, 1, 1);
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    config.attrs = &cluster;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, kernel, *args);
}

static const char *refusal(const fgn_chain *chain) {
    int device, major, minor;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess ||
        major != 9 || minor != 0)
        return NEEDS_HOPPER;
    if (!is_split(chain) && chain->in_features % (16 / element_bytes_of(chain)) != 0)
        return "rows of x that are multiples of 16 bytes";
    if (chain->groups > 0 && !normalises_in_tile(chain))
        return "groups of 8, 16, 32, 64, 128, 256 or 512 channels";
    if (chain->batch > INT32_MAX - COMMON_ROWS * PAIR)
        return "a batch below 2^31";
    return NULL;
}

/* Split factors: the halves of x, the chain, and float32 in their stead. */
static int launches(const fgn_chain *chain) {
    return is_split(chain) ? 2 + float32_launches(chain) : 1;
}

/* The halves of x. */
static unsigned long long workspace_bytes(const fgn_chain *chain) {
    return is_split(chain) ? halves_bytes(chain->batch, chain->in_features) : 0;
}

static unsigned long long prepared_bytes(const fgn_chain *chain) {
    return is_split(chain) ? halves_bytes(chain->out_features, chain->in_features) : 0;
}

static cudaError_t prepare(const fgn_chain *chain, void *prepared, cudaStream_t stream) {
    return make_halves((const float *)chain->weight, chain->out_features, chain->in_features,
                       halves_at(prepared, chain->out_features, chain->in_features), stream);
}

static int add_vector(struct vectors *vectors, const float *from) {
    if (!from)
        return NO_VECTOR;
    vectors->from[vectors->count] = from;
    return vectors->count++;
}

static struct vectors vectors_of(const fgn_chain *chain, const float *unscale) {
    struct vectors vectors = {};
    vectors.bias = add_vector(&vectors, chain->bias);
    vectors.unscale = add_vector(&vectors, unscale);
    for (int i = 0; i < chain->before_count; i++)
        vectors.before[i] = add_vector(&vectors, chain->before[i].channel);
    vectors.scale = vectors.shift = NO_VECTOR;
    if (normalises_in_tile(chain)) {
        vectors.scale = add_vector(&vectors, chain->norm_scale);
        vectors.shift = add_vector(&vectors, chain->norm_shift);
        for (int i = 0; i < chain->after_count; i++)
            vectors.after[i] = add_vector(&vectors, chain->after[i].channel);
    }
    return vectors;
}

static cudaError_t forward(const fgn_chain *chain, const void *x, void *y, void *workspace,
                           cudaStream_t stream) {
    struct hopper_args args = {};
    args.batch = chain->batch;
    args.out_features = chain->out_features;
    args.step_elements = STEP_BYTES / element_bytes_of(chain);
    args.steps = (int)tiles(chain->in_features, args.step_elements);
    args.tile_rows = tile_rows_of(chain, args.steps);
    args.pair_shares_w = pairs_share_w(chain, args.tile_rows);
    args.row_units = (int)tiles(chain->batch, args.pair_shares_w ? PAIR * args.tile_rows : args.tile_rows);
    args.column_units =
        (int)tiles(chain->out_features, args.pair_shares_w ? TILE_COLUMNS : PAIR * TILE_COLUMNS);
    args.group_size = normalises_in_tile(chain) ? (int)group_size_of(chain) : 0;
    args.eps = chain->eps;
    args.before = operators_of(chain->before_count, chain->before);
    args.after = operators_of(chain->after_count, chain->after);
    args.y = y;
    args.y_type = chain->type;
    cudaError_t error = cudaSuccess;
    if (is_split(chain)) {
        args.x_halves = halves_at(workspace, chain->batch, chain->in_features);
        args.w_halves = halves_at((void *)chain->prepared, chain->out_features, chain->in_features);
        error = make_halves((const float *)x, chain->batch, chain->in_features, args.x_halves, stream);
    }
    if (error != cudaSuccess)
        return error;
    args.vectors = vectors_of(chain, args.w_halves.unscale);
    if (!describe_matrices(&args, chain, x))
        return cudaErrorInvalidValue;
    error = launch_kernel(chain, &args, stream);
    if (error == cudaSuccess && is_split(chain)) {
        struct condition unheld = {args.x_halves.unheld, args.w_halves.unheld};
        error = float32_chain(chain, (const float *)x, (float *)y, unheld, stream);
    }
    return error;
}

extern const struct tensor_rung gemm_10_hopper = {refusal,        launches, workspace_bytes,
                                                  prepared_bytes, prepare,  forward};

#else /* the simulator has no copy engine and no wgmma */

static const char *refusal(const fgn_chain *chain) {
    (void)chain;
    return NEEDS_HOPPER;
}

const struct tensor_rung gemm_10_hopper = {refusal, NULL, NULL, NULL, NULL, NULL};

#endif
