/* Kernels that launch kernels, down to some depth: right if it says ok. */
#include <cstdio>
#include <cuda_runtime.h>

__global__ void leaf(int *y, int from, int n, int add) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[from + i] += add;
}
template <class T> __global__ void halves(T *y, int from, int n, int depth) {
    if (depth == 0 || n < 4) {
        leaf<<<(n + 31) / 32, 32>>>(y, from, n, depth + 1);
        return;
    }
    cudaStream_t stream;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    halves<T><<<1, 1, 0, stream>>>(y, from, n / 2, depth - 1);
    halves<T><<<1, 1, 0, stream>>>(y, from + n / 2, n - n / 2, depth - 1);
    cudaStreamDestroy(stream);
    if (cudaGetLastError() != cudaSuccess)
        y[from] = -1000;
}
__global__ void each(int *y, int n) {
    if (threadIdx.x < 4)
        leaf<<<1, 32>>>(y, threadIdx.x * 8, 8, 100);
}
/* The device's cudaMalloc() is its heap, where memory stays for the next kernel. */
__device__ int *kept;
__global__ void takes(int n) {
    if (cudaMalloc((void **)&kept, n * sizeof *kept) == cudaSuccess)
        leaf<<<1, n>>>(kept, 0, n, 7);
    for (int i = 0; i < n; i++)
        kept[i] = 0;
}
__global__ void gives_back(int *y) {
    *y += kept[5] - 7;
    cudaFree(kept);
}

int main() {
    const int n = 100;
    int host[n], wrong = 0, *y;
    cudaMalloc(&y, sizeof host);
    cudaMemset(y, 0, sizeof host);
    halves<int><<<1, 1>>>(y, 0, n, 3);
    each<<<1, 64>>>(y, n);
    takes<<<1, 1>>>(8);
    gives_back<<<1, 1>>>(y);
    cudaMemcpy(host, y, sizeof host, cudaMemcpyDeviceToHost);
    for (int i = 0; i < n; i++)
        wrong += host[i] != (i < 32 ? 101 : 1);
    cudaFree(y);
    if (wrong == 0 && cudaDeviceSynchronize() == cudaSuccess)
        printf("ok\n");
}
