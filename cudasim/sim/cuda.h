/* CUDA C for a C compiler: what a kernel's source means on the CPU simulator.
 *
 * A kernel is an ordinary C function that is called once per CUDA thread. Each CUDA thread of a block is
 * a fiber of one OS thread, so shared memory is thread-local memory of that OS thread, and a barrier or a
 * warp operation is a call that lets the other fibers run. Compile with -fno-strict-aliasing (kernels read
 * floats through float4 pointers) and -fwrapv (GPU integers wrap), never with -flto. */
#pragma once
#include "sim.h"
#include "vectors.h"
#include "calls.h"
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wunknown-pragmas" /* #pragma unroll */

/* ---- Functions and memory ---- */

#define __global__
#define __device__ __attribute__((unused))
#define __host__
#define __constant__ __attribute__((section("sim_constant")))
#define __shared__ static _Thread_local
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

#ifndef SIM_OWN
#define SIM_OWN sim_registers
#endif
#define threadIdx (SIM_OWN.sim_thread_index)
#define blockIdx (SIM_OWN.sim_block_index)
#define blockDim (SIM_OWN.sim_block_size)
#define gridDim (SIM_OWN.sim_grid_size)
#define dynamic_shared (SIM_OWN.sim_shared_memory)
#define warpSize 32

/* ---- Barriers and warp operations ---- */

#define SIM_HERE                                                                                             \
    ({                                                                                                       \
        static const struct sim_site sim_here = {__FILE__, __LINE__};                                        \
        &sim_here;                                                                                           \
    })

/* An argument that a caller may leave out: SIM_OPTIONAL(_, ##__VA_ARGS__, default, _). */
#define SIM_OPTIONAL(unused, argument_or_default, ...) (argument_or_default)
#define SIM_ALL_LANES 0xffffffffu

#define __syncthreads() ((void)sim_barrier(SIM_HERE, 0))
#define __syncthreads_count(predicate) (sim_barrier(SIM_HERE, (predicate) != 0))
#define __syncthreads_or(predicate) (sim_barrier(SIM_HERE, (predicate) != 0) != 0)
#define __syncthreads_and(predicate) (sim_barrier(SIM_HERE, (predicate) == 0) == 0)

#define __syncwarp(...) sim_warp_barrier(SIM_HERE, SIM_OPTIONAL(_, ##__VA_ARGS__, SIM_ALL_LANES, _))
#define __ballot_sync(mask, predicate) sim_ballot(SIM_HERE, mask, (predicate) != 0)
#define __any_sync(mask, predicate) (sim_ballot(SIM_HERE, mask, (predicate) != 0) != 0)
#define __all_sync(mask, predicate) (sim_ballot(SIM_HERE, mask, (predicate) == 0) == 0)
#define __activemask() sim_active_mask(SIM_HERE)

/* Any arithmetic type of up to eight bytes. */
#define SIM_SHUFFLE(direction, mask, variable, operand, width)                                               \
    ({                                                                                                       \
        __typeof__((variable) + 0) sim_variable = (variable);                                                \
        uint64_t sim_bits = 0;                                                                               \
        _Static_assert(sizeof sim_variable <= sizeof sim_bits, "shuffles move at most 8 bytes");             \
        memcpy(&sim_bits, &sim_variable, sizeof sim_variable);                                               \
        sim_bits = sim_shuffle(SIM_HERE, mask, sim_bits, direction, (int)(operand), width);                  \
        memcpy(&sim_variable, &sim_bits, sizeof sim_variable);                                               \
        sim_variable;                                                                                        \
    })
#define __shfl_sync(mask, variable, lane, ...)                                                               \
    SIM_SHUFFLE(SIM_SHUFFLE_INDEX, mask, variable, lane, SIM_OPTIONAL(_, ##__VA_ARGS__, warpSize, _))
#define __shfl_up_sync(mask, variable, delta, ...)                                                           \
    SIM_SHUFFLE(SIM_SHUFFLE_UP, mask, variable, delta, SIM_OPTIONAL(_, ##__VA_ARGS__, warpSize, _))
#define __shfl_down_sync(mask, variable, delta, ...)                                                         \
    SIM_SHUFFLE(SIM_SHUFFLE_DOWN, mask, variable, delta, SIM_OPTIONAL(_, ##__VA_ARGS__, warpSize, _))
#define __shfl_xor_sync(mask, variable, lane_mask, ...)                                                      \
    SIM_SHUFFLE(SIM_SHUFFLE_XOR, mask, variable, lane_mask, SIM_OPTIONAL(_, ##__VA_ARGS__, warpSize, _))

#define cp_async_16(shared, global) sim_cp_async(SIM_HERE, shared, global, 16, true)
#define cp_async_16_or_zero(shared, global, valid) sim_cp_async(SIM_HERE, shared, global, 16, valid)
#define cp_async_4_or_zero(shared, global, valid) sim_cp_async(SIM_HERE, shared, global, 4, valid)

/* ---- Atomics ---- */

#define __threadfence() sim_fence()
#define __threadfence_block() sim_fence_block()
#define __threadfence_system() sim_fence()

#define SIM_ATOMIC(operation, pointer, value, compare)                                                       \
    ({                                                                                                       \
        __typeof__(*(pointer) + 0) sim_value = (value), sim_compare = (compare);                             \
        uint64_t sim_value_bits = 0, sim_compare_bits = 0;                                                   \
        memcpy(&sim_value_bits, &sim_value, sizeof sim_value);                                               \
        memcpy(&sim_compare_bits, &sim_compare, sizeof sim_compare);                                         \
        enum sim_type sim_type = _Generic(*(pointer),                                                        \
            int: SIM_INT32,                                                                                  \
            unsigned: SIM_UINT32,                                                                            \
            long: SIM_INT64,                                                                                 \
            unsigned long: SIM_UINT64,                                                                       \
            long long: SIM_INT64,                                                                            \
            unsigned long long: SIM_UINT64,                                                                  \
            float: SIM_FLOAT,                                                                                \
            double: SIM_DOUBLE);                                                                             \
        sim_value_bits =                                                                                     \
            sim_atomic(SIM_HERE, operation, sim_type, pointer, sim_value_bits, sim_compare_bits);            \
        memcpy(&sim_value, &sim_value_bits, sizeof sim_value);                                               \
        sim_value;                                                                                           \
    })
#define atomicAdd(pointer, value) SIM_ATOMIC(SIM_ATOMIC_ADD, pointer, value, 0)
#define atomicSub(pointer, value) SIM_ATOMIC(SIM_ATOMIC_ADD, pointer, -(value), 0)
#define atomicMin(pointer, value) SIM_ATOMIC(SIM_ATOMIC_MIN, pointer, value, 0)
#define atomicMax(pointer, value) SIM_ATOMIC(SIM_ATOMIC_MAX, pointer, value, 0)
#define atomicAnd(pointer, value) SIM_ATOMIC(SIM_ATOMIC_AND, pointer, value, 0)
#define atomicOr(pointer, value) SIM_ATOMIC(SIM_ATOMIC_OR, pointer, value, 0)
#define atomicXor(pointer, value) SIM_ATOMIC(SIM_ATOMIC_XOR, pointer, value, 0)
#define atomicExch(pointer, value) SIM_ATOMIC(SIM_ATOMIC_EXCHANGE, pointer, value, 0)
#define atomicCAS(pointer, compare, value) SIM_ATOMIC(SIM_ATOMIC_COMPARE_AND_SWAP, pointer, value, compare)

/* ---- Arithmetic that C's math.h does not have ---- */

#define min(a, b)                                                                                            \
    ({                                                                                                       \
        __typeof__((a) + (b)) sim_a = (a), sim_b = (b);                                                      \
        _Generic(sim_a,                                                                                      \
            float: fminf(sim_a, sim_b),                                                                      \
            double: fmin(sim_a, sim_b),                                                                      \
            default: sim_a < sim_b ? sim_a : sim_b);                                                         \
    })
#define max(a, b)                                                                                            \
    ({                                                                                                       \
        __typeof__((a) + (b)) sim_a = (a), sim_b = (b);                                                      \
        _Generic(sim_a,                                                                                      \
            float: fmaxf(sim_a, sim_b),                                                                      \
            double: fmax(sim_a, sim_b),                                                                      \
            default: sim_a > sim_b ? sim_a : sim_b);                                                         \
    })

/* The fast approximations of the GPU are exact here. Some of these names are also glibc's own. */
#define __expf(x) expf(x)
#define __exp2f(x) exp2f(x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __powf(x, y) powf(x, y)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
#define __fdividef(x, y) ((float)(x) / (float)(y))
#define __frcp_rn(x) (1.0f / (float)(x))
#define __fsqrt_rn(x) sqrtf(x)
#define __fmaf_rn(x, y, z) fmaf(x, y, z)

static inline float sim_rsqrtf(float x) {
    return 1.0f / sqrtf(x);
}
static inline double sim_rsqrt(double x) {
    return 1.0 / sqrt(x);
}
#define rsqrtf(x) sim_rsqrtf(x)
#define rsqrt(x) sim_rsqrt(x)
static inline float __saturatef(float x) {
    return fminf(fmaxf(x, 0.0f), 1.0f); /* NaN becomes 0, as on a GPU */
}
static inline int __float_as_int(float x) {
    int bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static inline unsigned __float_as_uint(float x) {
    unsigned bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static inline float __int_as_float(int bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static inline float __uint_as_float(unsigned bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

#define __popc(bits) __builtin_popcount(bits)
#define __popcll(bits) __builtin_popcountll(bits)
#define __ffs(bits) __builtin_ffs((int)(bits))
#define __ffsll(bits) __builtin_ffsll((long long)(bits))
static inline int __clz(int bits) {
    return bits ? __builtin_clz((unsigned)bits) : 32;
}
static inline int __clzll(long long bits) {
    return bits ? __builtin_clzll((unsigned long long)bits) : 64;
}
static inline unsigned __umulhi(unsigned a, unsigned b) {
    return (unsigned)((uint64_t)a * b >> 32);
}
static inline int __mulhi(int a, int b) {
    return (int)((int64_t)a * b >> 32);
}
static inline unsigned __brev(unsigned bits) {
    unsigned reversed = 0;
    for (int i = 0; i < 32; i++)
        reversed |= (bits >> i & 1u) << (31 - i);
    return reversed;
}

/* Roundings: to nearest even, towards zero, down, up. */
#define __float2int_rn(x) ((int)rintf(x))
#define __float2int_rz(x) ((int)truncf(x))
#define __float2int_rd(x) ((int)floorf(x))
#define __float2int_ru(x) ((int)ceilf(x))
#define __int2float_rn(x) ((float)(int)(x))
#define __uint2float_rn(x) ((float)(unsigned)(x))

/* Cache hints change nothing here. */
#define __ldg(pointer) (*(pointer))
#define __ldcg(pointer) (*(pointer))
#define __ldcs(pointer) (*(pointer))
#define __stcg(pointer, value) ((void)(*(pointer) = (value)))
#define __stcs(pointer, value) ((void)(*(pointer) = (value)))

/* ---- The host side: what launchers need of the CUDA runtime ---- */

typedef struct CUstream_st *cudaStream_t; /* launches run inside the call, so streams mean nothing here */

/* CUDA's own numbers. */
enum cudaDeviceAttr {
    cudaDevAttrMaxThreadsPerBlock = 1,
    cudaDevAttrMaxSharedMemoryPerBlock = 8,
    cudaDevAttrWarpSize = 10,
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76,
    cudaDevAttrMaxSharedMemoryPerBlockOptin = 97
};
enum cudaFuncAttribute {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
    cudaFuncAttributePreferredSharedMemoryCarveout = 9
};

/* These functions have their own symbols: a program may have loaded CUDA's beside the simulator.
 *
 * For a launch failure this is the sentence of the report, not just the meaning of the number. */
const char *cudaGetErrorString(cudaError_t error) __asm__("sim_cudaGetErrorString");
cudaError_t cudaGetLastError(void) __asm__("sim_cudaGetLastError");
cudaError_t cudaPeekAtLastError(void) __asm__("sim_cudaPeekAtLastError");
cudaError_t cudaGetDevice(int *device) __asm__("sim_cudaGetDevice");
/* The compute capability is 0.0: rungs that need one do not run here. A multiprocessor is an OS thread. */
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute,
                                   int device) __asm__("sim_cudaDeviceGetAttribute");
cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes,
                            cudaStream_t stream) __asm__("sim_cudaMemsetAsync");
/* This does nothing: every kernel may have all shared memory, and there is no cache to split. */
static inline cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute attribute,
                                               int value) {
    (void)kernel, (void)attribute, (void)value;
    return cudaSuccess;
}

/* Defines launch_<kernel>() for a kernel that takes one struct by value. */
#define LAUNCHER(kernel, arguments_type)                                                                     \
    static void enter_##kernel(const void *arguments) {                                                      \
        kernel(*(const arguments_type *)arguments);                                                          \
    }                                                                                                        \
    __attribute__((unused)) static cudaError_t launch_##kernel(                                              \
        dim3 grid, dim3 block, size_t dynamic_shared_bytes, cudaStream_t stream, arguments_type arguments) { \
        (void)stream;                                                                                        \
        return sim_launch(#kernel, __FILE__, enter_##kernel, &arguments, sizeof arguments, grid, block,      \
                          dynamic_shared_bytes);                                                             \
    }
