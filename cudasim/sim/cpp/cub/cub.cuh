/* CUB as NVIDIA publishes it (cudasim/live/cccl.py); a kernel without host code has all but the device-wide
 * functions. */
#pragma once
#ifdef SIM_HOST
#include "../program.hpp"
#include "../ptx_functions.hpp"
/* A failed call is told. */
#define CUB_STDERR
/* For what CUB asks its compiler's pass: which of the two, each in parentheses, depends on who calls. */
#define SIM_ALL_OF(...) __VA_ARGS__
#define SIM_IF_ELSE_IN_KERNEL(in_kernel, on_host)                                                            \
    if (sim_program_is_in_kernel()) {                                                                        \
        SIM_ALL_OF in_kernel                                                                                 \
    } else {                                                                                                 \
        SIM_ALL_OF on_host                                                                                   \
    }
/* Of kernels for Blackwell, which are read and never chosen. */
void __cluster_barrier_arrive_relaxed();
void __cluster_barrier_wait();
void __barrier_sync_count(unsigned, unsigned);
struct alignas(32) longlong4_32a {
    long long x, y, z, w;
};
#else
/* What CUB's headers name of the runtime. */
#include "../cuda.hpp"
enum cudaSharedMemConfig {
    cudaSharedMemBankSizeDefault,
    cudaSharedMemBankSizeFourByte,
    cudaSharedMemBankSizeEightByte
};
SIM_INLINE cudaError_t cudaGetLastError() {
    return cudaSuccess;
}
#endif
#include "../cuda_bf16.h" /* CUB includes these */
#include "../cuda_fp16.h"
#include "../cuda_fp8.h"
#define SIM_HEADER "sim/cpp/cub_headers.hpp"
#include "../cccl.hpp"

namespace cub {
/* Names that ended with CUDA 13. */
using Sum = ::cuda::std::plus<>;
using Difference = ::cuda::std::minus<>;
using Division = ::cuda::std::divides<>;
using Max = ::cuda::maximum<>;
using Min = ::cuda::minimum<>;
using Equality = ::cuda::std::equal_to<>;
using Inequality = ::cuda::std::not_equal_to<>;
#ifdef SIM_HOST
template <class T, class Offset = ptrdiff_t>
using CountingInputIterator = thrust::counting_iterator<T, thrust::use_default, thrust::use_default, Offset>;
template <class T, class Offset = ptrdiff_t>
using ConstantInputIterator = thrust::constant_iterator<T, Offset>;
template <class T, class Operation, class Input, class Offset = ptrdiff_t>
using TransformInputIterator = thrust::transform_iterator<Operation, Input, T>;
template <class Offset = ptrdiff_t> using DiscardOutputIterator = thrust::discard_iterator<>;
#endif
} // namespace cub
