/* SIMD video instructions: two 16-bit or four 8-bit integers in a word, each computed alone. CUDA Math API,
 * "SIMD Intrinsics"; PTX ISA, "vadd2" and the sections after it. */
#pragma once
#include "language.hpp"
#include <cstdint>

/* Applies f to each part of the words: T has a part's size and sign. Only the lowest bits of a result are
   kept. */
template <class T, class F> SIM_INLINE unsigned sim_parts(unsigned a, unsigned b, F f) {
    constexpr int bits = 8 * sizeof(T);
    constexpr unsigned part = (1u << bits) - 1;
    unsigned result = 0;
    for (int at = 0; at < 32; at += bits)
        result |= ((unsigned)f((int)(T)(a >> at), (int)(T)(b >> at)) & part) << at;
    return result;
}
template <class T> SIM_INLINE int sim_saturated(int v) {
    constexpr int least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
    return v < least ? least : v > most ? most : v;
}
/* Half of a sum, rounded away from zero. */
SIM_INLINE int sim_half_of(int sum) {
    return (sum + (sum >= 0)) >> 1;
}

/* ---- Two integers of 16 bits, and four of 8: __vadd2(), __vadd4() and so on ---- */

#define SIM_NAME(name) name##2
#define SIM_SIGNED int16_t
#define SIM_UNSIGNED uint16_t
#include "simd_parts.hpp"
#undef SIM_NAME
#undef SIM_SIGNED
#undef SIM_UNSIGNED
#define SIM_NAME(name) name##4
#define SIM_SIGNED int8_t
#define SIM_UNSIGNED uint8_t
#include "simd_parts.hpp"
#undef SIM_NAME
#undef SIM_SIGNED
#undef SIM_UNSIGNED

/* ---- Dynamic programming: the largest or smallest of words or of their halves; of a wrapping sum and a
 * word; also of zero (_relu); or with a flag whether it is the first ---- */

template <class T, class F> SIM_INLINE unsigned sim_each(unsigned a, unsigned b, F f) {
    if constexpr (sizeof(T) == 4)
        return (unsigned)f((T)a, (T)b);
    else
        return sim_parts<T>(a, b, f);
}
constexpr auto sim_most = [](auto x, auto y) { return x < y ? y : x; };
constexpr auto sim_least = [](auto x, auto y) { return y < x ? y : x; };
constexpr auto sim_sum = [](auto x, auto y) { return x + y; };
#define SIM_CHOOSING(name, which, kind, word, T)                                                             \
    SIM_INLINE word __vi##name##3_##kind(word a, word b, word c) {                                           \
        return (word)sim_each<T>(sim_each<T>(a, b, which), c, which);                                        \
    }                                                                                                        \
    SIM_INLINE word __viadd##name##_##kind(word a, word b, word c) {                                         \
        return (word)sim_each<T>(sim_each<T>(a, b, sim_sum), c, which);                                      \
    }
#define SIM_CHOOSING_WITH_ZERO(name, which, kind, word, T)                                                   \
    SIM_CHOOSING(name, which, kind, word, T)                                                                 \
    SIM_INLINE word __vi##name##_##kind##_relu(word a, word b) {                                             \
        return (word)sim_each<T>(sim_each<T>(a, b, which), 0, sim_most);                                     \
    }                                                                                                        \
    SIM_INLINE word __vi##name##3_##kind##_relu(word a, word b, word c) {                                    \
        return (word)sim_each<T>(__vi##name##3_##kind(a, b, c), 0, sim_most);                                \
    }                                                                                                        \
    SIM_INLINE word __viadd##name##_##kind##_relu(word a, word b, word c) {                                  \
        return (word)sim_each<T>(__viadd##name##_##kind(a, b, c), 0, sim_most);                              \
    }
#define SIM_CHOOSING_AND_TELLING(name, which, is_first)                                                      \
    SIM_CHOOSING_WITH_ZERO(name, which, s16x2, unsigned, int16_t)                                            \
    SIM_CHOOSING_WITH_ZERO(name, which, s32, int, int32_t)                                                   \
    SIM_CHOOSING(name, which, u16x2, unsigned, uint16_t)                                                     \
    SIM_CHOOSING(name, which, u32, unsigned, uint32_t)                                                       \
    SIM_INLINE int __vib##name##_s32(int a, int b, bool *first) {                                            \
        return *first = a is_first b, which(a, b);                                                           \
    }                                                                                                        \
    SIM_INLINE unsigned __vib##name##_u32(unsigned a, unsigned b, bool *first) {                             \
        return *first = a is_first b, which(a, b);                                                           \
    }                                                                                                        \
    SIM_INLINE unsigned __vib##name##_s16x2(unsigned a, unsigned b, bool *high, bool *low) {                 \
        *high = (int16_t)(a >> 16) is_first(int16_t)(b >> 16), *low = (int16_t)a is_first(int16_t) b;        \
        return sim_parts<int16_t>(a, b, which);                                                              \
    }                                                                                                        \
    SIM_INLINE unsigned __vib##name##_u16x2(unsigned a, unsigned b, bool *high, bool *low) {                 \
        *high = (a >> 16) is_first(b >> 16), *low = (uint16_t)a is_first(uint16_t) b;                        \
        return sim_parts<uint16_t>(a, b, which);                                                             \
    }
SIM_CHOOSING_AND_TELLING(max, sim_most, >=)
SIM_CHOOSING_AND_TELLING(min, sim_least, <=)
