/* What cuda_fp16.h and cuda_bf16.h have by the same names but for the type: __float2half() is the one's and
 * __float2bfloat16() the other's, so here `name` is half or bfloat16. */
#pragma once
#include "conversions.hpp"
#include "float16_functions.hpp"

#define SIM_DIRECTED16(name, T, from, From)                                                                  \
    SIM_INLINE T __##from##2##name##_rz(From v) {                                                            \
        return sim_rounded16<T>(v, SIM_TOWARDS_ZERO);                                                        \
    }                                                                                                        \
    SIM_INLINE T __##from##2##name##_rd(From v) {                                                            \
        return sim_rounded16<T>(v, SIM_DOWN);                                                                \
    }                                                                                                        \
    SIM_INLINE T __##from##2##name##_ru(From v) {                                                            \
        return sim_rounded16<T>(v, SIM_UP);                                                                  \
    }
#define SIM_FLOAT16_AND_INTEGER(name, T, integer, Integer)                                                   \
    SIM_TO_INTEGER(__##name##2##integer, Integer, T, float)                                                  \
    SIM_DIRECTED16(name, T, integer, Integer)                                                                \
    SIM_INLINE T __##integer##2##name##_rn(Integer v) {                                                      \
        return v;                                                                                            \
    }
#define SIM_FLOAT16_NAMES(name, T, T2)                                                                       \
    SIM_INLINE T __float2##name(float v) {                                                                   \
        return v;                                                                                            \
    }                                                                                                        \
    SIM_INLINE T __float2##name##_rn(float v) {                                                              \
        return v;                                                                                            \
    }                                                                                                        \
    SIM_INLINE T __double2##name(double v) {                                                                 \
        return v;                                                                                            \
    }                                                                                                        \
    SIM_INLINE float __##name##2float(T v) {                                                                 \
        return v;                                                                                            \
    }                                                                                                        \
    SIM_INLINE T2 __float2##name##2_rn(float v) {                                                            \
        return {v, v};                                                                                       \
    }                                                                                                        \
    SIM_INLINE T2 __floats2##name##2_rn(float a, float b) {                                                  \
        return {a, b};                                                                                       \
    }                                                                                                        \
    SIM_INLINE T2 __float22##name##2_rn(float2 v) {                                                          \
        return {v.x, v.y};                                                                                   \
    }                                                                                                        \
    SIM_INLINE float2 __##name##22float2(T2 v) {                                                             \
        return {(float)v.x, (float)v.y};                                                                     \
    }                                                                                                        \
    SIM_INLINE T __low2##name(T2 v) {                                                                        \
        return v.x;                                                                                          \
    }                                                                                                        \
    SIM_INLINE T __high2##name(T2 v) {                                                                       \
        return v.y;                                                                                          \
    }                                                                                                        \
    SIM_INLINE T2 __low2##name##2(T2 v) {                                                                    \
        return {v.x, v.x};                                                                                   \
    }                                                                                                        \
    SIM_INLINE T2 __high2##name##2(T2 v) {                                                                   \
        return {v.y, v.y};                                                                                   \
    }                                                                                                        \
    SIM_INLINE T2 __lows2##name##2(T2 a, T2 b) {                                                             \
        return {a.x, b.x};                                                                                   \
    }                                                                                                        \
    SIM_INLINE T2 __highs2##name##2(T2 a, T2 b) {                                                            \
        return {a.y, b.y};                                                                                   \
    }                                                                                                        \
    SIM_INLINE T2 __##name##2##name##2(T v) {                                                                \
        return {v, v};                                                                                       \
    }                                                                                                        \
    SIM_INLINE T2 __halves2##name##2(T a, T b) {                                                             \
        return {a, b};                                                                                       \
    }                                                                                                        \
    SIM_INLINE T2 make_##name##2(T a, T b) {                                                                 \
        return {a, b};                                                                                       \
    }                                                                                                        \
    SIM_INLINE unsigned short __##name##_as_ushort(T v) {                                                    \
        return v.__x;                                                                                        \
    }                                                                                                        \
    SIM_INLINE short __##name##_as_short(T v) {                                                              \
        return (short)v.__x;                                                                                 \
    }                                                                                                        \
    SIM_INLINE T __ushort_as_##name(unsigned short v) {                                                      \
        return sim_raw16{v};                                                                                 \
    }                                                                                                        \
    SIM_INLINE T __short_as_##name(short v) {                                                                \
        return sim_raw16{(unsigned short)v};                                                                 \
    }                                                                                                        \
    SIM_DIRECTED16(name, T, float, float)                                                                    \
    SIM_FLOAT16_AND_INTEGER(name, T, int, int)                                                               \
    SIM_FLOAT16_AND_INTEGER(name, T, uint, unsigned)                                                         \
    SIM_FLOAT16_AND_INTEGER(name, T, short, short)                                                           \
    SIM_FLOAT16_AND_INTEGER(name, T, ushort, unsigned short)                                                 \
    SIM_FLOAT16_AND_INTEGER(name, T, ll, long long)                                                          \
    SIM_FLOAT16_AND_INTEGER(name, T, ull, unsigned long long)
