/* The C API of fgn.h: a rung makes a plan and, once checks.cu has checked the arguments, runs it. The rungs
 * are in versions.cu, the choice among them in choice.cu. */

#include "shared/checks.h"
#include "shared/plan.h"

#ifndef __CUDACC__
#include "sim/sim.h"
#endif

static fgn_status check_version(int version) {
    int count = fgn_version_count();
    if (version < 0 || version >= count)
        return fail(FGN_INVALID_ARGUMENT, "version is %d, expected 0 to %d", version, count - 1);
    return FGN_OK;
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
        known[number] = *device; /* another thread that does so at the same time writes the same */
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

/* The number of multiprocessors changes no kernel: a plan made for another number only runs slower. */
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
    return fgn_plan_candidate(version, 0, chain, device, plan);
}

fgn_status fgn_plan_candidate(int version, int candidate, const fgn_chain *chain, const fgn_device *device,
                              fgn_plan *plan) {
    fgn_device here;
    fgn_status status = check_chain(chain);
    if (status == FGN_OK && candidate < 0)
        status = fail(FGN_INVALID_ARGUMENT, "candidate is %d, which is negative", candidate);
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
    plan->candidate = candidate;
    plan->device = *device;
    plan->chain = without_pointers(chain);
    if (chain->batch > 0)
        rung->plan(chain, device, plan);
    if (candidate > 0 && (plan->nanoseconds == 0.0 || plan->launch_count == 0))
        return fail(FGN_NOT_SUPPORTED, "%s has no candidate %d", rung->version.name, candidate);
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

/* Whether the plan serves this chain. The operators' constants may differ from the planned ones. */
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
    if (!planned->x_is_split != !chain->x_is_split || (chain->x_is_split && !chain->frozen))
        return fail(FGN_INVALID_ARGUMENT,
                    "chain has x_is_split %d, frozen %d; its plan is for %d, and x is split "
                    "for frozen chains only",
                    chain->x_is_split, chain->frozen, planned->x_is_split);
    if (plan->product_bytes > 0 && !chain->can_multiply)
        return fail(FGN_INVALID_ARGUMENT, "chain has can_multiply 0; its plan asks for the product");
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
    if (status == FGN_OK)
        status = check_y_overlaps_nothing(plan, chain, x, y, workspace);
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

/* A norm alone is planned as a chain whose product is ignored. */
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
    int64_t bytes = batch * channels * (int64_t)sizeof(float);
    if (status == FGN_OK)
        status = check_no_overlap("x", x, bytes, y, bytes);
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
