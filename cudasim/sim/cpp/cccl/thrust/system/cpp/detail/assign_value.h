/* Replaces Thrust's header: `v[i] = x` for a device vector is a copy to the GPU. */
#pragma once
#include <cuda/__nvtx/nvtx.h>
#include <thrust/detail/raw_pointer_cast.h>
#include <thrust/system/cpp/detail/execution_policy.h>

THRUST_NAMESPACE_BEGIN
namespace system::cpp::detail {

template <class Policy, class To, class From>
void assign_value(execution_policy<Policy> &, To to, From from) {
    sim_library_range range(true);
    *thrust::raw_pointer_cast(to) = *thrust::raw_pointer_cast(from);
}

} // namespace system::cpp::detail
THRUST_NAMESPACE_END
