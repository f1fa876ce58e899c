/* wgmma (compute capability 9.0a): a warpgroup, 4 warps, multiplies a tile of x by a tile of w^T. Both tiles
 * are in shared memory, the sums are in registers. The functions are named after the instructions.
 *
 * wgmma runs beside the threads' other instructions. The order of calls is: wgmma_fence(), then some
 * wgmma_m64*, then wgmma_commit_group(), then wgmma_wait_group() before the sums are used or the shared
 * memory is written. PTX ISA, section "Asynchronous Warpgroup Level Matrix Instructions". */
#pragma once

#include "sim/portable.h"

#ifdef __CUDACC__

/* Makes what this thread has stored in shared memory visible to wgmma and TMA, which reach shared memory by a
 * path of their own (the async proxy). A barrier of the threads has to follow. */
static __device__ __forceinline__ void fence_proxy_async(void) {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Orders the registers' last ordinary use before the next wgmma. */
static __device__ __forceinline__ void wgmma_fence(void) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

/* Closes a group of the wgmmas since the last commit. */
static __device__ __forceinline__ void wgmma_commit_group(void) {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Waits until at most `groups` (a constant) of the latest groups are still running. */
#define wgmma_wait_group(groups) asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(groups) : "memory")

#else

#include "sim/ptx/wgmma.h"

#endif

/* How wgmma finds a tile: rows of 128 bytes along k, in atoms of 8 rows that TMA has swizzled
 * (CU_TENSOR_MAP_SWIZZLE_128B). `address` is 1024-byte aligned, plus 32 bytes for each step along k. Fields
 * in units of 16 bytes: the address, the distance of neighbouring atoms (1024 bytes), the swizzle mode. */
static __device__ __forceinline__ uint64_t wgmma_descriptor(uint32_t address) {
    uint64_t distance = 1024 / 16, swizzle_128_bytes = 1;
    return (address & 0x3ffff) >> 4 | (uint64_t)1 << 16 | distance << 32 | swizzle_128_bytes << 62;
}

/* The descriptor of the same rows, `bytes` (a multiple of 16) further along k. Only its lower half changes;
 * the upper one stays constant. */
static __device__ __forceinline__ uint64_t descriptor_plus(uint64_t descriptor, int bytes) {
    return (descriptor & 0xffffffff00000000) | ((uint32_t)descriptor + bytes / 16);
}

/* sum (+)= x w^T, asynchronously. A thread has results of two of the 64 rows, 8 apart, and of two
 * neighbouring columns in every eight: sum[i] belongs to row warp * 16 + lane / 4 + i / 2 % 2 * 8 and to
 * column i / 4 * 8 + lane % 4 * 2 + i % 2. With `accumulate` 0, sum is overwritten. */

#ifdef __CUDACC__

#define EIGHT_SUMS(sum, i)                                                                                   \
    "+f"(sum[i]), "+f"(sum[i + 1]), "+f"(sum[i + 2]), "+f"(sum[i + 3]), "+f"(sum[i + 4]), "+f"(sum[i + 5]),  \
        "+f"(sum[i + 6]), "+f"(sum[i + 7])
#define SUMS_OF_64(sum) EIGHT_SUMS(sum, 0), EIGHT_SUMS(sum, 8), EIGHT_SUMS(sum, 16), EIGHT_SUMS(sum, 24)
#define SUMS_OF_96(sum) SUMS_OF_64(sum), EIGHT_SUMS(sum, 32), EIGHT_SUMS(sum, 40)
#define SUMS_OF_128(sum) SUMS_OF_96(sum), EIGHT_SUMS(sum, 48), EIGHT_SUMS(sum, 56)

/* The operands' places in the text: the sums, then the two descriptors, then `accumulate`. */
#define PLACES_OF_64                                                                                         \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                                 \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define PLACES_OF_96                                                                                         \
    PLACES_OF_64 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define PLACES_OF_128                                                                                        \
    PLACES_OF_96 ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define FACTORS_AFTER_64 "%32, %33"
#define FACTORS_AFTER_96 "%48, %49"
#define FACTORS_AFTER_128 "%64, %65"
#define ACCUMULATE_AFTER_64 "%34"
#define ACCUMULATE_AFTER_96 "%50"
#define ACCUMULATE_AFTER_128 "%66"

/* scale: 1 for both factors; of 16-bit types, also that neither is transposed. */
#define WGMMA(columns, depth, type, scale)                                                                   \
    static __device__ __forceinline__ void wgmma_m64n##columns##k##depth##_##type(                           \
        float *sum, uint64_t x, uint64_t w, int accumulate) {                                                \
        asm volatile("{ .reg .pred p; setp.ne.b32 p, " ACCUMULATE_AFTER_##columns                            \
                     ", 0; "                                                                                 \
                     "wgmma.mma_async.sync.aligned.m64n" #columns "k" #depth ".f32." #type "." #type         \
                     " {" PLACES_OF_##columns "}, " FACTORS_AFTER_##columns ", p, " scale "; }"              \
                     : SUMS_OF_##columns(sum)                                                                \
                     : "l"(x), "l"(w), "r"(accumulate));                                                     \
    }

#define WGMMA_OF_EACH_TYPE(columns)                                                                          \
    WGMMA(columns, 16, f16, "1, 1, 0, 0")                                                                    \
    WGMMA(columns, 16, bf16, "1, 1, 0, 0")                                                                   \
    WGMMA(columns, 8, tf32, "1, 1")                                                                          \
    WGMMA(columns, 32, e4m3, "1, 1")

WGMMA_OF_EACH_TYPE(128)

#endif
