/* What programs share that compare cuSPARSE and cublasLt with loops. */
#pragma once
#include <algorithm>
#include <complex>
#include <cstdio>
#include <cstdlib>
#include <cusparse.h>
#include <vector>

#define TRY(call)                                                                                            \
    if (int error = (int)(call)) {                                                                           \
        printf("line %d: %d\n", __LINE__, error);                                                            \
        exit(1);                                                                                             \
    }

template <class T> T *on_device(const std::vector<T> &host) {
    T *to;
    TRY(cudaMalloc(&to, host.size() * sizeof(T)));
    TRY(cudaMemcpy(to, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
    return to;
}
template <class T> std::vector<T> on_host(T *device, size_t count) {
    std::vector<T> host(count);
    TRY(cudaMemcpy(host.data(), device, count * sizeof(T), cudaMemcpyDeviceToHost));
    TRY(cudaFree(device));
    return host;
}
static double draw() {
    return rand() / (double)RAND_MAX - 0.5;
}
template <class T> T drawn() {
    if constexpr (std::is_floating_point<T>::value)
        return (T)draw();
    else
        return T((typename T::value_type)draw(), (typename T::value_type)draw());
}
template <class T> std::vector<T> drawn(size_t count) {
    std::vector<T> x(count);
    for (T &value : x)
        value = drawn<T>();
    return x;
}
template <class T> T conjugate(T a) {
    if constexpr (std::is_floating_point<T>::value)
        return a;
    else
        return std::conj(a);
}
template <class T>
void expect(const std::vector<T> &found, const std::vector<T> &expected, const char *what, double times = 1) {
    double bound = sizeof(T) / (std::is_floating_point<T>::value ? 1 : 2) == 4 ? 1e-6 : 1e-14;
    for (size_t i = 0; i < expected.size(); i++)
        if (!(std::abs(found[i] - expected[i]) <= times * bound)) {
            printf("%s: element %zu of %zu is wrong\n", what, i, expected.size());
            return;
        }
}
