/* GEMM, rung 10: the whole chain in one launch, on Hopper's own instructions.
 *
 * Idea: TMA fills shared memory and wgmma feeds Hopper's tensor cores from there; no thread that multiplies
 * copies an operand. The kernel is persistent: clusters of blocks stay for the whole launch and take one tile
 * after the other. Each block has three roles:
 *
 *   who loads       hopper/producer.h   one thread fills a ring buffer of stages by TMA
 *   who multiplies  hopper/consumer.h   two teams of warpgroups, wgmma from the ring into registers
 *   who ends        hopper/epilogue.h   the same teams: bias, operators, GroupNorm in registers, stores
 *
 * A block's time, with cooperative teams (a tile of 128 rows for both) and with ping-pong teams (tiles of 64
 * rows, in turn):
 *
 *   producer  load 0 | load 1 .......... | load 2       producer  load 0 | load 1 | load 2 | load 3
 *   team 0    mul 0      end 0 | mul 1      end 1       team 0    mul 0 | end 0  | mul 2 | end 2
 *   team 1    mul 0      end 0 | mul 1      end 1       team 1           mul 1 | end 1  | mul 3 | end 3
 *
 * Ping-pong hides the epilogue behind the other team's product, and reads w from the L2 cache twice as often.
 * hopper/plan.h chooses teams, tile width and cluster by a model of time.
 *
 * Groups of any size up to 2048 channels are normalised in the registers that hold the sums, so the
 * intermediate never is in memory. A strip of a tile owns whole groups, or a part of a group; the strips of a
 * block or a cluster that share a group exchange moments (hopper/norm_*.h). If tiles are too few to fill the
 * GPU, blocks split k (split-k): tiles leave their sums in the workspace, and a second launch adds them up
 * and ends the chain (few_rows/second_launch.cu).
 *
 * Precisions: bfloat16, float16, tf32, float32 from two float16 halves of each factor (halves.h), which costs
 * three products, and fp8 (quantise.h), at twice the rate.
 *
 * Bytes: inputs once, y once. Operations: 2 batch in_features out_features, three times that for float32.
 *
 * Limit: the tensor cores (2048 multiply-adds of 16-bit factors per clock and multiprocessor, at the clock
 * that the power limit allows); the L2 cache's bandwidth, for small tiles; and for cooperative teams the
 * epilogues, which nothing hides. */
#include "hopper/plan.h"
#include "hopper/repack.h"
#include "hopper/tensor_maps.h"

static hopper_kernel_function kernel_for(enum wgmma_factors factors, enum shape shape) {
    switch (factors) {
    case BFLOAT16_FACTORS:
        return hopper_bfloat16_kernel_of(shape);
    case FLOAT16_FACTORS:
        return hopper_float16_kernel_of(shape);
    case TF32_FACTORS:
        return hopper_tf32_kernel_of(shape);
    case FP8_FACTORS:
        return hopper_fp8_kernel_of(shape);
    default:
        return hopper_split_float32_kernel_of(shape);
    }
}

#ifdef __CUDACC__

static cudaError_t launch_kernel(const fgn_plan *plan, const fgn_launch *planned,
                                 const struct hopper_args *args, enum wgmma_factors factors, enum shape shape,
                                 cudaStream_t stream) {
    static bool allowed[FACTORS][SHAPES][MOST_DEVICES];
    hopper_kernel_function kernel = kernel_for(factors, shape);
    cudaError_t error = allow_shared_memory((const void *)kernel, &plan->device, allowed[factors][shape]);
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

#else

struct kernel_call {
    hopper_kernel_function kernel;
    struct hopper_args args;
};

static void enter(const void *call) {
    const struct kernel_call *of_kernel = (const struct kernel_call *)call;
    of_kernel->kernel(of_kernel->args);
}

static cudaError_t launch_kernel(const fgn_plan *plan, const fgn_launch *planned,
                                 const struct hopper_args *args, enum wgmma_factors factors, enum shape shape,
                                 cudaStream_t stream) {
    (void)plan, (void)stream;
    struct kernel_call call = {kernel_for(factors, shape), *args};
    return sim_launch_clusters(kernel_name(factors, shape), __FILE__, enter, &call, sizeof call,
                               grid_of(planned), block_of(planned), planned->shared_bytes,
                               (unsigned)planned->cluster);
}

#endif

static int add_vector(struct vectors *vectors, const void *from, float otherwise) {
    vectors->from[vectors->count] = from;
    vectors->constant[vectors->count] = otherwise;
    return vectors->count++;
}

/* The operands of operators; operators without one load nothing. */
static void add_vectors(struct vectors *vectors, const fgn_pointwise *step, int count, int *numbers) {
    for (int i = 0; i < count; i++) {
        numbers[i] = NO_VECTOR;
        if (takes_channel(&step[i])) {
            vectors->ones |= (uint32_t)(step[i].one != 0) << vectors->count;
            numbers[i] = add_vector(vectors, step[i].channel, 0.0f);
        }
    }
}

static struct vectors vectors_of(const fgn_chain *chain, const void *unscale, bool ends_later) {
    struct vectors vectors = {};
    if (ends_later) {
        vectors.bias = NO_VECTOR;
        vectors.unscale = unscale ? add_vector(&vectors, unscale, 1.0f) : NO_VECTOR;
        return vectors;
    }
    vectors.are_16_bit = chain->vector_type != FGN_FLOAT32;
    vectors.bias = chain->bias ? add_vector(&vectors, chain->bias, 0.0f) : NO_VECTOR;
    vectors.unscale = unscale ? add_vector(&vectors, unscale, 1.0f) : NO_VECTOR;
    add_vectors(&vectors, chain->before, chain->before_count, vectors.before);
    if (chain->groups > 0) {
        vectors.scale = add_vector(&vectors, chain->norm_scale, 1.0f);
        vectors.shift = add_vector(&vectors, chain->norm_shift, 0.0f);
        add_vectors(&vectors, chain->after, chain->after_count, vectors.after);
    }
    return vectors;
}

/* Makes the factors as the kernel reads them: split, rounded to fp8, repacked, or as they are. */
static cudaError_t make_factors(const fgn_plan *plan, struct hopper_args *args, const fgn_chain *chain,
                                const void *x, void *workspace, struct factor_places *at,
                                cudaStream_t stream) {
    int64_t batch = chain->batch, in = chain->in_features, out = chain->out_features;
    int bytes = element_bytes_of(chain);
    cudaError_t error = cudaSuccess;
    if (is_float32_accurate(chain)) {
        struct factor_halves halves = factor_halves_at(plan, chain, workspace);
        struct factor_places of_halves = {halves.x.high, halves.w.high,    halves.x.low,
                                          halves.w.low,  halves.w.unscale, halves_pitch(in)};
        *at = of_halves;
        args->x_unscale = halves.x.unscale;
        args->x_unheld = halves.x.unheld;
        args->w_unheld = halves.w.unheld;
        return make_factor_halves(plan, chain, (const float *)x, halves, stream);
    }
    if (is_fp8(chain)) {
        struct fp8_factors fp8 = fp8_factors_at(chain, workspace);
        bool are_floats = chain->vector_type == FGN_FLOAT32 || args->tiling.ends_later;
        struct factor_places of_fp8 = {fp8.x.values, fp8.w.values,           NULL,
                                       NULL,         fp8.w.unscale_bfloat16, fp8_pitch(in)};
        *at = of_fp8;
        if (are_floats)
            at->w_unscale = fp8.w.unscale;
        args->x_unscale = fp8.x.unscale;
        return quantise_factors(chain, x, fp8, stream);
    }
    struct factor_places as_they_are = {x, chain->weight, NULL, NULL, NULL, in};
    *at = as_they_are;
    if (is_repacked(chain)) {
        void *packed_x = workspace, *packed_w = (char *)workspace + repacked_bytes(batch, in, bytes);
        struct factor_places packed = {packed_x, packed_w, NULL, NULL, NULL, aligned_pitch(in, bytes)};
        *at = packed;
        error = repack(x, batch, in, bytes, packed_x, stream);
        if (error == cudaSuccess)
            error = repack(chain->weight, out, in, bytes, packed_w, stream);
    }
    return error;
}

/* The launches that come before the kernel. */
static int launches_before(const fgn_plan *plan, const fgn_chain *chain) {
    return is_float32_accurate(chain) ? halves_launches(plan)
           : is_fp8(chain)            ? 1
           : is_repacked(chain)       ? 2
                                      : 0;
}

static cudaError_t prepare(const fgn_chain *chain, void *prepared, cudaStream_t stream) {
    return is_fp8(chain) ? prepare_fp8(chain, prepared, stream) : prepare_halves(chain, prepared, stream);
}

static cudaError_t forward(const fgn_plan *plan, const fgn_chain *given, const void *x, void *y,
                           void *workspace, cudaStream_t stream) {
    struct hopper_args args = {};
    struct candidate chosen;
    fgn_chain in_precision = *given;
    in_precision.precision = (fgn_precision)plan->choice[PRECISION];
    const fgn_chain *chain = &in_precision;
    if (!chosen_tiling(plan, chain, &chosen))
        return cudaErrorInvalidValue;
    enum wgmma_factors factors = factors_of(chain);
    struct configuration config = configuration_of(factors, chosen.shape);
    int y_bytes = 16 / values_of_16_bytes(config);
    args.tiling = chosen.tiling;
    args.batch = chain->batch;
    args.out_features = chain->out_features;
    args.step_elements = STEP_BYTES / element_bytes_of(chain);
    args.steps = steps_of(chain);
    args.group_size = (int)group_size_of(chain);
    args.eps = chain->eps;
    args.before = operators_before(chain);
    args.after = operators_after(chain);
    args.y = y;
    args.wide_stores = chain->out_features * y_bytes % 16 == 0 && (uintptr_t)y % 16 == 0;
    args.pair_stores = chain->out_features % 2 == 0 && (uintptr_t)y % (2 * y_bytes) == 0;
    struct factor_places at;
    cudaError_t error = make_factors(plan, &args, chain, x, workspace, &at, stream);
    if (error != cudaSuccess)
        return error;
    if (!describe_matrices(&args, chain, config, &at))
        return cudaErrorInvalidValue;
    args.vectors = vectors_of(chain, at.w_unscale, args.tiling.ends_later);
    if (args.tiling.ends_later) /* the sums are the last thing in the workspace */
        args.sums =
            (float *)((char *)workspace + plan->workspace_bytes - bytes_of_sums(chain, args.tiling.splits));
    const fgn_launch *planned = &plan->launch[launches_before(plan, chain)];
    error = launch_kernel(plan, planned, &args, factors, chosen.shape, stream);
    if (error == cudaSuccess && args.sums)
        error = run_second_launch(plan, planned + 1, chain, args.sums, args.tiling.splits, y, stream);
    if (error == cudaSuccess && is_float32_accurate(chain)) {
        struct condition unheld = {args.x_unheld, args.w_unheld, false};
        error = launch_float32_chain(plan, chain, (const float *)x, (float *)y, unheld, stream);
    }
    return error;
}

RUNG hopper_rung = {
    {"hopper", "hopper/gemm_10_hopper.cu", "hopper/epilogue.h",
     "tensor cores by wgmma, TMA, clusters, the norm in registers", "compute capability 9.0"},
    &group_norm_2_block,
    refusal,
    plan,
    prepare,
    forward,
};
