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

/* ---- Two integers of 16 bits ---- */

SIM_INLINE unsigned __vadd2(unsigned a, unsigned b) {
    return sim_parts<uint16_t>(a, b, [](int x, int y) { return x + y; });
}
SIM_INLINE unsigned __vaddss2(unsigned a, unsigned b) {
    return sim_parts<int16_t>(a, b, [](int x, int y) { return sim_saturated<int16_t>(x + y); });
}
SIM_INLINE unsigned __vaddus2(unsigned a, unsigned b) {
    return sim_parts<uint16_t>(a, b, [](int x, int y) { return sim_saturated<uint16_t>(x + y); });
}
SIM_INLINE unsigned __vsub2(unsigned a, unsigned b) {
    return sim_parts<uint16_t>(a, b, [](int x, int y) { return x - y; });
}
SIM_INLINE unsigned __vsubss2(unsigned a, unsigned b) {
    return sim_parts<int16_t>(a, b, [](int x, int y) { return sim_saturated<int16_t>(x - y); });
}
SIM_INLINE unsigned __vsubus2(unsigned a, unsigned b) {
    return sim_parts<uint16_t>(a, b, [](int x, int y) { return sim_saturated<uint16_t>(x - y); });
}
SIM_INLINE unsigned __vneg2(unsigned a) {
    return sim_parts<int16_t>(a, 0, [](int x, int) { return -x; });
}
SIM_INLINE unsigned __vnegss2(unsigned a) {
    return sim_parts<int16_t>(a, 0, [](int x, int) { return sim_saturated<int16_t>(-x); });
}
SIM_INLINE unsigned __vabs2(unsigned a) {
    return sim_parts<int16_t>(a, 0, [](int x, int) { return x < 0 ? -x : x; });
}
SIM_INLINE unsigned __vabsss2(unsigned a) {
    return sim_parts<int16_t>(a, 0, [](int x, int) { return sim_saturated<int16_t>(x < 0 ? -x : x); });
}
SIM_INLINE unsigned __vabsdiffs2(unsigned a, unsigned b) {
    return sim_parts<int16_t>(a, b, [](int x, int y) { return x < y ? y - x : x - y; });
}
SIM_INLINE unsigned __vabsdiffu2(unsigned a, unsigned b) {
    return sim_parts<uint16_t>(a, b, [](int x, int y) { return x < y ? y - x : x - y; });
}
SIM_INLINE unsigned __vavgs2(unsigned a, unsigned b) {
    return sim_parts<int16_t>(a, b, [](int x, int y) { return sim_half_of(x + y); });
}
SIM_INLINE unsigned __vavgu2(unsigned a, unsigned b) {
    return sim_parts<uint16_t>(a, b, [](int x, int y) { return (x + y + 1) >> 1; });
}
SIM_INLINE unsigned __vhaddu2(unsigned a, unsigned b) {
    return sim_parts<uint16_t>(a, b, [](int x, int y) { return (x + y) >> 1; });
}
SIM_INLINE unsigned __vmaxs2(unsigned a, unsigned b) {
    return sim_parts<int16_t>(a, b, [](int x, int y) { return x < y ? y : x; });
}
SIM_INLINE unsigned __vmins2(unsigned a, unsigned b) {
    return sim_parts<int16_t>(a, b, [](int x, int y) { return x < y ? x : y; });
}
SIM_INLINE unsigned __vmaxu2(unsigned a, unsigned b) {
    return sim_parts<uint16_t>(a, b, [](int x, int y) { return x < y ? y : x; });
}
SIM_INLINE unsigned __vminu2(unsigned a, unsigned b) {
    return sim_parts<uint16_t>(a, b, [](int x, int y) { return x < y ? x : y; });
}
SIM_INLINE unsigned __vcmpeq2(unsigned a, unsigned b) {
    return sim_parts<uint16_t>(a, b, [](int x, int y) { return x == y ? -1 : 0; });
}
SIM_INLINE unsigned __vseteq2(unsigned a, unsigned b) {
    return sim_parts<uint16_t>(a, b, [](int x, int y) { return x == y; });
}
SIM_INLINE unsigned __vcmpne2(unsigned a, unsigned b) {
    return sim_parts<uint16_t>(a, b, [](int x, int y) { return x != y ? -1 : 0; });
}
SIM_INLINE unsigned __vsetne2(unsigned a, unsigned b) {
    return sim_parts<uint16_t>(a, b, [](int x, int y) { return x != y; });
}
SIM_INLINE unsigned __vcmpges2(unsigned a, unsigned b) {
    return sim_parts<int16_t>(a, b, [](int x, int y) { return x >= y ? -1 : 0; });
}
SIM_INLINE unsigned __vsetges2(unsigned a, unsigned b) {
    return sim_parts<int16_t>(a, b, [](int x, int y) { return x >= y; });
}
SIM_INLINE unsigned __vcmpgeu2(unsigned a, unsigned b) {
    return sim_parts<uint16_t>(a, b, [](int x, int y) { return x >= y ? -1 : 0; });
}
SIM_INLINE unsigned __vsetgeu2(unsigned a, unsigned b) {
    return sim_parts<uint16_t>(a, b, [](int x, int y) { return x >= y; });
}
SIM_INLINE unsigned __vcmpgts2(unsigned a, unsigned b) {
    return sim_parts<int16_t>(a, b, [](int x, int y) { return x > y ? -1 : 0; });
}
SIM_INLINE unsigned __vsetgts2(unsigned a, unsigned b) {
    return sim_parts<int16_t>(a, b, [](int x, int y) { return x > y; });
}
SIM_INLINE unsigned __vcmpgtu2(unsigned a, unsigned b) {
    return sim_parts<uint16_t>(a, b, [](int x, int y) { return x > y ? -1 : 0; });
}
SIM_INLINE unsigned __vsetgtu2(unsigned a, unsigned b) {
    return sim_parts<uint16_t>(a, b, [](int x, int y) { return x > y; });
}
SIM_INLINE unsigned __vcmples2(unsigned a, unsigned b) {
    return sim_parts<int16_t>(a, b, [](int x, int y) { return x <= y ? -1 : 0; });
}
SIM_INLINE unsigned __vsetles2(unsigned a, unsigned b) {
    return sim_parts<int16_t>(a, b, [](int x, int y) { return x <= y; });
}
SIM_INLINE unsigned __vcmpleu2(unsigned a, unsigned b) {
    return sim_parts<uint16_t>(a, b, [](int x, int y) { return x <= y ? -1 : 0; });
}
SIM_INLINE unsigned __vsetleu2(unsigned a, unsigned b) {
    return sim_parts<uint16_t>(a, b, [](int x, int y) { return x <= y; });
}
SIM_INLINE unsigned __vcmplts2(unsigned a, unsigned b) {
    return sim_parts<int16_t>(a, b, [](int x, int y) { return x < y ? -1 : 0; });
}
SIM_INLINE unsigned __vsetlts2(unsigned a, unsigned b) {
    return sim_parts<int16_t>(a, b, [](int x, int y) { return x < y; });
}
SIM_INLINE unsigned __vcmpltu2(unsigned a, unsigned b) {
    return sim_parts<uint16_t>(a, b, [](int x, int y) { return x < y ? -1 : 0; });
}
SIM_INLINE unsigned __vsetltu2(unsigned a, unsigned b) {
    return sim_parts<uint16_t>(a, b, [](int x, int y) { return x < y; });
}
SIM_INLINE unsigned __vsads2(unsigned a, unsigned b) {
    unsigned sum = 0;
    sim_parts<int16_t>(a, b, [&](int x, int y) { return sum += (unsigned)(x < y ? y - x : x - y); });
    return sum;
}
SIM_INLINE unsigned __vsadu2(unsigned a, unsigned b) {
    unsigned sum = 0;
    sim_parts<uint16_t>(a, b, [&](int x, int y) { return sum += (unsigned)(x < y ? y - x : x - y); });
    return sum;
}

/* ---- Four integers of 8 bits ---- */

SIM_INLINE unsigned __vadd4(unsigned a, unsigned b) {
    return sim_parts<uint8_t>(a, b, [](int x, int y) { return x + y; });
}
SIM_INLINE unsigned __vaddss4(unsigned a, unsigned b) {
    return sim_parts<int8_t>(a, b, [](int x, int y) { return sim_saturated<int8_t>(x + y); });
}
SIM_INLINE unsigned __vaddus4(unsigned a, unsigned b) {
    return sim_parts<uint8_t>(a, b, [](int x, int y) { return sim_saturated<uint8_t>(x + y); });
}
SIM_INLINE unsigned __vsub4(unsigned a, unsigned b) {
    return sim_parts<uint8_t>(a, b, [](int x, int y) { return x - y; });
}
SIM_INLINE unsigned __vsubss4(unsigned a, unsigned b) {
    return sim_parts<int8_t>(a, b, [](int x, int y) { return sim_saturated<int8_t>(x - y); });
}
SIM_INLINE unsigned __vsubus4(unsigned a, unsigned b) {
    return sim_parts<uint8_t>(a, b, [](int x, int y) { return sim_saturated<uint8_t>(x - y); });
}
SIM_INLINE unsigned __vneg4(unsigned a) {
    return sim_parts<int8_t>(a, 0, [](int x, int) { return -x; });
}
SIM_INLINE unsigned __vnegss4(unsigned a) {
    return sim_parts<int8_t>(a, 0, [](int x, int) { return sim_saturated<int8_t>(-x); });
}
SIM_INLINE unsigned __vabs4(unsigned a) {
    return sim_parts<int8_t>(a, 0, [](int x, int) { return x < 0 ? -x : x; });
}
SIM_INLINE unsigned __vabsss4(unsigned a) {
    return sim_parts<int8_t>(a, 0, [](int x, int) { return sim_saturated<int8_t>(x < 0 ? -x : x); });
}
SIM_INLINE unsigned __vabsdiffs4(unsigned a, unsigned b) {
    return sim_parts<int8_t>(a, b, [](int x, int y) { return x < y ? y - x : x - y; });
}
SIM_INLINE unsigned __vabsdiffu4(unsigned a, unsigned b) {
    return sim_parts<uint8_t>(a, b, [](int x, int y) { return x < y ? y - x : x - y; });
}
SIM_INLINE unsigned __vavgs4(unsigned a, unsigned b) {
    return sim_parts<int8_t>(a, b, [](int x, int y) { return sim_half_of(x + y); });
}
SIM_INLINE unsigned __vavgu4(unsigned a, unsigned b) {
    return sim_parts<uint8_t>(a, b, [](int x, int y) { return (x + y + 1) >> 1; });
}
SIM_INLINE unsigned __vhaddu4(unsigned a, unsigned b) {
    return sim_parts<uint8_t>(a, b, [](int x, int y) { return (x + y) >> 1; });
}
SIM_INLINE unsigned __vmaxs4(unsigned a, unsigned b) {
    return sim_parts<int8_t>(a, b, [](int x, int y) { return x < y ? y : x; });
}
SIM_INLINE unsigned __vmins4(unsigned a, unsigned b) {
    return sim_parts<int8_t>(a, b, [](int x, int y) { return x < y ? x : y; });
}
SIM_INLINE unsigned __vmaxu4(unsigned a, unsigned b) {
    return sim_parts<uint8_t>(a, b, [](int x, int y) { return x < y ? y : x; });
}
SIM_INLINE unsigned __vminu4(unsigned a, unsigned b) {
    return sim_parts<uint8_t>(a, b, [](int x, int y) { return x < y ? x : y; });
}
SIM_INLINE unsigned __vcmpeq4(unsigned a, unsigned b) {
    return sim_parts<uint8_t>(a, b, [](int x, int y) { return x == y ? -1 : 0; });
}
SIM_INLINE unsigned __vseteq4(unsigned a, unsigned b) {
    return sim_parts<uint8_t>(a, b, [](int x, int y) { return x == y; });
}
SIM_INLINE unsigned __vcmpne4(unsigned a, unsigned b) {
    return sim_parts<uint8_t>(a, b, [](int x, int y) { return x != y ? -1 : 0; });
}
SIM_INLINE unsigned __vsetne4(unsigned a, unsigned b) {
    return sim_parts<uint8_t>(a, b, [](int x, int y) { return x != y; });
}
SIM_INLINE unsigned __vcmpges4(unsigned a, unsigned b) {
    return sim_parts<int8_t>(a, b, [](int x, int y) { return x >= y ? -1 : 0; });
}
SIM_INLINE unsigned __vsetges4(unsigned a, unsigned b) {
    return sim_parts<int8_t>(a, b, [](int x, int y) { return x >= y; });
}
SIM_INLINE unsigned __vcmpgeu4(unsigned a, unsigned b) {
    return sim_parts<uint8_t>(a, b, [](int x, int y) { return x >= y ? -1 : 0; });
}
SIM_INLINE unsigned __vsetgeu4(unsigned a, unsigned b) {
    return sim_parts<uint8_t>(a, b, [](int x, int y) { return x >= y; });
}
SIM_INLINE unsigned __vcmpgts4(unsigned a, unsigned b) {
    return sim_parts<int8_t>(a, b, [](int x, int y) { return x > y ? -1 : 0; });
}
SIM_INLINE unsigned __vsetgts4(unsigned a, unsigned b) {
    return sim_parts<int8_t>(a, b, [](int x, int y) { return x > y; });
}
SIM_INLINE unsigned __vcmpgtu4(unsigned a, unsigned b) {
    return sim_parts<uint8_t>(a, b, [](int x, int y) { return x > y ? -1 : 0; });
}
SIM_INLINE unsigned __vsetgtu4(unsigned a, unsigned b) {
    return sim_parts<uint8_t>(a, b, [](int x, int y) { return x > y; });
}
SIM_INLINE unsigned __vcmples4(unsigned a, unsigned b) {
    return sim_parts<int8_t>(a, b, [](int x, int y) { return x <= y ? -1 : 0; });
}
SIM_INLINE unsigned __vsetles4(unsigned a, unsigned b) {
    return sim_parts<int8_t>(a, b, [](int x, int y) { return x <= y; });
}
SIM_INLINE unsigned __vcmpleu4(unsigned a, unsigned b) {
    return sim_parts<uint8_t>(a, b, [](int x, int y) { return x <= y ? -1 : 0; });
}
SIM_INLINE unsigned __vsetleu4(unsigned a, unsigned b) {
    return sim_parts<uint8_t>(a, b, [](int x, int y) { return x <= y; });
}
SIM_INLINE unsigned __vcmplts4(unsigned a, unsigned b) {
    return sim_parts<int8_t>(a, b, [](int x, int y) { return x < y ? -1 : 0; });
}
SIM_INLINE unsigned __vsetlts4(unsigned a, unsigned b) {
    return sim_parts<int8_t>(a, b, [](int x, int y) { return x < y; });
}
SIM_INLINE unsigned __vcmpltu4(unsigned a, unsigned b) {
    return sim_parts<uint8_t>(a, b, [](int x, int y) { return x < y ? -1 : 0; });
}
SIM_INLINE unsigned __vsetltu4(unsigned a, unsigned b) {
    return sim_parts<uint8_t>(a, b, [](int x, int y) { return x < y; });
}
SIM_INLINE unsigned __vsads4(unsigned a, unsigned b) {
    unsigned sum = 0;
    sim_parts<int8_t>(a, b, [&](int x, int y) { return sum += (unsigned)(x < y ? y - x : x - y); });
    return sum;
}
SIM_INLINE unsigned __vsadu4(unsigned a, unsigned b) {
    unsigned sum = 0;
    sim_parts<uint8_t>(a, b, [&](int x, int y) { return sum += (unsigned)(x < y ? y - x : x - y); });
    return sum;
}

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
