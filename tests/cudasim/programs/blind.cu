// Kernels that may run in a loop that keeps no account of their threads (cudasim/live/blind_loops.py).
#include <cassert>
#include <cmath>
#include <cstdio>

__global__ void everywhere(int *y) {
    int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    if (thread == 3)
        return;
    y[block * 24 + thread] = thread + 100 * block;
}
__global__ void neighbours(float *y, const float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = 2 * x[i] + sqrtf(x[i]);
}
// Each thread reads what the one before it has written, as in any order of one after another.
__global__ void follows(int *y) {
    int i = threadIdx.x;
    y[i + 1] = y[i] + 1;
}
__global__ void crashes(int *y, int bad) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i == bad ? 1 << 30 : i] = i;
}
__global__ void divides(int *y, int by) {
    int i = threadIdx.x;
    y[i] = 100 / (i - by);
}
__global__ void asserts(int *y) {
    assert(threadIdx.x != 9);
    y[threadIdx.x] = 1;
}
__global__ void __launch_bounds__(64) bounded(int *y) {
    y[threadIdx.x] = 1;
}
__global__ void traps(int *y) {
    if (threadIdx.x == 5)
        __trap();
    y[threadIdx.x] = 1;
}
__global__ void forgets(int *y) {
    int at = y[threadIdx.x];
    y[threadIdx.x] = 0;
    y[at] = 1;
}
__global__ void endless(int *y) {
    while (y[threadIdx.x] != 7)
        y[threadIdx.x] *= 3;
}

int main(int count, char **names) {
    static int h[4096];
    static float f[2000], g[2000];
    char which = count > 1 ? names[1][0] : ' ';
    int *y;
    float *a, *b, wrong = 0;
    cudaMalloc(&y, sizeof h);
    h[5] = 1 << 30;
    cudaMemcpy(y, h, sizeof h, cudaMemcpyHostToDevice);
    if (which == 'c')
        crashes<<<2, 64>>>(y, 101);
    else if (which == 'd')
        divides<<<1, 64>>>(y, 7);
    else if (which == 'a')
        asserts<<<1, 64>>>(y);
    else if (which == 'b')
        bounded<<<1, 128>>>(y);
    else if (which == 't')
        traps<<<1, 64>>>(y);
    else if (which == 'f')
        forgets<<<1, 64>>>(y);
    else if (which == 'e')
        endless<<<1, 64>>>(y);
    if (which != ' ')
        return cudaDeviceSynchronize() != cudaSuccess;
    everywhere<<<dim3(2, 2, 2), dim3(4, 3, 2)>>>(y);
    cudaMemcpy(h, y, sizeof h, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 8 * 24; i++)
        wrong += h[i] != (i % 24 == 3 ? 0 : i % 24 + 100 * (i / 24));
    cudaMemset(y, 0, sizeof h);
    follows<<<1, 1000>>>(y);
    cudaMemcpy(h, y, sizeof h, cudaMemcpyDeviceToHost);
    wrong += h[1000] != 1000;
    for (int i = 0; i < 2000; i++)
        f[i] = i;
    cudaMalloc(&a, sizeof f);
    cudaMalloc(&b, sizeof f);
    cudaMemcpy(a, f, sizeof f, cudaMemcpyHostToDevice);
    cudaMemset(b, 0, sizeof f);
    neighbours<<<20, 100>>>(b, a, 1900);
    cudaMemcpy(g, b, sizeof f, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 2000; i++)
        wrong += g[i] != (i < 1900 ? fmaf(2, f[i], sqrtf(f[i])) : 0) && g[i] != 2 * f[i] + sqrtf(f[i]);
    printf("%g wrong\n", wrong);
    cudaFree(a);
    cudaFree(b);
    cudaFree(y);
}
