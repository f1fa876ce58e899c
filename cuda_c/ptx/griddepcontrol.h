/* griddepcontrol (compute capability 9.0): a launch may begin while the one before it in the stream ends. The
 * functions are named after the instructions. On other GPUs and in the simulator one launch follows the
 * other.
 *
 * PTX ISA, section "griddepcontrol"; CUDA C++ Programming Guide, section "Programmatic Dependent Launch". */
#pragma once

#include "sim/portable.h"

#ifdef __CUDACC__

/* Lets the next launch begin as soon as every block has called this; it still has to wait for what this
 * launch writes. */
static __device__ __forceinline__ void griddepcontrol_launch_dependents(void) {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* Waits until the launch before has ended and its writes are visible. */
static __device__ __forceinline__ void griddepcontrol_wait(void) {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

#else

#include "sim/ptx/griddepcontrol.h"

#endif
