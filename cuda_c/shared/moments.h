/* Mean and variance in two passes over a group, each pass a sum that threads can share.
 *
 * First pass: the mean, as the group's first value (the pivot) plus the mean difference from it, so that a
 * constant group has exactly that constant as its mean. Second pass: the differences from the mean and their
 * squares. The mean of the differences is the rounding error of the first pass (`mean_rest`); the mean of the
 * squares, less mean_rest^2, is the variance. Unlike E[x^2] - E[x]^2, this does not subtract large numbers
 * from each other: data with mean 1e4 and deviation 1 comes out right.
 * Chan, Golub & LeVeque, "Algorithms for computing the sample variance" (1983), the corrected two-pass. */
#pragma once

#include "shared/rung.h"

struct differences {
    float sum;
    float squares;
};

static inline __device__ void add_difference(struct differences *total, float difference) {
    total->sum += difference;
    total->squares += difference * difference;
}

/* `one_over_size`: of the group. rsqrtf errs by at most 2 units in the last place. */
static inline __device__ struct moments moments_of(float mean, struct differences total, float one_over_size,
                                                   float eps) {
    struct moments moments;
    moments.mean = mean;
    moments.mean_rest = rounded(total.sum * one_over_size);
    float variance = total.squares * one_over_size - moments.mean_rest * moments.mean_rest;
    /* rounding may leave a little less than zero; this comparison keeps NaN */
    variance = variance < 0.0f ? 0.0f : variance;
    moments.inverse_deviation = rsqrtf(variance + eps);
    return moments;
}

static inline __device__ float normalised(float v, struct moments moments) {
    return (v - moments.mean - moments.mean_rest) * moments.inverse_deviation;
}
