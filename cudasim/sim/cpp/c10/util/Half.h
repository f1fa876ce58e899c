/* PyTorch's names for numbers of 16 bits, which are CUDA's in device code. */
#pragma once
#include "../../cuda_bf16.h"
#include "../../cuda_fp16.h"

namespace c10 {
using Half = __half;
using BFloat16 = __nv_bfloat16;
} // namespace c10
namespace at {
using namespace c10;
}
namespace torch {
using namespace c10;
}
