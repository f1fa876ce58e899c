/* The gradient before the product, rung 2, as a kernel that is compiled for one call (jit/jit.h). With its
 * operators as constants, every slope is inlined, and a rare operator costs no more than its own arithmetic.
 */
#pragma once

#include "backward/gradient_down_rows.h"
#include "jit/jit.h"

/* What is the same in all calls of a kernel that is compiled for one (jit/jit.h). */
struct gradient_facts {
    int type, vector_type, channels, groups;
    int writes_g, has_scale, has_shift, only_common;
    int blocks; /* of a multiprocessor */
    int stages, has_one_row_block;
    struct division division;
    int sums[4 + 2 * FGN_MAX_POINTWISE]; /* struct column_sums without its addresses */
    int before_tensors, after_tensors;   /* bit i: operator i's tensor has a gradient */
    struct known_list before, after;
};

static inline int bits_of_tensors(void *const *tensor) {
    int bits = 0;
    for (int i = 0; i < FGN_MAX_POINTWISE; i++)
        bits |= (tensor[i] != NULL) << i;
    return bits;
}

static inline struct gradient_facts facts_of_gradient(const struct fused_gradient_args *args, int blocks) {
    const struct chain_gradient *gradient = &args->gradient;
    struct gradient_facts facts = {
        (int)gradient->type,
        (int)gradient->vector_type,
        (int)gradient->channels,
        (int)gradient->groups,
        gradient->g != NULL,
        gradient->scale != NULL,
        gradient->shift != NULL,
        args->only_common,
        blocks,
        args->stages,
        args->row_blocks == 1,
        args->division,
        {0},
        bits_of_tensors(gradient->before_tensor),
        bits_of_tensors(gradient->after_tensor),
        known_list_of(&gradient->before),
        known_list_of(&gradient->after),
    };
    memcpy(facts.sums, &gradient->sums, sizeof facts.sums);
    return facts;
}

#ifdef JIT_COMPILED

static constexpr __device__ struct gradient_facts known = FACTS;

#include "jit/known.h"

static __forceinline__ __device__ struct column_sums known_sums(struct column_sums sums) {
    sums.count = known.sums[0];
    sums.bias = known.sums[1];
    sums.scale = known.sums[2];
    sums.shift = known.sums[3];
#pragma unroll
    for (int i = 0; i < FGN_MAX_POINTWISE; i++) {
        sums.before[i] = known.sums[4 + i];
        sums.after[i] = known.sums[4 + FGN_MAX_POINTWISE + i];
    }
    return sums;
}

/* The arguments of this call, with what is known as constants. */
static __forceinline__ __device__ struct chain_gradient known_gradient(struct chain_gradient gradient) {
    gradient.type = (fgn_type)known.type;
    gradient.vector_type = (fgn_type)known.vector_type;
    gradient.channels = known.channels;
    gradient.groups = known.groups;
    if (!known.writes_g)
        gradient.g = NULL;
    if (!known.has_scale)
        gradient.scale = NULL;
    if (!known.has_shift)
        gradient.shift = NULL;
    gradient.before.count = known.before.count;
    gradient.after.count = known.after.count;
    gradient.sums = known_sums(gradient.sums);
#pragma unroll
    for (int i = 0; i < FGN_MAX_POINTWISE; i++) {
        if (!(known.before_tensors >> i & 1))
            gradient.before_tensor[i] = NULL;
        if (!(known.after_tensors >> i & 1))
            gradient.after_tensor[i] = NULL;
    }
    return gradient;
}

extern "C" __global__ void __launch_bounds__(THREADS, known.blocks)
    jit_kernel(struct fused_gradient_args given) {
    struct fused_gradient_args args = given;
    args.gradient = known_gradient(given.gradient);
    args.division = known.division;
    args.stages = known.stages;
    if (known.has_one_row_block)
        args.row_blocks = 1;
    gradient_of_rows(&args, given.gradient.sums.to, known.division.width, (fgn_type)known.type,
                     known.only_common);
}

#endif
