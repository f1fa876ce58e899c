// Programs with one mistake each, and right ones beside them: the first argument says which.
#include "check.h"
#include <assert.h>
#include <string>
#include <stdexcept>
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void overrun(int *x, int n) {
    x[threadIdx.x + 1] = n;
}
__global__ void race(int *x) {
    __shared__ int s[64];
    s[threadIdx.x] = threadIdx.x;
    x[threadIdx.x] = s[63 - threadIdx.x];
}
__global__ void same(int *x) {
    x[0] = 3;
}
__global__ void fill(int *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] = i;
}
__global__ void sum(const int *x, int *y, int n) {
    int s = 0;
    for (int i = 0; i < n; i++)
        s += x[i];
    *y = s;
}
__global__ void __launch_bounds__(32, 2) narrow(int *x) {
    x[threadIdx.x] = 1;
}
__global__ void turned(int *x, int n) {
    __shared__ int s[64];
    if (threadIdx.x >= n)
        return;
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = s[63 - threadIdx.x];
}
__global__ void asserts(int *x) {
    assert(threadIdx.x < 3);
}
__global__ void dynamic(int *x) {
    extern __shared__ int s[];
    s[threadIdx.x] = 2;
    __syncthreads();
    x[threadIdx.x] = s[(threadIdx.x + 1) % blockDim.x];
}
__global__ void with_static(int *x) {
    __shared__ int s[1024];
    extern __shared__ int dynamic[];
    s[threadIdx.x] = dynamic[threadIdx.x] = 1;
    x[threadIdx.x] = s[threadIdx.x] + dynamic[threadIdx.x];
}
__global__ void heap_race(int *x) {
    __shared__ int *own;
    if (threadIdx.x == 0)
        own = new int[64];
    __syncthreads();
    own[threadIdx.x] = threadIdx.x;
    x[threadIdx.x] = own[63 - threadIdx.x];
}
__constant__ int table[8];
__global__ void reads_table(int *x) {
    x[threadIdx.x] = table[threadIdx.x % 8];
}
__global__ void child(int *x, int at) {
    x[at] = 1;
}
__global__ void parent(int *x) {
    child<<<1, 1>>>(x, 64 + threadIdx.x);
}
__global__ void grid_sum(int *x, int *y) {
    cg::grid_group g = cg::this_grid();
    if (threadIdx.x == 0)
        x[blockIdx.x] = blockIdx.x;
    g.sync();
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        int s = 0;
        for (int b = 0; b < gridDim.x; b++)
            s += x[b];
        *y = s;
    }
}
__global__ void heap(int *x) {
    int *p = (int *)malloc(16);
    p[0] = 5;
    x[threadIdx.x] = p[0];
    free(p);
    int *q = new int[3];
    q[2] = 1;
    x[threadIdx.x] += q[2];
    delete[] q;
    printf("t%d ", threadIdx.x);
}
__global__ void synchronizes(int *x) {
    x[0] = cudaDeviceSynchronize();
}
int main(int argc, char **argv) {
    std::string which = argv[1];
    int *d, *h = (int *)malloc(256), *m, *y;
    CHECK(cudaMalloc(&d, 256));
    CHECK(cudaMalloc(&y, 4));
    if (which == "overrun") {
        overrun<<<1, 64>>>(d, 3);
        CHECK(cudaGetLastError());
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaMemcpy(h, d, 256, cudaMemcpyDeviceToHost));
    }
    if (which == "race") {
        race<<<1, 64>>>(d);
        CHECK(cudaDeviceSynchronize());
    }
    if (which == "host_reads_device") {
        printf("%d\n", d[3]);
    }
    if (which == "host_reads_managed") {
        CHECK(cudaMallocManaged(&m, 256));
        fill<<<1, 64>>>(m, 64);
        printf("%d\n", m[3]);
    }
    if (which == "memset_goes_on") {
        CHECK(cudaMallocManaged(&m, 256, cudaMemAttachGlobal));
        CHECK(cudaMemset(m, 1, 256));
        m[2]++; // nothing has waited
    }
    if (which == "managed_is_right") {
        CHECK(cudaMallocManaged(&m, 256));
        fill<<<1, 64>>>(m, 64);
        CHECK(cudaDeviceSynchronize());
        sum<<<1, 1>>>(m, y, 64);
        printf("%d\n", m[3]);
        CHECK(cudaMemcpy(h, y, 4, cudaMemcpyDeviceToHost));
        printf("%d\n", h[0]);
        CHECK(cudaFree(m));
    }
    if (which == "direction")
        CHECK(cudaMemcpy(d, h, 256, cudaMemcpyDeviceToHost));
    if (which == "too_long")
        CHECK(cudaMemcpy(d, h, 300, cudaMemcpyHostToDevice));
    if (which == "frees_host")
        CHECK(cudaFree(h));
    if (which == "frees_inside")
        CHECK(cudaFree(d + 1));
    if (which == "copies_freed" || which == "fills_freed") {
        int *gone;
        CHECK(cudaMalloc(&gone, 256));
        CHECK(cudaFree(gone));
        if (which == "copies_freed")
            CHECK(cudaMemcpy(h, gone, 256, cudaMemcpyDeviceToHost));
        else
            CHECK(cudaMemset(gone, 0, 256));
    }
    if (which == "beyond_table") {
        CHECK(cudaMemcpyToSymbol(table, h, 256));
        reads_table<<<1, 64>>>(d);
    }
    if (which == "children") {
        parent<<<1, 10>>>(d);
        CHECK(cudaDeviceSynchronize());
    }
    if (which == "frees_twice")
        CHECK(cudaFree(d));
    if (which == "same_value") {
        same<<<1, 64>>>(d);
        CHECK(cudaDeviceSynchronize());
    }
    if (which == "synchronizes") {
        synchronizes<<<1, 1>>>(d);
        CHECK(cudaDeviceSynchronize());
    }
    if (which == "unwritten") {
        sum<<<1, 1>>>(d, y, 64);
        CHECK(cudaDeviceSynchronize());
    }
    if (which == "assertion") {
        asserts<<<1, 32>>>(d);
        CHECK(cudaDeviceSynchronize());
    }
    if (which == "configuration") {
        fill<<<1, 2000>>>(d, 3);
        CHECK(cudaGetLastError());
        CHECK(cudaGetLastError());
        fill<<<1, 64>>>(d, 64);
        CHECK(cudaDeviceSynchronize());
    }
    if (which == "too_large") {
        int *big;
        CHECK(cudaMalloc(&big, 1ull << 40));
        size_t f, t;
        cudaMemGetInfo(&f, &t);
        printf("%zu %zu\n", f, t);
    }
    if (which == "dynamic_shared") {
        dynamic<<<1, 64, 64 * sizeof(int)>>>(d);
        CHECK(cudaMemcpy(h, d, 256, cudaMemcpyDeviceToHost));
        printf("%d\n", h[5]);
    }
    if (which == "dynamic_limit")
        dynamic<<<1, 64, 50000>>>(d);
    if (which == "static_limit")
        with_static<<<1, 64, 48000>>>(d);
    if (which == "heap_race")
        heap_race<<<1, 64>>>(d);
    if (which == "dynamic_asked") {
        CHECK(cudaFuncSetAttribute(dynamic, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 20));
        CHECK(cudaFuncSetAttribute(dynamic, cudaFuncAttributeMaxDynamicSharedMemorySize, 50000));
        dynamic<<<1, 64, 50000>>>(d);
        CHECK(cudaGetLastError());
    }
    if (which == "not_cooperative") {
        grid_sum<<<8, 32>>>(d, y);
        CHECK(cudaDeviceSynchronize());
    }
    if (which == "cooperative") {
        void *a[] = {&d, &y};
        CHECK(cudaLaunchCooperativeKernel((void *)grid_sum, dim3(8), dim3(32), a));
        CHECK(cudaMemcpy(h, y, 4, cudaMemcpyDeviceToHost));
        printf("%d\n", h[0]);
    }
    if (which == "heap") {
        heap<<<1, 4>>>(d);
        CHECK(cudaMemcpy(h, d, 16, cudaMemcpyDeviceToHost));
        printf("%d\n", h[2]);
    }
    if (which == "exception") {
        try {
            throw std::runtime_error("host");
        } catch (std::exception &e) {
            printf("caught %s\n", e.what());
        }
        exit(5);
    }
    if (which == "abort") {
        abort();
    }
    if (which == "pinned" || which == "other_stream" || which == "waits_for_stream" ||
        which == "waits_for_event") {
        cudaStream_t stream, other;
        cudaEvent_t event;
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
        CHECK(cudaEventCreate(&event));
        int *p;
        CHECK(cudaMallocHost(&p, 256));
        fill<<<1, 64, 0, stream>>>(d, 64);
        CHECK(cudaMemcpyAsync(p, d + 7, 4, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaEventRecord(event, stream));
        if (which == "other_stream")
            CHECK(cudaStreamSynchronize(other));
        if (which == "waits_for_stream")
            CHECK(cudaStreamSynchronize(stream));
        if (which == "waits_for_event") {
            CHECK(cudaStreamWaitEvent(other, event));
            CHECK(cudaStreamSynchronize(other));
        }
        printf("%d\n", p[0]);
        CHECK(cudaFreeHost(p));
        CHECK(cudaEventDestroy(event));
        CHECK(cudaStreamDestroy(stream));
        CHECK(cudaStreamDestroy(other));
    }
    if (which == "rows") {
        size_t pitch;
        int *rows, from[2][5] = {{0, 1, 2, 3, 4}, {10, 11, 12, 13, 14}}, to[2][2];
        CHECK(cudaMallocPitch(&rows, &pitch, sizeof from[0], 2));
        CHECK(cudaMemcpy2D(rows, pitch, from, sizeof from[0], sizeof from[0], 2, cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy2D(to, sizeof to[0], rows + 3, pitch, sizeof to[0], 2, cudaMemcpyDeviceToHost));
        CHECK(cudaFree(rows));
        printf("%d %d ", to[0][0], to[1][0]);
    }
    if (which == "null") {
        *(volatile int *)0 = 1;
    }
    if (which == "many") {
        for (int i = 0; i < 300; i++) {
            int *t;
            CHECK(cudaMalloc(&t, 64));
            fill<<<1, 16>>>(t, 16);
            CHECK(cudaGetLastError());
        }
    }
    if (which == "freed") {
        int *gone;
        CHECK(cudaMalloc(&gone, 256));
        CHECK(cudaFree(gone));
        fill<<<1, 64>>>(gone, 64);
        CHECK(cudaDeviceSynchronize());
    }
    if (which == "bounds") {
        narrow<<<1, 64>>>(d);
        CHECK(cudaGetLastError());
    }
    if (which == "left") {
        CHECK(cudaMemset(d, 0, 256));
        turned<<<1, 64>>>(d, 48);
        CHECK(cudaDeviceSynchronize());
    }
    if (which == "host_pointer") {
        fill<<<1, 64>>>(h, 64);
        CHECK(cudaDeviceSynchronize());
    }
    cudaFree(d);
    cudaFree(y);
    free(h);
    printf("done\n");
    return 0;
}
