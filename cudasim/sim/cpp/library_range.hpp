/* While such an object exists, host code may touch the memory of the GPU, because it does the GPU's work:
 * Thrust's algorithms (../program/libraries.c). In a kernel it does nothing. */
#pragma once
#include "../program/program.h"

struct sim_library_range {
    bool is_of_host, waits;
    explicit sim_library_range(bool waits) : is_of_host(sim_library_begins()), waits(waits) {}
    sim_library_range(const sim_library_range &) = delete;
    ~sim_library_range() {
        if (is_of_host)
            sim_library_ends(waits);
    }
};
