/* Thrust's complex numbers for kernels of a cell: C++'s. Programs have the wheel's. */
#pragma once
#include <complex>

namespace thrust {
template <class T> struct complex : std::complex<T> {
    complex(T real = T(), T imaginary = T()) : std::complex<T>(real, imaginary) {}
    complex(const std::complex<T> &of) : std::complex<T>(of) {}
};
using std::abs, std::arg, std::conj, std::norm, std::polar, std::proj;
using std::acos, std::acosh, std::asin, std::asinh, std::atan, std::atanh;
using std::cos, std::cosh, std::sin, std::sinh, std::tan, std::tanh;
using std::exp, std::log, std::log10, std::pow, std::sqrt;
} // namespace thrust
