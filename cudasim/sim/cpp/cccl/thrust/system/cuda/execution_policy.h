/* In place of Thrust's header: its policies for a GPU. A stream is taken and not asked for, because all that
 * a program asks for is done in the order of its calls. */
#pragma once
#include <thrust/detail/config.h>
#include <thrust/system/cpp/execution_policy.h>

THRUST_NAMESPACE_BEGIN
namespace system::cuda {

using thrust::system::cpp::execution_policy;
using thrust::system::cpp::tag;

template <class Policy> struct sim_on_stream : Policy {
    sim_on_stream() = default;
    sim_on_stream(const Policy &policy) : Policy(policy) {}
    sim_on_stream on(cudaStream_t) const {
        return *this;
    }
    template <class Allocator> auto operator()(Allocator &&allocator) const {
        auto with = thrust::system::cpp::par((Allocator &&)allocator);
        return sim_on_stream<decltype(with)>(with);
    }
};
static const sim_on_stream<thrust::system::cpp::detail::par_t> par, par_nosync;

} // namespace system::cuda

namespace cuda {
using namespace thrust::system::cuda;
}
namespace cuda_cub {
using namespace thrust::system::cuda;
}
THRUST_NAMESPACE_END
