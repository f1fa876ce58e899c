/* Matrices of 8-bit floats (e4m3) with a scale for each row, which tensor cores multiply at twice the rate of
 * 16-bit ones.
 *
 * e4m3 has 3 stored bits of fraction and magnitudes from 2^-9 to 448; it has a NaN and no infinity. Each row
 * is scaled by a power of two, which is exact, so that its largest magnitude is in (224, 448]. Then a value
 * within 2^14 of its row's largest is rounded to 4 significant bits, and smaller ones to multiples of 2^-9.
 * Infinities become NaN, for no value of e4m3 stands for them. x is scaled by sample and the weight by output
 * channel, so that what undoes both is a product of two numbers for each output.
 * (Micikevicius and others, "FP8 Formats for Deep Learning", 2022.) */
#pragma once

#include "shared/plan.h"

struct fp8_matrix {
    uint8_t *values;            /* (rows, columns) e4m3, with rows that begin at multiples of 16 bytes */
    float *unscale;             /* (rows,) what undoes the row's scaling */
    uint16_t *unscale_bfloat16; /* the same, which a power of two is in bfloat16 too */
};

struct fp8_factors {
    struct fp8_matrix x;
    struct fp8_matrix w;
};

/* Bytes, and elements, from one row to the next. */
static inline __host__ __device__ int64_t fp8_pitch(int64_t columns) {
    return (columns + 15) / 16 * 16;
}

/* The first launch of a plan: it makes x, and the weight too unless that is frozen. A frozen weight is in
 * chain->prepared. */
void plan_quantising(const fgn_chain *chain, fgn_plan *plan);
/* A launch's product of them. */
void add_product_of_fp8(fgn_launch *launch, const fgn_chain *chain);
struct fp8_factors fp8_factors_at(const fgn_chain *chain, void *workspace);
cudaError_t quantise_factors(const fgn_chain *chain, const void *x, struct fp8_factors factors,
                             cudaStream_t stream);
/* Makes what is kept of a frozen weight. */
cudaError_t prepare_fp8(const fgn_chain *chain, void *prepared, cudaStream_t stream);
