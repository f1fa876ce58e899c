/* Replaces Thrust's header: `x = v[i]` for a device vector is a copy from the GPU. */
#pragma once
#include <cuda/__nvtx/nvtx.h>
#include <thrust/detail/raw_pointer_cast.h>
#include <thrust/iterator/iterator_traits.h>
#include <thrust/system/cpp/detail/execution_policy.h>

THRUST_NAMESPACE_BEGIN
namespace system::cpp::detail {

template <class Policy, class Pointer>
thrust::detail::it_value_t<Pointer> get_value(execution_policy<Policy> &, Pointer from) {
    sim_library_range range(true);
    return *thrust::raw_pointer_cast(from);
}

} // namespace system::cpp::detail
THRUST_NAMESPACE_END
