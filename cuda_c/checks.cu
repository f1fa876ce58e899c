/* Checks the arguments of the C API. An error message says what was expected and what came. */
#include <stdarg.h>
#include <stdio.h>

#include "shared/checks.h"
#include "shared/plan.h"

#ifndef __CUDACC__
#include "sim/sim.h"
#endif

/* Launches index their blocks with 31 bits; the rung with the most blocks has one block for 8 outputs. */
#define MOST_OUTPUTS (1LL << 33)

/* Distances between a tile's rows have 32 bits; so has the number of blocks that share a row of a
 * norm. */
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

/* ---- A chain, without its pointers ---- */

fgn_status check_sizes(long long batch, long long in_features, long long out_features) {
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

fgn_status check_groups(long long groups, long long channels) {
    if (groups < 1 || channels % groups != 0)
        return fail(FGN_INVALID_ARGUMENT, "groups is %lld, expected a divisor of the %lld channels", groups,
                    channels);
    return FGN_OK;
}

fgn_status check_types(fgn_type type, fgn_type vector_type) {
    if ((int)type < FGN_FLOAT32 || (int)type > FGN_BFLOAT16)
        return fail(FGN_INVALID_ARGUMENT, "type is %d, which is no fgn_type", (int)type);
    if (vector_type != FGN_FLOAT32 && vector_type != type)
        return fail(FGN_INVALID_ARGUMENT, "vector_type is %d, expected FGN_FLOAT32 or type, which is %d",
                    (int)vector_type, (int)type);
    return FGN_OK;
}

static fgn_status check_precision(fgn_precision precision, fgn_type type) {
    if ((int)precision < FGN_IEEE || (int)precision > FGN_FP8)
        return fail(FGN_INVALID_ARGUMENT, "precision is %d, which is no fgn_precision", (int)precision);
    if (precision == FGN_FP8 && type != FGN_BFLOAT16)
        return fail(FGN_INVALID_ARGUMENT, "precision is FGN_FP8, which is of FGN_BFLOAT16; type is %d",
                    (int)type);
    return FGN_OK;
}

fgn_status check_operators(const char *list, int count, const fgn_pointwise *step) {
    if (count < 0 || count > FGN_MAX_POINTWISE)
        return fail(FGN_INVALID_ARGUMENT, "%s_count is %d, expected 0 to %d", list, count, FGN_MAX_POINTWISE);
    for (int i = 0; i < count; i++)
        if ((int)step[i].kind < 0 || (int)step[i].kind >= FGN_POINTWISE_KINDS)
            return fail(FGN_INVALID_ARGUMENT, "%s[%d].kind is %d, which is no pointwise operator", list, i,
                        (int)step[i].kind);
    for (int i = 0; i < count; i++)
        if (step[i].one != 0 && step[i].one != 1)
            return fail(FGN_INVALID_ARGUMENT, "%s[%d].one is %d, expected 0 or 1", list, i, step[i].one);
    for (int i = 0; i < count; i++)
        if (step[i].kind == FGN_HARDTANH && step[i].a > step[i].b)
            return fail(FGN_INVALID_ARGUMENT,
                        "%s[%d] is hardtanh(%g, %g), expected a minimum below its maximum", list, i,
                        (double)step[i].a, (double)step[i].b);
    return FGN_OK;
}

/* Kernels of chains cannot multiply by a tensor. */
static fgn_status check_adds(const char *list, int count, const fgn_pointwise *step) {
    for (int i = 0; i < count; i++)
        if (step[i].kind == FGN_MULTIPLY_TENSOR)
            return fail(FGN_NOT_SUPPORTED,
                        "%s[%d] multiplies by a tensor, expected an operator that chains have", list, i);
    return FGN_OK;
}

bool has_norm(const fgn_chain *chain) {
    return chain->groups != 0;
}

fgn_status check_chain(const fgn_chain *chain) {
    if (!chain)
        return fail(FGN_INVALID_ARGUMENT, "chain is NULL");
    fgn_status status = check_sizes(chain->batch, chain->in_features, chain->out_features);
    if (status == FGN_OK && has_norm(chain))
        status = check_groups(chain->groups, chain->out_features);
    if (status == FGN_OK)
        status = check_types(chain->type, chain->vector_type);
    if (status == FGN_OK)
        status = check_precision(chain->precision, chain->type);
    if (status == FGN_OK)
        status = check_operators("before", chain->before_count, chain->before);
    if (status == FGN_OK)
        status = check_operators("after", chain->after_count, chain->after);
    if (status == FGN_OK)
        status = check_adds("before", chain->before_count, chain->before);
    if (status == FGN_OK)
        status = check_adds("after", chain->after_count, chain->after);
    if (status == FGN_OK && !has_norm(chain) && chain->after_count > 0)
        status =
            fail(FGN_INVALID_ARGUMENT,
                 "groups is 0 and after_count is %d, expected all operators in `before`", chain->after_count);
    return status;
}

fgn_status check_pointer(const char *name, const void *pointer) {
    return pointer ? FGN_OK : fail(FGN_INVALID_ARGUMENT, "%s is NULL", name);
}

/* ---- Pointers ---- */

fgn_status check_aligned(const char *name, const void *pointer, int alignment) {
    if (!pointer)
        return fail(FGN_INVALID_ARGUMENT, "%s is NULL", name);
    if ((uintptr_t)pointer % alignment != 0)
        return fail(FGN_INVALID_ARGUMENT, "%s is %p, expected a multiple of %d", name, pointer, alignment);
    return FGN_OK;
}

fgn_status check_vector(const char *name, const void *vector, fgn_type type) {
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

fgn_status check_operands(const char *list, int count, const fgn_pointwise *step, fgn_type vector_type,
                          fgn_type type) {
    fgn_status status = FGN_OK;
    for (int i = 0; i < count && status == FGN_OK; i++) {
        if (takes_channel(&step[i]))
            status = check_operand(list, i, "channel", step[i].channel, vector_type);
        if (status == FGN_OK && takes_tensor(&step[i]))
            status = check_operand(list, i, "tensor", step[i].tensor, type);
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

fgn_status check_parameters(const fgn_plan *plan, const fgn_chain *chain) {
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
        status =
            check_operands("before", chain->before_count, chain->before, chain->vector_type, chain->type);
    if (status == FGN_OK)
        status = check_operands("after", chain->after_count, chain->after, chain->vector_type, chain->type);
    return status;
}

bool overlap(const void *a, int64_t a_bytes, const void *b, int64_t b_bytes) {
    uintptr_t first = (uintptr_t)a, second = (uintptr_t)b;
    return first < second + (uint64_t)b_bytes && second < first + (uint64_t)a_bytes;
}

fgn_status check_no_overlap(const char *name, const void *pointer, int64_t bytes, const void *y,
                            int64_t y_bytes) {
    if (pointer && overlap(pointer, bytes, y, y_bytes))
        return fail(FGN_INVALID_ARGUMENT, "y overlaps %s, expected memory of its own", name);
    return FGN_OK;
}

fgn_status check_y_overlaps_nothing(const fgn_plan *plan, const fgn_chain *chain, const void *x,
                                    const void *y, const void *workspace) {
    int64_t each = element_bytes(chain->type), y_bytes = chain->batch * chain->out_features * each;
    fgn_status status = check_no_overlap("x", x, chain->batch * chain->in_features * each, y, y_bytes);
    if (status == FGN_OK)
        status = check_no_overlap("the weight", chain->weight,
                                  chain->in_features * chain->out_features * each, y, y_bytes);
    if (status == FGN_OK && plan->workspace_bytes > 0)
        status = check_no_overlap("the workspace", workspace, (int64_t)plan->workspace_bytes, y, y_bytes);
    for (int i = 0; i < chain->before_count && status == FGN_OK; i++)
        if (takes_tensor(&chain->before[i]))
            status =
                check_no_overlap("a tensor of an operator", chain->before[i].tensor, y_bytes, y, y_bytes);
    for (int i = 0; i < chain->after_count && status == FGN_OK; i++)
        if (takes_tensor(&chain->after[i]))
            status = check_no_overlap("a tensor of an operator", chain->after[i].tensor, y_bytes, y, y_bytes);
    return status;
}
