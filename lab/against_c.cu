// Kernels whose time on the simulator lab/against_c.py compares with that of the same loops in C
// (against_c.c).
//     against_c NAME SIZE TIMES        prints the shortest time, in seconds of the processor
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <vector>

constexpr int THREADS = 256, TILE = 16, BARRIERS = 100;

__global__ void reduction(const float *x, float *y, int n) {
    __shared__ float sums[THREADS];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    sums[t] = i < n ? x[i] : 0;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (t < half)
            sums[t] += sums[t + half];
        __syncthreads();
    }
    if (t == 0)
        y[blockIdx.x] = sums[0];
}

__global__ void stencil(const float *x, float *y, int n) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (column > 0 && column < n - 1 && row > 0 && row < n - 1) {
        const float *at = &x[row * n + column];
        y[row * n + column] = 0.2f * (at[0] + at[-1] + at[1] + at[-n] + at[n]);
    }
}

__global__ void saxpy(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = 2 * x[i] + y[i];
}

__global__ void three(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > 0 && i < n - 1)
        y[i] = 0.25f * x[i - 1] + 0.5f * x[i] + 0.25f * x[i + 1];
}

__global__ void product(const float *a, const float *b, float *c, int n) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    float sum = 0;
    for (int k = 0; k < n; k++)
        sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum;
}

__global__ void barriers() {
    for (int i = 0; i < BARRIERS; i++)
        __syncthreads();
}

static double now() {
    timespec at;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
    return at.tv_sec + 1e-9 * at.tv_nsec;
}

static void launch(const char *name, float *x, float *y, int n) {
    dim3 tiles(n / TILE, n / TILE), tile(TILE, TILE), strips(n / 32, n / 8), strip(32, 8);
    if (strcmp(name, "reduction") == 0)
        for (int left = n * n; left > 1; left = (left + THREADS - 1) / THREADS)
            reduction<<<(left + THREADS - 1) / THREADS, THREADS>>>(left == n * n ? x : y, y, left);
    else if (strcmp(name, "stencil") == 0)
        stencil<<<strips, strip>>>(x, y, n);
    else if (strcmp(name, "saxpy") == 0)
        saxpy<<<n * n / THREADS, THREADS>>>(x, y, n * n);
    else if (strcmp(name, "three") == 0)
        three<<<n * n / THREADS, THREADS>>>(x, y, n * n);
    else if (strcmp(name, "product") == 0)
        product<<<tiles, tile>>>(x, x, y, n);
    else
        barriers<<<n / THREADS, THREADS>>>();
    cudaDeviceSynchronize();
}

int main(int count, char **arguments) {
    int n = atoi(arguments[2]), times = atoi(arguments[3]);
    bool is_line = strcmp(arguments[1], "barriers") == 0;
    size_t bytes = sizeof(float) * (is_line ? n : n * n);
    std::vector<float> ones(bytes / sizeof(float), 1.0f);
    float *x, *y;
    cudaMalloc(&x, bytes);
    cudaMalloc(&y, bytes);
    cudaMemcpy(x, ones.data(), bytes, cudaMemcpyHostToDevice);
    cudaMemcpy(y, ones.data(), bytes, cudaMemcpyHostToDevice);
    double best = 1e9;
    for (int i = 0; i < times; i++) {
        double begin = now();
        launch(arguments[1], x, y, n);
        double seconds = now() - begin;
        best = seconds < best ? seconds : best;
    }
    cudaFree(x);
    cudaFree(y);
    printf("%.9f\n", best);
}
