/* Replaces Thrust's header: a reduction combines elements as leaves of a tree, so that a sum of many floats
 * is as accurate as on a GPU. A sequential sum would soon lose small elements. */
#pragma once
#include <cuda/__nvtx/nvtx.h>
#include <deque>
#include <thrust/detail/function.h>
#include <thrust/system/cpp/detail/execution_policy.h>
#include <thrust/system/detail/sequential/reduce.h>
#include <type_traits>

THRUST_NAMESPACE_BEGIN
namespace system::cpp::detail {

template <class Policy, class Iterator, class T, class Operation>
T reduce(execution_policy<Policy> &policy, Iterator begin, Iterator end, T initial, Operation operation) {
    enum { LEAF = 32 };
    if constexpr (std::is_convertible_v<decltype(*begin), T>) {
        if (begin == end)
            return initial;
        if (!sim_program_is_in_kernel()) {
            thrust::detail::wrapped_function<Operation, T> combined{operation};
            std::deque<T> sums; /* of so many leaves as the bits of their number say */
            for (unsigned long long leaf = 1; begin != end; leaf++) {
                T sum = *begin;
                ++begin;
                for (int i = 1; i < LEAF && begin != end; i++, ++begin)
                    sum = combined(sum, *begin);
                for (unsigned long long half = leaf; half % 2 == 0; half /= 2) {
                    sum = combined(sums.back(), sum);
                    sums.pop_back();
                }
                sums.push_back(sum);
            }
            T sum = sums.back();
            for (size_t i = sums.size() - 1; i-- > 0;)
                sum = combined(sums[i], sum);
            return combined(initial, sum);
        }
    }
    return thrust::system::detail::sequential::reduce(policy, begin, end, initial, operation);
}

} // namespace system::cpp::detail
THRUST_NAMESPACE_END
