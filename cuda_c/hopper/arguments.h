/* The arguments of a Hopper kernel. */
#pragma once

#include "hopper/sizes.h"
#include "shared/halves.h"
#include "ptx/bar.h"
#include "ptx/cluster.h"
#include "ptx/cp_async.h"
#include "ptx/mbarrier.h"
#include "ptx/registers.h"
#include "ptx/tma.h"
#include "ptx/wgmma.h"
#include "ptx/wgmma_narrow.h"

/* The parameter vectors that an epilogue reads: bias, the columns' unscaling, the norm's scale and shift, and
 * the operators' vectors. Each strip has its columns' part of them in shared memory. */
#define MOST_VECTORS (4 + 2 * FGN_MAX_POINTWISE)
#define NO_VECTOR (-1)

struct vectors {
    int count;
    bool are_16_bit;                /* of the factors' type; else floats */
    const void *from[MOST_VECTORS]; /* NULL: a constant */
    uint32_t ones;                  /* bit i: from[i] is one element, for all columns */
    float constant[MOST_VECTORS];
    int bias;
    int unscale;
    int scale;
    int shift;
    int before[FGN_MAX_POINTWISE];
    int after[FGN_MAX_POINTWISE];
};

struct hopper_maps {
    CUtensorMap x;
    CUtensorMap w;
    CUtensorMap x_low; /* the low halves of split factors */
    CUtensorMap w_low;
};

struct hopper_args {
    struct hopper_maps maps;
    struct tiling tiling;
    int64_t batch;
    int64_t out_features;
    int step_elements; /* along k */
    int steps;
    int group_size; /* 0: the norm is not here */
    float eps;
    struct vectors vectors;
    struct operators before;
    struct operators after;
    const float *x_unscale; /* (batch,) what undoes the scaling of scaled factors */
    const int *x_unheld;    /* of split factors: whether float32 stands in for them */
    const int *w_unheld;
    void *y;
    float *sums;      /* (splits, batch, out_features) where the chain is ended later, or NULL */
    bool wide_stores; /* rows of y begin at multiples of 16 bytes */
    bool pair_stores; /* two neighbouring values can be stored together */
};

/* The place of a block's tile, and its part of k. */
struct tile_place {
    int row;
    int column;
    int split;
    int first_step;
    int steps;
};

/* The kernel for a kind of factors and a shape of tile. */
typedef void (*hopper_kernel_function)(const struct hopper_args args);

hopper_kernel_function hopper_bfloat16_kernel_of(enum shape shape);
hopper_kernel_function hopper_float16_kernel_of(enum shape shape);
hopper_kernel_function hopper_tf32_kernel_of(enum shape shape);
hopper_kernel_function hopper_split_float32_kernel_of(enum shape shape);
hopper_kernel_function hopper_fp8_kernel_of(enum shape shape);
