/* Floats of 16 bits: binary16 and bfloat16 are one template, and so are pairs of them in 32 bits.
 *
 * An operation gives what a GPU gives, which rounds it once. A sum, product or quotient may be rounded to a
 * float first, whose 24 bits are twice a factor's 11 and two more (Figueroa, "When is double rounding
 * innocuous?", 1995). Other operations are computed in double precision. half.hpp and bfloat16.hpp name the
 * two types; float16_functions.hpp has CUDA's functions. */
#pragma once
#include "language.hpp"

struct sim_binary16 {
    static uint16_t round(float v) {
        return sim_half_of_float(v);
    }
    static float value(uint16_t bits) {
        return sim_float_of_half(bits);
    }
};

struct sim_bfloat16 {
    /* Rounds to nearest even. */
    static uint16_t round(float v) {
        if (v != v)
            return 0x7fff;
        unsigned bits = sim_bits<unsigned>(v);
        return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
    static float value(uint16_t bits) {
        return sim_bits<float>((unsigned)bits << 16);
    }
};

struct sim_raw16 { /* as CUDA's __half_raw and __nv_bfloat16_raw */
    unsigned short x;
};

template <class F> struct __align__(2) sim_float16 {
    unsigned short __x;
    sim_float16() = default;
    sim_float16(sim_raw16 raw) : __x(raw.x) {}
    template <class T, class = std::enable_if_t<std::is_arithmetic<T>::value>>
    sim_float16(T v) : __x(F::round(std::is_same<T, float>::value ? (float)v : sim_odd_float((double)v))) {}
    template <class Other> explicit sim_float16(sim_float16<Other> v) : sim_float16((float)v) {}
    operator float() const {
        return F::value(__x);
    }
    operator sim_raw16() const {
        return {__x};
    }
    template <class T> sim_float16 &operator+=(T v) {
        return *this = *this + sim_float16(v);
    }
    template <class T> sim_float16 &operator-=(T v) {
        return *this = *this - sim_float16(v);
    }
    template <class T> sim_float16 &operator*=(T v) {
        return *this = *this * sim_float16(v);
    }
    template <class T> sim_float16 &operator/=(T v) {
        return *this = *this / sim_float16(v);
    }
    sim_float16 &operator++() {
        return *this += 1;
    }
    sim_float16 &operator--() {
        return *this -= 1;
    }
};
template <class F> struct sim_is_float16<sim_float16<F>> : std::true_type {};

template <class F> SIM_INLINE double sim_double(sim_float16<F> v) {
    return (double)(float)v;
}

template <class F> struct __align__(4) sim_float16x2 {
    sim_float16<F> x, y;
    sim_float16x2() = default;
    sim_float16x2(sim_float16<F> x, sim_float16<F> y) : x(x), y(y) {}
};

template <class F> SIM_INLINE sim_float16<F> operator+(sim_float16<F> a, sim_float16<F> b) {
    return sim_float16<F>((float)a + (float)b);
}
template <class F> SIM_INLINE sim_float16<F> operator-(sim_float16<F> a, sim_float16<F> b) {
    return sim_float16<F>((float)a - (float)b);
}
template <class F> SIM_INLINE sim_float16<F> operator*(sim_float16<F> a, sim_float16<F> b) {
    return sim_float16<F>((float)a * (float)b);
}
template <class F> SIM_INLINE sim_float16<F> operator/(sim_float16<F> a, sim_float16<F> b) {
    return sim_float16<F>((float)a / (float)b);
}
template <class F> SIM_INLINE sim_float16<F> operator-(sim_float16<F> a) {
    return sim_float16<F>(sim_raw16{(unsigned short)(a.__x ^ 0x8000)});
}
template <class F> SIM_INLINE sim_float16<F> operator+(sim_float16<F> a) {
    return a;
}
template <class F> SIM_INLINE bool operator==(sim_float16<F> a, sim_float16<F> b) {
    return (float)a == (float)b;
}
template <class F> SIM_INLINE bool operator!=(sim_float16<F> a, sim_float16<F> b) {
    return (float)a != (float)b;
}
template <class F> SIM_INLINE bool operator<(sim_float16<F> a, sim_float16<F> b) {
    return (float)a < (float)b;
}
template <class F> SIM_INLINE bool operator>(sim_float16<F> a, sim_float16<F> b) {
    return (float)a > (float)b;
}
template <class F> SIM_INLINE bool operator<=(sim_float16<F> a, sim_float16<F> b) {
    return (float)a <= (float)b;
}
template <class F> SIM_INLINE bool operator>=(sim_float16<F> a, sim_float16<F> b) {
    return (float)a >= (float)b;
}
template <class F> SIM_INLINE sim_float16x2<F> operator+(sim_float16x2<F> a, sim_float16x2<F> b) {
    return {a.x + b.x, a.y + b.y};
}
template <class F> SIM_INLINE sim_float16x2<F> &operator+=(sim_float16x2<F> &a, sim_float16x2<F> b) {
    return a = a + b;
}
template <class F> SIM_INLINE sim_float16x2<F> operator-(sim_float16x2<F> a, sim_float16x2<F> b) {
    return {a.x - b.x, a.y - b.y};
}
template <class F> SIM_INLINE sim_float16x2<F> &operator-=(sim_float16x2<F> &a, sim_float16x2<F> b) {
    return a = a - b;
}
template <class F> SIM_INLINE sim_float16x2<F> operator*(sim_float16x2<F> a, sim_float16x2<F> b) {
    return {a.x * b.x, a.y * b.y};
}
template <class F> SIM_INLINE sim_float16x2<F> &operator*=(sim_float16x2<F> &a, sim_float16x2<F> b) {
    return a = a * b;
}
template <class F> SIM_INLINE sim_float16x2<F> operator/(sim_float16x2<F> a, sim_float16x2<F> b) {
    return {a.x / b.x, a.y / b.y};
}
template <class F> SIM_INLINE sim_float16x2<F> &operator/=(sim_float16x2<F> &a, sim_float16x2<F> b) {
    return a = a / b;
}
template <class F> SIM_INLINE sim_float16x2<F> operator-(sim_float16x2<F> a) {
    return {-a.x, -a.y};
}
template <class F> SIM_INLINE bool operator==(sim_float16x2<F> a, sim_float16x2<F> b) {
    return a.x == b.x && a.y == b.y;
}
template <class F> SIM_INLINE bool operator!=(sim_float16x2<F> a, sim_float16x2<F> b) {
    return !(a == b);
}
