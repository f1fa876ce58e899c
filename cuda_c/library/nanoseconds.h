/* About what the product of another library and the launch after it take on an H200, in nanoseconds. */
#pragma once

#include <math.h>

#include "shared/plan.h"

#define BYTES_PER_NANOSECOND 3500.0 /* a copy's, of an H200's 4.8 TB/s */

/* x W^T + bias by cuBLAS: a roofline, and what happens once. */
static inline double nanoseconds_of_cublas(const fgn_chain *chain) {
    double rate = chain->type != FGN_FLOAT32 ? 700.0e3 : chain->precision == FGN_TF32 ? 350.0e3 : 50.0e3;
    double operations = 2.0 * chain->batch * chain->in_features * chain->out_features;
    double elements = (double)chain->in_features * (chain->batch + chain->out_features) + outputs_of(chain);
    double bytes = element_bytes(chain->type) * elements;
    return 6000.0 + fmax(bytes / BYTES_PER_NANOSECOND, operations / rate);
}

/* The launch after it, which reads the product and writes y. */
static inline double nanoseconds_of_norm(const fgn_chain *chain) {
    double bytes = 2.0 * element_bytes(chain->type) * outputs_of(chain);
    return 3000.0 + bytes / BYTES_PER_NANOSECOND;
}

static inline double nanoseconds_of_library(const fgn_chain *chain) {
    return nanoseconds_of_cublas(chain) + nanoseconds_of_norm(chain);
}
