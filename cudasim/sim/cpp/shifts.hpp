/* Shifts as in PTX (ISA, "shl" and "shr"): a count of at least the number of bits shifts out all bits, and a
 * right shift fills with the sign. C++ leaves that undefined. `a << b` comes here as `a << sim_by << b`, see
 * cudasim/live/shifts.py. */
#pragma once
#include "language.hpp"
#include <iosfwd>

/* A checked launch warns of it, once for each place. */
extern "C" void sim_shifts_too_far(unsigned bits, unsigned count);

struct sim_by_type {};
static constexpr sim_by_type sim_by;

template <class T>
inline constexpr bool sim_is_shifted =
    std::is_integral<std::decay_t<T>>::value ||
    (std::is_enum<std::decay_t<T>>::value && std::is_convertible<std::decay_t<T>, long long>::value);

SIM_INLINE constexpr bool sim_is_too_far(unsigned bits, unsigned count) {
    if (__builtin_expect(count < bits, 1))
        return false;
    if (!__builtin_is_constant_evaluated())
        sim_shifts_too_far(bits, count);
    return true;
}
template <class T>
SIM_INLINE constexpr __attribute__((no_sanitize("shift"))) T sim_shift_left(T v, unsigned count) {
    return sim_is_too_far(8 * sizeof(T), count) ? (T)0 : (T)(v << count);
}
template <class T>
SIM_INLINE constexpr __attribute__((no_sanitize("shift"))) T sim_shift_right(T v, unsigned count) {
    return sim_is_too_far(8 * sizeof(T), count) ? (T)(v < 0 ? -1 : 0) : (T)(v >> count);
}

/* A type that is no integer has its own operator. */
template <class T> struct sim_shifted_left {
    T v;
    template <class Count> SIM_INLINE_MEMBER constexpr decltype(auto) operator<<(Count &&count) {
        if constexpr (sim_is_shifted<T> && sim_is_shifted<Count>)
            return sim_shift_left(+v, (unsigned)count);
        else
            return (T &&)v << (Count &&)count;
    }
    /* std::endl is a template, whose arguments only such a parameter fixes. */
    SIM_INLINE_MEMBER decltype(auto) operator<<(std::ostream &(*manipulator)(std::ostream &)) {
        return (T &&)v << manipulator;
    }
};
template <class T> struct sim_shifted_right {
    T v;
    template <class Count> SIM_INLINE_MEMBER constexpr decltype(auto) operator>>(Count &&count) {
        if constexpr (sim_is_shifted<T> && sim_is_shifted<Count>)
            return sim_shift_right(+v, (unsigned)count);
        else
            return (T &&)v >> (Count &&)count;
    }
};
template <class T, std::enable_if_t<sim_is_shifted<T>, int> = 0>
SIM_INLINE constexpr sim_shifted_left<T> operator<<(T v, sim_by_type) {
    return {v};
}
template <class T, std::enable_if_t<!sim_is_shifted<T>, int> = 0>
SIM_INLINE constexpr sim_shifted_left<T &&> operator<<(T &&v, sim_by_type) {
    return {(T &&)v};
}
template <class T, std::enable_if_t<sim_is_shifted<T>, int> = 0>
SIM_INLINE constexpr sim_shifted_right<T> operator>>(T v, sim_by_type) {
    return {v};
}
template <class T, std::enable_if_t<!sim_is_shifted<T>, int> = 0>
SIM_INLINE constexpr sim_shifted_right<T &&> operator>>(T &&v, sim_by_type) {
    return {(T &&)v};
}

/* `a <<= b` is `a <<= (sim_by <<= b)`. */
template <class Count> struct sim_count {
    Count count;
};
template <class Count> SIM_INLINE constexpr sim_count<Count &&> operator<<=(sim_by_type, Count &&count) {
    return {(Count &&)count};
}
template <class Count> SIM_INLINE constexpr sim_count<Count &&> operator>>=(sim_by_type, Count &&count) {
    return {(Count &&)count};
}
template <class T, class Count>
SIM_INLINE constexpr decltype(auto) operator<<=(T &v, const sim_count<Count> &by) {
    if constexpr (sim_is_shifted<T> && sim_is_shifted<Count>)
        return v = (T)sim_shift_left(+v, (unsigned)by.count);
    else
        return v <<= (Count)by.count;
}
template <class T, class Count>
SIM_INLINE constexpr decltype(auto) operator>>=(T &v, const sim_count<Count> &by) {
    if constexpr (sim_is_shifted<T> && sim_is_shifted<Count>)
        return v = (T)sim_shift_right(+v, (unsigned)by.count);
    else
        return v >>= (Count)by.count;
}
