/* Replaces Thrust's header: thrust::malloc() allocates memory of the GPU, and a kernel's from the device's
   heap. */
#pragma once
#include <thrust/detail/config.h>
#include <thrust/detail/raw_pointer_cast.h>
#include <thrust/system/detail/sequential/execution_policy.h>
#include "sim/program/program.h"

THRUST_NAMESPACE_BEGIN
namespace system::detail::sequential {

template <class Policy> void *malloc(execution_policy<Policy> &, std::size_t bytes) {
    return sim_program_is_in_kernel() ? ::malloc(bytes) : sim_library_memory(bytes, SIM_DEVICE_MEMORY);
}
template <class Policy, class Pointer> void free(execution_policy<Policy> &, Pointer pointer) {
    void *memory = (void *)thrust::raw_pointer_cast(pointer);
    if (sim_program_is_in_kernel())
        ::free(memory);
    else
        sim_library_gives_back(memory, SIM_DEVICE_MEMORY);
}

} // namespace system::detail::sequential
THRUST_NAMESPACE_END
