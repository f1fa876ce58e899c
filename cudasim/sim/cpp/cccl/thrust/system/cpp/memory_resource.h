/* Replaces Thrust's header: device vectors are in memory of the GPU, and universal ones in managed memory,
 * where kernels may access them. */
#pragma once
#include <thrust/detail/config.h>
#include <thrust/mr/fancy_pointer_resource.h>
#include <thrust/mr/memory_resource.h>
#include <thrust/system/cpp/pointer.h>
#include "sim/program/program.h"
#include <new>

THRUST_NAMESPACE_BEGIN
namespace system::cpp {
namespace detail {

template <sim_memory_kind Kind> class sim_resource final : public thrust::mr::memory_resource<> {
  public:
    void *do_allocate(std::size_t bytes, std::size_t) override {
        void *memory = sim_library_memory(bytes, Kind);
        if (!memory && bytes)
            throw std::bad_alloc();
        return memory;
    }
    void do_deallocate(void *memory, std::size_t, std::size_t) override {
        sim_library_gives_back(memory, Kind);
    }
};
template <sim_memory_kind Kind, class Pointer>
using sim_resource_of = thrust::mr::fancy_pointer_resource<sim_resource<Kind>, Pointer>;

} // namespace detail

using memory_resource = detail::sim_resource_of<SIM_DEVICE_MEMORY, thrust::cpp::pointer<void>>;
using universal_memory_resource =
    detail::sim_resource_of<SIM_MANAGED_MEMORY, thrust::cpp::universal_pointer<void>>;
using universal_host_pinned_memory_resource =
    detail::sim_resource_of<SIM_PINNED_MEMORY, thrust::cpp::universal_pointer<void>>;

} // namespace system::cpp
THRUST_NAMESPACE_END
