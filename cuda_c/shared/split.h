/* A float as two float16 halves, and what this needs to know of its row (halves.h). */
#pragma once

#include "shared/element.h"
#include "shared/halves.h"

/* The exponent of the scaled row's largest magnitude, and the largest scale, for a row of denormals: both the
 * scale and its inverse are normal floats. */
#define LARGEST_EXPONENT 14
#define LARGEST_SCALE 126

#define FLOAT_BIAS 127
#define FLOAT_FRACTION_BITS 23
#define NO_EXPONENT (-1000)

/* What one pass over (a part of) a row finds. */
struct spread {
    int largest;     /* exponent of the largest finite magnitude, or NO_EXPONENT */
    float exponents; /* the sum over the nonzero finite values */
    float nonzero;   /* how many there are */
    float infinite;
};

static inline __device__ bool is_infinite(float v) {
    return fabsf(v) > 3.402823466e38f;
}

static inline __device__ float power_of_two(int exponent) {
    return __int_as_float((exponent + FLOAT_BIAS) << FLOAT_FRACTION_BITS);
}

/* floor(log2(|v|)) of a finite v other than 0. */
static inline __device__ int exponent_of(float v) {
    int shift = fabsf(v) < power_of_two(1 - FLOAT_BIAS) ? 24 : 0; /* a denormal */
    int bits = __float_as_int(fabsf(v) * power_of_two(shift));
    return (bits >> FLOAT_FRACTION_BITS) - FLOAT_BIAS - shift;
}

static inline __device__ void look_at(struct spread *spread, float v) {
    if (is_infinite(v)) {
        spread->infinite = 1.0f;
    } else if (v != 0.0f && v == v) {
        int exponent = exponent_of(v);
        spread->largest = exponent > spread->largest ? exponent : spread->largest;
        spread->exponents += exponent;
        spread->nonzero += 1.0f;
    }
}

/* The power of two by which a row is scaled. */
static inline __device__ int scale_of_row(struct spread row) {
    int scale = row.nonzero > 0.0f ? LARGEST_EXPONENT - row.largest : 0;
    return scale > LARGEST_SCALE ? LARGEST_SCALE : scale;
}

/* Whether the halves hold the row. */
static inline __device__ bool is_held(struct spread row) {
    bool narrow = row.nonzero == 0.0f || row.largest - row.exponents / row.nonzero <= WIDEST_ROW;
    return narrow && row.infinite == 0.0f;
}

struct half_pair {
    uint16_t high;
    uint16_t low;
};

static inline __device__ struct half_pair split(float v) {
    struct half_pair pair;
    pair.high = float16_bits(v);
    float rest = v - float_of_float16(pair.high);
    pair.low = float16_bits(rest == rest ? rest : 0.0f); /* NaN is in the high half already */
    return pair;
}
