/* Kernels whose threads run in a loop, until one of them waits: each is compared with what it has to be. */
#include <cstdio>
#include <cstring>
#include "check.h"

__device__ int place() {
    int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    int size = blockDim.x * blockDim.y * blockDim.z;
    return block * size + (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}
__global__ void index(int *y) {
    y[place()] = (threadIdx.z * 100 + threadIdx.y) * 100 + threadIdx.x;
}
__global__ void early(int *y, int n) {
    int i = place();
    if (i % 3 == 0 || i >= n)
        return;
    if (i % 5 == 0) {
        y[i] = 5;
        return;
    }
    y[i] = 1;
}
__global__ void of_shared(int *y) {
    __shared__ int mine[64];
    extern __shared__ int sums[];
    int t = threadIdx.x;
    mine[t] = t;
    sums[t] = mine[t] + blockIdx.x;
    y[place()] = mine[t] + sums[t];
}
__device__ int fibonacci(int n) {
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}
__global__ void recursive(int *y) {
    int local[16];
    for (int i = 0; i < 16; i++)
        local[i] = fibonacci(i % 8);
    y[place()] = local[threadIdx.x % 16];
}
template <class T, int FACTOR> __global__ void of_template(T *y, T value) {
    auto times = [=](T v) { return v * FACTOR + value; };
    y[place()] = times(threadIdx.x);
}
template <class Function> __global__ void of_function(int *y, Function function) {
    y[place()] = function(threadIdx.x);
}
struct Pair {
    int a, b[40];
};
__global__ void by_value(int *y, Pair pair, int n) {
    pair.a += threadIdx.x; /* of this thread alone */
    pair.b[3] -= 1;
    n++;
    y[place()] = pair.a + pair.b[3] + n;
}
/* The first threads wait in loops of their own for the last ones. */
__global__ void spinning(volatile int *flags, int *y) {
    int t = threadIdx.x;
    if (t < 3)
        while (flags[t] == 0)
            ;
    if (t >= (int)blockDim.x - 3)
        flags[blockDim.x - 1 - t] = 1;
    y[t]++;
}
__global__ void locked(int *lock, int *y) {
    for (bool done = false; !done;)
        if (atomicCAS(lock, 0, 1) == 0) {
            __threadfence();
            y[0] += threadIdx.x;
            __threadfence();
            atomicExch(lock, 0);
            done = true;
        }
}
/* The threads that have not returned wait, and those after them begin one by one. */
__global__ void later(int *y, int from) {
    __shared__ int values[100];
    int t = threadIdx.x;
    values[t] = t;
    if (t < from) {
        y[t] = -1;
        return;
    }
    __syncthreads();
    y[t] = values[99 - t];
}
__global__ void votes(int *y) {
    int t = threadIdx.x;
    y[t] = t < 32 ? t : __shfl_sync(~0u, t, 31 - t % 32);
}
__global__ void twice(int *y) {
    y[place()] *= 2;
}
__global__ void says(int n) {
    if ((int)threadIdx.x < n)
        printf("%u %u\n", blockIdx.x, threadIdx.x);
}
__global__ void crashes(int *p, int bad) {
    int i = place();
    if (i == bad)
        p = (int *)8;
    p[i] = i;
}

static int h[4096], wrong;
template <class Wanted> void expect(const char *name, int *y, int n, Wanted wanted) {
    CHECK(cudaMemcpy(h, y, n * sizeof(int), cudaMemcpyDeviceToHost));
    CHECK(cudaMemset(y, 0, sizeof h));
    int bad = 0;
    for (int i = 0; i < n; i++)
        bad += h[i] != wanted(i);
    if (bad)
        printf("%s: %d wrong\n", name, bad);
    wrong += bad;
}
static void (*chosen)(int *) = index;

int main(int count, char **arguments) {
    int *y, *flags;
    CHECK(cudaMalloc(&y, sizeof h));
    CHECK(cudaMalloc(&flags, 64));
    CHECK(cudaMemset(y, 0, sizeof h));
    CHECK(cudaMemset(flags, 0, 64));
    if (count > 1 && strcmp(arguments[1], "crash") == 0) {
        crashes<<<2, dim3(4, 3, 2)>>>(y, 17);
        return cudaDeviceSynchronize() != cudaSuccess;
    }
    if (count > 1) {
        void (*kernel)(int *, int) = crashes;
        kernel<<<dim3(1, 2), dim3(4, 3, 2)>>>(y, 24 + 23);
        return cudaDeviceSynchronize() != cudaSuccess;
    }
    auto index_of = [](int i) { return (i % 60 / 12 * 100 + i % 12 / 3) * 100 + i % 3; };
    index<<<dim3(2, 3, 4), dim3(3, 4, 5)>>>(y);
    expect("index", y, 24 * 60, index_of);
    void (*local)(int *) = index;
    local<<<dim3(2, 3, 4), dim3(3, 4, 5)>>>(y);
    expect("index by a pointer", y, 24 * 60, index_of);
    index<<<3, 1>>>(y);
    expect("blocks of one thread", y, 3, [](int) { return 0; });
    early<<<5, 50>>>(y, 240);
    expect("early", y, 250, [](int i) { return i % 3 == 0 || i >= 240 ? 0 : i % 5 == 0 ? 5 : 1; });
    of_shared<<<4, 64, 64 * sizeof(int)>>>(y);
    expect("of_shared", y, 256, [](int i) { return i % 64 * 2 + i / 64; });
    recursive<<<2, 32>>>(y);
    expect("recursive", y, 64, [](int i) { return (const int[]){0, 1, 1, 2, 3, 5, 8, 13}[i % 8]; });
    of_template<int, 7><<<2, 64>>>(y, 3);
    expect("of_template", y, 128, [](int i) { return i % 64 * 7 + 3; });
    int base = 11;
    of_function<<<2, 64>>>(y, [=] __device__(int t) { return t + base; });
    expect("of_function", y, 128, [](int i) { return i % 64 + 11; });
    Pair pair = {100};
    pair.b[3] = 50;
    by_value<<<2, 64>>>(y, pair, 5);
    expect("by_value", y, 128, [](int i) { return 100 + i % 64 + 49 + 6; });
    spinning<<<1, 256>>>(flags, y);
    expect("spinning", y, 256, [](int) { return 1; });
    locked<<<4, 64>>>(flags + 8, y);
    expect("locked", y, 1, [](int) { return 4 * 64 * 63 / 2; });
    later<<<1, 100>>>(y, 40);
    expect("later", y, 100, [](int i) { return i < 40 ? -1 : 99 - i; });
    votes<<<1, 96>>>(y);
    expect("votes", y, 96, [](int i) { return i < 32 ? i : i / 32 * 32 + 31 - i % 32; });
    chosen<<<1, 32>>>(y);
    chosen = twice;
    chosen<<<1, 32>>>(y);
    expect("chosen", y, 32, [](int i) { return 2 * i; });
    says<<<2, 64>>>(2);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(y));
    CHECK(cudaFree(flags));
    printf("%d wrong\n", wrong);
    return wrong != 0;
}
