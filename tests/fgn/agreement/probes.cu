/* Small kernels whose counters are known to depend on one thing: how the lanes of one request address memory,
 * and how much a launch reads again. tools/hardware_counters.py runs them under ncu on a GPU and on the
 * counted simulator, which has to come to the same numbers. */
#include "sim/portable.h"

#ifdef __cplusplus
#define EXPORT extern "C" __attribute__((visibility("default")))
#else
#define EXPORT
#endif

/* ---- One request of a warp to shared memory ---- */

#define MEMORY_WORDS 4096

struct access_args {
    const int *offsets; /* in bytes, for each lane; negative: the lane makes no access */
    float *out;         /* 32 */
};

/* A store of 4 bytes a lane without conflicts, MEMORY_WORDS / 32 times, so that all of it is initialised. */
static __forceinline__ __device__ void fill(float *memory) {
    for (int i = threadIdx.x; i < MEMORY_WORDS; i += 32)
        memory[i] = 1.0f;
    __syncthreads();
}

__global__ void load_4_kernel(struct access_args a) {
    __shared__ __align__(16) float memory[MEMORY_WORDS];
    fill(memory);
    int offset = a.offsets[threadIdx.x];
    float value = 0.0f;
    if (offset >= 0)
        value = memory[offset / 4];
    a.out[threadIdx.x] = value;
}

__global__ void load_8_kernel(struct access_args a) {
    __shared__ __align__(16) float memory[MEMORY_WORDS];
    fill(memory);
    int offset = a.offsets[threadIdx.x];
    float2 value = {0.0f, 0.0f};
    if (offset >= 0)
        value = ((float2 *)memory)[offset / 8];
    a.out[threadIdx.x] = value.x + value.y;
}

__global__ void load_16_kernel(struct access_args a) {
    __shared__ __align__(16) float memory[MEMORY_WORDS];
    fill(memory);
    int offset = a.offsets[threadIdx.x];
    float4 value = {0.0f, 0.0f, 0.0f, 0.0f};
    if (offset >= 0)
        value = ((float4 *)memory)[offset / 16];
    a.out[threadIdx.x] = value.x + value.y + value.z + value.w;
}

__global__ void store_4_kernel(struct access_args a) {
    __shared__ __align__(16) float memory[MEMORY_WORDS];
    fill(memory);
    int offset = a.offsets[threadIdx.x];
    if (offset >= 0)
        memory[offset / 4] = (float)offset;
    __syncthreads();
    a.out[threadIdx.x] = memory[threadIdx.x];
}

__global__ void store_8_kernel(struct access_args a) {
    __shared__ __align__(16) float memory[MEMORY_WORDS];
    fill(memory);
    int offset = a.offsets[threadIdx.x];
    float2 value = {(float)offset, 2.0f};
    if (offset >= 0)
        ((float2 *)memory)[offset / 8] = value;
    __syncthreads();
    a.out[threadIdx.x] = memory[threadIdx.x];
}

__global__ void store_16_kernel(struct access_args a) {
    __shared__ __align__(16) float memory[MEMORY_WORDS];
    fill(memory);
    int offset = a.offsets[threadIdx.x];
    float4 value = {(float)offset, 2.0f, 3.0f, 4.0f};
    if (offset >= 0)
        ((float4 *)memory)[offset / 16] = value;
    __syncthreads();
    a.out[threadIdx.x] = memory[threadIdx.x];
}

__global__ void atomic_4_kernel(struct access_args a) {
    __shared__ __align__(16) float memory[MEMORY_WORDS];
    fill(memory);
    int offset = a.offsets[threadIdx.x];
    if (offset >= 0)
        atomicAdd((int *)&memory[offset / 4], offset);
    __syncthreads();
    a.out[threadIdx.x] = memory[threadIdx.x];
}

LAUNCHER(load_4_kernel, struct access_args)
LAUNCHER(load_8_kernel, struct access_args)
LAUNCHER(load_16_kernel, struct access_args)
LAUNCHER(store_4_kernel, struct access_args)
LAUNCHER(store_8_kernel, struct access_args)
LAUNCHER(store_16_kernel, struct access_args)
LAUNCHER(atomic_4_kernel, struct access_args)

/* operation: 0 load, 1 store, 2 atomic. Returns an error of the CUDA runtime. */
EXPORT int probe_access(int operation, int bytes, const int *offsets, float *out) {
    struct access_args args = {offsets, out};
    dim3 grid = {1, 1, 1}, block = {32, 1, 1};
    if (operation == 2)
        return launch_atomic_4_kernel(grid, block, 0, NULL, args);
    if (operation == 1)
        return bytes == 4   ? launch_store_4_kernel(grid, block, 0, NULL, args)
               : bytes == 8 ? launch_store_8_kernel(grid, block, 0, NULL, args)
                            : launch_store_16_kernel(grid, block, 0, NULL, args);
    return bytes == 4   ? launch_load_4_kernel(grid, block, 0, NULL, args)
           : bytes == 8 ? launch_load_8_kernel(grid, block, 0, NULL, args)
                        : launch_load_16_kernel(grid, block, 0, NULL, args);
}

/* ---- Atomics and plain accesses to global memory ---- */

__global__ void global_atomic_kernel(struct access_args a) {
    int offset = a.offsets[threadIdx.x];
    if (offset >= 0)
        a.out[32 + threadIdx.x] = atomicAdd(&a.out[offset / 4 % 32], 1.0f);
}

__global__ void global_reduction_kernel(struct access_args a) {
    int offset = a.offsets[threadIdx.x];
    if (offset >= 0)
        atomicAdd(&a.out[offset / 4 % 32], 1.0f);
}

LAUNCHER(global_atomic_kernel, struct access_args)
LAUNCHER(global_reduction_kernel, struct access_args)

/* Of which the old value is used, or not; `out` has 64. */
EXPORT int probe_global_atomic(int uses_old, const int *offsets, float *out) {
    struct access_args args = {offsets, out};
    dim3 grid = {1, 1, 1}, block = {32, 1, 1};
    return uses_old ? launch_global_atomic_kernel(grid, block, 0, NULL, args)
                    : launch_global_reduction_kernel(grid, block, 0, NULL, args);
}

/* ---- Memory that a launch reads twice ---- */

#define READ_THREADS 256
#define READS 16 /* of 16 bytes a thread: a block reads 64 KiB */

struct read_args {
    const float4 *from;
    float *out;
    int chunks;
};

/* Block b reads chunk b modulo `chunks`, so what is between two reads of a chunk is all the others. */
__global__ void read_twice_kernel(struct read_args a) {
    const float4 *from = a.from + (int64_t)(blockIdx.x % a.chunks) * READ_THREADS * READS;
    float sum = 0.0f;
    for (int i = 0; i < READS; i++) {
        float4 value = from[i * READ_THREADS + threadIdx.x];
        sum += value.x + value.y + value.z + value.w;
    }
    if (sum == -1.0f)
        a.out[0] = sum;
}

LAUNCHER(read_twice_kernel, struct read_args)

EXPORT int probe_read_twice(const float *from, int chunks, float *out) {
    struct read_args args = {(const float4 *)from, out, chunks};
    dim3 grid = {2u * (unsigned)chunks, 1, 1}, block = {READ_THREADS, 1, 1};
    return launch_read_twice_kernel(grid, block, 0, NULL, args);
}
