/* The C subset of CUDA that every kernel here is written in, for both machines.
 *
 * nvcc compiles a kernel file as CUDA C++ for the GPU; the C compiler compiles the same file as C11 for
 * the CPU simulator (sim/cuda.h supplies the built-ins). This header adds the few names that the two need
 * to share: a launch, and dynamic shared memory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __CUDACC__

#include <cuda_runtime.h>

/* `launch_KERNEL(grid, block, dynamic_shared_bytes, stream, args)` for a kernel that takes one struct. */
#define LAUNCHER(kernel, args_type)                                                                          \
    static cudaError_t launch_##kernel(dim3 grid, dim3 block, size_t dynamic_shared_bytes,                   \
                                       cudaStream_t stream, args_type args) {                                \
        kernel<<<grid, block, dynamic_shared_bytes, stream>>>(args);                                         \
        return cudaGetLastError();                                                                           \
    }

/* The shared memory whose size is given at the launch. */
extern __shared__ __align__(128) unsigned char dynamic_shared[];

/* `v`, which the compiler may not compute again: it otherwise does so in the middle of a main loop rather
 * than keep a register for a thread's place. */
__device__ static __forceinline__ int kept(int v) {
    asm volatile("" : "+r"(v));
    return v;
}

/* Stores 16 bytes at once. An ordinary store of a float4 the compiler may take apart, where another branch
 * stores single floats to the same place. */
__device__ static __forceinline__ void store_16(float *to, float4 quad) {
    asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(quad.x), "f"(quad.y), "f"(quad.z),
                 "f"(quad.w)
                 : "memory");
}

#else

#include "sim/cuda.h"

static inline int kept(int v) {
    return v;
}

static inline void store_16(float *to, float4 quad) {
    *(float4 *)to = quad;
}

#endif
