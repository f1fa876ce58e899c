/* Kernels in CUDA C++ whose requests ncu and the simulator count (tools/cpp_counters.py): templates, half and
 * bfloat16, cooperative groups, wmma, cp.async, ldmatrix and mma.sync, TMA. Each is small enough to count. */
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <mma.h>
#include "ptx/mbarrier.h"
#include "ptx/mma.h"
#include "ptx/tma.h"

namespace cg = cooperative_groups;

template <typename T, int TILE, int PADDING> __device__ void transpose_tile(T *to, const T *from, int n) {
    __shared__ T tile[TILE][TILE + PADDING];
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    for (int row = 0; row < TILE; row += blockDim.y)
        if (x < n && y + row < n)
            tile[threadIdx.y + row][threadIdx.x] = from[(y + row) * n + x];
    __syncthreads();
    x = blockIdx.y * TILE + threadIdx.x, y = blockIdx.x * TILE + threadIdx.y;
    for (int row = 0; row < TILE; row += blockDim.y)
        if (x < n && y + row < n)
            to[(y + row) * n + x] = tile[threadIdx.x][threadIdx.y + row];
}
__global__ void transpose_float(float *to, const float *from, int n) {
    transpose_tile<float, 32, 1>(to, from, n);
}
__global__ void transpose_float_conflicts(float *to, const float *from, int n) {
    transpose_tile<float, 32, 0>(to, from, n);
}
__global__ void transpose_half(__half *to, const __half *from, int n) {
    transpose_tile<__half, 32, 2>(to, from, n);
}
__global__ void transpose_bfloat16(__nv_bfloat16 *to, const __nv_bfloat16 *from, int n) {
    transpose_tile<__nv_bfloat16, 32, 2>(to, from, n);
}

__global__ void half2_axpy(__half *y, const __half *x, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    __half2 *pairs = reinterpret_cast<__half2 *>(y);
    if (i < n / 2)
        pairs[i] = __hfma2(__float2half2_rn(a), reinterpret_cast<const __half2 *>(x)[i], pairs[i]);
}

__global__ void bfloat16_row_sums(float *sums, const __nv_bfloat16 *x, int columns) {
    auto tile = cg::tiled_partition<32>(cg::this_thread_block());
    int row = blockIdx.x * tile.meta_group_size() + tile.meta_group_rank();
    float sum = 0.0f;
    for (int i = tile.thread_rank(); i < columns / 2; i += 32) {
        float2 pair = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162 *>(x + row * columns)[i]);
        sum += pair.x + pair.y;
    }
    sum = cg::reduce(tile, sum, cg::plus<float>());
    if (tile.thread_rank() == 0)
        sums[row] = sum;
}

__global__ void vectors_of_four(float *to, const float *from, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n / 4) {
        float4 v = reinterpret_cast<const float4 *>(from)[i];
        reinterpret_cast<float4 *>(to)[n / 4 - 1 - i] = make_float4(v.w, v.z, v.y, v.x);
    }
}

struct Point {
    float x, y, z;
    __device__ Point operator+(const Point &other) const {
        return {x + other.x, y + other.y, z + other.z};
    }
};
__global__ void points(float *to, const float *from, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    const Point *p = reinterpret_cast<const Point *>(from);
    if (i + 1 < n)
        reinterpret_cast<Point *>(to)[i] = p[i] + p[i + 1];
}

__global__ void shared_histogram(int *counts, const int *values, int n) {
    __shared__ int own[64];
    for (int i = threadIdx.x; i < 64; i += blockDim.x)
        own[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&own[values[i] & 63], 1);
    __syncthreads();
    for (int i = threadIdx.x; i < 64; i += blockDim.x)
        atomicAdd(&counts[i], own[i]);
}

__global__ void scattered_bytes(unsigned char *to, const int *values, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        to[(i * 37) % n] = (unsigned char)values[i];
}

__global__ void two_stages_by_cp_async(float *to, const float *from, int tiles) {
    __shared__ alignas(16) float stage[2][512];
    float sum = 0.0f;
    __pipeline_memcpy_async(&stage[0][4 * threadIdx.x], &from[4 * threadIdx.x], 16);
    __pipeline_commit();
    for (int tile = 0; tile < tiles; tile++) {
        if (tile + 1 < tiles)
            __pipeline_memcpy_async(&stage[(tile + 1) % 2][4 * threadIdx.x],
                                    &from[512 * (tile + 1) + 4 * threadIdx.x], 16);
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        for (int i = 0; i < 4; i++)
            sum += stage[tile % 2][(threadIdx.x + 128 * i + 7) % 512];
        __syncthreads();
    }
    to[threadIdx.x] = sum;
}

__global__ void wmma_products(float *c, const __half *a, const __half *b, int k) {
    using namespace nvcuda;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> rows;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> columns;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums;
    wmma::fill_fragment(sums, 0.0f);
    for (int step = 0; step < k; step += 16) {
        wmma::load_matrix_sync(rows, a + step, k);
        wmma::load_matrix_sync(columns, b + step, k);
        wmma::mma_sync(sums, rows, columns, sums);
    }
    wmma::store_matrix_sync(c, sums, 16, wmma::mem_row_major);
}

__global__ void ldmatrix_and_mma(float *c, const __half *a) {
    __shared__ alignas(16) __half tile[16][16];
    int lane = threadIdx.x;
    for (int i = lane; i < 256; i += 32)
        tile[i / 16][i % 16] = a[i];
    __syncwarp();
    uint32_t rows[4], columns[2] = {0x3c003c00u, 0x3c003c00u};
    float sums[4] = {};
    ldmatrix_x4(rows, &tile[lane % 16][lane / 16 * 8]);
    mma_m16n8k16(sums, rows, columns, FGN_FLOAT16);
    for (int i = 0; i < 4; i++)
        c[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = sums[i];
}

/* A ring of two stages that TMA fills. */
__global__ void ring_by_tma(float *to, const float *from, int tiles) {
    __shared__ alignas(128) float stage[2][256];
    __shared__ uint64_t full[2], empty[2];
    int thread = threadIdx.x;
    if (thread == 0) {
        for (int i = 0; i < 2; i++) {
            mbarrier_init(shared_address(&full[i]), 1);
            mbarrier_init(shared_address(&empty[i]), 128);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    if (thread >= 128) {
        for (int tile = 0; thread == 128 && tile < tiles; tile++) {
            int s = tile % 2;
            if (tile >= 2)
                mbarrier_wait(shared_address(&empty[s]), (tile / 2 - 1) % 2);
            mbarrier_arrive_expect_tx(shared_address(&full[s]), sizeof stage[0]);
            cp_async_bulk(shared_address(stage[s]), from + 256 * tile, sizeof stage[0],
                          shared_address(&full[s]));
        }
        return;
    }
    float sum = 0.0f;
    for (int tile = 0; tile < tiles; tile++) {
        int s = tile % 2;
        mbarrier_wait(shared_address(&full[s]), tile / 2 % 2);
        sum += stage[s][thread] + stage[s][255 - thread];
        mbarrier_arrive(shared_address(&empty[s]));
    }
    to[thread] = sum;
}
