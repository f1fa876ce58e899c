/* The chain after its product, in its own launch: y = after(GroupNorm(before(v))).
 *
 * Training keeps mean and deviation for the backward; an inference after torch's product keeps nothing. */
#pragma once

#include "shared/rung.h"

/* What GroupNorm's backward needs of one (row, group). */
struct kept_moments {
    float mean;
    float inverse_deviation;
};

/* y = after(GroupNorm(before(v))), and keeps what the backward needs; y = before(v) if groups is 0. */
struct kept_norm {
    const void *v;                /* (batch, channels), of the type */
    void *y;                      /* the same */
    struct kept_moments *moments; /* (batch, groups), or NULL: the chain is not differentiated */
    fgn_type type;
    fgn_type vector_type; /* of scale, shift and channel operands */
    int64_t batch;
    int64_t channels;
    int64_t groups;
    float eps;
    const void *scale;
    const void *shift;
    struct operators before;
    struct operators after;
};

/* The chain without its product. moments: NULL if nothing is kept. */
static inline struct kept_norm kept_norm_of(const fgn_chain *chain, const void *v, void *y,
                                            struct kept_moments *moments) {
    struct kept_norm norm = {v,
                             y,
                             moments,
                             chain->type,
                             chain->vector_type,
                             chain->batch,
                             chain->out_features,
                             chain->groups,
                             chain->eps,
                             chain->norm_scale,
                             chain->norm_shift,
                             without_others(operators_before(chain)),
                             without_others(operators_after(chain))};
    return norm;
}

/* Launches the kernel that suits the groups. It checks nothing, and returns the launch's error. */
cudaError_t norm_forward(const struct kept_norm *norm, cudaStream_t stream);
