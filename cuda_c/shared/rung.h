/* What the rungs share: the arguments of their kernels, and the interface that api.cu calls.
 *
 * A rung's functions do not repeat the checks of api.cu, and return the launches' error. */
#pragma once

#include <string.h>

#include "sim/portable.h"

#ifdef __cplusplus
extern "C" {
#endif
#include "fgn.h"
#ifdef __cplusplus
}
#endif

struct operators {
    int count;
    fgn_type type;    /* of the tensors that operators add, and of y */
    int64_t channels; /* in a row of such a tensor */
    fgn_pointwise step[FGN_MAX_POINTWISE];
};

/* Which of a chain's two lists it is. */
enum list { BEFORE, AFTER };

/* Two flags in the device's memory. Kernels with a condition run if one of them is set (`unless`: if none
 * is), and return at once otherwise; with NULL for both there is no condition. So the device decides whether
 * kernels run, and the host need not wait. */
struct condition {
    const int *either;
    const int *or_this;
    bool unless;
};

static inline __device__ bool holds(struct condition condition) {
    return !condition.either || (*condition.either || *condition.or_this) != condition.unless;
}

/* y = before(x W^T + bias); the rungs without an epilogue leave `before` alone. */
struct gemm {
    const float *x;      /* (batch, in_features) */
    const float *weight; /* (out_features, in_features) */
    const float *bias;   /* (out_features,) or NULL */
    float *y;            /* (batch, out_features) */
    int64_t batch;
    int64_t in_features;
    int64_t out_features;
    struct operators before;
    struct condition condition; /* the rungs from 7 on look at it */
};

/* What GroupNorm needs to know of one (sample, group). The mean is two floats, so that x - mean - mean_rest
 * is exact to the last bit even if the mean is much larger than the deviation. */
struct moments {
    float mean;
    float mean_rest;
    float inverse_deviation;
};

/* y = after(GroupNorm(x)); x and y may be the same memory if both are float32. */
struct group_norm {
    const float *x;     /* (batch, channels) */
    const float *scale; /* (channels,) or NULL for ones */
    const float *shift; /* (channels,) or NULL for zeros */
    void *y;            /* (batch, channels) */
    fgn_type y_type;    /* float32 except in group_norm_2_block.cu */
    int64_t batch;
    int64_t channels;
    int64_t groups;
    float eps;
    struct operators after;
    struct condition condition; /* group_norm_1_naive.cu does not look at it */
};

/* A GroupNorm in one or two launches. `plan` adds them to a plan, with the first `after_count` of the
 * operators after the norm; `launch` launches them as planned. */
struct norm_rung {
    void (*plan)(const fgn_chain *chain, int after_count, fgn_plan *plan);
    cudaError_t (*launch)(const fgn_launch *planned, const struct group_norm *norm, void *workspace,
                          cudaStream_t stream);
};

extern const struct norm_rung group_norm_1_naive;
extern const struct norm_rung group_norm_2_block;

/* One rung of the ladder: a version. Its file defines it, and versions.cu has a line for it.
 *
 * `plan` is arithmetic: it does not call the runtime, so that any machine can plan for any
 * GPU. It gets a plan with only version, device and chain filled in. `forward` launches the
 * plan. */
struct rung {
    fgn_version version;
    const struct norm_rung *norm; /* what fgn_group_norm() takes */
    /* What the rung needs and this chain or this device lacks, or NULL if the rung runs. */
    const char *(*refusal)(const fgn_chain *chain, const fgn_device *device);
    void (*plan)(const fgn_chain *chain, const fgn_device *device, fgn_plan *plan);
    /* NULL if the rung takes the weight as it is. */
    cudaError_t (*prepare)(const fgn_chain *chain, void *prepared, cudaStream_t stream);
    cudaError_t (*forward)(const fgn_plan *plan, const fgn_chain *chain, const void *x, void *y,
                           void *workspace, cudaStream_t stream);
};

/* Defines a rung. In C++ other files see a constant only with `extern`, of which C warns here.
 */
#ifdef __cplusplus
#define RUNG extern const struct rung
#define NORM_RUNG extern const struct norm_rung
#else
#define RUNG const struct rung
#define NORM_RUNG const struct norm_rung
#endif

/* The table, in versions.cu; fgn_version_count() says how long it is. */
const struct rung *rung_at(int version);

/* Returns `v`, a product that a later sum reads, and keeps the compiler from contracting the two: it would do
 * so in some kernels and not in others, and their results would differ in the last bit. */
static __forceinline__ __device__ float rounded(float v) {
#ifdef __CUDA_ARCH__
    asm("" : "+f"(v));
#endif
    return v;
}

/* Divide rounding up: how many tiles of `size` cover `count`. */
static inline __host__ __device__ int64_t tiles(int64_t count, int64_t size) {
    return (count + size - 1) / size;
}

/* A channel's scale and shift, or 1 and 0 if the norm has no affine part. */
static inline __device__ float scale_and_shift(const struct group_norm *norm, float v, int64_t channel) {
    float scale = norm->scale ? norm->scale[channel] : 1.0f;
    float shift = norm->shift ? norm->shift[channel] : 0.0f;
    return v * scale + shift;
}

/* Operators for a tensor of this type with this many channels. */
static inline struct operators list_of(fgn_type type, int64_t channels, int count,
                                       const fgn_pointwise *step) {
    struct operators list;
    memset(&list, 0, sizeof list);
    list.count = count;
    list.type = type;
    list.channels = channels;
    for (int i = 0; i < count; i++)
        list.step[i] = step[i];
    return list;
}

static inline struct operators operators_of(const fgn_chain *chain, int count, const fgn_pointwise *step) {
    return list_of(chain->type, chain->out_features, count, step);
}

static inline struct operators operators_before(const fgn_chain *chain) {
    return operators_of(chain, chain->before_count, chain->before);
}

static inline struct operators operators_after(const fgn_chain *chain) {
    return operators_of(chain, chain->after_count, chain->after);
}

/* Whether an operator has a vector of channels. */
static inline bool takes_channel(const fgn_pointwise *step) {
    switch (step->kind) {
    case FGN_ADD_CHANNEL:
    case FGN_SUBTRACT_CHANNEL:
    case FGN_MULTIPLY_CHANNEL:
    case FGN_DIVIDE_CHANNEL:
    case FGN_DIVIDE_DEVIATION:
    case FGN_PRELU:
    case FGN_MINIMUM_CHANNEL:
    case FGN_MAXIMUM_CHANNEL:
        return true;
    default:
        return false;
    }
}

/* Whether one of them has a vector of one element. */
static inline bool reads_one(int count, const fgn_pointwise *step) {
    bool found = false;
    for (int i = 0; i < count; i++)
        found = found || (takes_channel(&step[i]) && step[i].one);
    return found;
}

/* Whether an operator has a tensor of y's shape and type. */
static inline __host__ __device__ bool takes_tensor(const fgn_pointwise *step) {
    return step->kind == FGN_ADD_TENSOR || step->kind == FGN_MULTIPLY_TENSOR;
}

/* The steps of a list, without fields that their kind does not read. */
static inline struct operators without_others(struct operators list) {
    for (int i = 0; i < list.count; i++) {
        if (!takes_channel(&list.step[i])) {
            list.step[i].channel = NULL;
            list.step[i].one = 0;
        }
        if (!takes_tensor(&list.step[i]))
            list.step[i].tensor = NULL;
    }
    return list;
}

/* How many of a chain's operators have a tensor. */
static inline int tensors_of(const fgn_chain *chain) {
    int tensors = 0;
    for (int i = 0; i < chain->before_count; i++)
        tensors += takes_tensor(&chain->before[i]);
    for (int i = 0; i < chain->after_count; i++)
        tensors += takes_tensor(&chain->after[i]);
    return tensors;
}

/* Whether the product has to be as accurate as float32: tensor cores then take factors split into 16-bit
 * floats. */
static inline bool is_float32_accurate(const fgn_chain *chain) {
    return chain->type == FGN_FLOAT32 && chain->precision == FGN_IEEE;
}

/* Whether factors may be rounded to 8 bits. */
static inline bool is_fp8(const fgn_chain *chain) {
    return chain->precision == FGN_FP8;
}

/* Whether the product has one row and allows tf32: torch then uses float32, and reading the weight takes as
 * long either way. */
static inline bool is_one_row_of_tf32(const fgn_chain *chain) {
    return chain->batch <= 1 && chain->type == FGN_FLOAT32 && chain->precision == FGN_TF32;
}

/* Whether anything follows the product. */
static inline bool has_rest(const fgn_chain *chain) {
    return chain->groups > 0 || chain->before_count > 0;
}

/* The channels of a group; 0 without a norm. */
static inline int64_t group_size_of(const fgn_chain *chain) {
    return chain->groups > 0 ? chain->out_features / chain->groups : 0;
}

/* The product of a float32 chain, with the operators before the norm. */
static inline struct gemm gemm_of(const fgn_chain *chain, const float *x, float *y,
                                  struct condition condition) {
    struct gemm gemm = {x,
                        (const float *)chain->weight,
                        (const float *)chain->bias,
                        y,
                        chain->batch,
                        chain->in_features,
                        chain->out_features,
                        operators_before(chain),
                        condition};
    return gemm;
}

/* The norm of a chain's sums, with the operators after it. */
static inline struct group_norm norm_of(const fgn_chain *chain, const float *x, void *y, fgn_type y_type,
                                        struct condition condition) {
    struct group_norm norm = {x,
                              (const float *)chain->norm_scale,
                              (const float *)chain->norm_shift,
                              y,
                              y_type,
                              chain->batch,
                              chain->out_features,
                              chain->groups,
                              chain->eps,
                              operators_after(chain),
                              condition};
    return norm;
}

/* The simulator has no compute capability: it runs every kernel written in C. */
static inline bool is_simulator(const fgn_device *device) {
    return device->major == 0;
}
