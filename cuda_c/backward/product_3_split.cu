/* The backward's products, rung 3: float32 factors are split into float16 halves while they are transposed.
 *
 * Idea: the forward multiplies float32 by halves of its factors (halves.h), so a transposed float32 copy is
 * only a step on the way to transposed halves. A row of the transpose is a column here. Its power of two as
 * scale depends on the whole column, hence two launches. The first one looks at strips of 32 columns: a block
 * finds the spread of its part of a strip's rows, and adds it to the strip's by integer atomics, whose sum is
 * the same in every order. The last block of a strip makes the scales. The second launch reads the matrix
 * once more, splits, and transposes the halves in shared memory. Both halves of a value are one word there.
 * Rows have 65 words, so that lanes that write down a column use different banks.
 *
 * Where halves cannot hold a row of a factor, the product is computed in float32 from transposed copies. Only
 * then does the second launch write these.
 *
 * Bytes: 8 read and 4 written for each element; transposing and then splitting takes 16. The second launch
 * reads first what the first one read last, from the L2 cache.
 *
 * Limit: the product's own; the two launches should be limited by memory bandwidth. A training step takes
 * this rung where x and dL/dy together have more values than the weight (training_calls.py has the times). */
#include "backward/backward.h"
#include "shared/checks.h"
#include "shared/split.h"

#define STRIP 32 /* columns of a block: a lane each */
#define LINES 8  /* rows that a block reads at a time: a warp each */
#define LOOKED 8 /* values that a thread of the first launch loads at a time */
#define PART_ROWS 512
#define TILE_ROWS 64
#define TILE_LOADS (TILE_ROWS / LINES)

static_assert(PART_ROWS % (LINES * LOOKED) == 0, "a thread looks at whole groups of values");

/* A matrix (inner, columns), whose transpose (columns, inner) is wanted as halves. */
struct to_split {
    const float *from;
    int64_t columns;      /* 0: there is no such matrix */
    struct halves halves; /* of (columns, inner) */
    float *copy;          /* (columns, inner), written only where a row of either factor is not held */
};

/* A column's spread, in integers that start at zero. */
struct column_spread {
    unsigned largest; /* less NO_EXPONENT */
    int exponents;
    unsigned nonzero;
    unsigned infinite;
};

struct split_args {
    struct to_split matrix[2];
    struct column_spread *spread; /* of all columns, those of the second matrix at a multiple of STRIP */
    unsigned *ended;              /* parts of each strip whose spread has been added */
    int64_t strips[2];
    int64_t inner;
    int64_t parts; /* of a strip: blocks of the first launch */
    const int *unheld[2];
};

/* A block's place. */
struct strip_part {
    const struct to_split *matrix;
    int64_t strip;
    int64_t column; /* this lane's */
    int64_t first_row;
    bool is_inside; /* whether the matrix has this column */
};

static __forceinline__ __device__ struct strip_part part_of(const struct split_args *args, int64_t first_row,
                                                            int64_t strip) {
    struct strip_part part;
    part.strip = strip;
    part.first_row = first_row;
    bool first = part.strip < args->strips[0];
    part.matrix = &args->matrix[first ? 0 : 1];
    part.column = (part.strip - (first ? 0 : args->strips[0])) * STRIP + threadIdx.x;
    part.is_inside = part.column < part.matrix->columns;
    return part;
}

static __forceinline__ __device__ void add_spread(struct column_spread *to, struct spread mine) {
    if (mine.nonzero > 0.0f) {
        atomicMax(&to->largest, (unsigned)(mine.largest - NO_EXPONENT));
        atomicAdd(&to->exponents, (int)mine.exponents);
        atomicAdd(&to->nonzero, (unsigned)mine.nonzero);
    }
    if (mine.infinite > 0.0f)
        atomicMax(&to->infinite, 1u);
}

/* The scale of a column whose spread is complete. */
static __forceinline__ __device__ void scale_column(struct halves halves, int64_t column,
                                                    const struct column_spread *from) {
    struct spread all = {(int)__ldcg(&from->largest) + NO_EXPONENT, (float)__ldcg(&from->exponents),
                         (float)__ldcg(&from->nonzero), (float)__ldcg(&from->infinite)};
    halves.unscale[column] = power_of_two(-scale_of_row(all));
    if (!is_held(all))
        *halves.unheld = 1; /* by as many threads as there are such columns, always 1 */
}

__global__ void __launch_bounds__(STRIP *LINES) column_spread_kernel(struct split_args args) {
    __shared__ struct spread of_line[LINES][STRIP];
    __shared__ bool is_last;
    int64_t strips = args.strips[0] + args.strips[1];
    struct strip_part part = part_of(&args, blockIdx.x / strips * PART_ROWS, blockIdx.x % strips);
    struct spread mine = {NO_EXPONENT, 0.0f, 0.0f, 0.0f};
    for (int64_t line = 0; line < PART_ROWS; line += LINES * LOOKED) {
        float v[LOOKED];
#pragma unroll
        for (int i = 0; i < LOOKED; i++) {
            int64_t row = part.first_row + line + i * LINES + threadIdx.y;
            bool is_inside = part.is_inside && row < args.inner;
            v[i] = is_inside ? part.matrix->from[row * part.matrix->columns + part.column] : 0.0f;
        }
#pragma unroll
        for (int i = 0; i < LOOKED; i++)
            look_at(&mine, v[i]);
    }
    of_line[threadIdx.y][threadIdx.x] = mine;
    __syncthreads();
    if (threadIdx.y != 0)
        return;
    for (int line = 1; line < LINES; line++) {
        struct spread other = of_line[line][threadIdx.x];
        mine.largest = other.largest > mine.largest ? other.largest : mine.largest;
        mine.exponents += other.exponents;
        mine.nonzero += other.nonzero;
        mine.infinite += other.infinite;
    }
    struct column_spread *spread = &args.spread[part.strip * STRIP + threadIdx.x];
    add_spread(spread, mine);
    __threadfence();
    __syncwarp(0xffffffffu);
    if (threadIdx.x == 0)
        is_last = atomicAdd(&args.ended[part.strip], 1u) == args.parts - 1;
    __syncwarp(0xffffffffu);
    __threadfence();
    if (is_last && part.is_inside)
        scale_column(part.matrix->halves, part.column, spread);
}

LAUNCHER(column_spread_kernel, struct split_args)

/* Writes the tile's columns as rows of halves, up to the pitch, which is even. */
static __forceinline__ __device__ void store_halves(const struct strip_part *part, int64_t inner,
                                                    uint32_t (*tile)[TILE_ROWS + 1]) {
    const struct to_split *matrix = part->matrix;
    int64_t pitch = halves_pitch(inner), row = part->first_row + 2 * threadIdx.x;
    int64_t first_column = part->column - threadIdx.x;
#pragma unroll
    for (int line = 0; line < STRIP; line += LINES) {
        int column = line + threadIdx.y;
        if (first_column + column >= matrix->columns || row >= pitch)
            continue;
        uint32_t a = tile[column][2 * threadIdx.x], b = tile[column][2 * threadIdx.x + 1];
        int64_t at = (first_column + column) * pitch + row;
        *(uint32_t *)(matrix->halves.high + at) = (a & 0xffff) | b << 16;
        *(uint32_t *)(matrix->halves.low + at) = a >> 16 | (b & 0xffff0000);
    }
}

static __forceinline__ __device__ void store_floats(const struct strip_part *part, int64_t inner,
                                                    uint32_t (*tile)[TILE_ROWS + 1]) {
    int64_t first_column = part->column - threadIdx.x;
    for (int line = 0; line < STRIP; line += LINES) {
        int column = line + threadIdx.y;
        for (int i = threadIdx.x; i < TILE_ROWS; i += STRIP) {
            int64_t row = part->first_row + i;
            if (first_column + column < part->matrix->columns && row < inner)
                part->matrix->copy[(first_column + column) * inner + row] =
                    __int_as_float((int)tile[column][i]);
        }
    }
}

__global__ void __launch_bounds__(STRIP *LINES) split_transposed_kernel(struct split_args args) {
    __shared__ uint32_t tile[STRIP][TILE_ROWS + 1];
    /* Goes from the end: the L2 cache still has the rows that the first launch read last. */
    int64_t strips = args.strips[0] + args.strips[1], place = gridDim.x - 1 - blockIdx.x;
    struct strip_part part = part_of(&args, place / strips * TILE_ROWS, place % strips);
    float v[TILE_LOADS];
#pragma unroll
    for (int i = 0; i < TILE_LOADS; i++) {
        int64_t row = part.first_row + i * LINES + threadIdx.y;
        bool is_inside = part.is_inside && row < args.inner;
        v[i] = is_inside ? part.matrix->from[row * part.matrix->columns + part.column] : 0.0f;
    }
    /* Exact: both are powers of two, and normal. */
    float factor = part.is_inside ? 1.0f / part.matrix->halves.unscale[part.column] : 1.0f;
#pragma unroll
    for (int i = 0; i < TILE_LOADS; i++) {
        struct half_pair pair = split(v[i] * factor);
        tile[threadIdx.x][i * LINES + threadIdx.y] = pair.high | (uint32_t)pair.low << 16;
    }
    __syncthreads();
    store_halves(&part, args.inner, tile);
    if (!*args.unheld[0] && !*args.unheld[1])
        return;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < TILE_LOADS; i++)
        tile[threadIdx.x][i * LINES + threadIdx.y] = (uint32_t)__float_as_int(v[i]);
    __syncthreads();
    store_floats(&part, args.inner, tile);
}

LAUNCHER(split_transposed_kernel, struct split_args)

static unsigned long long spread_bytes(int64_t strips) {
    return strips * (STRIP * sizeof(struct column_spread) + sizeof(unsigned));
}

/* ---- The product ---- */

/* The forward's plan, and the beginnings of the workspace's parts: the float32 copies of left and right, the
 * halves of right, the columns' spreads, and the forward's workspace. This begins with the halves of left. */
struct product_parts {
    fgn_plan plan;
    int64_t strips[2]; /* of right, and of left where it is transposed */
    unsigned long long right;
    unsigned long long prepared;
    unsigned long long spread;
    unsigned long long workspace;
};

static fgn_status plan_parts(const struct backward_product *product, fgn_chain *chain,
                             struct product_parts *parts) {
    if (product->precision != FGN_IEEE)
        return fail(FGN_NOT_SUPPORTED, "split needs the precision ieee");
    fgn_status status = plan_product(product, true, chain, &parts->plan);
    if (status != FGN_OK)
        return status;
    int64_t left_columns = product->left_is_transposed ? product->rows : 0;
    parts->strips[0] = tiles(product->columns, STRIP);
    parts->strips[1] = tiles(left_columns, STRIP);
    parts->right = aligned_part(left_columns * product->inner * sizeof(float));
    parts->prepared = parts->right + aligned_part(product->inner * product->columns * sizeof(float));
    parts->spread = parts->prepared + aligned_part(parts->plan.prepared_bytes);
    parts->workspace = parts->spread + aligned_part(spread_bytes(parts->strips[0] + parts->strips[1]));
    return FGN_OK;
}

fgn_status product_3_split_bytes(const struct backward_product *product, unsigned long long *bytes) {
    fgn_chain chain;
    struct product_parts parts;
    fgn_status status = plan_parts(product, &chain, &parts);
    if (status == FGN_OK)
        *bytes = parts.workspace + parts.plan.workspace_bytes;
    return status;
}

static cudaError_t split_factors(const struct backward_product *product, const fgn_chain *chain,
                                 const struct product_parts *parts, unsigned char *memory,
                                 cudaStream_t stream) {
    struct factor_halves factors = factor_halves_at(&parts->plan, chain, memory + parts->workspace);
    const float *left = (const float *)product->left;
    struct split_args args = {
        {{(const float *)product->right, product->columns, factors.w, (float *)(memory + parts->right)},
         {left, product->left_is_transposed ? product->rows : 0, factors.x, (float *)memory}},
        (struct column_spread *)(memory + parts->spread),
        NULL,
        {parts->strips[0], parts->strips[1]},
        product->inner,
        tiles(product->inner, PART_ROWS),
        {factors.w.unheld, factors.x.unheld}};
    int64_t strips = args.strips[0] + args.strips[1];
    args.ended = (unsigned *)(args.spread + strips * STRIP);
    cudaError_t error = cudaMemsetAsync(args.spread, 0, spread_bytes(strips), stream);
    if (error == cudaSuccess)
        error = cudaMemsetAsync(factors.w.unheld, 0, sizeof(int), stream);
    if (error == cudaSuccess)
        error = product->left_is_transposed
                    ? cudaMemsetAsync(factors.x.unheld, 0, sizeof(int), stream)
                    : make_halves(left, product->rows, NULL, 0, product->inner, factors.x, stream);
    dim3 block = {STRIP, LINES, 1};
    dim3 grid = {(unsigned)(strips * args.parts), 1, 1};
    if (error == cudaSuccess)
        error = launch_column_spread_kernel(grid, block, 0, stream, args);
    grid.x = (unsigned)(strips * tiles(halves_pitch(product->inner), TILE_ROWS));
    return error == cudaSuccess ? launch_split_transposed_kernel(grid, block, 0, stream, args) : error;
}

fgn_status product_3_split(const struct backward_product *product, void *workspace, cudaStream_t stream) {
    fgn_chain chain;
    struct product_parts parts;
    fgn_status status = plan_parts(product, &chain, &parts);
    if (status != FGN_OK)
        return status;
    unsigned char *memory = (unsigned char *)workspace;
    chain.weight = memory + parts.right;
    chain.prepared = memory + parts.prepared;
    cudaError_t error = split_factors(product, &chain, &parts, memory, stream);
    if (error != cudaSuccess)
        return status_of(error, "split");
    const void *left = product->left_is_transposed ? memory : product->left;
    return fgn_run(&parts.plan, &chain, left, product->result, memory + parts.workspace,
                   parts.plan.workspace_bytes, stream);
}
