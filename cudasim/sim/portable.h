/* The C subset of CUDA in which every kernel here is written, for both machines.
 *
 * nvcc compiles a kernel file as CUDA C++ for the GPU; the C compiler compiles the same file as C11 for the
 * CPU simulator (sim/cuda.h supplies the built-ins). This header adds the few names that both need: a launch,
 * and dynamic shared memory. */
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

/* A function that is called and not inlined. */
#define CALLED __noinline__

/* The shared memory whose size the launch gives. */
extern __shared__ __align__(128) unsigned char dynamic_shared[];

/* Returns `v`, and keeps the compiler from computing it again. Otherwise it would do so in the middle of a
 * main loop, rather than keep a register for a thread's place. */
__device__ static __forceinline__ int kept(int v) {
    asm volatile("" : "+r"(v));
    return v;
}

/* Stores 16 bytes at once. The compiler may split an ordinary store of a float4 if another branch stores
 * single floats to the same place. */
__device__ static __forceinline__ void store_16(float *to, float4 four) {
    asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(four.x), "f"(four.y), "f"(four.z),
                 "f"(four.w)
                 : "memory");
}

/* The larger and the smaller of two values; NaN when v is NaN. */
__device__ static __forceinline__ float max_or_nan(float v, float other) {
#if __CUDA_ARCH__ >= 800
    asm("max.NaN.f32 %0, %0, %1;" : "+f"(v) : "f"(other));
    return v;
#else
    return v < other ? other : v;
#endif
}

__device__ static __forceinline__ float min_or_nan(float v, float other) {
#if __CUDA_ARCH__ >= 800
    asm("min.NaN.f32 %0, %0, %1;" : "+f"(v) : "f"(other));
    return v;
#else
    return v > other ? other : v;
#endif
}

/* 1 / v by one instruction, if neither v nor 1 / v is denormal, with an error of at most 2^-23.
 */
__device__ static __forceinline__ float fast_reciprocal(float v) {
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(v));
    return inverse;
}

/* 2^v by one instruction: errs by at most 2^-22 of the result, and is 0 below 2^-126. */
__device__ static __forceinline__ float fast_exp2(float v) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(v));
    return power;
}

#else

/* Not __noinline__: C++ headers of the host use that word within an attribute. */
#define CALLED __attribute__((noinline))

#include "sim/cuda.h"

#define static_assert _Static_assert

static inline int kept(int v) {
    return v;
}

static inline void store_16(float *to, float4 four) {
    *(float4 *)to = four;
}

static inline float max_or_nan(float v, float other) {
    return v < other ? other : v;
}

static inline float min_or_nan(float v, float other) {
    return v > other ? other : v;
}

static inline float fast_reciprocal(float v) {
    return 1.0f / v;
}

static inline float fast_exp2(float v) {
    return exp2f(v);
}

#endif
