/* Makes 8-bit floats of bfloat16 matrices (quantise.h says which).
 *
 * Idea: a block for each row, or a warp for a short one. One pass finds the row's largest magnitude, a second
 * one scales and rounds; in between the threads keep the row in registers, 32 values each, and the rest of a
 * longer row is read again, from a cache. Two matrices with rows of one length are rounded in one launch, one
 * below the other.
 *
 * Bytes: 2 read and 1 written for each element.
 *
 * Limit: memory bandwidth, or the launch. */
#include "hopper/quantise.h"
#include "shared/element.h"
#include "shared/split.h"
#include "shared/team.h"

#define THREADS 256
#define WARPS (THREADS / LANES)
#define KEPT 4 /* packs of a row that a thread keeps */
#define PACK 8 /* values that are read together */
#define LARGEST_E4M3 448.0f
#define INFINITE_BFLOAT16 0x7f80u

struct quantise_args {
    const uint16_t *matrix;
    const uint16_t *below; /* the matrix that follows, from row `above` on */
    int64_t above;
    int64_t rows; /* of both */
    int64_t columns;
    int team;   /* threads for a row: a warp or the block */
    bool packs; /* rows are made of aligned packs */
    struct fp8_matrix to;
    struct fp8_matrix to_below;
};

union pack {
    uint4 all;
    uint16_t bits[PACK];
};

/* Finite magnitudes are in the order of their bits. */
static inline __device__ unsigned larger(unsigned largest, uint16_t bits) {
    unsigned magnitude = bits & 0x7fffu;
    return magnitude < INFINITE_BFLOAT16 && magnitude > largest ? magnitude : largest;
}

static inline __device__ unsigned largest_of_pack(unsigned largest, union pack pack) {
#pragma unroll
    for (int i = 0; i < PACK; i++)
        largest = larger(largest, pack.bits[i]);
    return largest;
}

/* The team's largest, in every thread. */
static inline __device__ unsigned largest_of_team(unsigned mine, unsigned *of_warp, int team) {
    for (int distance = LANES / 2; distance > 0; distance /= 2) {
        unsigned other = __shfl_xor_sync(0xffffffffu, mine, distance);
        mine = other > mine ? other : mine;
    }
    if (team == LANES)
        return mine;
    if (threadIdx.x % LANES == 0)
        of_warp[threadIdx.x / LANES] = mine;
    __syncthreads();
    for (int warp = 0; warp < WARPS; warp++)
        mine = of_warp[warp] > mine ? of_warp[warp] : mine;
    return mine;
}

/* The exponent of the largest power of two that leaves the row's largest magnitude at most 448. */
static inline __device__ int scale_of(unsigned largest) {
    float magnitude = float_of_bfloat16((uint16_t)largest);
    if (magnitude == 0.0f)
        return 0;
    int exponent = exponent_of(magnitude), scale = 8 - exponent; /* 448 is 1.75 times 2^8 */
    scale = scale > LARGEST_SCALE ? LARGEST_SCALE : scale;
    return magnitude * power_of_two(scale) > LARGEST_E4M3 ? scale - 1 : scale;
}

static inline __device__ uint2 quantised_pack(union pack pack, float factor) {
    uint32_t word[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < PACK; i += 2) {
        float low = float_of_bfloat16(pack.bits[i]) * factor,
              high = float_of_bfloat16(pack.bits[i + 1]) * factor;
        word[i / 4] |= (uint32_t)e4m3_pair(low, high) << i % 4 * 8;
    }
    return make_uint2(word[0], word[1]);
}

static __forceinline__ __device__ void quantise_row(const struct quantise_args *args, int64_t number,
                                                    unsigned *of_warp) {
    const bool is_below = number >= args->above;
    const int64_t columns = args->columns, in_matrix = is_below ? number - args->above : number;
    const uint16_t *row = (is_below ? args->below : args->matrix) + in_matrix * columns;
    const struct fp8_matrix to = is_below ? args->to_below : args->to;
    const int64_t member = threadIdx.x % args->team, first = PACK * member, between = PACK * args->team;
    const int64_t pitch = fp8_pitch(columns);
    union pack kept[KEPT];
    unsigned largest = 0;
    if (args->packs) {
#pragma unroll
        for (int j = 0; j < KEPT; j++) {
            int64_t i = first + j * between;
            kept[j].all = i < columns ? *(const uint4 *)(row + i) : make_uint4(0, 0, 0, 0);
        }
#pragma unroll
        for (int j = 0; j < KEPT; j++)
            largest = largest_of_pack(largest, kept[j]);
        for (int64_t i = first + KEPT * between; i < columns; i += between) {
            union pack pack = {*(const uint4 *)(row + i)};
            largest = largest_of_pack(largest, pack);
        }
    } else {
        for (int64_t i = member; i < columns; i += args->team)
            largest = larger(largest, row[i]);
    }
    int scale = scale_of(largest_of_team(largest, of_warp, args->team));
    if (member == 0) {
        to.unscale[in_matrix] = power_of_two(-scale);
        to.unscale_bfloat16[in_matrix] = bfloat16_bits(power_of_two(-scale));
    }
    float factor = power_of_two(scale);
    uint8_t *values = to.values + in_matrix * pitch;
    if (args->packs) {
#pragma unroll
        for (int j = 0; j < KEPT; j++) {
            int64_t i = first + j * between;
            if (i < columns)
                *(uint2 *)(values + i) = quantised_pack(kept[j], factor);
        }
        for (int64_t i = first + KEPT * between; i < columns; i += between) {
            union pack pack = {*(const uint4 *)(row + i)};
            *(uint2 *)(values + i) = quantised_pack(pack, factor);
        }
    } else {
        for (int64_t i = member; i < columns; i += args->team)
            values[i] = (uint8_t)e4m3_pair(float_of_bfloat16(row[i]) * factor, 0.0f);
    }
    if (member < pitch - columns)
        values[columns + member] = 0;
}

__global__ void __launch_bounds__(THREADS) quantise_kernel(struct quantise_args args) {
    __shared__ unsigned of_warp[WARPS];
    int64_t number = blockIdx.x * (int64_t)(THREADS / args.team) + threadIdx.x / args.team;
    if (number < args.rows) /* the same in all threads of a team */
        quantise_row(&args, number, of_warp);
}

LAUNCHER(quantise_kernel, struct quantise_args)

/* The threads for a row: a warp where it can keep the whole row in registers. */
static int team_of(int64_t columns) {
    return columns <= PACK * KEPT * LANES ? LANES : THREADS;
}

static int64_t blocks_of(int64_t rows, int64_t columns) {
    return tiles(rows, THREADS / team_of(columns));
}

static cudaError_t quantise(const void *matrix, int64_t rows, struct fp8_matrix to, const void *below,
                            int64_t rows_below, struct fp8_matrix to_below, int64_t columns,
                            cudaStream_t stream) {
    struct quantise_args args = {(const uint16_t *)matrix,
                                 (const uint16_t *)below,
                                 rows,
                                 rows + rows_below,
                                 columns,
                                 team_of(columns),
                                 columns % PACK == 0 && (uintptr_t)matrix % 16 == 0 &&
                                     (uintptr_t)below % 16 == 0,
                                 to,
                                 to_below};
    dim3 grid = {(unsigned)blocks_of(args.rows, columns), 1, 1};
    dim3 block = {THREADS, 1, 1};
    return launch_quantise_kernel(grid, block, 0, stream, args);
}

/* ---- The plan ---- */

static unsigned long long aligned(unsigned long long bytes) {
    return (bytes + 255) / 256 * 256;
}

static unsigned long long fp8_bytes(int64_t rows, int64_t columns) {
    return aligned(rows * fp8_pitch(columns)) + aligned(rows * sizeof(float)) +
           aligned(rows * sizeof(uint16_t));
}

static struct fp8_matrix fp8_at(void *memory, int64_t rows, int64_t columns) {
    unsigned char *at = (unsigned char *)memory, *unscale = at + aligned(rows * fp8_pitch(columns));
    struct fp8_matrix matrix = {at, (float *)unscale, (uint16_t *)(unscale + aligned(rows * sizeof(float)))};
    return matrix;
}

/* What the product reads of a matrix. */
static int64_t bytes_of(int64_t rows, int64_t columns) {
    return rows * (fp8_pitch(columns) + (int64_t)sizeof(float));
}

void plan_quantising(const fgn_chain *chain, fgn_plan *plan) {
    int64_t rows = chain->batch, columns = chain->in_features, below = chain->out_features;
    plan->workspace_bytes += fp8_bytes(rows, columns);
    if (chain->frozen) {
        plan->prepared_bytes = fp8_bytes(below, columns);
    } else {
        plan->workspace_bytes += fp8_bytes(below, columns);
        rows += below;
    }
    fgn_launch *launch = add_launch(plan, "quantise_kernel", blocks_of(rows, columns), THREADS);
    launch->computes = FGN_QUANTISED;
    add_read(launch, 2 * rows * columns, 0);
    add_written(launch, bytes_of(rows, columns), FGN_WRITES_WORKSPACE);
}

void add_product_of_fp8(fgn_launch *launch, const fgn_chain *chain) {
    int64_t x = bytes_of(chain->batch, chain->in_features);
    int64_t weight = bytes_of(chain->out_features, chain->in_features);
    launch->computes |= FGN_PRODUCT;
    launch->operations = 2.0 * outputs_of(chain) * chain->in_features;
    add_read(launch, x, x);
    add_read(launch, weight, chain->frozen ? 0 : weight);
}

/* ---- The factors of a chain ---- */

struct fp8_factors fp8_factors_at(const fgn_chain *chain, void *workspace) {
    int64_t batch = chain->batch, columns = chain->in_features;
    void *weight = chain->frozen ? (void *)chain->prepared : (char *)workspace + fp8_bytes(batch, columns);
    struct fp8_factors factors = {fp8_at(workspace, batch, columns),
                                  fp8_at(weight, chain->out_features, columns)};
    return factors;
}

cudaError_t quantise_factors(const fgn_chain *chain, const void *x, struct fp8_factors factors,
                             cudaStream_t stream) {
    int64_t below = chain->frozen ? 0 : chain->out_features;
    return quantise(x, chain->batch, factors.x, below ? chain->weight : NULL, below, factors.w,
                    chain->in_features, stream);
}

cudaError_t prepare_fp8(const fgn_chain *chain, void *prepared, cudaStream_t stream) {
    struct fp8_matrix to = fp8_at(prepared, chain->out_features, chain->in_features);
    return quantise(chain->weight, chain->out_features, to, NULL, 0, to, chain->in_features, stream);
}
