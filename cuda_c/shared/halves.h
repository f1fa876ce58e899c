/* A float32 matrix as two float16 matrices, for products on tensor cores that are as accurate as float32.
 *
 * Each row is scaled by a power of two, which is exact, so that its largest magnitude is in [2^14, 2^15):
 *     high = float16(v)         11 significant bits
 *     low  = float16(v - high)  the next 11, while v is within 2^17 of the row's largest; fewer below
 * and a product of two such rows is high*high + high*low + low*high; low*low is below float32's last bit.
 * (Ootomo and Yokota, "Recovering single precision accuracy from Tensor Cores while surpassing the FP32
 * theoretical peak performance", 2022.)
 *
 * What is left out of v is at most 2^-40 of its row's largest magnitude. Halves cannot hold a row
 * whose largest value is far above the others (1e30 beside ones: if the 1e30 meets a zero, only the
 * ones count), nor a row with an infinity; `unheld` then tells the kernels to multiply in
 * float32. */
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

/* Places the halves in memory of halves_bytes(), aligned to 256 bytes. */
struct halves halves_at(void *memory, int64_t rows, int64_t columns);

/* The halves of the rows after the first `rows`. */
struct halves halves_below(struct halves halves, int64_t rows, int64_t columns);

/* Makes the halves of a matrix and of another one (NULL: none), whose rows follow. */
cudaError_t make_halves(const float *matrix, int64_t rows, const float *below, int64_t rows_below,
                        int64_t columns, struct halves halves, cudaStream_t stream);

/* ---- The factors of a chain, for rungs that split them ----
 *
 * x is split in each call. The weight is one of these:
 *   frozen      its halves are kept, and the caller promises that the weight does not change;
 *   large       its halves are kept, and each call takes the weight's fingerprint (fingerprint.h): it reads
 *               the weight again, and makes the halves again if it has changed;
 *   small       it is split in each call, together with x.
 * What is kept is in chain->prepared. */
struct factor_halves {
    struct halves x;
    struct halves w;
};

/* The launches that make the halves, first in the plan, and the memory that they are in. */
void plan_halves(const fgn_chain *chain, const fgn_device *device, fgn_plan *plan);

/* The number of these launches in the plan. */
int halves_launches(const fgn_plan *plan);

/* Describes a launch's product of halves: it reads both halves of both factors and their unscaling. */
void add_product_of_halves(fgn_launch *launch, const fgn_chain *chain);

struct factor_halves factor_halves_at(const fgn_plan *plan, const fgn_chain *chain, void *workspace);
cudaError_t make_factor_halves(const fgn_plan *plan, const fgn_chain *chain, const float *x,
                               struct factor_halves factors, cudaStream_t stream);

/* A rung's prepare(), for the kept halves of the weight. */
cudaError_t prepare_halves(const fgn_chain *chain, void *prepared, cudaStream_t stream);
