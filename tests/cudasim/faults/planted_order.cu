/* Right kernels of warps, of copies on their way and of blocks that know of each other.
 * tests/cudasim/test_planted.py plants mistakes in them, one at a time. */
#include "sim/ptx/mbarrier.h"
#include <cooperative_groups.h>
#include <cuda/barrier>
#include <cuda_pipeline.h>
#include <mma.h>
namespace cg = cooperative_groups;
using namespace nvcuda;

__global__ void warp_shuffle_sum(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    float v = i < n ? x[i] : 0;
    for (int o = 16; o > 0; o /= 2)
        v += __shfl_down_sync(0xffffffff, v, o);
    if (lane == 0)
        y[i / 32] = v;
}

__global__ void block_reduce_warps(const float *x, float *y, int n) {
    __shared__ float part[32];
    int t = threadIdx.x, w = t / 32, l = t % 32;
    float v = 0;
    for (int i = t; i < n; i += blockDim.x)
        v += x[i];
    for (int o = 16; o; o >>= 1)
        v += __shfl_xor_sync(-1, v, o);
    if (l == 0)
        part[w] = v;
    __syncthreads();
    if (w == 0) {
        v = l < blockDim.x / 32 ? part[l] : 0;
        for (int o = 16; o; o >>= 1)
            v += __shfl_xor_sync(-1, v, o);
        if (l == 0)
            *y = v;
    }
}

__device__ int counter;
__global__ void last_block_sum(const float *x, float *part, float *y, int n) {
    __shared__ bool last;
    int t = threadIdx.x;
    if (t == 0) {
        float s = 0;
        for (int i = blockIdx.x; i < n; i += gridDim.x)
            s += x[i];
        part[blockIdx.x] = s;
        __threadfence();
        last = atomicAdd(&counter, 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && t == 0) {
        __threadfence();
        float s = 0;
        for (int b = 0; b < gridDim.x; b++)
            s += part[b];
        *y = s;
        counter = 0;
    }
}

__global__ void cp_async(const float *x, float *y, int tiles) {
    __shared__ float s[2][128];
    int t = threadIdx.x;
    float sum = 0;
    __pipeline_memcpy_async(&s[0][t], &x[t], 4);
    __pipeline_commit();
    for (int i = 0; i < tiles; i++) {
        if (i + 1 < tiles) {
            __pipeline_memcpy_async(&s[(i + 1) & 1][t], &x[(i + 1) * 128 + t], 4);
        }
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        sum += s[i & 1][127 - t];
        __syncthreads();
    }
    y[t] = sum;
}

__global__ void cp_async_depth(const float *x, float *y, int tiles) {
    __shared__ float s[3][128];
    int t = threadIdx.x;
    float sum = 0;
    for (int i = 0; i < 2; i++) {
        __pipeline_memcpy_async(&s[i][t], &x[i * 128 + t], 4);
        __pipeline_commit();
    }
    for (int i = 0; i < tiles; i++) {
        __pipeline_wait_prior(1);
        __syncthreads();
        if (i + 2 < tiles)
            __pipeline_memcpy_async(&s[(i + 2) % 3][t], &x[(i + 2) * 128 + t], 4);
        __pipeline_commit();
        sum += s[i % 3][127 - t];
    }
    y[t] = sum;
}

__global__ void mbarrier_ring(const int *x, int *y) {
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    __shared__ int s[64];
    int t = threadIdx.x;
    if (t == 0)
        init(&bar, 64);
    __syncthreads();
    s[t] = x[t];
    auto token = bar.arrive();
    bar.wait(std::move(token));
    y[t] = s[63 - t];
}

__global__ void mbarrier_parity(const int *x, int *y) {
    __shared__ uint64_t word;
    __shared__ int s[64];
    int t = threadIdx.x;
    uint32_t bar = shared_address(&word);
    if (t == 0)
        mbarrier_init(bar, 64);
    __syncthreads();
    for (int i = 0; i < 3; i++) {
        s[t] = x[i * 64 + t];
        mbarrier_arrive(bar);
        mbarrier_wait(bar, i & 1);
        y[i * 64 + t] = s[63 - t];
        __syncthreads();
    }
}

__global__ void spmv_warp(const int *ptr, const int *col, const float *val, const float *x, float *y,
                          int rows) {
    int w = (blockIdx.x * blockDim.x + threadIdx.x) / 32, l = threadIdx.x % 32;
    if (w < rows) {
        float s = 0;
        for (int i = ptr[w] + l; i < ptr[w + 1]; i += 32)
            s += val[i] * x[col[i]];
        for (int o = 16; o; o /= 2)
            s += __shfl_down_sync(0xffffffff, s, o);
        if (l == 0)
            y[w] = s;
    }
}

__global__ void cooperative_tiles(const int *x, int *y) {
    __shared__ int s[64];
    auto b = cg::this_thread_block();
    auto t = cg::tiled_partition<16>(b);
    s[b.thread_rank()] = x[b.thread_rank()];
    t.sync();
    int v = s[b.thread_rank() ^ 15];
    for (int o = 8; o; o /= 2)
        v += t.shfl_down(v, o);
    if (t.thread_rank() == 0)
        atomicAdd(y, v);
}

__global__ void wmma(const half *a, const half *b, float *c) {
    __shared__ half s[16 * 16];
    for (int i = threadIdx.x; i < 256; i += 32)
        s[i] = a[i];
    __syncwarp();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 0.f);
    wmma::load_matrix_sync(fa, s, 16);
    wmma::load_matrix_sync(fb, b, 16);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}

__global__ void spin_lock(int *lock, int *total) {
    if (threadIdx.x == 0) {
        while (atomicCAS(lock, 0, 1) != 0)
            ;
        __threadfence();
        *total += blockIdx.x;
        __threadfence();
        atomicExch(lock, 0);
    }
}

__global__ void flag_between_blocks(int *data, volatile int *flag, int *out) {
    if (blockIdx.x == 0) {
        if (threadIdx.x == 0) {
            data[0] = 42;
            __threadfence();
            *flag = 1;
        }
    } else if (threadIdx.x == 0) {
        while (*flag == 0)
            ;
        __threadfence();
        out[0] = data[0];
    }
}

__global__ void compaction(const int *x, int *y, int *count, int n) {
    __shared__ int base, s[4];
    int t = threadIdx.x, i = blockIdx.x * 128 + t, l = t % 32, w = t / 32;
    bool keep = i < n && x[i] > 4;
    unsigned m = __ballot_sync(0xffffffff, keep);
    int before = __popc(m & ((1u << l) - 1));
    if (l == 0)
        s[w] = __popc(m);
    __syncthreads();
    if (t == 0) {
        int sum = 0;
        for (int j = 0; j < 4; j++) {
            int c = s[j];
            s[j] = sum;
            sum += c;
        }
        base = atomicAdd(count, sum);
    }
    __syncthreads();
    if (keep)
        y[base + s[w] + before] = x[i];
}
