/* Threads leave a loop with barriers at different times: undefined, and right on GPUs since compute
 * capability 7.0. */
#include <cstdio>
__global__ void k(int *y, int n) {
    __shared__ int s[64];
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        s[threadIdx.x] = i;
        __syncthreads();
        y[i] = s[threadIdx.x];
        __syncthreads();
    }
}
int main() {
    int *y;
    cudaMalloc(&y, 400);
    k<<<1, 64>>>(y, 100);
    int h[100];
    cudaMemcpy(h, y, 400, cudaMemcpyDeviceToHost);
    int bad = 0;
    for (int i = 0; i < 100; i++)
        bad += h[i] != i;
    printf("%d wrong\n", bad);
    cudaFree(y);
    return bad;
}
