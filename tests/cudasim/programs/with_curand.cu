// cuRAND's functions for host code, and NVTX.
#include <curand.h>
#include <curand_kernel.h>
#include <nvToolsExt.h>
#include <nvtx3/nvtx3.hpp>
#include <cstdio>
#include <cstring>
#include <vector>

__global__ void same(float *x, unsigned long long seed, int type) {
    curandStatePhilox4_32_10_t state;
    curand_init(seed, type, 0, &state);
    for (int i = 0; i < 8; i++)
        x[i] -= curand_uniform(&state);
}

template <class T> void moments(const char *what, const std::vector<T> &x) {
    double sum = 0, squares = 0;
    for (T v : x)
        sum += v, squares += (double)v * v;
    double mean = sum / x.size();
    printf("%s: %.6f %.6f\n", what, mean, squares / x.size() - mean * mean);
}

int main(int argc, char **argv) {
    const char *which = argc > 1 ? argv[1] : "";
    const int n = 1 << 16;
    nvtxRangePushA("all");
    nvtx3::scoped_range range("all");
    float *x;
    double *y;
    unsigned *z;
    cudaMalloc(&x, n * sizeof *x), cudaMalloc(&y, n * sizeof *y), cudaMalloc(&z, n * sizeof *z);
    curandGenerator_t generator;
    curandCreateGenerator(&generator, CURAND_RNG_PSEUDO_PHILOX4_32_10);
    curandSetPseudoRandomGeneratorSeed(generator, 1234ULL);
    std::vector<float> floats(n);
    std::vector<double> doubles(n);
    std::vector<unsigned> numbers(n);
    if (!strcmp(which, "host"))
        printf("%d\n", curandGenerateUniform(generator, floats.data(), n));
    if (!strcmp(which, "overrun"))
        printf("%d\n", curandGenerateUniform(generator, x, n + 2));
    curandGenerateUniform(generator, x, n);
    cudaMemcpy(floats.data(), x, n * sizeof *x, cudaMemcpyDeviceToHost);
    moments("uniform", floats);
    same<<<1, 1>>>(x, 1234, CURAND_RNG_PSEUDO_PHILOX4_32_10);
    cudaMemcpy(floats.data(), x, 8 * sizeof *x, cudaMemcpyDeviceToHost);
    printf("as in a kernel: %g %g\n", floats[0], floats[7]);
    curandGenerateNormal(generator, x, n, 3, 2);
    cudaMemcpy(floats.data(), x, n * sizeof *x, cudaMemcpyDeviceToHost);
    moments("normal", floats);
    curandGenerateNormalDouble(generator, y, n, -1, 0.5);
    cudaMemcpy(doubles.data(), y, n * sizeof *y, cudaMemcpyDeviceToHost);
    moments("normal double", doubles);
    curandGeneratePoisson(generator, z, n, 4);
    cudaMemcpy(numbers.data(), z, n * sizeof *z, cudaMemcpyDeviceToHost);
    moments("poisson", numbers);
    printf("odd: %d\n", curandGenerateNormal(generator, x, 3, 0, 1));
    curandDestroyGenerator(generator);
    curandCreateGeneratorHost(&generator, CURAND_RNG_PSEUDO_DEFAULT);
    curandGenerateUniformDouble(generator, doubles.data(), n);
    moments("host", doubles);
    curandDestroyGenerator(generator);
    cudaFree(x), cudaFree(y), cudaFree(z);
    nvtxRangePop();
}
