/* The approximate time of another library's product and of the launch after it on an H200, in nanoseconds.
 *
 * The constants for 16-bit types and tf32 were fitted to the times of 390 random products by cuBLAS (through
 * torch's F.linear), each with an emptied L2 cache; the median error for held-out products is 4 % and 8 %.
 * Those of the launches after them, compiled for their calls, and of float32 products, whose algorithm cuBLAS
 * is asked for once, were fitted to one half of lab/records/choice_h200.csv.xz (lab/choice.py); on the other
 * half the launches are 5 % of the whole off, and float32 products 11 %. */
#pragma once

#include <math.h>

#include "norm/norm_forward.h"
#include "shared/plan.h"

/* The constants of cuBLAS's products in one kind of arithmetic. */
struct cublas_times {
    double once;       /* how a launch begins and ends */
    double operations; /* a nanosecond, of whole tiles */
    double bytes;      /* a nanosecond */
    double each_k;     /* what a tile waits for a step of k, until k is divided among blocks: */
    double divided_k;  /* from about this one on */
    double first_wave; /* of tiles, on all multiprocessors */
    double next_wave;  /* each */
    int tile;          /* rows and columns that are rounded up to */
    double unaligned;  /* how much longer where rows do not begin at multiples of 16 bytes */
    int few_rows;      /* up to here a product of float32 is another kernel, of these times: */
    double few_once, few_bytes, few_each_k;
};

static inline struct cublas_times cublas_times_of(const fgn_chain *chain) {
    const struct cublas_times of_16_bits = {5742.0, 847.1e3, 4055.0, 1.803, 3995.0, 1491.0, 226.3,
                                            64,     7.069,   0,      0.0,   0.0,    0.0};
    const struct cublas_times of_tf32 = {6447.0, 422.6e3, 4843.0, 5.767,  1978.0, 1811.0, 631.9,
                                         128,    0.0,     1,      5600.0, 2850.0, 0.0};
    const struct cublas_times of_float32 = {7983.0, 48.87e3, 1445.0, 10.54,  1075.0, 0.0, 69.56,
                                            32,     0.0,     8,      5699.0, 2200.0, 14.8};
    if (chain->type != FGN_FLOAT32)
        return of_16_bits;
    return chain->precision == FGN_TF32 ? of_tf32 : of_float32;
}

/* x W^T + bias. */
static inline double nanoseconds_of_cublas(const fgn_chain *chain) {
    struct cublas_times times = cublas_times_of(chain);
    double k = (double)chain->in_features;
    double elements = k * (chain->batch + chain->out_features) + outputs_of(chain);
    double bytes = element_bytes(chain->type) * elements;
    double steps = k * times.divided_k / (k + times.divided_k);
    if (chain->batch <= times.few_rows)
        return times.few_once + bytes / times.few_bytes + (chain->batch > 1 ? times.few_each_k * steps : 0.0);
    double whole = (double)times.tile * times.tile;
    double tiles_of_y = (double)tiles(chain->batch, times.tile) * tiles(chain->out_features, times.tile);
    double waves = tiles_of_y * whole / (128.0 * 128.0) / MULTIPROCESSORS;
    bool aligned = chain->in_features * element_bytes(chain->type) % 16 == 0;
    double memory = bytes / times.bytes;
    double arithmetic =
        2.0 * tiles_of_y * whole * k / times.operations * (aligned ? 1.0 : 1.0 + times.unaligned);
    return times.once + sqrt(memory * memory + arithmetic * arithmetic) + times.each_k * steps +
           times.first_wave * fmin(waves, 1.0) + times.next_wave * fmax(waves - 1.0, 0.0);
}

/* The launch after the product, which reads it and the operators' tensors, and writes y. */
static inline double nanoseconds_of_norm(const fgn_chain *chain) {
    int operators = chain->before_count + chain->after_count, exponentials = exponentials_of(chain);
    double memory = (2.0 + tensors_of(chain)) * element_bytes(chain->type) * outputs_of(chain) / 4200.0;
    if (chain->groups == 0)
        return 805.0 + 289.0 * operators +
               hypot(memory, outputs_of(chain) / 3861.0 * (1.0 + 1.6 * exponentials));
    struct kept_norm norm = kept_norm_of(chain, NULL, NULL, NULL);
    enum norm_form form = launch_of_norm(&norm).form;
    bool is_short = form == SHORT_NORM || form == LARGE_SHORT_NORM, is_staged = form == STAGED_NORM;
    bool is_few = form == FEW_COLUMNS_NORM || form == SHORT_COLUMNS_NORM, is_many = form == MANY_COLUMNS_NORM;
    double once = 1759.0 + 180.0 * operators + (is_short || is_staged ? 177.0 : 0.0);
    if (form == LONG_NORM)
        once += 0.5 * norm.channels / norm.groups;
    double of_exponential = is_few ? 3.0 : is_many ? 1.11 : 0.51;
    double arithmetic = outputs_of(chain) / 2125.0 * (1.0 + of_exponential * exponentials);
    arithmetic *= is_short            ? 1.42
                  : is_staged         ? 2.2
                  : is_few            ? 0.34
                  : is_many           ? 0.89
                  : form == LONG_NORM ? 2.5
                                      : 1.0;
    return once + hypot(memory, arithmetic);
}

/* In 27 calls of the sweep above 50 microseconds, the whole takes 4 % longer than its two parts. */
static inline double nanoseconds_of_library(const fgn_chain *chain) {
    double parts = nanoseconds_of_cublas(chain) + nanoseconds_of_norm(chain);
    return parts + 0.05 * fmax(parts - 50e3, 0.0);
}
