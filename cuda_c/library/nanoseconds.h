/* The approximate time of another library's product and of the launch after it on an H200, in nanoseconds.
 *
 * The constants were fitted to the times of 390 random products by cuBLAS (through torch's F.linear) and of
 * the launches after them, each with an emptied L2 cache. The median error for held-out products is 4 % for
 * 16-bit types, 8 % for tf32 and 15 % for float32. The launches after them were measured again when their
 * code had become shorter, after the products of 111 problems of the sweep: given the product's time, the
 * median error of the whole is 2 %. Launches with several slots of a row were measured after the products of
 * 33 more shapes. Products of one row were fitted again to ten of the sweep and of the recorded problems,
 * with weights from 1 MB to 268 MB; float32 products of 2 to 8 rows were fitted to eight of the sweep (at
 * most 20 % off). */
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
    const struct cublas_times of_float32 = {5515.0, 45.72e3, 1575.0, 25.01,  2220.0, 16.0, 37.0,
                                            32,     0.0,     8,      5600.0, 2850.0, 6.0};
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

/* The launch after the product, which reads it and writes y. Its constants for no norm are set by hand. */
static inline double nanoseconds_of_norm(const fgn_chain *chain) {
    if (chain->groups == 0) {
        double bytes = 2.0 * element_bytes(chain->type) * outputs_of(chain) / 4200.0;
        double work = outputs_of(chain) / 2400.0 * (1.0 + 1.6 * exponentials_of(chain));
        return 2045.0 + 281.0 * chain->before_count + sqrt(bytes * bytes + work * work);
    }
    struct kept_norm norm = kept_norm_of(chain, NULL, NULL, NULL);
    struct norm_launch launch = launch_of_norm(&norm);
    bool is_short = launch.form == SHORT_NORM || launch.form == LARGE_SHORT_NORM;
    bool is_staged = launch.form == STAGED_NORM, is_long = launch.form == LONG_NORM;
    bool is_few = launch.form == FEW_COLUMNS_NORM || launch.form == SHORT_COLUMNS_NORM;
    bool is_many = launch.form == MANY_COLUMNS_NORM;
    double once = 2045.0 + 281.0 * (chain->before_count + chain->after_count);
    double memory = 2.0 * element_bytes(chain->type) * outputs_of(chain) / 4200.0;
    double of_exponential = is_few ? 3.0 : is_many ? 1.8 : 0.65;
    double arithmetic = outputs_of(chain) / 950.0 * (1.0 + of_exponential * exponentials_of(chain));
    if (is_short || is_staged)
        once += 1630.0;
    arithmetic *= is_short ? 1.51 : is_staged ? 1.76 : is_few ? 0.39 : is_many ? 0.82 : 1.0;
    bool sums_in_shared = !is_staged && !is_long && launch.division.team > LANES;
    if (sums_in_shared)
        arithmetic *= 2.2;
    return once + sqrt(memory * memory + arithmetic * arithmetic);
}

/* In 27 calls of the sweep above 50 microseconds, the whole takes 4 % longer than its two parts. */
static inline double nanoseconds_of_library(const fgn_chain *chain) {
    double parts = nanoseconds_of_cublas(chain) + nanoseconds_of_norm(chain);
    return parts + 0.05 * fmax(parts - 50e3, 0.0);
}
