/* CUDA's complex numbers for C: vectors of two. */
#pragma once
#include "cuda.hpp"

typedef float2 cuFloatComplex;
typedef cuFloatComplex cuComplex;
typedef double2 cuDoubleComplex;

/* Of floats the names end in f: cuCaddf(). */
#define SIM_COMPLEX(Complex, T, f)                                                                           \
    SIM_INLINE Complex make_##Complex(T x, T y) {                                                            \
        return {x, y};                                                                                       \
    }                                                                                                        \
    SIM_INLINE T cuCreal##f(Complex v) {                                                                     \
        return v.x;                                                                                          \
    }                                                                                                        \
    SIM_INLINE T cuCimag##f(Complex v) {                                                                     \
        return v.y;                                                                                          \
    }                                                                                                        \
    SIM_INLINE Complex cuConj##f(Complex v) {                                                                \
        return {v.x, -v.y};                                                                                  \
    }                                                                                                        \
    SIM_INLINE Complex cuCadd##f(Complex a, Complex b) {                                                     \
        return {a.x + b.x, a.y + b.y};                                                                       \
    }                                                                                                        \
    SIM_INLINE Complex cuCsub##f(Complex a, Complex b) {                                                     \
        return {a.x - b.x, a.y - b.y};                                                                       \
    }                                                                                                        \
    SIM_INLINE Complex cuCmul##f(Complex a, Complex b) {                                                     \
        return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x};                                               \
    }                                                                                                        \
    SIM_INLINE Complex cuCdiv##f(Complex a, Complex b) {                                                     \
        T square = b.x * b.x + b.y * b.y;                                                                    \
        return {(a.x * b.x + a.y * b.y) / square, (a.y * b.x - a.x * b.y) / square};                         \
    }                                                                                                        \
    SIM_INLINE Complex cuCfma##f(Complex a, Complex b, Complex c) {                                          \
        return cuCadd##f(cuCmul##f(a, b), c);                                                                \
    }                                                                                                        \
    SIM_INLINE T cuCabs##f(Complex v) {                                                                      \
        return hypot##f(v.x, v.y);                                                                           \
    }
SIM_COMPLEX(cuFloatComplex, float, f)
SIM_COMPLEX(cuDoubleComplex, double, )
SIM_INLINE cuComplex make_cuComplex(float x, float y) {
    return {x, y};
}
SIM_INLINE cuDoubleComplex cuComplexFloatToDouble(cuFloatComplex v) {
    return {v.x, v.y};
}
SIM_INLINE cuFloatComplex cuComplexDoubleToFloat(cuDoubleComplex v) {
    return {(float)v.x, (float)v.y};
}
