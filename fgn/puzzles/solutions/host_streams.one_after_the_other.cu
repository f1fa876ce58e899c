#include <cstdio>
#include <cstdlib>

__global__ void squares(float *y, const float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = x[i] * x[i];
}

// Piece number `piece` of the numbers.
void fill(float *x, int n, int piece, int seed) {
    for (int i = 0; i < n; i++)
        x[i] = ((piece * n + i) * 37 + seed * 101) % 200 / 8.0f;
}

int main(int count, char **arguments) {
    int n = count > 1 ? atoi(arguments[1]) : 4;
    int pieces = count > 2 ? atoi(arguments[2]) : 2;
    int seed = count > 3 ? atoi(arguments[3]) : 1;
    size_t bytes = n * sizeof(float);
    float *x, *y, *gpu_x, *gpu_y;
    cudaMallocHost(&x, bytes);
    cudaMallocHost(&y, bytes);
    cudaMalloc(&gpu_x, bytes);
    cudaMalloc(&gpu_y, bytes);
    for (int p = 0; p < pieces; p++) {
        fill(x, n, p, seed);
        cudaMemcpy(gpu_x, x, bytes, cudaMemcpyHostToDevice);
        squares<<<(n + 127) / 128, 128>>>(gpu_y, gpu_x, n);
        cudaMemcpy(y, gpu_y, bytes, cudaMemcpyDeviceToHost);
        for (int i = 0; i < n; i++)
            printf("%.9g\n", y[i]);
    }
    cudaFreeHost(x);
    cudaFreeHost(y);
    cudaFree(gpu_x);
    cudaFree(gpu_y);
}
