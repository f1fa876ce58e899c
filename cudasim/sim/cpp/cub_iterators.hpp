/* CUB's iterators that ended with CUDA 13, as those of Thrust that replaced them. */
#pragma once

namespace cub {

template <class T, class Offset = ptrdiff_t>
using CountingInputIterator = thrust::counting_iterator<T, thrust::use_default, thrust::use_default, Offset>;
template <class T, class Offset = ptrdiff_t>
using ConstantInputIterator = thrust::constant_iterator<T, Offset>;
template <class T, class Operation, class Input, class Offset = ptrdiff_t>
using TransformInputIterator = thrust::transform_iterator<Operation, Input, T>;
template <class Offset = ptrdiff_t> using DiscardOutputIterator = thrust::discard_iterator<>;

} /* namespace cub */
