/* Hopper's instructions (compute capability 9.0a) as functions: named after the instruction, one each.
 *
 * Three things run beside a thread's own instructions, and each is waited for in its own way:
 *   - bulk tensor copies (TMA) count their bytes in an mbarrier in shared memory: mbarrier_wait();
 *   - wgmma reads shared memory and adds into registers: wgmma_commit(), then wgmma_wait();
 *   - stores into the shared memory of the other block of the cluster (st.async) count like copies.
 * PTX ISA, sections "mbarrier", "cp.async.bulk.tensor" and "Asynchronous Warpgroup Level Matrix". */
#pragma once

#include <cuda.h>
#include <stdint.h>

/* ---- Addresses ---- */

/* Shared memory as these instructions name it: a 32-bit offset in the block's own window. */
static __device__ __forceinline__ uint32_t shared_address(const void *pointer) {
    return (uint32_t)__cvta_generic_to_shared(pointer);
}

/* The same offset in the window of the cluster's block `rank`. */
static __device__ __forceinline__ uint32_t mapa(uint32_t address, uint32_t rank) {
    uint32_t mapped;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(rank));
    return mapped;
}

/* A value that is the same in all lanes of the warp, and known to be: the compiler may keep it, and what is
 * computed of it, in the registers that a warp has once, and compute it once. All 32 lanes together. */
static __device__ __forceinline__ uint32_t uniform(uint32_t value) {
    return __shfl_sync(0xffffffff, value, 0);
}

/* ---- The cluster ---- */

static __device__ __forceinline__ uint32_t cluster_rank(void) {
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

/* Waits for all threads of all blocks of the cluster. Relaxed: what they wrote is not made visible, which
 * would take a fence that waits for all of the GPU. */
static __device__ __forceinline__ void cluster_sync(void) {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;\n"
                 "barrier.cluster.wait.aligned;" ::
                     : "memory");
}

/* ---- mbarrier: a phase ends when `arrivals` threads have arrived and all announced bytes are there ---- */

static __device__ __forceinline__ void mbarrier_init(uint32_t barrier, uint32_t arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

/* Makes the initialised barriers known to the cluster and to the copy engine; cluster_sync() follows. */
static __device__ __forceinline__ void fence_mbarrier_init(void) {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/* Arrives, and announces bytes that this phase has to wait for. */
static __device__ __forceinline__ void mbarrier_arrive_expect_tx(uint32_t barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}

static __device__ __forceinline__ void mbarrier_arrive(uint32_t barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/* Arrives at the same barrier of the cluster's block `rank`, which may be this one. What it tells is that
 * this thread has finished reading. To release writes to the cluster as well (.release.cluster) would take a
 * fence that waits for all of the GPU, half as long as a step of the main loop. */
static __device__ __forceinline__ void mbarrier_arrive_cluster(uint32_t barrier, uint32_t rank) {
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(mapa(barrier, rank)) : "memory");
}

/* Waits for the end of the phase of this parity: 0 for the first, 1 for the second, 0 for the third ... */
static __device__ __forceinline__ void mbarrier_wait(uint32_t barrier, uint32_t parity) {
    asm volatile("{ .reg .pred done;\n"
                 "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again; }" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

/* ---- Copies ---- */

static __device__ __forceinline__ void prefetch_tensormap(const CUtensorMap *map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/* Copies the box at (column, row) of a matrix into shared memory; its bytes count in `barrier`. */
static __device__ __forceinline__ void cp_async_bulk_tensor(uint32_t to, const CUtensorMap *map, int column,
                                                            int row, uint32_t barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),
                 "l"(map), "r"(column), "r"(row), "r"(barrier)
                 : "memory");
}

/* The same into every block of the cluster that has a bit in `blocks`, at the same offset, each counting the
 * bytes in its own barrier. */
static __device__ __forceinline__ void cp_async_bulk_tensor_multicast(uint32_t to, const CUtensorMap *map,
                                                                      int column, int row, uint32_t barrier,
                                                                      uint16_t blocks) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
                 "l"(map), "r"(column), "r"(row), "r"(barrier), "h"(blocks)
                 : "memory");
}

/* The same two of a matrix that is described in five dimensions: along a row, three inside a block of rows,
 * and the blocks, of which the box begins with `block`. */
static __device__ __forceinline__ void cp_async_bulk_tensor_blocks(uint32_t to, const CUtensorMap *map,
                                                                   int column, int block, uint32_t barrier) {
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, 0, 0, 0, %3}], [%4];" ::"r"(to),
                 "l"(map), "r"(column), "r"(block), "r"(barrier)
                 : "memory");
}

static __device__ __forceinline__ void
cp_async_bulk_tensor_blocks_multicast(uint32_t to, const CUtensorMap *map, int column, int block,
                                      uint32_t barrier, uint16_t blocks) {
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%2, 0, 0, 0, %3}], [%4], %5;" ::"r"(to),
                 "l"(map), "r"(column), "r"(block), "r"(barrier), "h"(blocks)
                 : "memory");
}

/* Copies one float into shared memory, or zero where there is none; cp_async_wait_all() waits for all of the
 * thread's own. */
static __device__ __forceinline__ void cp_async_float(uint32_t to, const float *from, bool present) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(present ? 4 : 0)
                 : "memory");
}

static __device__ __forceinline__ void cp_async_wait_all(void) {
    asm volatile("cp.async.wait_all;" ::: "memory");
}

/* Waits for the `threads` threads that use the block's barrier of this number (1 to 15; 0 is __syncthreads).
 */
static __device__ __forceinline__ void bar_sync(int number, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

/* Stores two floats in the shared memory of another block; their 8 bytes count in a barrier there. */
static __device__ __forceinline__ void st_async(uint32_t to, float a, float b, uint32_t barrier) {
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(to),
        "f"(a), "f"(b), "r"(barrier)
        : "memory");
}

/* ---- Registers ---- */

/* Gives registers back, or takes those that others gave back: all threads of a warpgroup together. */
#define setmaxnreg_dec(count) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count))
#define setmaxnreg_inc(count) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count))

/* ---- wgmma: a warpgroup multiplies a tile of x by a tile of w^T, both in shared memory ---- */

/* Orders the registers' last ordinary use before the next wgmma. */
static __device__ __forceinline__ void wgmma_fence(void) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

/* Keeps the compiler from moving an ordinary use of the registers across this point: of wgmma it only knows
 * where it is issued, not that its sums change until it is waited for. */
static __device__ __forceinline__ void hold_registers(float *v, int count) {
#pragma unroll
    for (int i = 0; i < count; i++)
        asm volatile("" : "+f"(v[i])::"memory");
}

/* Closes a group of the wgmmas since the last commit. */
static __device__ __forceinline__ void wgmma_commit(void) {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Waits until at most `groups` (a constant) of the latest groups are still running. */
#define wgmma_wait(groups) asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(groups) : "memory")

/* How wgmma finds a tile: rows of 128 bytes along k, in atoms of 8 rows that the copy engine has swizzled
 * (CU_TENSOR_MAP_SWIZZLE_128B). `address` is 1024-byte aligned, plus 32 bytes for each step along k. Fields
 * in units of 16 bytes: the address, the distance of neighbouring atoms (1024 bytes), the swizzle mode. */
static __device__ __forceinline__ uint64_t tile_descriptor(uint32_t address) {
    uint64_t distance = 1024 / 16, swizzle_128_bytes = 1;
    return (address & 0x3ffff) >> 4 | (uint64_t)1 << 16 | distance << 32 | swizzle_128_bytes << 62;
}

/* The descriptor of the same rows, `bytes` (a multiple of 16) further along k. Only its lower half changes,
 * so the upper one stays the constant that it is. */
static __device__ __forceinline__ uint64_t further(uint64_t descriptor, int bytes) {
    return (descriptor & 0xffffffff00000000) | ((uint32_t)descriptor + bytes / 16);
}

/* sum (+)= x w^T, asynchronously. Of the 64 x N results a thread has those of two rows, 8 apart, and of two
 * neighbouring columns in every eight: sum[i] belongs to row warp * 16 + lane / 4 + i / 2 % 2 * 8 and to
 * column i / 4 * 8 + lane % 4 * 2 + i % 2. With `accumulate` 0, sum is overwritten. */

static __device__ __forceinline__ void wgmma_m64n128k16_f16(float *sum, uint64_t x, uint64_t w,
                                                            int accumulate) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %66, 0; "
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
                 "%64, %65, p, 1, 1, 0, 0; }"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]), "+f"(sum[4]), "+f"(sum[5]),
                   "+f"(sum[6]), "+f"(sum[7]), "+f"(sum[8]), "+f"(sum[9]), "+f"(sum[10]), "+f"(sum[11]),
                   "+f"(sum[12]), "+f"(sum[13]), "+f"(sum[14]), "+f"(sum[15]), "+f"(sum[16]), "+f"(sum[17]),
                   "+f"(sum[18]), "+f"(sum[19]), "+f"(sum[20]), "+f"(sum[21]), "+f"(sum[22]), "+f"(sum[23]),
                   "+f"(sum[24]), "+f"(sum[25]), "+f"(sum[26]), "+f"(sum[27]), "+f"(sum[28]), "+f"(sum[29]),
                   "+f"(sum[30]), "+f"(sum[31]), "+f"(sum[32]), "+f"(sum[33]), "+f"(sum[34]), "+f"(sum[35]),
                   "+f"(sum[36]), "+f"(sum[37]), "+f"(sum[38]), "+f"(sum[39]), "+f"(sum[40]), "+f"(sum[41]),
                   "+f"(sum[42]), "+f"(sum[43]), "+f"(sum[44]), "+f"(sum[45]), "+f"(sum[46]), "+f"(sum[47]),
                   "+f"(sum[48]), "+f"(sum[49]), "+f"(sum[50]), "+f"(sum[51]), "+f"(sum[52]), "+f"(sum[53]),
                   "+f"(sum[54]), "+f"(sum[55]), "+f"(sum[56]), "+f"(sum[57]), "+f"(sum[58]), "+f"(sum[59]),
                   "+f"(sum[60]), "+f"(sum[61]), "+f"(sum[62]), "+f"(sum[63])
                 : "l"(x), "l"(w), "r"(accumulate));
}

static __device__ __forceinline__ void wgmma_m64n128k16_bf16(float *sum, uint64_t x, uint64_t w,
                                                             int accumulate) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %66, 0; "
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
                 "%64, %65, p, 1, 1, 0, 0; }"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]), "+f"(sum[4]), "+f"(sum[5]),
                   "+f"(sum[6]), "+f"(sum[7]), "+f"(sum[8]), "+f"(sum[9]), "+f"(sum[10]), "+f"(sum[11]),
                   "+f"(sum[12]), "+f"(sum[13]), "+f"(sum[14]), "+f"(sum[15]), "+f"(sum[16]), "+f"(sum[17]),
                   "+f"(sum[18]), "+f"(sum[19]), "+f"(sum[20]), "+f"(sum[21]), "+f"(sum[22]), "+f"(sum[23]),
                   "+f"(sum[24]), "+f"(sum[25]), "+f"(sum[26]), "+f"(sum[27]), "+f"(sum[28]), "+f"(sum[29]),
                   "+f"(sum[30]), "+f"(sum[31]), "+f"(sum[32]), "+f"(sum[33]), "+f"(sum[34]), "+f"(sum[35]),
                   "+f"(sum[36]), "+f"(sum[37]), "+f"(sum[38]), "+f"(sum[39]), "+f"(sum[40]), "+f"(sum[41]),
                   "+f"(sum[42]), "+f"(sum[43]), "+f"(sum[44]), "+f"(sum[45]), "+f"(sum[46]), "+f"(sum[47]),
                   "+f"(sum[48]), "+f"(sum[49]), "+f"(sum[50]), "+f"(sum[51]), "+f"(sum[52]), "+f"(sum[53]),
                   "+f"(sum[54]), "+f"(sum[55]), "+f"(sum[56]), "+f"(sum[57]), "+f"(sum[58]), "+f"(sum[59]),
                   "+f"(sum[60]), "+f"(sum[61]), "+f"(sum[62]), "+f"(sum[63])
                 : "l"(x), "l"(w), "r"(accumulate));
}

static __device__ __forceinline__ void wgmma_m64n128k8_tf32(float *sum, uint64_t x, uint64_t w,
                                                            int accumulate) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %66, 0; "
                 "wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
                 "%64, %65, p, 1, 1; }"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]), "+f"(sum[4]), "+f"(sum[5]),
                   "+f"(sum[6]), "+f"(sum[7]), "+f"(sum[8]), "+f"(sum[9]), "+f"(sum[10]), "+f"(sum[11]),
                   "+f"(sum[12]), "+f"(sum[13]), "+f"(sum[14]), "+f"(sum[15]), "+f"(sum[16]), "+f"(sum[17]),
                   "+f"(sum[18]), "+f"(sum[19]), "+f"(sum[20]), "+f"(sum[21]), "+f"(sum[22]), "+f"(sum[23]),
                   "+f"(sum[24]), "+f"(sum[25]), "+f"(sum[26]), "+f"(sum[27]), "+f"(sum[28]), "+f"(sum[29]),
                   "+f"(sum[30]), "+f"(sum[31]), "+f"(sum[32]), "+f"(sum[33]), "+f"(sum[34]), "+f"(sum[35]),
                   "+f"(sum[36]), "+f"(sum[37]), "+f"(sum[38]), "+f"(sum[39]), "+f"(sum[40]), "+f"(sum[41]),
                   "+f"(sum[42]), "+f"(sum[43]), "+f"(sum[44]), "+f"(sum[45]), "+f"(sum[46]), "+f"(sum[47]),
                   "+f"(sum[48]), "+f"(sum[49]), "+f"(sum[50]), "+f"(sum[51]), "+f"(sum[52]), "+f"(sum[53]),
                   "+f"(sum[54]), "+f"(sum[55]), "+f"(sum[56]), "+f"(sum[57]), "+f"(sum[58]), "+f"(sum[59]),
                   "+f"(sum[60]), "+f"(sum[61]), "+f"(sum[62]), "+f"(sum[63])
                 : "l"(x), "l"(w), "r"(accumulate));
}
