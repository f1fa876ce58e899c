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

/* The descriptor of the same rows, `bytes` (a multiple of 16) further along k. Only its lower half changes,
 * so the upper one stays the constant that it is. */
static __device__ __forceinline__ uint64_t descriptor_plus(uint64_t descriptor, int bytes) {
    return (descriptor & 0xffffffff00000000) | ((uint32_t)descriptor + bytes / 16);
}

/* sum (+)= x w^T, asynchronously. Of the 64 x N results a thread has those of two rows, 8 apart, and of two
 * neighbouring columns in every eight: sum[i] belongs to row warp * 16 + lane / 4 + i / 2 % 2 * 8 and to
 * column i / 4 * 8 + lane % 4 * 2 + i % 2. With `accumulate` 0, sum is overwritten.
 * An instruction's operands are its sums, x, w and `accumulate`; layout: of 16 bits alone, that neither tile
 * is transposed. */

#ifdef __CUDACC__

#define WGMMA_SUMS_16(i)                                                                                     \
    "+f"(sum[i]), "+f"(sum[i + 1]), "+f"(sum[i + 2]), "+f"(sum[i + 3]), "+f"(sum[i + 4]), "+f"(sum[i + 5]),  \
        "+f"(sum[i + 6]), "+f"(sum[i + 7]), "+f"(sum[i + 8]), "+f"(sum[i + 9]), "+f"(sum[i + 10]),           \
        "+f"(sum[i + 11]), "+f"(sum[i + 12]), "+f"(sum[i + 13]), "+f"(sum[i + 14]), "+f"(sum[i + 15])
#define WGMMA_SUMS_32 WGMMA_SUMS_16(0), WGMMA_SUMS_16(16)
#define WGMMA_SUMS_48 WGMMA_SUMS_32, WGMMA_SUMS_16(32)
#define WGMMA_SUMS_64 WGMMA_SUMS_48, WGMMA_SUMS_16(48)
#define WGMMA_OPERANDS_32                                                                                    \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                                 \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define WGMMA_OPERANDS_48                                                                                    \
    WGMMA_OPERANDS_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define WGMMA_OPERANDS_64                                                                                    \
    WGMMA_OPERANDS_48 ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

#define WGMMA(columns, depth, type, sums, at_x, at_w, at_accumulate, layout)                                 \
    static __device__ __forceinline__ void wgmma_m64n##columns##k##depth##_##type(                           \
        float *sum, uint64_t x, uint64_t w, int accumulate) {                                                \
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %" #at_accumulate ", 0; "                               \
                     "wgmma.mma_async.sync.aligned.m64n" #columns "k" #depth ".f32." #type "." #type         \
                     " {" WGMMA_OPERANDS_##sums "}, %" #at_x ", %" #at_w ", p, 1, 1" layout "; }"            \
                     : WGMMA_SUMS_##sums                                                                     \
                     : "l"(x), "l"(w), "r"(accumulate));                                                     \
    }
WGMMA(64, 16, f16, 32, 32, 33, 34, ", 0, 0")
WGMMA(64, 16, bf16, 32, 32, 33, 34, ", 0, 0")
WGMMA(64, 8, tf32, 32, 32, 33, 34, "")
WGMMA(96, 16, f16, 48, 48, 49, 50, ", 0, 0")
WGMMA(96, 16, bf16, 48, 48, 49, 50, ", 0, 0")
WGMMA(96, 8, tf32, 48, 48, 49, 50, "")
WGMMA(128, 16, f16, 64, 64, 65, 66, ", 0, 0")
WGMMA(128, 16, bf16, 64, 64, 65, 66, ", 0, 0")
WGMMA(128, 8, tf32, 64, 64, 65, 66, "")

#endif
