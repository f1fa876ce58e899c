/* cp.async (compute capability 8.0): copies from global to shared memory that run beside the thread's own
 * instructions. The functions are named after the instructions. A thread waits for its own copies.
 *
 * PTX ISA, section "cp.async". In the simulator a copy lands when its thread waits for it (sim/copy.c). */
#pragma once

#include "sim/portable.h"

#ifdef __CUDACC__

/* Copies 16 bytes to shared memory, past the L1 cache, or writes zeros there and reads nothing. */
static __device__ __forceinline__ void cp_async_16_or_zero(void *shared, const void *global, bool valid) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(
                     (uint32_t)__cvta_generic_to_shared(shared)),
                 "l"(global), "r"(valid ? 16 : 0)
                 : "memory");
#else
    (void)shared, (void)global, (void)valid;
    __trap();
#endif
}

/* Copies 16 bytes to shared memory, or writes zeros there. For data read once: it bypasses L1, and L2 evicts
 * it first and fetches its whole 128 bytes. */
static __device__ __forceinline__ void cp_async_once_16_or_zero(void *shared, const void *global,
                                                                bool valid) {
#if __CUDA_ARCH__ >= 800
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %2, %3;" ::"r"(
                     (uint32_t)__cvta_generic_to_shared(shared)),
                 "l"(global), "r"(valid ? 16 : 0), "l"(policy)
                 : "memory");
#else
    (void)shared, (void)global, (void)valid;
    __trap();
#endif
}

/* Copies 4 bytes to shared memory, or writes zeros there and reads nothing. */
static __device__ __forceinline__ void cp_async_4_or_zero(void *shared, const void *global, bool valid) {
#if __CUDA_ARCH__ >= 800
    asm volatile(
        "cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"((uint32_t)__cvta_generic_to_shared(shared)),
        "l"(global), "r"(valid ? 4 : 0)
        : "memory");
#else
    (void)shared, (void)global, (void)valid;
    __trap();
#endif
}

/* Copies 8 bytes to shared memory. */
static __device__ __forceinline__ void cp_async_8(void *shared, const void *global) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"((uint32_t)__cvta_generic_to_shared(shared)),
                 "l"(global)
                 : "memory");
#else
    (void)shared, (void)global;
    __trap();
#endif
}

/* Copies the first `bytes` (0 to 4) of 4 bytes to shared memory, and zeros for the others. */
static __device__ __forceinline__ void cp_async_4_partly(void *shared, const void *global, int bytes) {
#if __CUDA_ARCH__ >= 800
    asm volatile(
        "cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"((uint32_t)__cvta_generic_to_shared(shared)),
        "l"(global), "r"(bytes)
        : "memory");
#else
    (void)shared, (void)global, (void)bytes;
    __trap();
#endif
}

/* Closes a group of copies. */
static __device__ __forceinline__ void cp_async_commit_group(void) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/* Waits until at most `groups_in_flight` of this thread's groups have not landed. The instruction needs a
 * constant, so each number in use has a case. */
static __device__ __forceinline__ void cp_async_wait_group(int groups_in_flight) {
#if __CUDA_ARCH__ >= 800
    switch (groups_in_flight) {
    case 0:
        asm volatile("cp.async.wait_group 0;" ::: "memory");
        break;
    case 1:
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        break;
    case 2:
        asm volatile("cp.async.wait_group 2;" ::: "memory");
        break;
    case 3:
        asm volatile("cp.async.wait_group 3;" ::: "memory");
        break;
    case 4:
        asm volatile("cp.async.wait_group 4;" ::: "memory");
        break;
    default:
        asm volatile("cp.async.wait_group 5;" ::: "memory");
        break;
    }
#else
    (void)groups_in_flight;
#endif
}

/* Waits until all copies of this thread have landed, committed or not. */
static __device__ __forceinline__ void cp_async_wait_all(void) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

#else

#include "sim/ptx/cp_async.h"

#endif
