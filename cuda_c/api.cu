/* The C API of fgn.h: the table of versions, the argument checks, and how a version cuts a chain into
 * launches. No kernel lives here. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "shared/rung.h"
#include "shared/moments.h"
#include "ladder/pipelined_tile.h"

typedef cudaError_t (*gemm_function)(const struct gemm *gemm, cudaStream_t stream);

enum norm_rung { NAIVE_NORM, BLOCK_NORM };

/* How much of the chain around the product is in the product's kernel. TENSOR_CORES: the rung answers for
 * itself, through its struct tensor_rung. */
enum fusion { SEPARATE_KERNELS, FUSED_EPILOGUES, ONE_KERNEL, TENSOR_CORES };

struct rung {
    fgn_version version;
    gemm_function gemm;
    enum norm_rung norm;
    enum fusion fusion;
    const struct tensor_rung *tensor;
};

/* The ladder, from the first rung to the last. A new rung is a line here and a file. */
static const struct rung ladder[] = {
    {{"naive", "ladder/gemm_1_naive.cu", "ladder/group_norm_1_naive.cu", "one thread per output", ""},
     gemm_1_naive,
     NAIVE_NORM,
     SEPARATE_KERNELS,
     NULL},
    {{"coalesced", "ladder/gemm_2_coalesced.cu", "ladder/group_norm_1_naive.cu",
      "one warp per output, lanes along k", ""},
     gemm_2_coalesced,
     NAIVE_NORM,
     SEPARATE_KERNELS,
     NULL},
    {{"shared_tile", "ladder/gemm_3_shared_tile.cu", "ladder/group_norm_1_naive.cu",
      "a 32x32 tile in shared memory", ""},
     gemm_3_shared_tile,
     NAIVE_NORM,
     SEPARATE_KERNELS,
     NULL},
    {{"register_tile", "ladder/gemm_4_register_tile.cu", "ladder/group_norm_1_naive.cu",
      "4x4 outputs a thread", ""},
     gemm_4_register_tile,
     NAIVE_NORM,
     SEPARATE_KERNELS,
     NULL},
    {{"vectorized", "ladder/gemm_5_vectorized.cu", "ladder/group_norm_2_block.cu",
      "16-byte accesses, 8x8 outputs a thread", ""},
     gemm_5_vectorized,
     BLOCK_NORM,
     SEPARATE_KERNELS,
     NULL},
    {{"tiled", "ladder/gemm_6_pipelined.cu", "ladder/group_norm_2_block.cu",
      "tiles travel while others are multiplied", ""},
     gemm_6_pipelined,
     BLOCK_NORM,
     SEPARATE_KERNELS,
     NULL},
    {{"fused", "ladder/gemm_7_fused.cu", "ladder/group_norm_2_block.cu",
      "every operator in one of two kernels", ""},
     gemm_7_fused,
     BLOCK_NORM,
     FUSED_EPILOGUES,
     NULL},
    {{"one_kernel", "ladder/gemm_8_one_kernel.cu", "ladder/gemm_8_one_kernel.cu",
      "the norm in the product's epilogue", "groups of at most 128 channels"},
     gemm_6_pipelined,
     BLOCK_NORM,
     ONE_KERNEL,
     NULL},
    {{"tensor_core", "tensor_core/gemm_9_tensor_core.cu", "tensor_core/gemm_9_tensor_core.cu",
      "tensor cores by mma.sync, copies that fill no register", "a GPU of compute capability 8.0"},
     NULL,
     BLOCK_NORM,
     TENSOR_CORES,
     &gemm_9_tensor_core},
    {{"hopper", "hopper/gemm_10_hopper.cu", "hopper/gemm_10_hopper.cu",
      "tensor cores by wgmma, TMA, clusters of two blocks",
      "compute capability 9.0; groups of 8, 16, ..., 512 channels; rows of multiples of 16 bytes, outputs of "
      "32"},
     NULL,
     BLOCK_NORM,
     TENSOR_CORES,
     &gemm_10_hopper},
    {{"few_rows", "few_rows/gemm_few_rows_tensor.cu", "few_rows/ending.h",
      "tensor cores as fast as the weight is read",
      "a batch of at most 2048 and a GPU of compute capability 8.0"},
     NULL,
     BLOCK_NORM,
     TENSOR_CORES,
     &gemm_few_rows_tensor},
};

#define VERSIONS ((int)(sizeof(ladder) / sizeof(ladder[0])))

/* Launches index their blocks with 31 bits; the rung with the most blocks has one for 8 outputs. */
#define MOST_OUTPUTS (1LL << 33)

/* Distances between the rows of a tile are 32-bit, and so are the blocks that share a row of a norm. */
#define MOST_FEATURES (1LL << 23)

#ifdef __cplusplus
#define THREAD_LOCAL thread_local
#else
#define THREAD_LOCAL _Thread_local
#endif

static THREAD_LOCAL char last_error[512] = "";

static fgn_status fail(fgn_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
    return status;
}

const char *fgn_last_error(void) {
    return last_error;
}

static fgn_status status_of(cudaError_t error, const char *version) {
    if (error == cudaSuccess)
        return FGN_OK;
    return fail(FGN_LAUNCH_FAILED, "%s: %s", version, cudaGetErrorString(error));
}

int fgn_version_count(void) {
    return VERSIONS;
}

const fgn_version *fgn_version_at(int version) {
    return version >= 0 && version < VERSIONS ? &ladder[version].version : NULL;
}

static fgn_status check_version(int version) {
    if (version < 0 || version >= VERSIONS)
        return fail(FGN_INVALID_ARGUMENT, "version is %d, expected 0 to %d", version, VERSIONS - 1);
    return FGN_OK;
}

static fgn_status check_sizes(long long batch, long long in_features, long long out_features) {
    if (batch < 0)
        return fail(FGN_INVALID_ARGUMENT, "batch is %lld, expected 0 or more", batch);
    if (in_features < 1)
        return fail(FGN_INVALID_ARGUMENT, "in_features is %lld, expected 1 or more", in_features);
    if (out_features < 1)
        return fail(FGN_INVALID_ARGUMENT, "out_features is %lld, expected 1 or more", out_features);
    if (in_features > MOST_FEATURES || out_features > MOST_FEATURES)
        return fail(FGN_NOT_SUPPORTED, "in_features is %lld and out_features %lld, expected at most 2^23",
                    in_features, out_features);
    if (batch > MOST_OUTPUTS / out_features)
        return fail(FGN_NOT_SUPPORTED, "batch * out_features is %lld * %lld, expected at most 2^33", batch,
                    out_features);
    return FGN_OK;
}

static fgn_status check_groups(long long groups, long long channels) {
    if (groups < 1 || channels % groups != 0)
        return fail(FGN_INVALID_ARGUMENT, "groups is %lld, expected a divisor of the %lld channels", groups,
                    channels);
    return FGN_OK;
}

static fgn_status check_types(const fgn_chain *chain) {
    if ((int)chain->type < FGN_FLOAT32 || (int)chain->type > FGN_BFLOAT16)
        return fail(FGN_INVALID_ARGUMENT, "type is %d, which is no fgn_type", (int)chain->type);
    if ((int)chain->precision < FGN_IEEE || (int)chain->precision > FGN_TF32)
        return fail(FGN_INVALID_ARGUMENT, "precision is %d, which is no fgn_precision",
                    (int)chain->precision);
    if (chain->vector_type != FGN_FLOAT32 && chain->vector_type != chain->type)
        return fail(FGN_INVALID_ARGUMENT, "vector_type is %d, expected FGN_FLOAT32 or type, which is %d",
                    (int)chain->vector_type, (int)chain->type);
    return FGN_OK;
}

static fgn_status check_operators(const char *list, int count, const fgn_pointwise *step) {
    if (count < 0 || count > FGN_MAX_POINTWISE)
        return fail(FGN_INVALID_ARGUMENT, "%s_count is %d, expected 0 to %d", list, count, FGN_MAX_POINTWISE);
    for (int i = 0; i < count; i++)
        if ((int)step[i].kind < 0 || (int)step[i].kind >= FGN_POINTWISE_KINDS)
            return fail(FGN_INVALID_ARGUMENT, "%s[%d].kind is %d, which is no pointwise operator", list, i,
                        (int)step[i].kind);
    for (int i = 0; i < count; i++)
        if (step[i].kind == FGN_HARDTANH && step[i].a > step[i].b)
            return fail(FGN_INVALID_ARGUMENT,
                        "%s[%d] is hardtanh(%g, %g), expected a minimum below its maximum", list, i,
                        (double)step[i].a, (double)step[i].b);
    return FGN_OK;
}

static bool has_norm(const fgn_chain *chain) {
    return chain->groups != 0;
}

/* What the versions without tensor cores ask for. */
static fgn_status check_rung(const struct rung *rung, const fgn_chain *chain) {
    if (chain->type != FGN_FLOAT32)
        return fail(FGN_NOT_SUPPORTED, "%s needs float32", rung->version.name);
    if (rung->fusion == ONE_KERNEL && group_size_of(chain) > TILE)
        return fail(FGN_NOT_SUPPORTED, "%s needs %s, and these have %lld", rung->version.name,
                    rung->version.needs, (long long)group_size_of(chain));
    return FGN_OK;
}

static fgn_status check_tensor_rung(const struct rung *rung, const fgn_chain *chain) {
    const char *reason = rung->tensor->refusal(chain);
    if (reason)
        return fail(FGN_NOT_SUPPORTED, "%s needs %s", rung->version.name, reason);
    return FGN_OK;
}

static fgn_status check_chain(int version, const fgn_chain *chain) {
    fgn_status status = check_version(version);
    if (status == FGN_OK && !chain)
        status = fail(FGN_INVALID_ARGUMENT, "chain is NULL");
    if (status == FGN_OK)
        status = check_sizes(chain->batch, chain->in_features, chain->out_features);
    if (status == FGN_OK && has_norm(chain))
        status = check_groups(chain->groups, chain->out_features);
    if (status == FGN_OK)
        status = check_types(chain);
    if (status == FGN_OK)
        status = check_operators("before", chain->before_count, chain->before);
    if (status == FGN_OK)
        status = check_operators("after", chain->after_count, chain->after);
    if (status == FGN_OK && !has_norm(chain) && chain->before_count + chain->after_count > 0)
        status = fail(FGN_INVALID_ARGUMENT, "groups is 0 and there are %d operators, expected none",
                      chain->before_count + chain->after_count);
    if (status != FGN_OK)
        return status;
    const struct rung *rung = &ladder[version];
    return rung->fusion == TENSOR_CORES ? check_tensor_rung(rung, chain) : check_rung(rung, chain);
}

static fgn_status check_pointer(const char *name, const void *pointer) {
    return pointer ? FGN_OK : fail(FGN_INVALID_ARGUMENT, "%s is NULL", name);
}

static fgn_status check_operands(const char *list, int count, const fgn_pointwise *step) {
    for (int i = 0; i < count; i++) {
        if (takes_channel(&step[i]) && !step[i].channel)
            return fail(FGN_INVALID_ARGUMENT, "%s[%d].channel is NULL", list, i);
        if (takes_tensor(&step[i]) && !step[i].tensor)
            return fail(FGN_INVALID_ARGUMENT, "%s[%d].tensor is NULL", list, i);
    }
    return FGN_OK;
}

fgn_status fgn_supports(int version, const fgn_chain *chain) {
    return check_chain(version, chain);
}

#ifdef __CUDACC__
#define SIMULATED false
#else
#define SIMULATED true
#endif

/* A product with fewer operations is done before a tensor core kernel's fixed costs are paid. */
#define FEWEST_TENSOR_OPERATIONS 1e9

/* Whether products of 16-bit halves, three for one, are faster than ordinary float32. They are on the GPUs of
 * data centres (8.0 and 9.0: 16 times the rate), and are not on those of the same generations with more
 * multiply-adds and slower tensor cores (8.6 and 8.9: twice). CUDA C++ Programming Guide, "Arithmetic
 * Instructions", and the architectures' white papers. */
static bool has_fast_tensor_cores(void) {
    return !SIMULATED && attribute_of_device(cudaDevAttrComputeCapabilityMajor) > 0 &&
           attribute_of_device(cudaDevAttrComputeCapabilityMinor) == 0;
}

/* About what a product takes in a rung with tiles, by what is recorded on an H200. On tensor cores (hopper):
 * a time for each wave of tiles, which grows with k, and what happens once. Others do 24 TFLOP/s where their
 * tiles do not fill the GPU, or read the weight at 2.7 TB/s. */
static double nanoseconds_in_tiles(const struct rung *rung, const fgn_chain *chain) {
    double weights = (double)chain->in_features * chain->out_features;
    if (rung->fusion != TENSOR_CORES)
        return 10.0e3 + fmax(chain->batch * weights / 12.0e3, weights * sizeof(float) / 2.7e3);
    const double rows = 128.0, columns = 256.0, tiles_at_once = 132.0;
    double waves = ceil(ceil(chain->batch / rows) * ceil(chain->out_features / columns) / tiles_at_once);
    double each_k = is_float32_accurate(chain) ? 14.6 : chain->type == FGN_FLOAT32 ? 8.5 : 4.8;
    double once = is_float32_accurate(chain) ? 24.0e3 : 12.5e3; /* the halves of x are another launch */
    return once + waves * each_k * chain->in_features;
}

/* Whether a version is faster than the best of those before it in the table, by what is recorded in
 * profiles/: the last rung without tensor cores wherever its tiles fill the GPU (`fused` has smaller blocks
 * for fewer rows), those with tensor cores wherever there is work for them, and few_rows where that work
 * would leave most of the GPU idle or wait for memory. The simulator has no tensor cores: there the ordinary
 * rungs are faster. */
static bool is_faster(const struct rung *rung, const struct rung *than, const fgn_chain *chain) {
    if (rung->fusion == ONE_KERNEL)
        return !has_few_tiles(chain->batch, chain->out_features);
    if (rung->fusion != TENSOR_CORES)
        return true;
    if (SIMULATED ||
        (rung->tensor == &gemm_9_tensor_core && is_float32_accurate(chain) && !has_fast_tensor_cores()))
        return false;
    if (rung->tensor == &gemm_few_rows_tensor)
        return few_rows_nanoseconds(chain) < nanoseconds_in_tiles(than, chain);
    double operations = 2.0 * chain->batch * chain->in_features * chain->out_features;
    return operations >= FEWEST_TENSOR_OPERATIONS;
}

int fgn_default_version(const fgn_chain *chain) {
    int best = -1;
    for (int version = 0; version < VERSIONS; version++) {
        if (check_chain(version, chain) != FGN_OK)
            continue;
        if (best < 0 || is_faster(&ladder[version], &ladder[best], chain))
            best = version;
    }
    return best;
}

static int norm_launches(enum norm_rung norm) {
    return norm == NAIVE_NORM ? 2 : 1;
}

fgn_status fgn_launch_count(int version, const fgn_chain *chain, int *launches) {
    fgn_status status = check_chain(version, chain);
    if (status == FGN_OK)
        status = check_pointer("launches", launches);
    if (status != FGN_OK)
        return status;
    const struct rung *rung = &ladder[version];
    if (rung->fusion == TENSOR_CORES)
        *launches = rung->tensor->launches(chain);
    else if (rung->fusion == ONE_KERNEL || !has_norm(chain))
        *launches = 1;
    else if (rung->fusion == FUSED_EPILOGUES)
        *launches = 2;
    else
        *launches = 1 + chain->before_count + norm_launches(rung->norm) + chain->after_count;
    return FGN_OK;
}

fgn_status fgn_group_norm_workspace_bytes(int version, long long batch, long long groups,
                                          unsigned long long *bytes) {
    fgn_status status = check_version(version);
    if (status == FGN_OK)
        status = check_pointer("bytes", bytes);
    if (status != FGN_OK)
        return status;
    bool needed = ladder[version].norm == NAIVE_NORM;
    *bytes = needed ? (unsigned long long)batch * groups * sizeof(struct moments) : 0;
    return FGN_OK;
}

fgn_status fgn_workspace_bytes(int version, const fgn_chain *chain, unsigned long long *bytes) {
    fgn_status status = check_chain(version, chain);
    if (status == FGN_OK)
        status = check_pointer("bytes", bytes);
    if (status != FGN_OK)
        return status;
    if (ladder[version].fusion == TENSOR_CORES) {
        *bytes = ladder[version].tensor->workspace_bytes(chain);
        return FGN_OK;
    }
    return fgn_group_norm_workspace_bytes(version, chain->batch, chain->groups, bytes);
}

fgn_status fgn_prepared_bytes(int version, const fgn_chain *chain, unsigned long long *bytes) {
    fgn_status status = check_chain(version, chain);
    if (status == FGN_OK)
        status = check_pointer("bytes", bytes);
    if (status != FGN_OK)
        return status;
    const struct tensor_rung *tensor = ladder[version].tensor;
    *bytes = tensor ? tensor->prepared_bytes(chain) : 0;
    return FGN_OK;
}

fgn_status fgn_prepare(int version, const fgn_chain *chain, void *prepared, void *stream) {
    unsigned long long bytes;
    fgn_status status = fgn_prepared_bytes(version, chain, &bytes);
    if (status != FGN_OK || bytes == 0)
        return status;
    status = check_pointer("weight", chain->weight);
    if (status == FGN_OK)
        status = check_pointer("prepared", prepared);
    if (status != FGN_OK)
        return status;
    return status_of(ladder[version].tensor->prepare(chain, prepared, (cudaStream_t)stream),
                     ladder[version].version.name);
}

static fgn_status check_workspace(unsigned long long needed, const void *workspace,
                                  unsigned long long workspace_bytes) {
    if (workspace_bytes < needed)
        return fail(FGN_WORKSPACE_TOO_SMALL, "workspace_bytes is %llu, expected at least %llu",
                    workspace_bytes, needed);
    return needed > 0 ? check_pointer("workspace", workspace) : FGN_OK;
}

static fgn_status check_prepared(int version, const fgn_chain *chain) {
    unsigned long long bytes;
    fgn_status status = fgn_prepared_bytes(version, chain, &bytes);
    return status == FGN_OK && bytes > 0 ? check_pointer("prepared", chain->prepared) : status;
}

static cudaError_t launch_norm(enum norm_rung rung, const struct group_norm *norm, void *workspace,
                               cudaStream_t stream) {
    if (rung == NAIVE_NORM)
        return group_norm_1_naive(norm, (struct moments *)workspace, stream);
    return group_norm_2_block(norm, stream);
}

static cudaError_t launch_operators(float *y, const fgn_chain *chain, int count, const fgn_pointwise *step,
                                    cudaStream_t stream) {
    cudaError_t error = cudaSuccess;
    for (int i = 0; i < count && error == cudaSuccess; i++) {
        struct operators one = operators_of(chain, 1, &step[i]);
        error = pointwise(y, chain->batch, &one, stream);
    }
    return error;
}

/* The chain by one of the rungs without tensor cores. */
static cudaError_t launch_rung(const struct rung *rung, const fgn_chain *chain, const float *x, float *y,
                               void *workspace, cudaStream_t stream) {
    const struct condition always = {NULL, NULL, false};
    struct gemm gemm = gemm_of(chain, x, y, always);
    if (rung->fusion == SEPARATE_KERNELS)
        gemm.before.count = 0;
    if (!has_norm(chain))
        return rung->gemm(&gemm, stream);
    struct group_norm norm = norm_of(chain, y, y, FGN_FLOAT32, always);
    if (rung->fusion == ONE_KERNEL)
        return gemm_8_one_kernel(&gemm, &norm, stream);
    cudaError_t error = rung->gemm(&gemm, stream);
    if (error == cudaSuccess && rung->fusion == SEPARATE_KERNELS) {
        norm.after.count = 0;
        error = launch_operators(y, chain, chain->before_count, chain->before, stream);
    }
    if (error == cudaSuccess)
        error = launch_norm(rung->norm, &norm, workspace, stream);
    if (error == cudaSuccess && rung->fusion == SEPARATE_KERNELS)
        error = launch_operators(y, chain, chain->after_count, chain->after, stream);
    return error;
}

fgn_status fgn_forward(int version, const fgn_chain *chain, const void *x, void *y, void *workspace,
                       unsigned long long workspace_bytes, void *stream) {
    unsigned long long needed = 0;
    fgn_status status = check_chain(version, chain);
    if (status == FGN_OK && chain->batch == 0)
        return FGN_OK;
    if (status == FGN_OK)
        status = check_pointer("x", x);
    if (status == FGN_OK)
        status = check_pointer("y", y);
    if (status == FGN_OK)
        status = check_pointer("weight", chain->weight);
    if (status == FGN_OK)
        status = check_prepared(version, chain);
    if (status == FGN_OK)
        status = check_operands("before", chain->before_count, chain->before);
    if (status == FGN_OK)
        status = check_operands("after", chain->after_count, chain->after);
    if (status == FGN_OK)
        status = fgn_workspace_bytes(version, chain, &needed);
    if (status == FGN_OK)
        status = check_workspace(needed, workspace, workspace_bytes);
    if (status != FGN_OK)
        return status;

    const struct rung *rung = &ladder[version];
    cudaStream_t on = (cudaStream_t)stream;
    cudaError_t error = rung->fusion == TENSOR_CORES
                            ? rung->tensor->forward(chain, x, y, workspace, on)
                            : launch_rung(rung, chain, (const float *)x, (float *)y, workspace, on);
    return status_of(error, rung->version.name);
}

fgn_status fgn_group_norm(int version, long long batch, long long channels, long long groups, float eps,
                          const float *x, const float *norm_scale, const float *norm_shift, float *y,
                          void *workspace, unsigned long long workspace_bytes, void *stream) {
    unsigned long long needed = 0;
    fgn_status status = check_version(version);
    if (status == FGN_OK)
        status = check_sizes(batch, 1, channels);
    if (status == FGN_OK)
        status = check_groups(groups, channels);
    if (status == FGN_OK && batch == 0)
        return FGN_OK;
    if (status == FGN_OK)
        status = check_pointer("x", x);
    if (status == FGN_OK)
        status = check_pointer("y", y);
    if (status == FGN_OK)
        status = fgn_group_norm_workspace_bytes(version, batch, groups, &needed);
    if (status == FGN_OK)
        status = check_workspace(needed, workspace, workspace_bytes);
    if (status != FGN_OK)
        return status;
    struct group_norm norm = {x,           norm_scale,     norm_shift,         y,
                              FGN_FLOAT32, batch,          channels,           groups,
                              eps,         no_operators(), {NULL, NULL, false}};
    return status_of(launch_norm(ladder[version].norm, &norm, workspace, (cudaStream_t)stream),
                     ladder[version].version.name);
}
