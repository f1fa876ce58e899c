/* Function objects of <cuda/functional>. */
#pragma once
#include <algorithm>
#include <functional>
#include <limits>
#ifdef SIM_HAS_CCCL
#define SIM_HEADER <cuda/functional>
#include "cccl.hpp"
#else

namespace cuda {
namespace std {
using namespace ::std;
}

template <class T = void> struct maximum {
    constexpr T operator()(const T &a, const T &b) const {
        return a < b ? b : a;
    }
};
template <> struct maximum<void> {
    template <class T> constexpr T operator()(const T &a, const T &b) const {
        return a < b ? b : a;
    }
};
template <class T = void> struct minimum {
    constexpr T operator()(const T &a, const T &b) const {
        return b < a ? b : a;
    }
};
template <> struct minimum<void> {
    template <class T> constexpr T operator()(const T &a, const T &b) const {
        return b < a ? b : a;
    }
};

} // namespace cuda
#endif
