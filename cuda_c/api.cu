/* The C API of fgn.h: every argument is checked here, and what a rung has to do is called. The rungs are in
 * versions.cu, the choice among them in choice.cu. */
#include <stdarg.h>
#include <stdio.h>

#include "shared/checks.h"
#include "shared/plan.h"

#ifndef __CUDACC__
#include "sim/sim.h"
#endif

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

fgn_status fail(fgn_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
    return status;
}

const char *fgn_last_error(void) {
    return last_error;
}

fgn_status status_of(cudaError_t error, const char *version) {
    if (error == cudaSuccess)
        return FGN_OK;
    return fail(FGN_LAUNCH_FAILED, "%s: %s", version, cudaGetErrorString(error));
}

static fgn_status check_version(int version) {
    int count = fgn_version_count();
    if (version < 0 || version >= count)
        return fail(FGN_INVALID_ARGUMENT, "version is %d, expected 0 to %d", version, count - 1);
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

fgn_status check_chain(const fgn_chain *chain) {
    if (!chain)
        return fail(FGN_INVALID_ARGUMENT, "chain is NULL");
    fgn_status status = check_sizes(chain->batch, chain->in_features, chain->out_features);
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
    return status;
}

fgn_status check_pointer(const char *name, const void *pointer) {
    return pointer ? FGN_OK : fail(FGN_INVALID_ARGUMENT, "%s is NULL", name);
}

/* ---- Devices ---- */

#ifdef __CUDACC__

static fgn_status ask_for_device(int number, fgn_device *device) {
    const struct {
        enum cudaDeviceAttr attribute;
        int *value;
    } asked[] = {{cudaDevAttrComputeCapabilityMajor, &device->major},
                 {cudaDevAttrComputeCapabilityMinor, &device->minor},
                 {cudaDevAttrMultiProcessorCount, &device->multiprocessors}};
    int l2_bytes = 0;
    cudaError_t error = cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, number);
    for (int i = 0; i < 3 && error == cudaSuccess; i++)
        error = cudaDeviceGetAttribute(asked[i].value, asked[i].attribute, number);
    device->l2_bytes = l2_bytes;
    return status_of(error, "device");
}

/* Every GPU is asked once. */
fgn_status fgn_current_device(fgn_device *device) {
    static fgn_device known[MOST_DEVICES];
    static bool is_known[MOST_DEVICES];
    int number = 0;
    if (!device)
        return fail(FGN_INVALID_ARGUMENT, "device is NULL");
    fgn_status status = status_of(cudaGetDevice(&number), "device");
    if (status != FGN_OK)
        return status;
    if (number < MOST_DEVICES && __atomic_load_n(&is_known[number], __ATOMIC_ACQUIRE)) {
        *device = known[number];
        return FGN_OK;
    }
    status = ask_for_device(number, device);
    if (status == FGN_OK && number < MOST_DEVICES) {
        known[number] = *device; /* whoever else does so at the same time writes the same */
        __atomic_store_n(&is_known[number], true, __ATOMIC_RELEASE);
    }
    return status;
}

#else

fgn_status fgn_current_device(fgn_device *device) {
    if (!device)
        return fail(FGN_INVALID_ARGUMENT, "device is NULL");
    const fgn_device simulator = {0, 0, sim_get_threads(), 0};
    *device = simulator;
    return FGN_OK;
}

#endif

static fgn_status check_device(const fgn_device *device) {
    if (device->major < 0 || device->minor < 0 || device->multiprocessors < 1 || device->l2_bytes < 0)
        return fail(FGN_INVALID_ARGUMENT,
                    "device has compute capability %d.%d, %d multiprocessors and %lld bytes of L2 cache",
                    device->major, device->minor, device->multiprocessors, device->l2_bytes);
    return FGN_OK;
}

/* The number of multiprocessors changes no kernel: a plan for a GPU with others runs, only not as fast. */
static bool can_run_here(const fgn_device *planned) {
    fgn_device here;
    return fgn_current_device(&here) == FGN_OK && planned->major == here.major &&
           planned->minor == here.minor;
}

/* ---- Plans ---- */

/* The chain as a plan keeps it. */
static fgn_chain without_pointers(const fgn_chain *chain) {
    fgn_chain kept = *chain;
    kept.weight = kept.prepared = NULL;
    kept.bias = kept.norm_scale = kept.norm_shift = NULL;
    for (int i = 0; i < FGN_MAX_POINTWISE; i++)
        kept.before[i].channel = kept.before[i].tensor = kept.after[i].channel = kept.after[i].tensor = NULL;
    return kept;
}

fgn_status fgn_plan_chain(int version, const fgn_chain *chain, const fgn_device *device, fgn_plan *plan) {
    fgn_device here;
    fgn_status status = check_chain(chain);
    if (status == FGN_OK && !plan)
        status = fail(FGN_INVALID_ARGUMENT, "plan is NULL");
    if (status == FGN_OK && !device)
        status = fgn_current_device(&here);
    if (status != FGN_OK)
        return status;
    device = device ? device : &here;
    status = check_device(device);
    if (status == FGN_OK && version == FGN_BEST_VERSION) {
        version = fgn_default_version(chain, device);
        if (version < 0)
            return fail(FGN_NOT_SUPPORTED, "no version runs this chain on this device");
    }
    if (status == FGN_OK)
        status = check_version(version);
    if (status != FGN_OK)
        return status;
    const struct rung *rung = rung_at(version);
    const char *reason = rung->refusal(chain, device);
    if (reason)
        return fail(FGN_NOT_SUPPORTED, "%s needs %s", rung->version.name, reason);
    memset(plan, 0, sizeof *plan);
    plan->version = version;
    plan->device = *device;
    plan->chain = without_pointers(chain);
    if (chain->batch > 0)
        rung->plan(chain, device, plan);
    return FGN_OK;
}

static bool same_operators(int planned_count, const fgn_pointwise *planned, int count,
                           const fgn_pointwise *step) {
    if (planned_count != count)
        return false;
    for (int i = 0; i < count; i++)
        if (planned[i].kind != step[i].kind)
            return false;
    return true;
}

/* Whether the plan is one of this chain. Constants may be others than the planned ones. */
static fgn_status check_planned(const fgn_plan *plan, const fgn_chain *chain) {
    if (!plan)
        return fail(FGN_INVALID_ARGUMENT, "plan is NULL");
    if (!chain)
        return fail(FGN_INVALID_ARGUMENT, "chain is NULL");
    const fgn_chain *planned = &plan->chain;
    if (planned->batch != chain->batch || planned->in_features != chain->in_features ||
        planned->out_features != chain->out_features || planned->groups != chain->groups)
        return fail(FGN_INVALID_ARGUMENT,
                    "chain has batch %lld, in_features %lld, out_features %lld, groups %lld; its plan is for "
                    "%lld, %lld, %lld, %lld",
                    chain->batch, chain->in_features, chain->out_features, chain->groups, planned->batch,
                    planned->in_features, planned->out_features, planned->groups);
    if (planned->type != chain->type || planned->precision != chain->precision ||
        planned->vector_type != chain->vector_type)
        return fail(FGN_INVALID_ARGUMENT,
                    "chain has type %d, precision %d, vector_type %d; its plan is for %d, %d, %d",
                    (int)chain->type, (int)chain->precision, (int)chain->vector_type, (int)planned->type,
                    (int)planned->precision, (int)planned->vector_type);
    if (!planned->frozen != !chain->frozen)
        return fail(FGN_INVALID_ARGUMENT, "chain has frozen %d; its plan is for %d", chain->frozen,
                    planned->frozen);
    if (!same_operators(planned->before_count, planned->before, chain->before_count, chain->before) ||
        !same_operators(planned->after_count, planned->after, chain->after_count, chain->after))
        return fail(FGN_INVALID_ARGUMENT, "chain has other operators than its plan");
    if (!can_run_here(&plan->device))
        return fail(FGN_NOT_SUPPORTED, "the plan is for compute capability %d.%d%s, which this is not",
                    plan->device.major, plan->device.minor,
                    is_simulator(&plan->device) ? " (the simulator)" : "");
    return FGN_OK;
}

/* ---- Calls ---- */

/* What halves and partial sums in them are aligned to. */
#define SCRATCH_ALIGNMENT 16

static fgn_status check_aligned(const char *name, const void *pointer, int alignment) {
    if (!pointer)
        return fail(FGN_INVALID_ARGUMENT, "%s is NULL", name);
    if ((uintptr_t)pointer % alignment != 0)
        return fail(FGN_INVALID_ARGUMENT, "%s is %p, expected a multiple of %d", name, pointer, alignment);
    return FGN_OK;
}

static fgn_status check_vector(const char *name, const void *vector, fgn_type type) {
    return vector ? check_aligned(name, vector, (int)element_bytes(type)) : FGN_OK;
}

static fgn_status check_operand(const char *list, int number, const char *name, const void *operand,
                                fgn_type type) {
    if (!operand)
        return fail(FGN_INVALID_ARGUMENT, "%s[%d].%s is NULL", list, number, name);
    if ((uintptr_t)operand % element_bytes(type) != 0)
        return fail(FGN_INVALID_ARGUMENT, "%s[%d].%s is %p, expected a multiple of %d", list, number, name,
                    operand, (int)element_bytes(type));
    return FGN_OK;
}

static fgn_status check_operands(const char *list, int count, const fgn_pointwise *step,
                                 const fgn_chain *chain) {
    fgn_status status = FGN_OK;
    for (int i = 0; i < count && status == FGN_OK; i++) {
        if (takes_channel(&step[i]))
            status = check_operand(list, i, "channel", step[i].channel, chain->vector_type);
        if (status == FGN_OK && takes_tensor(&step[i]))
            status = check_operand(list, i, "tensor", step[i].tensor, chain->type);
    }
    return status;
}

fgn_status check_workspace(unsigned long long needed, const void *workspace,
                           unsigned long long workspace_bytes) {
    if (workspace_bytes < needed)
        return fail(FGN_WORKSPACE_TOO_SMALL, "workspace_bytes is %llu, expected at least %llu",
                    workspace_bytes, needed);
    return needed > 0 ? check_aligned("workspace", workspace, SCRATCH_ALIGNMENT) : FGN_OK;
}

static fgn_status check_parameters(const fgn_plan *plan, const fgn_chain *chain) {
    fgn_status status = check_aligned("weight", chain->weight, (int)element_bytes(chain->type));
    if (status == FGN_OK && plan->prepared_bytes > 0)
        status = check_aligned("prepared", chain->prepared, SCRATCH_ALIGNMENT);
    if (status == FGN_OK)
        status = check_vector("bias", chain->bias, chain->vector_type);
    if (status == FGN_OK)
        status = check_vector("norm_scale", chain->norm_scale, chain->vector_type);
    if (status == FGN_OK)
        status = check_vector("norm_shift", chain->norm_shift, chain->vector_type);
    if (status == FGN_OK)
        status = check_operands("before", chain->before_count, chain->before, chain);
    if (status == FGN_OK)
        status = check_operands("after", chain->after_count, chain->after, chain);
    return status;
}

fgn_status fgn_prepare(const fgn_plan *plan, const fgn_chain *chain, void *prepared, void *stream) {
    fgn_status status = check_planned(plan, chain);
    if (status != FGN_OK || plan->prepared_bytes == 0)
        return status;
    status = check_aligned("weight", chain->weight, (int)element_bytes(chain->type));
    if (status == FGN_OK)
        status = check_aligned("prepared", prepared, SCRATCH_ALIGNMENT);
    if (status != FGN_OK)
        return status;
    const struct rung *rung = rung_at(plan->version);
    return status_of(rung->prepare(chain, prepared, (cudaStream_t)stream), rung->version.name);
}

fgn_status fgn_run(const fgn_plan *plan, const fgn_chain *chain, const void *x, void *y, void *workspace,
                   unsigned long long workspace_bytes, void *stream) {
    fgn_status status = check_planned(plan, chain);
    if (status != FGN_OK || chain->batch == 0)
        return status;
    status = check_aligned("x", x, (int)element_bytes(chain->type));
    if (status == FGN_OK)
        status = check_aligned("y", y, (int)element_bytes(chain->type));
    if (status == FGN_OK)
        status = check_parameters(plan, chain);
    if (status == FGN_OK)
        status = check_workspace(plan->workspace_bytes, workspace, workspace_bytes);
    if (status != FGN_OK)
        return status;
    const struct rung *rung = rung_at(plan->version);
    return status_of(rung->forward(plan, chain, x, y, workspace, (cudaStream_t)stream), rung->version.name);
}

fgn_status fgn_forward(int version, const fgn_chain *chain, const void *x, void *y, void *workspace,
                       unsigned long long workspace_bytes, void *stream) {
    fgn_plan plan;
    fgn_status status = fgn_plan_chain(version, chain, NULL, &plan);
    return status == FGN_OK ? fgn_run(&plan, chain, x, y, workspace, workspace_bytes, stream) : status;
}

/* ---- GroupNorm alone ---- */

/* What a norm alone plans for is a chain of which only the norm counts. */
static fgn_status plan_norm(int version, long long batch, long long channels, long long groups, float eps,
                            fgn_chain *chain, fgn_plan *plan) {
    memset(plan, 0, sizeof *plan);
    memset(chain, 0, sizeof *chain);
    fgn_status status = check_version(version);
    if (status == FGN_OK)
        status = check_sizes(batch, 1, channels);
    if (status == FGN_OK)
        status = check_groups(groups, channels);
    if (status != FGN_OK)
        return status;
    chain->batch = batch;
    chain->in_features = 1;
    chain->out_features = channels;
    chain->groups = groups;
    chain->eps = eps;
    if (batch > 0)
        rung_at(version)->norm->plan(chain, 0, plan);
    return FGN_OK;
}

fgn_status fgn_group_norm_workspace_bytes(int version, long long batch, long long groups,
                                          unsigned long long *bytes) {
    fgn_chain chain;
    fgn_plan plan;
    fgn_status status = check_pointer("bytes", bytes);
    if (status == FGN_OK)
        status = plan_norm(version, batch, groups, groups, 0.0f, &chain, &plan);
    if (status == FGN_OK)
        *bytes = plan.workspace_bytes;
    return status;
}

fgn_status fgn_group_norm(int version, long long batch, long long channels, long long groups, float eps,
                          const float *x, const float *norm_scale, const float *norm_shift, float *y,
                          void *workspace, unsigned long long workspace_bytes, void *stream) {
    fgn_chain chain;
    fgn_plan plan;
    fgn_status status = plan_norm(version, batch, channels, groups, eps, &chain, &plan);
    if (status != FGN_OK || batch == 0)
        return status;
    status = check_aligned("x", x, sizeof(float));
    if (status == FGN_OK)
        status = check_aligned("y", y, sizeof(float));
    if (status == FGN_OK)
        status = check_vector("norm_scale", norm_scale, FGN_FLOAT32);
    if (status == FGN_OK)
        status = check_vector("norm_shift", norm_shift, FGN_FLOAT32);
    if (status == FGN_OK)
        status = check_workspace(plan.workspace_bytes, workspace, workspace_bytes);
    if (status != FGN_OK)
        return status;
    chain.norm_scale = norm_scale;
    chain.norm_shift = norm_shift;
    const struct condition always = {NULL, NULL, false};
    struct group_norm norm = norm_of(&chain, x, y, FGN_FLOAT32, always);
    const struct rung *rung = rung_at(version);
    return status_of(rung->norm->launch(plan.launch, &norm, workspace, (cudaStream_t)stream),
                     rung->version.name);
}
