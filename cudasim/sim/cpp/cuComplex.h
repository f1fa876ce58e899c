/* CUDA's complex numbers for C: vectors of two. */
#pragma once
#include "cuda.hpp"

typedef float2 cuFloatComplex;
typedef cuFloatComplex cuComplex;
typedef double2 cuDoubleComplex;

SIM_INLINE cuFloatComplex make_cuFloatComplex(float x, float y) {
    return {x, y};
}
SIM_INLINE cuComplex make_cuComplex(float x, float y) {
    return {x, y};
}
SIM_INLINE float cuCrealf(cuFloatComplex v) {
    return v.x;
}
SIM_INLINE float cuCimagf(cuFloatComplex v) {
    return v.y;
}
SIM_INLINE cuFloatComplex cuConjf(cuFloatComplex v) {
    return {v.x, -v.y};
}
SIM_INLINE cuFloatComplex cuCaddf(cuFloatComplex a, cuFloatComplex b) {
    return {a.x + b.x, a.y + b.y};
}
SIM_INLINE cuFloatComplex cuCsubf(cuFloatComplex a, cuFloatComplex b) {
    return {a.x - b.x, a.y - b.y};
}
SIM_INLINE cuFloatComplex cuCmulf(cuFloatComplex a, cuFloatComplex b) {
    return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x};
}
SIM_INLINE cuFloatComplex cuCdivf(cuFloatComplex a, cuFloatComplex b) {
    float square = b.x * b.x + b.y * b.y;
    return {(a.x * b.x + a.y * b.y) / square, (a.y * b.x - a.x * b.y) / square};
}
SIM_INLINE cuFloatComplex cuCfmaf(cuFloatComplex a, cuFloatComplex b, cuFloatComplex c) {
    return cuCaddf(cuCmulf(a, b), c);
}
SIM_INLINE float cuCabsf(cuFloatComplex v) {
    return hypotf(v.x, v.y);
}

SIM_INLINE cuDoubleComplex make_cuDoubleComplex(double x, double y) {
    return {x, y};
}
SIM_INLINE double cuCreal(cuDoubleComplex v) {
    return v.x;
}
SIM_INLINE double cuCimag(cuDoubleComplex v) {
    return v.y;
}
SIM_INLINE cuDoubleComplex cuConj(cuDoubleComplex v) {
    return {v.x, -v.y};
}
SIM_INLINE cuDoubleComplex cuCadd(cuDoubleComplex a, cuDoubleComplex b) {
    return {a.x + b.x, a.y + b.y};
}
SIM_INLINE cuDoubleComplex cuCsub(cuDoubleComplex a, cuDoubleComplex b) {
    return {a.x - b.x, a.y - b.y};
}
SIM_INLINE cuDoubleComplex cuCmul(cuDoubleComplex a, cuDoubleComplex b) {
    return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x};
}
SIM_INLINE cuDoubleComplex cuCdiv(cuDoubleComplex a, cuDoubleComplex b) {
    double square = b.x * b.x + b.y * b.y;
    return {(a.x * b.x + a.y * b.y) / square, (a.y * b.x - a.x * b.y) / square};
}
SIM_INLINE cuDoubleComplex cuCfma(cuDoubleComplex a, cuDoubleComplex b, cuDoubleComplex c) {
    return cuCadd(cuCmul(a, b), c);
}
SIM_INLINE double cuCabs(cuDoubleComplex v) {
    return hypot(v.x, v.y);
}
