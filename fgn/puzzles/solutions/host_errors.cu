#include <cassert>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void roots(float *y, const float *x, long n) {
    long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        assert(x[i] >= 0.0f);
        y[i] = sqrtf(x[i]);
    }
}

// Ends the program with the words of the error, if there is one.
void must(cudaError_t error) {
    if (error == cudaSuccess)
        return;
    printf("%s\n", cudaGetErrorString(error));
    exit(1);
}

int main(int count, char **arguments) {
    long n = count > 1 ? atol(arguments[1]) : 4;
    int threads = count > 2 ? atoi(arguments[2]) : 128;
    int seed = count > 3 ? atoi(arguments[3]) : 2;
    float *gpu_x, *gpu_y;
    must(cudaMalloc(&gpu_x, n * sizeof(float)));
    must(cudaMalloc(&gpu_y, n * sizeof(float)));
    std::vector<float> x(n);
    for (long i = 0; i < n; i++)
        x[i] = (i * 37 + seed * 101) % 200 / 8.0f - seed % 2 * 30;
    must(cudaMemcpy(gpu_x, x.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    roots<<<(n + threads - 1) / threads, threads>>>(gpu_y, gpu_x, n);
    must(cudaGetLastError());
    must(cudaMemcpy(x.data(), gpu_y, n * sizeof(float), cudaMemcpyDeviceToHost));
    for (float value : x)
        printf("%.9g\n", value);
    must(cudaFree(gpu_x));
    must(cudaFree(gpu_y));
}
