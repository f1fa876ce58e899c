/* Inline PTX becomes calls of these functions (cudasim/live/ptx.py), one for each kind of instruction.
 * Registers are variables of 16, 32 or 64 bits; an instruction uses as many of these as its type has. PTX
 * ISA, "Instruction Set". */
#pragma once
#include "atomics.hpp"
#include "float16_functions.hpp"
#include "intrinsics.hpp"
#include "warp.hpp"

/* ---- Registers ---- */

/* A register's lower bits as a T; a literal number is converted to T. */
template <class T, class R> SIM_INLINE T sim_ptx_get(R from) {
    if constexpr (sizeof(T) == sizeof(R)) {
        return sim_bits<T>(from);
    } else if constexpr (std::is_integral<T>::value == std::is_integral<R>::value &&
                         std::is_arithmetic<T>::value) {
        return (T)from;
    } else {
        T to{};
        __builtin_memcpy(&to, &from, sizeof to < sizeof from ? sizeof to : sizeof from);
        return to;
    }
}
/* The upper bits of a wider register are copies of the sign, or zeros. */
template <class T, class R> SIM_INLINE void sim_ptx_set(R &to, T value) {
    if constexpr (sizeof(T) == sizeof(R)) {
        to = sim_bits<R>(value);
    } else if constexpr (std::is_integral<T>::value && std::is_integral<R>::value) {
        to = (R)value;
    } else {
        uint64_t bits = 0;
        __builtin_memcpy(&bits, &value, sizeof value);
        to = sim_ptx_get<R>(bits);
    }
}

/* Takes off a part's bits. */
template <int bits, class R> SIM_INLINE void sim_ptx_unpacked(R &to, uint64_t &all) {
    using Part = std::conditional_t<bits == 32, uint32_t, std::conditional_t<bits == 16, uint16_t, uint8_t>>;
    sim_ptx_set<Part>(to, (Part)all);
    all >>= bits;
}
/* mov: a register of several parts, the first in its lower bits. */
template <class T, class R, class... Part> SIM_INLINE void sim_ptx_pack(R &to, Part... part) {
    constexpr int bits = 8 * sizeof(T) / sizeof...(Part);
    uint64_t all = 0;
    int place = 0;
    ((all |= (sim_ptx_get<uint64_t>(part) & ((1ull << bits) - 1)) << place, place += bits), ...);
    sim_ptx_set<T>(to, (T)all);
}
template <class T, class... Part> SIM_INLINE void sim_ptx_unpack(T value, Part &...part) {
    if constexpr (sizeof...(Part) == 1) {
        (sim_ptx_set<T>(part, value), ...);
    } else {
        constexpr int bits = 8 * sizeof(T) / sizeof...(Part);
        uint64_t all = 0;
        __builtin_memcpy(&all, &value, sizeof value);
        (sim_ptx_unpacked<bits>(part, all), ...);
    }
}

/* An operand of the asm statement, as a register of its constraint's class, and back. */
template <class R, class V> SIM_INLINE R sim_ptx_read(V value) {
    if constexpr (std::is_pointer<V>::value)
        return (R)(uintptr_t)value;
    else if constexpr (std::is_integral<V>::value || std::is_enum<V>::value)
        return (R)value;
    else if constexpr (sizeof(V) == sizeof(R))
        return sim_bits<R>(value);
    else
        return (R)value;
}
template <class V, class R> SIM_INLINE void sim_ptx_write(V &&to, R value) {
    using Value = std::decay_t<V>;
    if constexpr (std::is_pointer<Value>::value)
        to = (Value)(uintptr_t)value;
    else if constexpr (sizeof(Value) == sizeof(R) && !std::is_same<Value, R>::value)
        to = sim_bits<Value>(value);
    else
        to = (Value)value;
}

/* ---- Arithmetic ---- */

template <class T>
using sim_ptx_doubled = std::conditional_t<
    sizeof(T) == 4, std::conditional_t<std::is_signed<T>::value, int64_t, uint64_t>,
    std::conditional_t<sizeof(T) == 8,
                       std::conditional_t<std::is_signed<T>::value, __int128, unsigned __int128>,
                       std::conditional_t<std::is_signed<T>::value, int32_t, uint32_t>>>;

/* Integers wrap around, so they are added as unsigned ones, with 64 bits where a smaller type would become
   int. */
template <class T, class = void> struct sim_ptx_ring {
    using type = T;
};
template <class T> struct sim_ptx_ring<T, std::enable_if_t<std::is_integral<T>::value>> {
    using type = uint64_t;
};

template <class T, class R> SIM_INLINE void sim_ptx_add(R &to, T a, T b) {
    using Ring = typename sim_ptx_ring<T>::type;
    sim_ptx_set<T>(to, (T)((Ring)a + (Ring)b));
}
template <class T, class R> SIM_INLINE void sim_ptx_sub(R &to, T a, T b) {
    using Ring = typename sim_ptx_ring<T>::type;
    sim_ptx_set<T>(to, (T)((Ring)a - (Ring)b));
}
template <class T, class R> SIM_INLINE void sim_ptx_mul(R &to, T a, T b) {
    using Ring = typename sim_ptx_ring<T>::type;
    sim_ptx_set<T>(to, (T)((Ring)a * (Ring)b));
}
template <class T, class R> SIM_INLINE void sim_ptx_mul_wide(R &to, T a, T b) {
    sim_ptx_set(to, (sim_ptx_doubled<T>)((sim_ptx_doubled<T>)a * (sim_ptx_doubled<T>)b));
}
template <class T, class R> SIM_INLINE void sim_ptx_mul_hi(R &to, T a, T b) {
    sim_ptx_set<T>(to, (T)((sim_ptx_doubled<T>)a * (sim_ptx_doubled<T>)b >> 8 * sizeof(T)));
}
template <class T, class R> SIM_INLINE void sim_ptx_mad(R &to, T a, T b, T c) {
    using Ring = typename sim_ptx_ring<T>::type;
    sim_ptx_set<T>(to, (T)((Ring)a * (Ring)b + (Ring)c));
}
template <class T, class R> SIM_INLINE sim_ptx_doubled<T> sim_ptx_wide(R from) {
    return sim_ptx_get<sim_ptx_doubled<T>>(from);
}
template <class T, class R> SIM_INLINE void sim_ptx_mad_wide(R &to, T a, T b, sim_ptx_doubled<T> c) {
    sim_ptx_set(to, (sim_ptx_doubled<T>)((sim_ptx_doubled<T>)a * b + c));
}
template <class T, class R> SIM_INLINE void sim_ptx_fma(R &to, T a, T b, T c) {
    if constexpr (std::is_same<T, float>::value)
        sim_ptx_set<T>(to, fmaf(a, b, c));
    else if constexpr (std::is_same<T, double>::value)
        sim_ptx_set<T>(to, fma(a, b, c));
    else if constexpr (sizeof(T) == 4)
        sim_ptx_set<T>(to, __hfma2(a, b, c));
    else
        sim_ptx_set<T>(to, __hfma(a, b, c));
}
/* PTX does not define a quotient by zero; a GPU gives all ones. */
template <class T, class R> SIM_INLINE void sim_ptx_div(R &to, T a, T b) {
    if constexpr (std::is_integral<T>::value)
        sim_ptx_set<T>(to, b == 0 ? (T) ~(T)0 : (T)(a / b));
    else
        sim_ptx_set<T>(to, a / b);
}
template <class T, class R> SIM_INLINE void sim_ptx_rem(R &to, T a, T b) {
    sim_ptx_set<T>(to, b == 0 ? a : (T)(a % b));
}
template <class T> SIM_INLINE T sim_ptx_min(T a, T b) {
    if constexpr (std::is_integral<T>::value)
        return b < a ? b : a;
    else if constexpr (std::is_floating_point<T>::value)
        return (T)fmin(a, b);
    else if constexpr (sizeof(T) == 4)
        return __hmin2(a, b);
    else
        return __hmin(a, b);
}
template <class T> SIM_INLINE T sim_ptx_max(T a, T b) {
    if constexpr (std::is_integral<T>::value)
        return a < b ? b : a;
    else if constexpr (std::is_floating_point<T>::value)
        return (T)fmax(a, b);
    else if constexpr (sizeof(T) == 4)
        return __hmax2(a, b);
    else
        return __hmax(a, b);
}
template <class T, class R> SIM_INLINE void sim_ptx_neg(R &to, T a) {
    if constexpr (std::is_integral<T>::value)
        sim_ptx_set<T>(to, (T)(0 - (uint64_t)a));
    else
        sim_ptx_set<T>(to, -a);
}
template <class T, class R> SIM_INLINE void sim_ptx_abs(R &to, T a) {
    if constexpr (std::is_integral<T>::value)
        sim_ptx_set<T>(to, a < 0 ? (T)(0 - (uint64_t)a) : a);
    else if constexpr (std::is_floating_point<T>::value)
        sim_ptx_set<T>(to, (T)fabs(a));
    else if constexpr (sizeof(T) == 4)
        sim_ptx_set<T>(to, __habs2(a));
    else
        sim_ptx_set<T>(to, __habs(a));
}

/* ---- Bits ---- */

/* A count of at least the number of bits shifts out all bits. */
template <class T> SIM_INLINE T sim_ptx_shl(T v, uint32_t count) {
    return count >= 8 * sizeof(T) ? (T)0 : (T)((uint64_t)v << count);
}
template <class T> SIM_INLINE T sim_ptx_shr(T v, uint32_t count) {
    constexpr uint32_t bits = 8 * sizeof(T);
    if (count >= bits)
        return v < 0 ? (T) ~(T)0 : (T)0;
    return (T)(v >> count);
}
/* The highest bit that differs from the sign; all ones when there is none. */
template <class T> SIM_INLINE uint32_t sim_ptx_bfind(T v) {
    uint64_t bits = (uint64_t)(v < 0 ? (T)~v : v);
    return bits == 0 ? ~0u : 63u - (uint32_t)__builtin_clzll(bits);
}
template <class T> SIM_INLINE T sim_ptx_bfe(T v, uint32_t first, uint32_t length) {
    constexpr uint32_t bits = 8 * sizeof(T);
    first &= 0xff, length &= 0xff;
    uint64_t unsigned_bits = (uint64_t)(std::make_unsigned_t<T>)v;
    bool sign = std::is_signed<T>::value && length > 0 &&
                (unsigned_bits >> (first + length - 1 < bits ? first + length - 1 : bits - 1) & 1);
    uint64_t field = first < bits ? unsigned_bits >> first : 0;
    uint64_t mask = length >= 64 ? ~0ull : (1ull << length) - 1;
    return (T)((field & mask) | (sign ? ~mask : 0) |
               (sign && first < bits ? ~0ull << (bits - first)
                : sign               ? ~0ull
                                     : 0));
}
template <class R>
SIM_INLINE void sim_ptx_bfi(R &to, uint32_t inserted, uint32_t into, uint32_t first, uint32_t length) {
    first &= 0xff, length &= 0xff;
    uint64_t mask = first < 32 ? ((length >= 32 ? ~0ull : (1ull << length) - 1) << first) & 0xffffffffu : 0;
    uint64_t moved = first < 32 ? (uint64_t)inserted << first : 0;
    sim_ptx_set<uint32_t>(to, (uint32_t)((into & ~mask) | (moved & mask)));
}
/* The bits of a, b and c together are the index of the bit of `table` that becomes the result's. */
template <class R> SIM_INLINE void sim_ptx_lop3(R &to, uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
    uint32_t result = 0;
    for (int row = 0; row < 8; row++)
        if (table >> row & 1)
            result |= (row & 4 ? a : ~a) & (row & 2 ? b : ~b) & (row & 1 ? c : ~c);
    sim_ptx_set<uint32_t>(to, result);
}

/* ---- Conversions ---- */

/* way: to the nearest even, towards zero, down (minus) or up (plus). */
template <class T, class From> SIM_INLINE T sim_ptx_to_integer(From from, char way) {
    double v = (double)(float)from;
    if constexpr (std::is_same<From, double>::value)
        v = from;
    v = way == 'n' ? rint(v) : way == 'z' ? trunc(v) : way == 'm' ? floor(v) : ceil(v);
    if (v != v && sizeof(From) <= 4 && sizeof(T) <= 4)
        return 0;
    return sim_to_integer<T>(v);
}
template <class T, class R, class From> SIM_INLINE void sim_ptx_cvt(R &to, From from) {
    if constexpr (sim_is_float16<From>::value && !std::is_same<T, From>::value)
        sim_ptx_set<T>(to, (T)(float)from);
    else
        sim_ptx_set<T>(to, (T)from);
}
/* Rounds to 11 significant bits, ties away from zero. */
SIM_INLINE uint32_t sim_ptx_tf32(float v) {
    uint32_t bits = __float_as_uint(v);
    return v - v == 0 ? (bits + 0x1000u) & 0xffffe000u : bits;
}
/* Two floats as 16 bits each, the first in the upper half. */
template <class T> SIM_INLINE uint32_t sim_ptx_pair(float upper, float lower) {
    T high(upper), low(lower);
    return (uint32_t)sim_bits<uint16_t>(high) << 16 | sim_bits<uint16_t>(low);
}

/* ---- Memory ---- */

template <class R> SIM_INLINE void *sim_ptx_global(R address, int64_t offset) {
    return (void *)(sim_ptx_get<uint64_t>(address) + (uint64_t)offset);
}
/* Bytes that one access reads or writes. */
template <size_t bytes> struct sim_ptx_whole {
    using type = uint64_t;
};
template <> struct sim_ptx_whole<16> {
    typedef long long type __attribute__((vector_size(16)));
};
template <class T, class... R> SIM_INLINE void sim_ptx_load(void *from, R &...to) {
    using Value = std::remove_cv_t<T>;
    if constexpr (sizeof...(R) == 1) {
        (sim_ptx_set<Value>(to, *(T *)from), ...);
    } else if constexpr (std::is_volatile<T>::value) {
        auto all = *(const volatile typename sim_ptx_whole<sizeof(T) * sizeof...(R)>::type *)from;
        Value element[sizeof...(R)];
        static_assert(sizeof element == sizeof all, "a vector of 8 or 16 bytes");
        __builtin_memcpy(element, &all, sizeof all);
        int i = 0;
        (sim_ptx_set<Value>(to, element[i++]), ...);
    } else { /* one access */
        struct alignas(sizeof(T) * sizeof...(R)) vector {
            Value element[sizeof...(R)];
        } all = *(const vector *)from;
        int i = 0;
        (sim_ptx_set<Value>(to, all.element[i++]), ...);
    }
}
template <class T, class... R> SIM_INLINE void sim_ptx_store(void *to, R... from) {
    using Value = std::remove_cv_t<T>;
    if constexpr (sizeof...(R) == 1) {
        ((void)(*(T *)to = sim_ptx_get<Value>(from)), ...);
    } else if constexpr (std::is_volatile<T>::value) {
        typename sim_ptx_whole<sizeof(T) * sizeof...(R)>::type all;
        const Value element[] = {sim_ptx_get<Value>(from)...};
        static_assert(sizeof element == sizeof all, "a vector of 8 or 16 bytes");
        __builtin_memcpy(&all, element, sizeof all);
        *(volatile decltype(all) *)to = all;
    } else {
        struct alignas(sizeof(T) * sizeof...(R)) vector {
            Value element[sizeof...(R)];
        };
        *(vector *)to = vector{{sim_ptx_get<Value>(from)...}};
    }
}

/* ---- Warps and blocks ---- */

SIM_INLINE unsigned sim_ptx_thread() {
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
SIM_INLINE unsigned sim_ptx_lane() {
    return sim_ptx_thread() % warpSize;
}
SIM_INLINE unsigned sim_ptx_warp() {
    return sim_ptx_thread() / warpSize;
}
/* A barrier of all threads of the block. */
SIM_INLINE void sim_ptx_bar_sync(const sim_site *site, int number) {
    if (number == 0)
        sim_barrier(site, 0);
    else
        sim_named_barrier(site, number, (int)(blockDim.x * blockDim.y * blockDim.z));
}
/* `limits`: from bit 8 on the bits of a lane's number that its segment shares, below them the last lane to
 * read in it, or going up the first. Returns whether the lane that is asked for is in range; a lane that asks
 * for another reads itself. */
template <class R>
SIM_INLINE bool sim_ptx_shfl(R &to, uint32_t value, char way, uint32_t operand, uint32_t limits,
                             uint32_t mask, SIM_CALLED_FROM) {
    uint32_t lane = sim_ptx_lane(), shared = limits >> 8 & 31, bound = limits & 31, step = operand & 31;
    uint32_t last = (lane & shared) | (bound & ~shared);
    uint32_t from = way == 'u'   ? lane - step
                    : way == 'd' ? lane + step
                    : way == 'b' ? lane ^ step
                                 : (lane & shared) | (step & ~shared);
    bool is_in_range = way == 'u' ? (int)from >= (int)last : from <= last;
    int source = (int)(is_in_range ? from : lane);
    sim_ptx_set<uint32_t>(to, sim_shuffled(SIM_CALLER, mask, value, SIM_SHUFFLE_INDEX, source, warpSize));
    return is_in_range;
}
