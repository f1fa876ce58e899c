/* While one is there, host code may touch the memory of the GPU, because it does the GPU's work: Thrust's
 * algorithms, CUB's device-wide functions (../program/libraries.c). In a kernel it does nothing. */
#pragma once
#include "../program/program.h"

struct sim_library_range {
    static inline thread_local sim_library_range
        *outer; /* of this OS thread: those within do nothing of their own */
    bool is_of_host, waits;
    explicit sim_library_range(bool waits) : is_of_host(!outer && sim_library_begins()), waits(waits) {
        if (is_of_host)
            outer = this;
        else if (outer)
            outer->waits |= waits;
    }
    sim_library_range(const sim_library_range &) = delete;
    ~sim_library_range() {
        if (!is_of_host)
            return;
        outer = nullptr;
        sim_library_ends(waits);
    }
};
