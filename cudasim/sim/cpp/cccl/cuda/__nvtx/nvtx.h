/* In place of libcu++'s header: with this macro every algorithm of Thrust's begins. Profilers see ranges by
 * it; here the algorithm may touch the memory of the GPU until it ends, and has waited for it then. */
#pragma once
#include "sim/cpp/library_range.hpp"

#define _CCCL_NVTX_RANGE_SCOPE(name) sim_library_range sim_range(true)
#define _CCCL_NVTX_RANGE_SCOPE_IF(condition, name) sim_library_range sim_range(true)
