/* CUB as NVIDIA publishes it (cudasim/live/cccl.py), but for its device-wide functions. */
#pragma once
#ifdef SIM_HOST
#include "../program.hpp"
#define CUB_STDERR /* a failed call is told */
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
} // namespace cub
#ifdef SIM_HOST
#include "../cub_device.hpp"
#endif
