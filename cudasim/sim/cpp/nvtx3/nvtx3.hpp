/* The ranges of NVTX's interface for C++. */
#pragma once
#include "sim/cpp/nvtx.hpp"

namespace nvtx3 {
struct scoped_range {
    template <class... Of> explicit scoped_range(const Of &...) {}
    ~scoped_range() {}
};
template <class Domain> struct scoped_range_in : scoped_range {
    using scoped_range::scoped_range;
};
template <class... Of> void mark(const Of &...) {}
} // namespace nvtx3
#define NVTX3_FUNC_RANGE() ::nvtx3::scoped_range sim_nvtx_range
