/* Copies that arrive at a cuda::barrier or a cuda::pipeline (pipeline.hpp): those of memcpy_async(), which
 * land when their thread waits or arrives, and those of TMA (bulk.hpp). */
#pragma once
#include "barrier.hpp"

namespace cuda {

template <size_t Alignment> struct aligned_size_t {
    size_t value;
    explicit constexpr aligned_size_t(size_t value) : value(value) {}
    constexpr operator size_t() const {
        return value;
    }
};

SIM_INLINE void sim_copy_async(char *to, const char *from, size_t bytes, size_t first, size_t step,
                               const char *file, int line) {
    uintptr_t all = (uintptr_t)to | (uintptr_t)from | bytes;
    size_t width = all % 16 == 0 ? 16 : all % 8 == 0 ? 8 : all % 4 == 0 ? 4 : all % 2 == 0 ? 2 : 1;
    for (size_t i = first * width; i < bytes; i += step * width)
        sim_cp_async(sim_site_at(file, line), to + i, from + i, (unsigned)width, true);
}
template <class Sync>
SIM_INLINE void memcpy_async(void *to, const void *from, size_t bytes, Sync &, SIM_CALLED_FROM) {
    sim_copy_async((char *)to, (const char *)from, bytes, 0, 1, sim_file, sim_line);
}
template <class Group, class Sync, class = decltype(((const Group *)0)->thread_rank())>
SIM_INLINE void memcpy_async(const Group &group, void *to, const void *from, size_t bytes, Sync &,
                             SIM_CALLED_FROM) {
    sim_copy_async((char *)to, (const char *)from, bytes, group.thread_rank(), group.size(), sim_file,
                   sim_line);
}

} /* namespace cuda */

#include "bulk.hpp"
#include "pipeline.hpp"

namespace cuda {
namespace std {
using namespace ::std;
}
} // namespace cuda
