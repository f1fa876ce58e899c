/* TMA, the Tensor Memory Accelerator (compute capability 9.0): one thread asks for the copy of a whole box of
 * a matrix from global into shared memory. The copy then runs by itself and counts its bytes in an mbarrier,
 * where the readers of the box wait: mbarrier_wait(). The functions are named after the instructions.
 *
 * PTX ISA, section "cp.async.bulk.tensor"; CUDA driver API, section "Tensor Map Object Management". */
#pragma once

#include "sim/portable.h"

#ifdef __CUDACC__

#include <cuda.h>

static __device__ __forceinline__ void prefetch_tensormap(const CUtensorMap *map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/* Copies `bytes` contiguous bytes, a multiple of 16, into shared memory, without a tensor map; both addresses
 * are multiples of 16 as well. The bytes count in `barrier`. */
static __device__ __forceinline__ void cp_async_bulk(uint32_t to, const void *from, uint32_t bytes,
                                                     uint32_t barrier) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
        "l"(from), "r"(bytes), "r"(barrier)
        : "memory");
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

/* The same two for a matrix described in five dimensions: along a row, three inside a block of rows, and the
 * blocks. The box begins with block `block`. */
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

#else

#include "sim/ptx/tma.h"

#endif

/* ---- The host's side ---- */

typedef CUresult (*tensor_map_encoder)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                                       const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                                       const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                                       CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

/* Finds the driver's cuTensorMapEncodeTiled at run time, so that the library loads without a driver. */
static inline tensor_map_encoder find_tensor_map_encoder(void) {
#ifndef __CUDACC__
    return cuTensorMapEncodeTiled; /* the simulator's own */
#else
    void *function = NULL;
    cudaDriverEntryPointQueryResult found;
    if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault,
                                         &found) != cudaSuccess)
        return NULL;
    return found == cudaDriverEntryPointSuccess ? (tensor_map_encoder)function : NULL;
#endif
}

/* Describes a tensor to TMA: `rank` sizes, the first along contiguous elements; the strides of the
 * others in bytes; and the box that one copy moves. The first side of a box is 128 bytes, which TMA
 * writes swizzled by 128 bytes; a box is zero outside the tensor. Returns false if TMA cannot address
 * it. */
static inline bool encode_tensor_map(CUtensorMap *map, CUtensorMapDataType type, const void *tensor, int rank,
                                     const cuuint64_t *sizes, const cuuint64_t *strides,
                                     const cuuint32_t *box) {
    static tensor_map_encoder encode = NULL;
    const cuuint32_t every_element[5] = {1, 1, 1, 1, 1};
    if (!encode)
        encode = find_tensor_map_encoder();
    return encode &&
           encode(map, type, rank, (void *)tensor, sizes, strides, box, every_element,
                  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                  CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}
