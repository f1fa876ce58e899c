/* The 16-bit element types on the simulator: conversions of the bits that memory holds. */
#pragma once

#include <stdint.h>
#include <string.h>

static inline uint16_t float16_bits(float v) {
    _Float16 half = (_Float16)v;
    uint16_t bits;
    memcpy(&bits, &half, sizeof bits);
    return bits;
}

static inline float float_of_float16(uint16_t bits) {
    _Float16 half;
    memcpy(&half, &bits, sizeof half);
    return (float)half;
}

/* Rounds to nearest even; NaN stays NaN. */
static inline uint16_t bfloat16_bits(float v) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    if (v != v)
        return 0x7fff;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float float_of_bfloat16(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float v;
    memcpy(&v, &wide, sizeof v);
    return v;
}

static inline uint32_t float16_pair(float low, float high) {
    return float16_bits(low) | (uint32_t)float16_bits(high) << 16;
}

static inline uint32_t bfloat16_pair(float low, float high) {
    return bfloat16_bits(low) | (uint32_t)bfloat16_bits(high) << 16;
}
