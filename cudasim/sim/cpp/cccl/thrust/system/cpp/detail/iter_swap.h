/* Replaces Thrust's header: swap(v[i], v[j]) for device vectors. */
#pragma once
#include <cuda/__nvtx/nvtx.h>
#include <thrust/detail/raw_pointer_cast.h>
#include <thrust/system/cpp/detail/execution_policy.h>
#include <utility>

THRUST_NAMESPACE_BEGIN
namespace system::cpp::detail {

template <class Policy, class A, class B> void iter_swap(execution_policy<Policy> &, A a, B b) {
    sim_library_range range(true);
    using std::swap;
    swap(*thrust::raw_pointer_cast(a), *thrust::raw_pointer_cast(b));
}

} // namespace system::cpp::detail
THRUST_NAMESPACE_END
