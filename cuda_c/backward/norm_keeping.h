/* What the two kernels of norm_keeping share. */
#pragma once

#include "backward/backward.h"
#include "backward/channels.h"

static inline struct division division_of_norm(const struct kept_norm *norm) {
    bool aligned = is_aligned_16(norm->v) && is_aligned_16(norm->y) &&
                   vectors_are_aligned(norm->scale, norm->shift, &norm->before, &norm->after);
    return division_of(norm->channels, norm->groups, aligned);
}

/* For groups of more than SEGMENT channels (norm_keeping_wide.cu). */
cudaError_t norm_keeping_wide(const struct kept_norm *norm, cudaStream_t stream);
