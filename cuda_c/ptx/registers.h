/* How a kernel controls its registers: which values a warp has once, and how warpgroups share the registers
 * of a multiprocessor. */
#pragma once

#include "sim/portable.h"

#ifdef __CUDACC__

/* A value that is the same in all lanes of the warp, and known to be: the compiler may keep it, and what is
 * computed of it, in the registers that a warp has once, and compute it once. All 32 lanes together. */
static __device__ __forceinline__ uint32_t uniform(uint32_t value) {
    return __shfl_sync(0xffffffff, value, 0);
}

/* Keeps the compiler from moving an ordinary use of the registers across this point: the compiler knows where
 * a wgmma is issued, and not that its sums change until the kernel has waited for it. */
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
