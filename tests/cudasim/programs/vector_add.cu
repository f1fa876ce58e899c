// A program as tutorials have them: host code of C++, a template kernel, constant memory, events.
#include "check.h"
#include <cuda_runtime.h>
#include <iostream>
#include <vector>

template <class T> __global__ void add(const T *a, const T *b, T *sum, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        sum[i] = a[i] + b[i];
}

__constant__ float factor[2];
__device__ int launches;

__global__ void scale(float *c, int n) {
    __shared__ float tile[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = i < n ? c[i] : 0;
    __syncthreads();
    if (i < n)
        c[i] = factor[1] * tile[threadIdx.x];
    if (i == 0)
        launches++;
}

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 1000;
    std::vector<float> a(n, 1.5f), b(n, 2.0f), c(n);
    float *d_a, *d_b, *d_c;
    size_t bytes = n * sizeof(float);
    CHECK(cudaMalloc(&d_a, bytes));
    CHECK(cudaMalloc((void **)&d_b, bytes));
    CHECK(cudaMalloc(&d_c, bytes));
    CHECK(cudaMemcpy(d_a, a.data(), bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_b, b.data(), bytes, cudaMemcpyHostToDevice));
    float factors[2] = {3, 2};
    CHECK(cudaMemcpyToSymbol(factor, factors, sizeof factors));
    dim3 blockDim(256), gridDim((n + blockDim.x - 1) / blockDim.x);
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    CHECK(cudaEventRecord(begin));
    add<<<gridDim, blockDim>>>(d_a, d_b, d_c, n);
    scale<<<gridDim, blockDim, 0, 0>>>(d_c, n);
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(end));
    CHECK(cudaEventSynchronize(end));
    float milliseconds = -1;
    CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
    CHECK(cudaMemcpy(c.data(), d_c, bytes, cudaMemcpyDeviceToHost));
    int wrong = milliseconds < 0, counted = 0;
    for (float v : c)
        wrong += v != 7.0f;
    CHECK(cudaMemcpyFromSymbol(&counted, launches, sizeof counted));
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    std::cout << n << " elements, " << wrong << " wrong, " << (counted << 1) << " on " << properties.name
              << " with warps of " << properties.warpSize << std::endl;
    CHECK(cudaFree(d_a));
    CHECK(cudaFree(d_b));
    if (argc < 3)
        CHECK(cudaFree(d_c));
    return wrong;
}
