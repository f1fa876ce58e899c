/* How PTX instructions name shared memory: a 32-bit offset in the block's own window. PTX ISA, section "State
 * spaces". */
#pragma once

#include "sim/portable.h"

#ifdef __CUDACC__

static __device__ __forceinline__ uint32_t shared_address(const void *pointer) {
    return (uint32_t)__cvta_generic_to_shared(pointer);
}

#else

#include "sim/ptx/shared_address.h"

#endif
