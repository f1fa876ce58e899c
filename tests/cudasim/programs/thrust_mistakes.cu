// Thrust's vectors in memory of the GPU; the argument names a mistake.
#include <thrust/device_vector.h>
#include <thrust/reduce.h>
#include <thrust/sort.h>
#include <cstdio>
#include <cstring>

static thrust::device_vector<int> kept(3, 1); // which is freed after main(), and is no leak

__global__ void read(const int *x, int *y) {
    y[0] = x[1];
}
__global__ void sort_too_many(int *x, int n) {
    thrust::sort(thrust::seq, x, x + n);
}

int main(int argc, char **argv) {
    const char *which = argc > 1 ? argv[1] : "";
    int *x, *y;
    cudaMalloc(&x, 64 * sizeof(int));
    cudaMalloc(&y, sizeof(int));
    if (!strcmp(which, "unwritten"))
        read<<<1, 1>>>(x, y);
    if (!strcmp(which, "library")) // told once
        printf("%d\n", thrust::reduce(thrust::device, x, x + 64) + thrust::reduce(thrust::device, x, x + 9));
    thrust::fill(thrust::device, x, x + 64, 7);
    read<<<1, 1>>>(x, y);
    read<<<1, 1>>>(kept.data().get(), y);
    if (!strcmp(which, "overrun"))
        sort_too_many<<<1, 1>>>(x, 65);
    printf("%d\n", (int)thrust::device_pointer_cast(y)[0]);
    if (!strcmp(which, "host"))
        printf("%d\n", kept.data().get()[2]);
    if (!strcmp(which, "after"))
        printf("%d\n", x[3]); // Thrust has touched it, and host code may not for all that
    cudaFree(x);
    cudaFree(y);
}
