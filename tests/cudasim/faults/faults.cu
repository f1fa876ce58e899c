/* Kernels that each do one thing that no kernel may do; tests/cudasim/test_faults.py says what is to be told
 * of them.
 */
#include "sim/portable.h"

struct fault_args {
    float *x; /* `n` floats */
    int n;
};

__global__ void reads_beyond(struct fault_args a) {
    a.x[threadIdx.x] = a.x[threadIdx.x + a.n - 31]; /* lane 31 */
}

__global__ void reads_misaligned(struct fault_args a) {
    float4 four = *(const float4 *)(a.x + 1 + 4 * threadIdx.x);
    a.x[threadIdx.x] = four.x + four.w;
}

__global__ void leaves_shared_array(struct fault_args a) {
    __shared__ float tile[32];
    tile[threadIdx.x + 1] = 1.0f;
    __syncthreads();
    a.x[threadIdx.x] = tile[threadIdx.x];
}

__global__ void reads_uninitialised(struct fault_args a) {
    __shared__ float tile[33];
    tile[threadIdx.x] = 1.0f;
    __syncthreads();
    a.x[threadIdx.x] = tile[threadIdx.x + 1];
}

__global__ void races(struct fault_args a) {
    __shared__ float tile[64];
    tile[threadIdx.x] = 1.0f;
    __syncthreads();
    tile[threadIdx.x] = 2.0f;
    a.x[threadIdx.x] = tile[63 - threadIdx.x];
}

__global__ void misses_barrier(struct fault_args a) {
    if (threadIdx.x < 16)
        __syncthreads();
    else
        __syncthreads();
    a.x[threadIdx.x] = 1.0f;
}

__global__ void waits_for_a_lane_that_has_left(struct fault_args a) {
    if (threadIdx.x >= 16)
        return;
    a.x[threadIdx.x] = __shfl_down_sync(0xffffffffu, 1.0f, 1);
}

__global__ void reads_what_another_block_writes(struct fault_args a) {
    a.x[blockIdx.x * blockDim.x + threadIdx.x] = 1.0f;
    __syncthreads(); /* Without the barrier, the threads of block 1 would race with each other too. */
    a.x[a.n - 1 - threadIdx.x] += a.x[threadIdx.x];
}

LAUNCHER(reads_beyond, struct fault_args)
LAUNCHER(reads_misaligned, struct fault_args)
LAUNCHER(leaves_shared_array, struct fault_args)
LAUNCHER(reads_uninitialised, struct fault_args)
LAUNCHER(races, struct fault_args)
LAUNCHER(misses_barrier, struct fault_args)
LAUNCHER(waits_for_a_lane_that_has_left, struct fault_args)
LAUNCHER(reads_what_another_block_writes, struct fault_args)

int launch_fault(int number, int blocks, int threads, float *x, int n);
int launch_fault(int number, int blocks, int threads, float *x, int n) {
    static cudaError_t (*const launch[])(dim3, dim3, size_t, cudaStream_t, struct fault_args) = {
        launch_reads_beyond,
        launch_reads_misaligned,
        launch_leaves_shared_array,
        launch_reads_uninitialised,
        launch_races,
        launch_misses_barrier,
        launch_waits_for_a_lane_that_has_left,
        launch_reads_what_another_block_writes,
    };
    struct fault_args args = {x, n};
    dim3 grid = {(unsigned)blocks, 1, 1}, block = {(unsigned)threads, 1, 1};
    return launch[number](grid, block, 0, NULL, args);
}
