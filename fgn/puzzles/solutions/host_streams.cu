#include <algorithm>
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

void print_piece(cudaStream_t stream, const float *y, int n) {
    cudaStreamSynchronize(stream);
    for (int i = 0; i < n; i++)
        printf("%.9g\n", y[i]);
}

int main(int count, char **arguments) {
    int n = count > 1 ? atoi(arguments[1]) : 4;
    int pieces = count > 2 ? atoi(arguments[2]) : 2;
    int seed = count > 3 ? atoi(arguments[3]) : 1;
    size_t bytes = n * sizeof(float);
    float *x[2], *y[2], *gpu_x[2], *gpu_y[2];
    cudaStream_t stream[2];
    for (int s = 0; s < 2; s++) {
        cudaStreamCreate(&stream[s]);
        cudaMallocHost(&x[s], bytes);
        cudaMallocHost(&y[s], bytes);
        cudaMalloc(&gpu_x[s], bytes);
        cudaMalloc(&gpu_y[s], bytes);
    }
    for (int p = 0; p < pieces; p++) {
        int s = p % 2;
        if (p >= 2)
            print_piece(stream[s], y[s], n);
        fill(x[s], n, p, seed);
        cudaMemcpyAsync(gpu_x[s], x[s], bytes, cudaMemcpyHostToDevice, stream[s]);
        squares<<<(n + 127) / 128, 128, 0, stream[s]>>>(gpu_y[s], gpu_x[s], n);
        cudaMemcpyAsync(y[s], gpu_y[s], bytes, cudaMemcpyDeviceToHost, stream[s]);
    }
    for (int p = std::max(0, pieces - 2); p < pieces; p++)
        print_piece(stream[p % 2], y[p % 2], n);
    for (int s = 0; s < 2; s++) {
        cudaStreamDestroy(stream[s]);
        cudaFreeHost(x[s]);
        cudaFreeHost(y[s]);
        cudaFree(gpu_x[s]);
        cudaFree(gpu_y[s]);
    }
}
