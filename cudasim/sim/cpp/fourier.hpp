/* Fourier transforms of any length in doubles, for cufft.hpp: by the prime factors of the length, and by
 * Bluestein's convolution if one of them is large. */
#pragma once
#include <complex>
#include <math.h>
#include <memory>
#include <stddef.h>
#include <vector>

typedef std::complex<double> sim_complex;

/* A complex product without C++'s checks for NaN and infinity. */
inline sim_complex sim_product_of(sim_complex a, sim_complex b) {
    return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}
/* e^(2 pi i k / n), exact at quarters of the circle. */
inline sim_complex sim_root_of_unity(size_t k, size_t n) {
    size_t quarters = 4 * (k % n) / n, rest = 4 * (k % n) - quarters * n;
    double angle = 2 * M_PI * (double)rest / (4 * (double)n), c = cos(angle), s = sin(angle);
    if (rest == 0)
        c = 1, s = 0;
    switch (quarters) {
    case 0:
        return {c, s};
    case 1:
        return {-s, c};
    case 2:
        return {-c, -s};
    default:
        return {s, -c};
    }
}

class sim_fourier {
    enum { LARGEST_FACTOR = 64 };
    size_t n;
    std::vector<size_t> factors;
    std::vector<sim_complex> roots; /* of length n, or those of Bluestein's chirp */
    std::vector<sim_complex> chirp; /* its transform */
    std::unique_ptr<sim_fourier> forward, backward;

    void step(const sim_complex *in, size_t stride, sim_complex *out, size_t length, size_t factor) const {
        if (length == 1) {
            *out = *in;
            return;
        }
        size_t p = factors[factor], m = length / p, apart = n / length;
        for (size_t r = 0; r < p; r++)
            step(in + r * stride, stride * p, out + r * m, m, factor + 1);
        sim_complex part[LARGEST_FACTOR];
        for (size_t k = 0; k < m; k++) {
            for (size_t r = 0; r < p; r++)
                part[r] = sim_product_of(out[r * m + k], roots[r * k * apart]);
            for (size_t q = 0; q < p; q++) {
                sim_complex sum = part[0];
                for (size_t r = 1; r < p; r++)
                    sum += sim_product_of(part[r], roots[q * r % p * (n / p)]);
                out[q * m + k] = sum;
            }
        }
    }

  public:
    /* sign: of the exponent. Nothing is divided by n. */
    sim_fourier(size_t n, int sign) : n(n) {
        size_t rest = n;
        while (rest % 4 == 0)
            factors.push_back(4), rest /= 4;
        for (size_t p = 2; p <= LARGEST_FACTOR && rest > 1; p++)
            while (rest % p == 0)
                factors.push_back(p), rest /= p;
        auto root = [=](size_t k, size_t of) {
            sim_complex value = sim_root_of_unity(k, of);
            return sign < 0 ? conj(value) : value;
        };
        roots.resize(n);
        if (rest == 1) {
            for (size_t k = 0; k < n; k++)
                roots[k] = root(k, n);
            return;
        }
        for (size_t k = 0; k < n; k++)
            roots[k] = root((size_t)((unsigned __int128)k * k % (2 * n)), 2 * n);
        size_t length = 1;
        while (length < 2 * n - 1)
            length *= 2;
        forward.reset(new sim_fourier(length, -1));
        backward.reset(new sim_fourier(length, 1));
        std::vector<sim_complex> kernel(length);
        for (size_t k = 0; k < n; k++)
            kernel[k] = kernel[(length - k) % length] = conj(roots[k]);
        chirp.resize(length);
        forward->run(kernel.data(), 1, chirp.data());
    }
    /* in: its elements are stride apart. out: another place. */
    void run(const sim_complex *in, size_t stride, sim_complex *out) const {
        if (!forward) {
            step(in, stride, out, n, 0);
            return;
        }
        size_t length = chirp.size();
        std::vector<sim_complex> a(length), b(length);
        for (size_t k = 0; k < n; k++)
            a[k] = sim_product_of(in[k * stride], roots[k]);
        forward->run(a.data(), 1, b.data());
        for (size_t k = 0; k < length; k++)
            b[k] = sim_product_of(b[k], chirp[k]);
        backward->run(b.data(), 1, a.data());
        for (size_t k = 0; k < n; k++)
            out[k] = sim_product_of(a[k], roots[k]) / (double)length;
    }
};
