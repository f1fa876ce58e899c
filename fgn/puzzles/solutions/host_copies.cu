#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void twice_plus_one(float *y, const float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = 2.0f * x[i] + 1.0f;
}

// x and y are memory of the host.
void compute(float *y, const float *x, int n) {
    // BEGIN SOLUTION: memory of the GPU, x to it, the kernel in blocks of 256, y back from it.
    size_t bytes = n * sizeof(float);
    float *gpu_x, *gpu_y;
    cudaMalloc(&gpu_x, bytes);
    cudaMalloc(&gpu_y, bytes);
    cudaMemcpy(gpu_x, x, bytes, cudaMemcpyHostToDevice);
    twice_plus_one<<<(n + 255) / 256, 256>>>(gpu_y, gpu_x, n);
    cudaMemcpy(y, gpu_y, bytes, cudaMemcpyDeviceToHost);
    cudaFree(gpu_x);
    cudaFree(gpu_y);
    // END SOLUTION
}

int main(int count, char **arguments) {
    int n = count > 1 ? atoi(arguments[1]) : 4;
    int seed = count > 2 ? atoi(arguments[2]) : 1;
    std::vector<float> x(n), y(n);
    for (int i = 0; i < n; i++)
        x[i] = (i * 37 + seed * 101) % 200 / 8.0f;
    compute(y.data(), x.data(), n);
    for (float value : y)
        printf("%.9g\n", value);
}
