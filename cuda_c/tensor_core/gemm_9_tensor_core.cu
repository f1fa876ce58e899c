/* GEMM, rung 9: tensor cores, on every GPU that has those of compute capability 8.0.
 *
 * Idea: a warp multiplies 16x8 outputs by 16 k in one instruction (mma.sync): 2048 multiply-adds instead of
 * 32. The rest of the kernel feeds it:
 *   - global to shared memory: asynchronous copies of 16 bytes (cp.async), two or three steps ahead, so no
 *     register holds what is on its way;
 *   - shared memory to registers: ldmatrix, four 8x8 matrices at once, those of the next 32 bytes of k while
 *     this 32 are multiplied (tile_product.h);
 *   - GroupNorm in the registers that hold the sums, between warps through shared memory (epilogue.h).
 *
 * Precisions: bfloat16, float16 and tf32 with 128x256 outputs a block, 64x64 a warp. float32 from two float16
 * halves of each factor (halves.h) costs three products, and has 128x128 outputs per block, because it has
 * twice the operands. The tensor cores truncate their sums, so they add up 16 k only; ordinary additions,
 * which round, add these to the sums: four additions for three mma, in units that are otherwise idle.
 *
 * Bytes: inputs once, y once, if the L2 cache holds what several tiles share. Operations: 2 batch in_features
 * out_features, three times that for float32.
 *
 * Limit: the tensor cores at the rate of mma.sync, which up to compute capability 8.9 is their full rate.
 *
 * Groups of 8, 16, 32, ... channels up to the width of a tile are normalised in it, in one launch. Others
 * take a second one, group_norm_2_block.cu, and a float32 intermediate: for 16-bit types in the workspace.
 *
 * Next (gemm_10_hopper.cu): an instruction of compute capability 9.0 multiplies 64x256 outputs straight from
 * shared memory, twice as fast. */
#include "ladder/float32_chain.h"
#include "shared/halves.h"
#include "shared/plan.h"
#include "tensor_core/epilogue.h"
#include "tensor_core/tile_product.h"

/* ---- The kernels ---- */

static __forceinline__ __device__ void run_block(const struct tensor_core_args *args,
                                                 struct tile_product product) {
    if (!holds(args->held))
        return;
    struct lane_place place = place_of_thread(args, product);
    warp_sums sum = {{0.0f}};
    product.chunks = true;
    if (args->chunks) {
        multiply_tile(args, &place, sum, product);
    } else if (product.halves == 1) {
        product.chunks = false;
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
    struct tile_product product = {FGN_BFLOAT16, 1, MOST_COLUMN_TILES, STAGES, true};
    if (HAS_TENSOR_CORES)
        run_block(&args, product);
}

__global__ void __launch_bounds__(THREADS, 1) tensor_core_float16_kernel(struct tensor_core_args args) {
    struct tile_product product = {FGN_FLOAT16, 1, MOST_COLUMN_TILES, STAGES, true};
    if (HAS_TENSOR_CORES)
        run_block(&args, product);
}

__global__ void __launch_bounds__(THREADS, 1) tensor_core_tf32_kernel(struct tensor_core_args args) {
    struct tile_product product = {FGN_FLOAT32, 1, MOST_COLUMN_TILES, STAGES, true};
    if (HAS_TENSOR_CORES)
        run_block(&args, product);
}

__global__ void __launch_bounds__(THREADS, 1) tensor_core_split_float32_kernel(struct tensor_core_args args) {
    struct tile_product product = {FGN_FLOAT16, 2, SPLIT_COLUMN_TILES, SPLIT_STAGES, true};
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

/* Whether the product's kernel can contain the norm. */
static bool normalises_in_tile(const fgn_chain *chain) {
    int64_t size = group_size_of(chain);
    return size >= MMA_COLUMNS && size <= columns_of_tile(chain) && (size & (size - 1)) == 0;
}

static bool has_second_launch(const fgn_chain *chain) {
    return chain->groups > 0 && !normalises_in_tile(chain);
}

/* The bytes of the intermediate of a 16-bit chain; a float32 chain has its intermediate in y. */
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

/* Indices of the kernels and of their names: by fgn_type, then the one for split factors. */
static int kernel_of(const fgn_chain *chain) {
    return is_float32_accurate(chain) ? 3 : (int)chain->type;
}

/* Split factors need the halves of x before, and the float32 chain as a fallback after. */
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
    set_stages(product, halves ? SPLIT_STAGES : STAGES, 0, 0);
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
        args->chunks = args->row_bytes % CHUNK_BYTES == 0 && (uintptr_t)x % CHUNK_BYTES == 0 &&
                       (uintptr_t)chain->weight % CHUNK_BYTES == 0;
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
    args->chunks = true;
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
    {"tensor_core", "tensor_core/gemm_9_tensor_core.cu", "tensor_core/epilogue.h",
     "tensor cores by mma.sync, copies that fill no register", "a GPU of compute capability 8.0"},
    &group_norm_2_block,
    refusal,
    plan,
    prepare_halves,
    forward,
};
