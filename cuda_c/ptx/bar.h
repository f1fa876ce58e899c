/* bar.sync: the sixteen numbered barriers of a block, each for a part of its warps. PTX ISA, section "bar".
 */
#pragma once

#include "sim/portable.h"

#ifdef __CUDACC__

/* Waits for the `threads` threads that use the block's barrier of this number (1 to 15; 0 is __syncthreads).
 */
static __device__ __forceinline__ void bar_sync(int number, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

#else

#include "sim/ptx/bar.h"

#endif
