/* cuda::barrier, and the copies that arrive at it or at a cuda::pipeline (pipeline.hpp).
 *
 * A copy lands when its thread waits or arrives. A barrier here counts arrivals in shared memory; a thread
 * that waits lets the others have a turn. */
#pragma once
#include "cooperative.hpp"

extern "C" void sim_tensor_copy_now(const sim_site *site, void *to, const void *map, int rank,
                                    const int *coordinates);

namespace cuda {

enum thread_scope { thread_scope_system, thread_scope_device, thread_scope_block, thread_scope_thread };
template <size_t Alignment> struct aligned_size_t {
    size_t value;
    explicit constexpr aligned_size_t(size_t value) : value(value) {}
    constexpr operator size_t() const {
        return value;
    }
};

/* ---- barrier ---- */

template <thread_scope Scope = thread_scope_system, class Completion = void> struct barrier {
    using arrival_token = unsigned;
    unsigned long long state; /* the phase << 32 | arrivals that are left of it, which change at once */
    unsigned expected;

    barrier() = default;
    barrier(ptrdiff_t count) : state((unsigned)count), expected((unsigned)count) {}
    friend void init(barrier *to, ptrdiff_t count) {
        to->state = to->expected = (unsigned)count;
    }
    unsigned sim_phase() const {
        return (unsigned)(atomicAdd((unsigned long long *)&state, 0ull) >> 32);
    }
    arrival_token arrive(ptrdiff_t count = 1) {
        cp_async_commit_group();
        cp_async_wait_group(0);
        sim_fence();
        unsigned long long before, after, found = atomicAdd(&state, 0ull);
        do {
            before = found;
            after = before - (unsigned)count;
            if ((unsigned)before == (unsigned)count)
                after = ((before >> 32) + 1) << 32 | atomicAdd(&expected, 0u);
            found = atomicCAS(&state, before, after);
        } while (found != before);
        return (unsigned)(before >> 32);
    }
    void wait(arrival_token token) const {
        while (sim_phase() == token)
            sim_sleep();
        sim_fence();
    }
    bool try_wait(arrival_token token) const {
        bool has_ended = sim_phase() != token;
        sim_fence();
        return has_ended;
    }
    void wait_parity(bool parity) const {
        while ((sim_phase() & 1u) == (unsigned)parity)
            sim_sleep();
        sim_fence();
    }
    template <class Duration> bool try_wait_for(arrival_token token, const Duration &) const {
        return try_wait(token);
    }
    bool try_wait_parity(bool parity) const {
        bool has_ended = (sim_phase() & 1u) != (unsigned)parity;
        sim_fence();
        return has_ended;
    }
    /* Until as many phases have ended. */
    void sim_wait_for_phases(unsigned count) const {
        while ((int)(sim_phase() - count) < 0)
            sim_sleep();
        sim_fence();
    }
    static constexpr ptrdiff_t max() {
        return (1 << 20) - 1;
    }
    void arrive_and_wait() {
        wait(arrive());
    }
    void arrive_and_drop() {
        atomicSub(&expected, 1u);
        arrive();
    }
};

/* ---- memcpy_async ---- */

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

/* Copies by TMA of a few bytes: here they have landed when the call returns, so the bytes that a barrier is
 * told to expect are there when the thread that copies arrives. */
namespace device {
template <class Barrier>
SIM_INLINE void memcpy_async_tx(void *to, const void *from, size_t bytes, Barrier &, SIM_CALLED_FROM) {
    sim_copy_async((char *)to, (const char *)from, bytes, 0, 1, sim_file, sim_line);
    cp_async_commit_group();
    cp_async_wait_group(0);
}
template <class Barrier> SIM_INLINE void barrier_expect_tx(Barrier &, ptrdiff_t) {}
template <class Barrier>
SIM_INLINE typename Barrier::arrival_token barrier_arrive_tx(Barrier &barrier, ptrdiff_t count, ptrdiff_t) {
    return barrier.arrive(count);
}
namespace experimental {
SIM_INLINE void fence_proxy_async_shared_cta(SIM_CALLED_FROM) {
    const sim_site site = {sim_file, sim_line};
    sim_fence_proxy_async(&site);
}
template <class Barrier>
SIM_INLINE void cp_async_bulk_tensor_1d_global_to_shared(void *to, const CUtensorMap *map, int x, Barrier &,
                                                         SIM_CALLED_FROM) {
    static thread_local sim_site site;
    site = {sim_file, sim_line};
    const int at[] = {x};
    sim_tensor_copy_now(&site, to, map, 1, at);
}
template <class Barrier>
SIM_INLINE void cp_async_bulk_tensor_2d_global_to_shared(void *to, const CUtensorMap *map, int x, int y,
                                                         Barrier &, SIM_CALLED_FROM) {
    static thread_local sim_site site;
    site = {sim_file, sim_line};
    const int at[] = {x, y};
    sim_tensor_copy_now(&site, to, map, 2, at);
}
template <class Barrier>
SIM_INLINE void cp_async_bulk_tensor_3d_global_to_shared(void *to, const CUtensorMap *map, int x, int y,
                                                         int z, Barrier &, SIM_CALLED_FROM) {
    static thread_local sim_site site;
    site = {sim_file, sim_line};
    const int at[] = {x, y, z};
    sim_tensor_copy_now(&site, to, map, 3, at);
}
} // namespace experimental
} // namespace device

} /* namespace cuda */

#include "pipeline.hpp"

namespace cuda {
namespace std {
using namespace ::std;
}
} // namespace cuda
