/* Replaces Thrust's header: its policies for a GPU. They ignore their stream, because a program's operations
 * run in the order of its calls. */
#pragma once
#include <thrust/detail/config.h>
#include <thrust/system/cpp/execution_policy.h>
/* Thrust's header includes these, and programs rely on that. */
#include <thrust/adjacent_difference.h>
#include <thrust/advance.h>
#include <thrust/binary_search.h>
#include <thrust/copy.h>
#include <thrust/count.h>
#include <thrust/device_ptr.h>
#include <thrust/distance.h>
#include <thrust/execution_policy.h>
#include <thrust/extrema.h>
#include <thrust/fill.h>
#include <thrust/find.h>
#include <thrust/for_each.h>
#include <thrust/functional.h>
#include <thrust/generate.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/permutation_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <thrust/iterator/zip_iterator.h>
#include <thrust/merge.h>
#include <thrust/pair.h>
#include <thrust/partition.h>
#include <thrust/reduce.h>
#include <thrust/remove.h>
#include <thrust/replace.h>
#include <thrust/reverse.h>
#include <thrust/scan.h>
#include <thrust/scatter.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/swap.h>
#include <thrust/tabulate.h>
#include <thrust/transform.h>
#include <thrust/transform_reduce.h>
#include <thrust/tuple.h>
#include <thrust/unique.h>

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
