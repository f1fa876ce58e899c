// Quasi-random numbers: of the host's functions, and of generators in kernels.
#include <cstdio>
#include <curand.h>
#include <curand_kernel.h>

enum { N = 40, DIMENSIONS = 12 };

template <class State, class Word> __global__ void points(double *y, const Word *directions, int skipped) {
    int d = threadIdx.x;
    State state;
    curand_init(directions + d * sizeof(Word) * 8, skipped, &state);
    skipahead(1, &state);
    for (int i = 0; i < N; i++)
        y[d * N + i] = curand_uniform_double(&state);
}
static void print(const char *what, const double *y, int n) {
    printf("%s:", what);
    for (int i = 0; i < n; i++)
        printf(" %.17g", y[i]);
    printf("\n");
}
template <class State, class Vectors> static void of_kernels(const char *what, Vectors *table, int skipped) {
    double *y, host[N * DIMENSIONS];
    Vectors *directions;
    cudaMalloc(&y, sizeof host);
    cudaMalloc(&directions, DIMENSIONS * sizeof(Vectors));
    cudaMemcpy(directions, table, DIMENSIONS * sizeof(Vectors), cudaMemcpyHostToDevice);
    points<State><<<1, DIMENSIONS>>>(y, directions[0], skipped);
    cudaMemcpy(host, y, sizeof host, cudaMemcpyDeviceToHost);
    print(what, host, N * DIMENSIONS);
    cudaFree(y), cudaFree(directions);
}
int main() {
    double *y, host[N * DIMENSIONS];
    curandGenerator_t generator;
    cudaMalloc(&y, sizeof host);
    for (curandRngType_t type : {CURAND_RNG_QUASI_SOBOL32, CURAND_RNG_QUASI_SOBOL64}) {
        curandCreateGenerator(&generator, type);
        curandSetQuasiRandomGeneratorDimensions(generator, DIMENSIONS);
        curandGenerateUniformDouble(generator, y, DIMENSIONS); // a point of them all
        curandGenerateUniformDouble(generator, y, N * DIMENSIONS);
        cudaMemcpy(host, y, sizeof host, cudaMemcpyDeviceToHost);
        print(type == CURAND_RNG_QUASI_SOBOL32 ? "32" : "64", host, N * DIMENSIONS);
        curandDestroyGenerator(generator);
    }
    curandDirectionVectors32_t *of_32;
    curandDirectionVectors64_t *of_64;
    curandGetDirectionVectors32(&of_32, CURAND_DIRECTION_VECTORS_32_JOEKUO6);
    curandGetDirectionVectors64(&of_64, CURAND_DIRECTION_VECTORS_64_JOEKUO6);
    of_kernels<curandStateSobol32>("kernel 32", of_32, 0);
    of_kernels<curandStateSobol64>("kernel 64", of_64, 6);

    curandCreateGeneratorHost(&generator, CURAND_RNG_QUASI_SOBOL32);
    float normal[3];
    curandGenerateNormal(generator, normal, 3, 1, 2);
    printf("normal: %.9g %.9g %.9g\n", normal[0], normal[1], normal[2]);
    unsigned long long wide[2];
    unsigned poisson[2];
    curandSetQuasiRandomGeneratorDimensions(generator, 2);
    printf("refused: %d %d %d\n", curandGenerateLongLong(generator, wide, 2),
           curandGenerateUniform(generator, normal, 3), curandGeneratePoisson(generator, poisson, 2, 4));
    curandDestroyGenerator(generator);
    cudaFree(y);
}
