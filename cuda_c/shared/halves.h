/* A float32 matrix as two float16 matrices, for products on tensor cores that are as accurate as float32.
 *
 * Each row is scaled by a power of two, which is exact, so that its largest magnitude is in [2^14, 2^15):
 *     high = float16(v)         11 significant bits
 *     low  = float16(v - high)  the next 11, while v is within 2^17 of the row's largest; fewer below
 * and a product of two such rows is high*high + high*low + low*high; low*low is below float32's last bit.
 * (Ootomo and Yokota, "Recovering single precision accuracy from Tensor Cores while surpassing the FP32
 * theoretical peak performance", 2022.)
 *
 * What is left out of v is at most 2^-40 of its row's largest magnitude. A row whose largest value says
 * little about the others (1e30 beside ones: should the 1e30 meet a zero, the ones would be all there is) is
 * not held so, nor is one with an infinity; `unheld` then tells the kernels to take float32. */
#pragma once

#include "shared/plan.h"

/* The largest magnitude may be this many powers of two above the geometric mean of the row's nonzero ones. */
#define WIDEST_ROW 20

struct halves {
    uint16_t *high; /* (rows, columns) float16 */
    uint16_t *low;  /* (rows, columns) float16 */
    float *unscale; /* (rows,) what undoes the row's scaling */
    int *unheld;    /* whether there is a row that is not held */
};

/* Elements from one row to the next: rows of halves begin at multiples of 16 bytes. */
static inline __host__ __device__ int64_t halves_pitch(int64_t columns) {
    return (columns + 7) / 8 * 8;
}

unsigned long long halves_bytes(int64_t rows, int64_t columns);

/* The halves in memory of halves_bytes(), 256-byte aligned. */
struct halves halves_at(void *memory, int64_t rows, int64_t columns);

cudaError_t make_halves(const float *matrix, int64_t rows, int64_t columns, struct halves halves,
                        cudaStream_t stream);

/* A launch that makes the halves of x, in the workspace. */
void plan_halves(const fgn_chain *chain, fgn_plan *plan);

/* A launch's product of halves: it reads both halves of both factors and what undoes their scaling. */
void add_product_of_halves(fgn_launch *launch, const fgn_chain *chain);

/* A weight's halves, as what rungs that split factors prepare. */
unsigned long long prepared_halves_bytes(const fgn_chain *chain);
cudaError_t prepare_halves(const fgn_chain *chain, void *prepared, cudaStream_t stream);
