/* PyTorch's names in device code. If torch is installed (cudasim/live/torch_headers.py), its own headers
 * define them; otherwise its 16-bit floats are CUDA's. */
#pragma once
#include "../../cuda_bf16.h"
#include "../../cuda_fp16.h"

#ifdef SIM_HAS_TORCH
#include <ATen/cuda/DeviceUtils.cuh>
#include <ATen/cuda/NumericLimits.cuh>
#include <c10/util/BFloat16.h>
#include <c10/util/Float8_e4m3fn.h>
#include <c10/util/Float8_e5m2.h>
#include <c10/util/complex.h>
#else
namespace c10 {
using Half = __half;
using BFloat16 = __nv_bfloat16;
} // namespace c10
namespace at {
using namespace c10;
}
#endif
namespace torch {
using namespace c10;
}
