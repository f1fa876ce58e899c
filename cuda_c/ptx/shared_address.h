/* How PTX instructions name shared memory: a 32-bit offset in the block's own window. PTX ISA, section "State
 * spaces". For the GPU only. */
#pragma once

#include <stdint.h>

static __device__ __forceinline__ uint32_t shared_address(const void *pointer) {
    return (uint32_t)__cvta_generic_to_shared(pointer);
}
