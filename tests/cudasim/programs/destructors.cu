/* A kernel is given an object by value whose destructor no thread may call, and each thread has its own. */
#include <cstdio>
#include <cstdlib>

struct Owner {
    int *memory;
    int own;
    Owner() : memory((int *)malloc(64)), own(7) {}
    Owner(const Owner &of) : memory(of.memory), own(of.own) {}
    __host__ __device__ ~Owner() {
        destroyed++;
        memory = nullptr;
    }
    static int destroyed;
};
int Owner::destroyed = 0;
__global__ void fill(Owner of, int *y, int n) {
    of.own += threadIdx.x;
    __syncthreads();
    y[threadIdx.x] = of.own + n;
}
template <class T, class O> __global__ void fill_any(O of, T *y, T n) {
    of.own += threadIdx.x;
    __syncthreads();
    y[threadIdx.x] = of.own + n;
}
int main() {
    int *y, host[64];
    cudaMalloc(&y, sizeof host);
    Owner owner;
    fill<<<1, 64>>>(owner, y, 1);
    cudaMemcpy(host, y, sizeof host, cudaMemcpyDeviceToHost);
    int wrong = 0;
    for (int i = 0; i < 64; i++)
        wrong += host[i] != 8 + i;
    fill_any<<<1, 64>>>(owner, y, 2);
    fill_any<int><<<1, 64>>>(owner, y, 3);
    cudaMemcpy(host, y, sizeof host, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 64; i++)
        wrong += host[i] != 10 + i;
    printf("%s\n", wrong ? "a value is wrong" : Owner::destroyed < 64 ? "ok" : "destroyed by threads");
    cudaFree(y);
}
