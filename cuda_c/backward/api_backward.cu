/* The C API of the backward: the table of rungs, the checks, and the division into launches. This file has no
 * kernel. */
#include "backward/backward.h"
#include "shared/checks.h"

struct backward_rung {
    fgn_backward_version version;
    bool only_float32;
    unsigned long long (*gradient_bytes)(const struct chain_gradient *gradient);
    cudaError_t (*gradient)(const struct chain_gradient *gradient, void *workspace, cudaStream_t stream);
    fgn_status (*product_bytes)(const struct backward_product *product, unsigned long long *bytes);
    fgn_status (*product)(const struct backward_product *product, void *workspace, cudaStream_t stream);
};

static const struct backward_rung ladder[] = {
    {{"naive", "backward/gradient_1_naive.cu", "backward/product_1_naive.cu", "a kernel for each operator",
      "float32"},
     true,
     gradient_1_naive_bytes,
     gradient_1_naive,
     product_1_naive_bytes,
     product_1_naive},
    {{"fused", "backward/gradient_2_fused.cu", "backward/product_1_naive.cu",
      "one pass makes the gradient before the product", ""},
     false,
     gradient_2_fused_bytes,
     gradient_2_fused,
     product_1_naive_bytes,
     product_1_naive},
    {{"transposed", "backward/gradient_2_fused.cu", "backward/product_2_transposed.cu",
      "the forward's fastest product on transposed copies", ""},
     false,
     gradient_2_fused_bytes,
     gradient_2_fused,
     product_2_transposed_bytes,
     product_2_transposed},
    {{"split", "backward/gradient_2_fused.cu", "backward/product_3_split.cu",
      "factors are split into halves while they are transposed", "float32, ieee"},
     true,
     gradient_2_fused_bytes,
     gradient_2_fused,
     product_3_split_bytes,
     product_3_split},
};

#define VERSIONS ((int)(sizeof(ladder) / sizeof(ladder[0])))

int fgn_backward_count(void) {
    return VERSIONS;
}

const fgn_backward_version *fgn_backward_at(int version) {
    return version >= 0 && version < VERSIONS ? &ladder[version].version : NULL;
}

/* ---- Checks ---- */

static fgn_status check_all_operands(const fgn_chain *chain) {
    fgn_status status =
        check_operands("before", chain->before_count, chain->before, chain->vector_type, chain->type);
    if (status == FGN_OK)
        status = check_operands("after", chain->after_count, chain->after, chain->vector_type, chain->type);
    return status;
}

static fgn_status check_backward(int version, const fgn_chain *chain, const fgn_gradients *gradients) {
    if (version < 0 || version >= VERSIONS)
        return fail(FGN_INVALID_ARGUMENT, "version is %d, expected 0 to %d", version, VERSIONS - 1);
    fgn_status status = check_chain(chain);
    if (status == FGN_OK && is_fp8(chain))
        status = fail(FGN_NOT_SUPPORTED,
                      "precision is FGN_FP8, expected FGN_IEEE: gradients are of the elements as they are");
    if (status == FGN_OK &&
        (reads_one(chain->before_count, chain->before) || reads_one(chain->after_count, chain->after)))
        status = fail(FGN_NOT_SUPPORTED, "a vector has one element (one): its gradient is not computed");
    if (status == FGN_OK && ladder[version].only_float32 && chain->type != FGN_FLOAT32)
        status = fail(FGN_NOT_SUPPORTED, "%s needs float32", ladder[version].version.name);
    if (status == FGN_OK)
        status = check_pointer("gradients", gradients);
    if (status != FGN_OK)
        return status;
    bool multiplies = chain->batch > 0 && (gradients->x || gradients->weight);
    if (has_rest(chain) && multiplies && !gradients->product)
        return fail(FGN_INVALID_ARGUMENT, "gradients.product is NULL, expected it with x or weight");
    return FGN_OK;
}

/* ---- The parts ---- */

static int slot_for(struct column_sums *sums, void *to) {
    if (!to)
        return NO_SUM;
    sums->to[sums->count] = to;
    return sums->count++;
}

static struct column_sums wanted_sums(const fgn_chain *chain, const fgn_gradients *gradients) {
    struct column_sums sums;
    memset(&sums, 0, sizeof sums);
    sums.bias = slot_for(&sums, gradients->bias);
    sums.scale = slot_for(&sums, gradients->norm_scale);
    sums.shift = slot_for(&sums, gradients->norm_shift);
    for (int i = 0; i < FGN_MAX_POINTWISE; i++) {
        bool before = i < chain->before_count && takes_channel(&chain->before[i]);
        bool after = i < chain->after_count && takes_channel(&chain->after[i]);
        sums.before[i] = slot_for(&sums, before ? gradients->before_channel[i] : NULL);
        sums.after[i] = slot_for(&sums, after ? gradients->after_channel[i] : NULL);
    }
    return sums;
}

static struct chain_gradient gradient_of(const fgn_chain *chain, const void *v, const float *moments,
                                         const void *dy, const fgn_gradients *gradients) {
    struct chain_gradient gradient;
    memset(&gradient, 0, sizeof gradient);
    gradient.v = v;
    gradient.dy = dy;
    gradient.g = has_rest(chain) ? gradients->product : NULL;
    gradient.moments = (const struct kept_moments *)moments;
    gradient.type = chain->type;
    gradient.vector_type = chain->vector_type;
    gradient.batch = chain->batch;
    gradient.channels = chain->out_features;
    gradient.groups = chain->groups;
    gradient.scale = chain->norm_scale;
    gradient.shift = chain->norm_shift;
    gradient.before = without_others(operators_before(chain));
    gradient.after = without_others(operators_after(chain));
    gradient.sums = wanted_sums(chain, gradients);
    for (int i = 0; i < chain->before_count; i++)
        gradient.before_tensor[i] = takes_tensor(&chain->before[i]) ? gradients->before_tensor[i] : NULL;
    for (int i = 0; i < chain->after_count; i++)
        gradient.after_tensor[i] = takes_tensor(&chain->after[i]) ? gradients->after_tensor[i] : NULL;
    return gradient;
}

/* Whether the chain needs more than the two products. */
static bool is_needed(const struct chain_gradient *gradient) {
    bool tensors = false;
    for (int i = 0; i < FGN_MAX_POINTWISE; i++)
        tensors = tensors || gradient->before_tensor[i] || gradient->after_tensor[i];
    return gradient->sums.count > 0 || tensors || gradient->g;
}

/* dX = G W */
static struct backward_product product_for_x(const fgn_chain *chain, const void *g, void *result) {
    struct backward_product product = {
        g,     chain->weight, result,          chain->batch, chain->out_features, chain->in_features,
        false, chain->type,   chain->precision};
    return product;
}

/* dW = G^T X */
static struct backward_product product_for_weight(const fgn_chain *chain, const void *g, const void *x,
                                                  void *result) {
    struct backward_product product = {
        g,    x,           result,          chain->out_features, chain->batch, chain->in_features,
        true, chain->type, chain->precision};
    return product;
}

/* ---- The calls ---- */

/* The parts use the workspace one after the other. */
fgn_status fgn_backward_workspace_bytes(int version, const fgn_chain *chain, const fgn_gradients *gradients,
                                        unsigned long long *bytes) {
    fgn_status status = check_backward(version, chain, gradients);
    if (status == FGN_OK)
        status = check_pointer("bytes", bytes);
    if (status != FGN_OK)
        return status;
    *bytes = 0;
    if (chain->batch == 0)
        return FGN_OK;
    const struct backward_rung *rung = &ladder[version];
    struct chain_gradient gradient = gradient_of(chain, NULL, NULL, NULL, gradients);
    struct backward_product for_x = product_for_x(chain, NULL, NULL);
    struct backward_product for_weight = product_for_weight(chain, NULL, NULL, NULL);
    unsigned long long needed[3] = {0, 0, 0};
    if (is_needed(&gradient))
        needed[0] = rung->gradient_bytes(&gradient);
    if (gradients->x)
        status = rung->product_bytes(&for_x, &needed[1]);
    if (status == FGN_OK && gradients->weight)
        status = rung->product_bytes(&for_weight, &needed[2]);
    for (int i = 0; i < 3; i++)
        *bytes = needed[i] > *bytes ? needed[i] : *bytes;
    return status;
}

/* An empty batch: every sum is zero. */
static fgn_status clear_gradients(const fgn_chain *chain, const fgn_gradients *gradients,
                                  cudaStream_t stream) {
    struct column_sums sums = wanted_sums(chain, gradients);
    size_t element = chain->type == FGN_FLOAT32 ? 4 : 2,
           of_vector = chain->vector_type == FGN_FLOAT32 ? 4 : 2;
    cudaError_t error = cudaSuccess;
    if (gradients->weight)
        error =
            cudaMemsetAsync(gradients->weight, 0, element * chain->in_features * chain->out_features, stream);
    for (int i = 0; i < sums.count && error == cudaSuccess; i++)
        error = cudaMemsetAsync(sums.to[i], 0, of_vector * chain->out_features, stream);
    return status_of(error, "backward");
}

fgn_status fgn_backward(int version, const fgn_chain *chain, const void *x, const void *v,
                        const float *moments, const void *dy, const fgn_gradients *gradients, void *workspace,
                        unsigned long long workspace_bytes, void *stream) {
    unsigned long long needed = 0;
    cudaStream_t on = (cudaStream_t)stream;
    fgn_status status = fgn_backward_workspace_bytes(version, chain, gradients, &needed);
    if (status == FGN_OK && chain->batch == 0)
        return clear_gradients(chain, gradients, on);
    if (status == FGN_OK)
        status = check_pointer("dy", dy);
    if (status == FGN_OK && has_rest(chain))
        status = check_pointer("v", v);
    if (status == FGN_OK && chain->groups > 0)
        status = check_pointer("moments", moments);
    if (status == FGN_OK && gradients->x)
        status = check_pointer("weight", chain->weight);
    if (status == FGN_OK && gradients->weight)
        status = check_pointer("x", x);
    if (status == FGN_OK)
        status = check_all_operands(chain);
    if (status == FGN_OK)
        status = check_workspace(needed, workspace, workspace_bytes);
    if (status != FGN_OK)
        return status;

    const struct backward_rung *rung = &ladder[version];
    struct chain_gradient gradient = gradient_of(chain, v, moments, dy, gradients);
    const void *g = has_rest(chain) ? gradients->product : dy;
    if (is_needed(&gradient))
        status = status_of(rung->gradient(&gradient, workspace, on), rung->version.name);
    if (status == FGN_OK && gradients->x) {
        struct backward_product product = product_for_x(chain, g, gradients->x);
        status = rung->product(&product, workspace, on);
    }
    if (status == FGN_OK && gradients->weight) {
        struct backward_product product = product_for_weight(chain, g, x, gradients->weight);
        status = rung->product(&product, workspace, on);
    }
    return status;
}

fgn_status fgn_norm_forward(const fgn_chain *chain, const void *v, void *y, float *moments, void *stream) {
    fgn_status status = check_chain(chain);
    if (status == FGN_OK && !has_rest(chain))
        status = fail(FGN_INVALID_ARGUMENT, "the chain has no norm and no operators");
    if (status == FGN_OK && chain->batch == 0)
        return FGN_OK;
    if (status == FGN_OK)
        status = check_pointer("v", v);
    if (status == FGN_OK)
        status = check_pointer("y", y);
    if (status == FGN_OK && chain->groups > 0)
        status = check_pointer("moments", moments);
    if (status == FGN_OK)
        status = check_all_operands(chain);
    if (status != FGN_OK)
        return status;
    struct kept_norm norm = kept_norm_of(chain, v, y, (struct kept_moments *)moments);
    return status_of(norm_forward(&norm, (cudaStream_t)stream), "norm_forward");
}
