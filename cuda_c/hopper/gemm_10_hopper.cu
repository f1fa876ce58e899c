/* GEMM, rung 10: the whole chain in one launch, on Hopper's own instructions.
 *
 * Idea: the tensor cores of a Hopper GPU want to be fed from shared memory by wgmma, and shared memory by
 * TMA; no thread of a consumer touches an operand. As many pairs of blocks as the GPU holds stay for
 * the whole launch and take one tile after the other, while the producer already fills the ring for the next
 * one. Where products are short, each team of warpgroups has tiles of its own: one multiplies while the other
 * one normalises and stores. GroupNorm happens in the registers that hold the sums, so the intermediate never
 * is in memory. hopper/tile.h multiplies, hopper/norm.h normalises.
 *
 * Precisions: bfloat16, float16, tf32, and float32 from two float16 halves of each factor (halves.h), which
 * costs three products.
 *
 * Bytes: inputs once, y once. Operations: 2 batch in_features out_features, three times that for float32.
 *
 * Limit: the tensor cores (2048 multiply-adds of 16-bit factors a clock and multiprocessor, at a clock that
 * the power decides that the GPU may draw), and the epilogues that nothing hides: of long products all, each
 * some ten thousand clocks.
 *
 * Groups of 8, 16, ..., 256 channels are normalised inside a tile, groups of two tiles inside a pair; for
 * others the rungs before are there. */
#include "shared/rung.h"
#include "shared/halves.h"
#include "ladder/float32_chain.h"
#include "hopper/plan.h"

#ifdef __CUDACC__

#include "hopper/norm.h"
#include "hopper/tile.h"
#include "shared/pointwise.h"
#include "shared/element.h"

/* The registers of a multiprocessor, 65536, are divided evenly at first, in eights: 168 for each thread of
 * three warpgroups, 96 of five. What the producer gives back the consumers share. */
#define PRODUCER_REGISTERS 24
#define CONSUMER_REGISTERS 240
#define LARGE_BLOCK_CONSUMER_REGISTERS 112

/* Tiles are taken in bands of this many columns, so that what runs at one time shares rows and columns in
 * the L2 cache. */
#define BAND 8

/* The vectors of parameters that an epilogue reads: bias, what undoes the columns' scaling, the norm's scale
 * and shift, and the operators' own. Each warpgroup has the part of them that is its columns' in shared
 * memory. */
#define MOST_VECTORS (4 + 2 * FGN_MAX_POINTWISE)
#define NO_VECTOR (-1)

struct vectors {
    int count;
    const float *from[MOST_VECTORS]; /* NULL: a constant */
    float constant[MOST_VECTORS];
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
};

static __device__ __forceinline__ struct tile_place place_of_unit(const struct hopper_args *args, int unit,
                                                                  uint32_t rank, struct product product) {
    int band_units = args->row_units * BAND;
    int first_column = unit / band_units * BAND;
    int width = args->column_units - first_column < BAND ? args->column_units - first_column : BAND;
    int row = unit % band_units / width;
    int column = first_column + unit % band_units % width;
    struct tile_place place;
    place.row = (args->pair_shares_w ? row * PAIR + rank : row) * args->tile_rows;
    place.column = (args->pair_shares_w ? column : column * PAIR + rank) * product.columns;
    return place;
}

/* The column of sum[i], from the lane's first one on (the inverse of sum_at()), with 8 and with 4 neighbours.
 */
static __device__ __forceinline__ int column_of_sum_8(int i, int unused) {
    (void)unused;
    return i / 16 * 32 + i % 16 / 4 * 2 + i % 2;
}

static __device__ __forceinline__ int column_of_sum_4(int i, int unused) {
    (void)unused;
    return i / 8 * 16 + i % 8 / 4 * 2 + i % 2;
}

/* What a thread's sums belong to. */
struct sums_place {
    int64_t row; /* of the first; the second is 8 below */
    int64_t column;
    int columns; /* of the matrix, from this one on */
    int vectors; /* where in shared memory: bytes, from the thread's first column on */
};

/* Starts to copy the tile's part of every vector. */
static __device__ __forceinline__ void stage_vectors(const struct hopper_args *args, float *staged,
                                                     int first_column, int warpgroup,
                                                     struct product product) {
    bar_sync(1 + warpgroup, WARPGROUP); /* the last tile's have been read */
    for (int v = 0; v < args->vectors.count; v++) {
        const float *from = args->vectors.from[v];
        float *to = staged + v * product.warpgroup_columns;
        for (int i = threadIdx.x % WARPGROUP; i < product.warpgroup_columns; i += WARPGROUP) {
            bool present = first_column + i < args->out_features;
            if (from)
                cp_async_4_or_zero(&to[i], from + (present ? first_column + i : 0), present);
            else
                to[i] = args->vectors.constant[v];
        }
    }
}

static __device__ __forceinline__ void await_vectors(int warpgroup) {
    cp_async_wait_all();
    bar_sync(1 + warpgroup, WARPGROUP);
}

static __device__ __forceinline__ const float *operand(const struct sums_place *place, int vector,
                                                       struct product product) {
    const void *at =
        dynamic_shared + place->vectors + vector * product.warpgroup_columns * (int)sizeof(float);
    return (const float *)__builtin_assume_aligned(at, sizeof(float4));
}

/* A vector's values for the lane's columns in a block. */
struct lane_operand {
    float v[MOST_LANE_COLUMNS];
};

static __device__ __forceinline__ struct lane_operand lane_operand(const struct sums_place *place, int vector,
                                                                   int block, struct product product) {
    struct lane_operand lane;
    const float *of_block = operand(place, vector, product) + block * block_columns(product);
#pragma unroll
    for (int i = 0; i < lane_columns(product); i += 4) {
        float4 quad = *(const float4 *)(of_block + i);
        lane.v[i] = quad.x;
        lane.v[i + 1] = quad.y;
        lane.v[i + 2] = quad.z;
        lane.v[i + 3] = quad.w;
    }
    return lane;
}

static __device__ __forceinline__ void undo_scaling(const struct hopper_args *args,
                                                    const struct sums_place *place, float *sum,
                                                    struct product product) {
#pragma unroll
    for (int block = 0; block < product.warpgroup_columns / block_columns(product); block++) {
        struct lane_operand of_column = lane_operand(place, args->vectors.unscale, block, product);
#pragma unroll
        for (int row = 0; row < 2; row++) {
            int64_t at = place->row + 8 * row;
            float a = args->x_halves.unscale[at < args->batch ? at : args->batch - 1];
#pragma unroll
            for (int i = 0; i < lane_columns(product); i++) {
                /* the smaller factor first: their product may be too small or too large for a float */
                float *v = &sum[sum_at(block, row, i, product)];
                *v = *v * fminf(a, of_column.v[i]) * fmaxf(a, of_column.v[i]);
            }
        }
    }
}

static __device__ __forceinline__ void
add_bias(const struct hopper_args *args, const struct sums_place *place, float *sum, struct product product) {
#pragma unroll
    for (int block = 0; block < product.warpgroup_columns / block_columns(product); block++) {
        struct lane_operand bias = lane_operand(place, args->vectors.bias, block, product);
#pragma unroll
        for (int i = 0; i < lane_columns(product); i++) {
            sum[sum_at(block, 0, i, product)] += bias.v[i];
            sum[sum_at(block, 1, i, product)] += bias.v[i];
        }
    }
}

static __device__ __forceinline__ void normalise(const struct hopper_args *args, float *sum,
                                                 struct hopper_memory *memory, int team, int member,
                                                 uint32_t turn, struct product product) {
    if (args->group_size > product.warpgroup_columns) {
        normalise_with_others(sum, args->group_size, args->eps, memory, team, member, turn, product);
        return;
    }
    switch (args->group_size) {
    case 8:
        normalise_groups_of(sum, 8, args->eps, product);
        break;
    case 16:
        normalise_groups_of(sum, 16, args->eps, product);
        break;
    case 32:
        normalise_groups_of(sum, 32, args->eps, product);
        break;
    case 64:
        normalise_groups_of(sum, 64, args->eps, product);
        break;
    case 128:
        normalise_groups_of(sum, 128, args->eps, product);
        break;
    case 256:
        if (product.warpgroup_columns == TILE_COLUMNS)
            normalise_groups_of(sum, 256, args->eps, product);
        break;
    }
}

static __device__ __forceinline__ void scale_and_shift_sums(const struct hopper_args *args,
                                                            const struct sums_place *place, float *sum,
                                                            struct product product) {
#pragma unroll
    for (int block = 0; block < product.warpgroup_columns / block_columns(product); block++) {
        struct lane_operand scale = lane_operand(place, args->vectors.scale, block, product);
        struct lane_operand shift = lane_operand(place, args->vectors.shift, block, product);
#pragma unroll
        for (int i = 0; i < 2 * lane_columns(product); i++) {
            int column = i % lane_columns(product);
            float *v = &sum[sum_at(block, i / lane_columns(product), column, product)];
            *v = *v * scale.v[column] + shift.v[column];
        }
    }
}

/* ---- From registers to y ---- */

/* Two values in one register, by one instruction. */
static __device__ __forceinline__ uint32_t packed(float a, float b, struct product product) {
    if (product.factors == FLOAT16_FACTORS) {
        __half2 pair = __floats2half2_rn(a, b);
        return *(uint32_t *)&pair;
    }
    __nv_bfloat162 pair = __floats2bfloat162_rn(a, b);
    return *(uint32_t *)&pair;
}

/* The lane's columns of a block in one of its rows, 16 bytes of y. */
static __device__ __forceinline__ uint4 bytes_of_sums(const float *sum, int block, int row,
                                                      struct product product) {
    float v[MOST_LANE_COLUMNS];
#pragma unroll
    for (int i = 0; i < lane_columns(product); i++)
        v[i] = sum[sum_at(block, row, i, product)];
    if (lane_columns(product) == 4)
        return make_uint4(__float_as_uint(v[0]), __float_as_uint(v[1]), __float_as_uint(v[2]),
                          __float_as_uint(v[3]));
    return make_uint4(packed(v[0], v[1], product), packed(v[2], v[3], product), packed(v[4], v[5], product),
                      packed(v[6], v[7], product));
}

static __device__ __forceinline__ void store_sums(const struct hopper_args *args,
                                                  const struct sums_place *place, const float *sum,
                                                  struct product product) {
    int columns = block_columns(product), value_bytes = 16 / lane_columns(product);
#pragma unroll
    for (int row = 0; row < 2; row++) {
        int64_t at = (place->row + 8 * row) * args->out_features + place->column;
        unsigned char *to = (unsigned char *)args->y + at * value_bytes;
        int present = place->row + 8 * row < args->batch ? place->columns : 0;
#pragma unroll
        for (int block = 0; block < product.warpgroup_columns / columns; block++)
            if (block * columns < present)
                *(uint4 *)(to + block * columns * value_bytes) = bytes_of_sums(sum, block, row, product);
    }
}

static __device__ __forceinline__ void apply_to_sums(const struct operators *list, const int *vector,
                                                     const struct sums_place *place, float *sum,
                                                     struct product product) {
    place_function column_of_sum = lane_columns(product) == 8 ? column_of_sum_8 : column_of_sum_4;
#pragma unroll 1
    for (int i = 0; i < list->count; i++)
        apply_operator_with(&list->step[i], sum, sums_of(product), operand(place, vector[i], product),
                            column_of_sum, 0);
}

/* From the sums of a tile to its part of y. */
static __device__ __forceinline__ void finish_tile(const struct hopper_args *args, struct tile_place tile,
                                                   float *sum, struct hopper_memory *memory,
                                                   const float *staged, int team, int member, uint32_t turn,
                                                   struct product product) {
    int lane = threadIdx.x % 32;
    int row_in_warpgroup = threadIdx.x % WARPGROUP / 32 * 16 + lane / QUAD;
    int first_column = lane % QUAD * lane_columns(product);
    struct sums_place place = {tile.row + row_in_warpgroup, tile.column + first_column,
                               (int)(args->out_features - tile.column - first_column),
                               (int)((unsigned char *)&staged[first_column] - dynamic_shared)};
    if (product.factors == SPLIT_FLOAT32_FACTORS)
        undo_scaling(args, &place, sum, product);
    if (args->vectors.bias != NO_VECTOR)
        add_bias(args, &place, sum, product);
    apply_to_sums(&args->before, args->vectors.before, &place, sum, product);
    if (args->group_size > 0) {
        normalise(args, sum, memory, team, member, turn, product);
        scale_and_shift_sums(args, &place, sum, product);
        apply_to_sums(&args->after, args->vectors.after, &place, sum, product);
    }
    store_sums(args, &place, sum, product);
}

/* A constant for split factors: their products take three times as long, and always are of common tiles. */
static __device__ __forceinline__ int tile_rows_known(const struct hopper_args *args,
                                                      struct product product) {
    return product.factors == SPLIT_FLOAT32_FACTORS ? COMMON_ROWS : args->tile_rows;
}

static __device__ __forceinline__ void produce(const struct hopper_args *args, struct ring ring,
                                               struct product product) {
    uint32_t rank = cluster_ctarank();
    int units = args->row_units * args->column_units;
    for (int unit = blockIdx.x / PAIR; unit < units; unit += gridDim.x / PAIR) {
        struct tile_place place = place_of_unit(args, unit, rank, product);
        for (int step = 0; step < args->steps; step++) {
            int k = step * args->step_elements;
            copy_step(&args->copies.x, &args->copies.w, place, k, args->pair_shares_w, rank, &ring, product);
            if (product.factors == SPLIT_FLOAT32_FACTORS)
                copy_step(&args->copies.x_low, &args->copies.w_low, place, k, args->pair_shares_w, rank,
                          &ring, product);
        }
    }
    await_empty_ring(&ring);
}

static __device__ __forceinline__ void consume(const struct hopper_args *args, struct hopper_memory *memory,
                                               struct ring ring, int warpgroup, struct product product) {
    int team = warpgroup / members_of(product), member = warpgroup % members_of(product);
    float *staged = (float *)(memory + 1) + warpgroup * args->vectors.count * product.warpgroup_columns;
    int tile_rows = tile_rows_known(args, product);
    bool own_tiles = has_own_tiles(tile_rows);
    struct share share = {own_tiles ? 0 : team * WARPGROUP_ROWS, member * product.warpgroup_columns};
    uint32_t rank = cluster_ctarank(), turn = 0;
    int units = args->row_units * args->column_units, each = gridDim.x / PAIR;
    int first_unit = blockIdx.x / PAIR;
    if (own_tiles) {
        /* the second team begins with the second tile, and each leaves out the other's */
        if (team == 1)
            skip(&ring, args->steps);
        first_unit += team * each;
        each *= TEAMS;
    }
#pragma unroll 1
    for (int unit = first_unit; unit < units; unit += each) {
        float sum[MOST_SUMS];
        struct tile_place place = place_of_unit(args, unit, rank, product);
        place.column += share.column;
        stage_vectors(args, staged, place.column, warpgroup, product);
        if (own_tiles)
            await_turn(memory, team, turn);
        int last_slot = 0;
        if (product.factors == SPLIT_FLOAT32_FACTORS)
            multiply_split(args->steps, share, &ring, sum, product);
        else
            last_slot = multiply(args->steps, share, &ring, sum, product);
        if (own_tiles) {
            end_turn(memory, team);
            skip(&ring, args->steps);
        }
        if (product.factors != SPLIT_FLOAT32_FACTORS)
            finish_multiplying(&ring, last_slot, sum, product);
        await_vectors(warpgroup);
        place.row += share.row;
        finish_tile(args, place, sum, memory, staged, team, member, turn, product);
        turn ^= 1;
    }
}

static __device__ __forceinline__ void run_block(const struct hopper_args *args, struct product product) {
    extern __shared__ unsigned char unaligned[];
    struct hopper_memory *memory = (struct hopper_memory *)(((uintptr_t)unaligned + SLOT_ALIGNMENT - 1) /
                                                            SLOT_ALIGNMENT * SLOT_ALIGNMENT);
    if (product.factors == SPLIT_FLOAT32_FACTORS && (*args->x_halves.unheld || *args->w_halves.unheld))
        return; /* the float32 rung, launched after this one, does the work */
    if (threadIdx.x == 0) {
        prefetch_tensormap(&args->copies.x);
        prefetch_tensormap(&args->copies.w);
    }
    prepare_barriers(memory, args->tile_rows, product);
    struct ring ring = start_of_ring(memory, tile_rows_known(args, product), product);
    int warpgroup = uniform(threadIdx.x / WARPGROUP);
    if (warpgroup == 0) {
        setmaxnreg_dec(PRODUCER_REGISTERS);
        if (threadIdx.x == 0)
            produce(args, ring, product);
    } else {
        if (members_of(product) == 1)
            setmaxnreg_inc(CONSUMER_REGISTERS);
        else
            setmaxnreg_inc(LARGE_BLOCK_CONSUMER_REGISTERS);
        consume(args, memory, ring, warpgroup - 1, product);
    }
    /* A block's shared memory has to outlive what the other one sends there: moments, which the consumers
     * have waited for, and that slots are empty, which the producer has. */
    barrier_cluster_relaxed();
}

/* The library is built for other architectures too, which lack these instructions; refusal() keeps the
 * kernels from being launched there. */
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define HAS_HOPPER_INSTRUCTIONS true
#else
#define HAS_HOPPER_INSTRUCTIONS false
#endif

__global__ void __launch_bounds__(LARGE_BLOCK_THREADS, 1)
    hopper_bfloat16_kernel(const __grid_constant__ struct hopper_args args) {
    struct product product = {BFLOAT16_FACTORS, TILE_COLUMNS, TILE_COLUMNS / 2};
    if (HAS_HOPPER_INSTRUCTIONS)
        run_block(&args, product);
}

__global__ void __launch_bounds__(BLOCK_THREADS, 1)
    hopper_bfloat16_narrow_kernel(const __grid_constant__ struct hopper_args args) {
    struct product product = {BFLOAT16_FACTORS, NARROW_COLUMNS, NARROW_COLUMNS};
    if (HAS_HOPPER_INSTRUCTIONS)
        run_block(&args, product);
}

__global__ void __launch_bounds__(LARGE_BLOCK_THREADS, 1)
    hopper_float16_kernel(const __grid_constant__ struct hopper_args args) {
    struct product product = {FLOAT16_FACTORS, TILE_COLUMNS, TILE_COLUMNS / 2};
    if (HAS_HOPPER_INSTRUCTIONS)
        run_block(&args, product);
}

__global__ void __launch_bounds__(BLOCK_THREADS, 1)
    hopper_float16_narrow_kernel(const __grid_constant__ struct hopper_args args) {
    struct product product = {FLOAT16_FACTORS, NARROW_COLUMNS, NARROW_COLUMNS};
    if (HAS_HOPPER_INSTRUCTIONS)
        run_block(&args, product);
}

__global__ void __launch_bounds__(LARGE_BLOCK_THREADS, 1)
    hopper_tf32_kernel(const __grid_constant__ struct hopper_args args) {
    struct product product = {TF32_FACTORS, TILE_COLUMNS, TILE_COLUMNS / 2};
    if (HAS_HOPPER_INSTRUCTIONS)
        run_block(&args, product);
}

__global__ void __launch_bounds__(BLOCK_THREADS, 1)
    hopper_tf32_narrow_kernel(const __grid_constant__ struct hopper_args args) {
    struct product product = {TF32_FACTORS, NARROW_COLUMNS, NARROW_COLUMNS};
    if (HAS_HOPPER_INSTRUCTIONS)
        run_block(&args, product);
}

__global__ void __launch_bounds__(BLOCK_THREADS, 1)
    hopper_split_float32_kernel(const __grid_constant__ struct hopper_args args) {
    struct product product = {SPLIT_FLOAT32_FACTORS, TILE_COLUMNS, TILE_COLUMNS};
    if (HAS_HOPPER_INSTRUCTIONS)
        run_block(&args, product);
}

__global__ void __launch_bounds__(BLOCK_THREADS, 1)
    hopper_split_float32_narrow_kernel(const __grid_constant__ struct hopper_args args) {
    struct product product = {SPLIT_FLOAT32_FACTORS, NARROW_COLUMNS, NARROW_COLUMNS};
    if (HAS_HOPPER_INSTRUCTIONS)
        run_block(&args, product);
}

/* ---- The host's side ---- */

/* How TMA sees a row-major matrix: a box is `box_rows` rows and 128 bytes, swizzled, and what it
 * has outside the matrix is zero. sorted_rows: 0, or the rows of a block that is sorted as hopper/tile.h
 * says, of which the matrix has whole ones. */
static bool describe(CUtensorMap *map, CUtensorMapDataType type, int element_bytes, const void *matrix,
                     int64_t rows, int64_t columns, int64_t pitch, int box_rows, int sorted_rows) {
    cuuint32_t box_columns = STEP_BYTES / element_bytes;
    cuuint64_t row = (cuuint64_t)pitch * element_bytes;
    if (sorted_rows > 0) {
        cuuint32_t of_lane = sorted_rows / QUAD;
        cuuint64_t sizes[5] = {(cuuint64_t)columns, 2, QUAD, of_lane / 2, (cuuint64_t)rows / sorted_rows};
        cuuint64_t strides[4] = {row, of_lane * row, 2 * row, sorted_rows * row};
        cuuint32_t box[5] = {box_columns, 2, QUAD, of_lane / 2, (cuuint32_t)(box_rows / sorted_rows)};
        return encode_tensor_map(map, type, matrix, 5, sizes, strides, box);
    }
    cuuint64_t sizes[2] = {(cuuint64_t)columns, (cuuint64_t)rows};
    cuuint32_t box[2] = {box_columns, (cuuint32_t)box_rows};
    return encode_tensor_map(map, type, matrix, 2, sizes, &row, box);
}

static bool describe_matrices(struct hopper_args *args, const fgn_chain *chain, struct product product,
                              const void *x) {
    int x_box = args->pair_shares_w ? args->tile_rows : args->tile_rows / PAIR;
    int w_box = args->pair_shares_w ? product.columns / PAIR : product.columns;
    int sorted_rows = block_columns(product);
    int64_t batch = chain->batch, in = chain->in_features, out = chain->out_features;
    if (is_float32_accurate(chain)) {
        CUtensorMapDataType half = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
        int64_t pitch = halves_pitch(in);
        return describe(&args->copies.x, half, 2, args->x_halves.high, batch, in, pitch, x_box, 0) &&
               describe(&args->copies.x_low, half, 2, args->x_halves.low, batch, in, pitch, x_box, 0) &&
               describe(&args->copies.w, half, 2, args->w_halves.high, out, in, pitch, w_box, sorted_rows) &&
               describe(&args->copies.w_low, half, 2, args->w_halves.low, out, in, pitch, w_box, sorted_rows);
    }
    /* As TFLOAT32 TMA rounds to tf32; wgmma alone would cut the bits off. */
    CUtensorMapDataType type = chain->type == FGN_FLOAT32   ? CU_TENSOR_MAP_DATA_TYPE_TFLOAT32
                               : chain->type == FGN_FLOAT16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                                            : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    int bytes = element_bytes_of(chain);
    return describe(&args->copies.x, type, bytes, x, batch, in, in, x_box, 0) &&
           describe(&args->copies.w, type, bytes, chain->weight, out, in, in, w_box, sorted_rows);
}

typedef void (*hopper_kernel)(const struct hopper_args args);

static hopper_kernel kernel_for(struct product product) {
    const hopper_kernel wide[] = {hopper_bfloat16_kernel, hopper_float16_kernel, hopper_tf32_kernel,
                                  hopper_split_float32_kernel};
    const hopper_kernel narrow[] = {hopper_bfloat16_narrow_kernel, hopper_float16_narrow_kernel,
                                    hopper_tf32_narrow_kernel, hopper_split_float32_narrow_kernel};
    return product.columns == TILE_COLUMNS ? wide[product.factors] : narrow[product.factors];
}

static cudaError_t launch_kernel(const fgn_plan *plan, const fgn_launch *planned,
                                 const struct hopper_args *args, struct product product,
                                 cudaStream_t stream) {
    static bool allowed[2][4][MOST_DEVICES];
    hopper_kernel kernel = kernel_for(product);
    bool *of_kernel = allowed[product.columns == TILE_COLUMNS][product.factors];
    cudaError_t error = allow_shared_memory((const void *)kernel, &plan->device, of_kernel);
    if (error != cudaSuccess)
        return error;
    cudaLaunchAttribute cluster;
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = planned->cluster;
    cluster.val.clusterDim.y = 1;
    cluster.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid_of(planned);
    config.blockDim = block_of(planned);
    config.dynamicSmemBytes = planned->shared_bytes;
    config.stream = stream;
    config.attrs = &cluster;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, kernel, *args);
}

static int add_vector(struct vectors *vectors, const void *from, float otherwise) {
    vectors->from[vectors->count] = (const float *)from;
    vectors->constant[vectors->count] = otherwise;
    return vectors->count++;
}

/* The operands of operators; those without one are not staged. */
static void add_operands(struct vectors *vectors, const fgn_pointwise *step, int count, int *numbers) {
    for (int i = 0; i < count; i++)
        numbers[i] = step[i].channel ? add_vector(vectors, step[i].channel, 0.0f) : NO_VECTOR;
}

static struct vectors vectors_of(const fgn_chain *chain, const float *unscale) {
    struct vectors vectors = {};
    vectors.bias = chain->bias ? add_vector(&vectors, chain->bias, 0.0f) : NO_VECTOR;
    vectors.unscale = unscale ? add_vector(&vectors, unscale, 1.0f) : NO_VECTOR;
    add_operands(&vectors, chain->before, chain->before_count, vectors.before);
    if (normalises_in_tile(chain)) {
        vectors.scale = add_vector(&vectors, chain->norm_scale, 1.0f);
        vectors.shift = add_vector(&vectors, chain->norm_shift, 0.0f);
        add_operands(&vectors, chain->after, chain->after_count, vectors.after);
    }
    return vectors;
}

static cudaError_t forward(const fgn_plan *plan, const fgn_chain *chain, const void *x, void *y,
                           void *workspace, cudaStream_t stream) {
    struct hopper_args args = {};
    struct product product = {factors_of(chain), (int)plan->choice[COLUMNS],
                              (int)plan->choice[WARPGROUP_COLUMNS]};
    args.batch = chain->batch;
    args.out_features = chain->out_features;
    args.tile_rows = (int)plan->choice[ROWS];
    args.step_elements = STEP_BYTES / element_bytes_of(chain);
    args.steps = (int)tiles(chain->in_features, args.step_elements);
    args.pair_shares_w = plan->choice[PAIR_SHARES_W];
    args.row_units = (int)plan->choice[ROW_UNITS];
    args.column_units = (int)plan->choice[COLUMN_UNITS];
    args.group_size = normalises_in_tile(chain) ? (int)group_size_of(chain) : 0;
    args.eps = chain->eps;
    args.before = operators_before(chain);
    args.after = operators_after(chain);
    args.y = y;
    cudaError_t error = cudaSuccess;
    if (is_float32_accurate(chain)) {
        struct factor_halves factors = factor_halves_at(plan, chain, workspace);
        args.x_halves = factors.x;
        args.w_halves = factors.w;
        error = make_factor_halves(plan, chain, (const float *)x, factors, stream);
    }
    if (error != cudaSuccess)
        return error;
    args.vectors = vectors_of(chain, args.w_halves.unscale);
    if (!describe_matrices(&args, chain, product, x))
        return cudaErrorInvalidValue;
    const fgn_launch *planned = &plan->launch[halves_launches(plan)];
    error = launch_kernel(plan, planned, &args, product, stream);
    if (error == cudaSuccess && is_float32_accurate(chain)) {
        struct condition unheld = {args.x_halves.unheld, args.w_halves.unheld, false};
        error = launch_float32_chain(plan, chain, (const float *)x, (float *)y, unheld, stream);
    }
    return error;
}

#else /* the simulator has no TMA and no wgmma: it plans what it cannot run */

static cudaError_t forward(const fgn_plan *plan, const fgn_chain *chain, const void *x, void *y,
                           void *workspace, cudaStream_t stream) {
    (void)plan, (void)chain, (void)x, (void)y, (void)workspace, (void)stream;
    return cudaErrorInvalidValue;
}

#endif

RUNG hopper_rung = {
    {"hopper", "hopper/gemm_10_hopper.cu", "hopper/gemm_10_hopper.cu",
     "tensor cores by wgmma, TMA, clusters of two blocks",
     "compute capability 9.0; groups of 8, 16, ..., 512 channels; rows of multiples of 16 bytes, outputs of "
     "32"},
    &group_norm_2_block,
    refusal,
    plan,
    prepare_halves,
    forward,
};
