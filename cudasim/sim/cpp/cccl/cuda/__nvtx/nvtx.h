/* Replaces libcu++'s header: every algorithm of Thrust begins with this macro. For profilers it marks a
 * range; here it lets the algorithm touch the memory of the GPU until its end, and waits for the GPU
 * first. */
#pragma once
#include "sim/cpp/library_range.hpp"

#define _CCCL_NVTX_RANGE_SCOPE(name) sim_library_range sim_range(true)
#define _CCCL_NVTX_RANGE_SCOPE_IF(condition, name) sim_library_range sim_range(true)
