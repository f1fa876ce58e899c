/* How a kernel controls its registers: which values a warp keeps once, and how warpgroups share a
 * multiprocessor's registers. */
#pragma once

#include "sim/portable.h"

#ifdef __CUDACC__

/* Tells the compiler that a value is the same in all lanes of the warp. It may then compute the value, and
 * what depends on it, once, in the warp's uniform registers. All 32 lanes call it together. */
static __device__ __forceinline__ uint32_t uniform(uint32_t value) {
    return __shfl_sync(0xffffffff, value, 0);
}

/* Keeps the compiler from moving an ordinary use of the registers across this point: the compiler knows where
 * a wgmma is issued, but not that its sums change until the kernel has waited for it. */
static __device__ __forceinline__ void hold_registers(float *v, int count) {
#pragma unroll
    for (int i = 0; i < count; i++)
        asm volatile("" : "+f"(v[i])::"memory");
}

/* setmaxnreg (compute capability 9.0a): gives registers back, or takes those that others gave back. All
 * threads of a warpgroup execute it together. */
#define setmaxnreg_dec(count) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count))
#define setmaxnreg_inc(count) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count))

#else

#include "sim/ptx/registers.h"

#endif
