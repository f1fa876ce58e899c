/* In place of libcu++'s header: with this macro every algorithm of Thrust's begins. Profilers see ranges by
 * it; here the algorithm may touch the memory of the GPU until it ends (sim/program/libraries.c). */
#pragma once
#include "sim/program/program.h"

struct sim_library_range {
    bool is_of_host;
    sim_library_range() : is_of_host(sim_library_begins()) {}
    sim_library_range(const sim_library_range &) = delete;
    ~sim_library_range() {
        if (is_of_host)
            sim_library_ends();
    }
};
#define _CCCL_NVTX_RANGE_SCOPE(name) sim_library_range sim_range
#define _CCCL_NVTX_RANGE_SCOPE_IF(condition, name) sim_library_range sim_range
