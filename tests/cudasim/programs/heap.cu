// Memory from malloc() of kernels, what their printf() returns, and a kernel's __shared__ arrays in bytes.
#include "check.h"
__global__ void reverses(int *x) {
    __shared__ int *own;
    for (int round = 0; round < 3; round++) {
        if (threadIdx.x == 0)
            own = (int *)malloc((64 + round) * sizeof(int));
        __syncthreads();
        own[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
        __syncthreads();
        x[blockIdx.x * 64 + threadIdx.x] = own[63 - threadIdx.x];
        __syncthreads();
        if (threadIdx.x == 0)
            free(own); // and another block gets it next, which is no race
    }
}
__global__ void prints(int *x) {
    x[0] = printf("");
    x[1] = printf("ok\n");
    x[2] = printf("%s%*s%.*s", "", 0, "", 0, ""); // five arguments
}
template <int n> __global__ void arrays(int *x) {
    __shared__ int s[n];
    __shared__ double d[2];
    extern __shared__ int dynamic[];
    s[threadIdx.x] = d[0] = dynamic[threadIdx.x] = 1;
    x[threadIdx.x] = s[threadIdx.x] + dynamic[threadIdx.x];
}
extern "C" __global__ void with_c_name(int *x) {
    __shared__ int s[5];
    s[threadIdx.x] = *x;
    __syncthreads();
    *x = s[4 - threadIdx.x];
}
int main() {
    int *x, host[256];
    CHECK(cudaMalloc(&x, sizeof host));
    for (int i = 0; i < 256; i++)
        host[i] = i;
    CHECK(cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice));
    reverses<<<4, 64>>>(x);
    CHECK(cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 256; i++)
        if (host[i] != i / 64 * 64 + 63 - i % 64)
            return 1;
    cudaFuncAttributes of;
    CHECK(cudaFuncGetAttributes(&of, arrays<1000>));
    if (of.sharedSizeBytes != 4016 || of.maxDynamicSharedSizeBytes != 49152 - 4016)
        return 2;
    CHECK(cudaFuncGetAttributes(&of, with_c_name));
    if (of.sharedSizeBytes != 20)
        return 3;
    int blocks;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, arrays<11000>, 32, 0));
    if (blocks != 5)
        return 4;
    arrays<1000><<<1, 1, 49152 - 4016>>>(x);
    CHECK(cudaGetLastError());
    if (cudaFuncSetAttribute(arrays<1000>, cudaFuncAttributeMaxDynamicSharedMemorySize, 227 << 10) !=
        cudaErrorInvalidValue)
        return 5;
    cudaGetLastError();
    prints<<<1, 1>>>(x);
    CHECK(cudaMemcpy(host, x, 12, cudaMemcpyDeviceToHost));
    if (host[0] || host[1] || host[2] != 5)
        return 6;
    return cudaFree(x);
}
