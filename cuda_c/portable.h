/* The C subset of CUDA that every kernel here is written in, for both machines.
 *
 * nvcc compiles a kernel file as CUDA C++ for the GPU; the C compiler compiles the same file as C11 for
 * the CPU simulator (sim/cuda.h supplies the built-ins). This header adds the few names that the two need
 * to share: a launch, dynamic shared memory, and the asynchronous copy from global to shared memory. */
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

/* cp.async (compute capability 8.0 and up): a copy into shared memory that passes through no register and
 * that the thread does not wait for. It has landed once copy_async_wait() has returned in the thread that
 * started it; a barrier then shows it to the others. Older GPUs copy through a register.
 * With `valid` false the source is not read and zero is written.
 * PTX ISA, "Data Movement and Conversion Instructions: cp.async". */
__device__ static __forceinline__ void copy_async_4_or_zero(float *shared, const float *global, bool valid) {
#if __CUDA_ARCH__ >= 800
    unsigned destination = (unsigned)__cvta_generic_to_shared(shared);
    int source_bytes = valid ? 4 : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(destination), "l"(global),
                 "r"(source_bytes));
#else
    *shared = valid ? *global : 0.0f;
#endif
}

__device__ static __forceinline__ void copy_async_4(float *shared, const float *global) {
#if __CUDA_ARCH__ >= 800
    unsigned destination = (unsigned)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(destination), "l"(global));
#else
    *shared = *global;
#endif
}

/* Close the group of copies started since the last call. */
__device__ static __forceinline__ void copy_async_commit(void) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;");
#endif
}

/* Wait until at most one group of this thread's copies is still on its way. */
__device__ static __forceinline__ void copy_async_wait_all_but_one(void) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group 1;");
#endif
}

/* `v`, which the compiler may not compute again: it otherwise does so in the middle of a main loop rather
 * than keep a register for a thread's place. */
__device__ static __forceinline__ int kept(int v) {
    asm volatile("" : "+r"(v));
    return v;
}

#else

#include "sim/cuda.h"

static inline int kept(int v) {
    return v;
}

static inline void copy_async_4(float *shared, const float *global) {
    copy_async_4_or_zero(shared, global, true);
}

static inline void copy_async_wait_all_but_one(void) {
    copy_async_wait(1);
}

#endif
