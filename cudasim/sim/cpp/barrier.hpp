/* cuda::barrier. In shared memory it is an mbarrier, as on a GPU, so that it counts TMA's bytes and all
 * checks of mbarriers apply; elsewhere it counts arrivals by atomics. */
#pragma once
#include "cooperative.hpp"

namespace cuda {

enum thread_scope { thread_scope_system, thread_scope_device, thread_scope_block, thread_scope_thread };

/* A thread that waits lets the others have a turn. */
struct sim_counting_barrier {
    using arrival_token = unsigned;
    unsigned long long state; /* the phase << 32 | arrivals that are left of it, which change at once */
    unsigned expected;

    void begin(ptrdiff_t count) {
        state = expected = (unsigned)count;
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
    void wait_parity(bool parity) const {
        while ((sim_phase() & 1u) == (unsigned)parity)
            sim_sleep();
        sim_fence();
    }
    /* Waits until this many phases have ended. */
    void sim_wait_for_phases(unsigned count) const {
        while ((int)(sim_phase() - count) < 0)
            sim_sleep();
        sim_fence();
    }
    void arrive_and_drop() {
        atomicSub(&expected, 1u);
        arrive();
    }
};

template <thread_scope Scope = thread_scope_system, class Completion = void> struct barrier {
    using arrival_token = uint64_t;
    uint64_t word; /* the mbarrier */
    sim_counting_barrier counting;

    barrier() = default;
    barrier(ptrdiff_t count, SIM_CALLED_FROM) {
        sim_begin(count, sim_file, sim_line);
    }
    friend void init(barrier *to, ptrdiff_t count, SIM_CALLED_FROM) {
        to->sim_begin(count, sim_file, sim_line);
    }
    void sim_begin(ptrdiff_t count, const char *sim_file, int sim_line) {
        if (sim_is_shared(this))
            sim_mbarrier_init(SIM_CALLER, sim_handle(SIM_CALLER), (uint32_t)count);
        else
            counting.begin(count);
    }
    uint32_t sim_handle(const sim_site *site) const {
        return sim_shared_address(site, &word);
    }
    /* Announces bytes, and arrives `count` times. */
    arrival_token sim_arrive(const sim_site *site, ptrdiff_t count, uint32_t bytes) {
        cp_async_commit_group(); /* what memcpy_async() copies arrives with its thread */
        cp_async_wait_group(0);
        arrival_token token = sim_mbarrier_parity(site, sim_handle(site));
        for (; count > 0; count--, bytes = 0)
            sim_mbarrier_arrive(site, sim_handle(site), bytes);
        return token;
    }
    arrival_token arrive(ptrdiff_t count = 1, SIM_CALLED_FROM) {
        return sim_is_shared(this) ? sim_arrive(SIM_CALLER, count, 0) : counting.arrive(count);
    }
    void wait(arrival_token token, SIM_CALLED_FROM) const {
        if (sim_is_shared(this))
            sim_mbarrier_wait(SIM_CALLER, sim_handle(SIM_CALLER), (uint32_t)token);
        else
            counting.wait((unsigned)token);
    }
    void wait_parity(bool parity, SIM_CALLED_FROM) const {
        if (sim_is_shared(this))
            sim_mbarrier_wait(SIM_CALLER, sim_handle(SIM_CALLER), parity);
        else
            counting.wait_parity(parity);
    }
    /* A wait that may fail never fails here. */
    bool try_wait(arrival_token token, SIM_CALLED_FROM) const {
        wait(token, sim_file, sim_line);
        return true;
    }
    bool try_wait_parity(bool parity, SIM_CALLED_FROM) const {
        wait_parity(parity, sim_file, sim_line);
        return true;
    }
    template <class Duration>
    bool try_wait_for(arrival_token token, const Duration &, SIM_CALLED_FROM) const {
        return try_wait(token, sim_file, sim_line);
    }
    template <class Duration> bool try_wait_parity_for(bool parity, const Duration &, SIM_CALLED_FROM) const {
        return try_wait_parity(parity, sim_file, sim_line);
    }
    void arrive_and_wait(SIM_CALLED_FROM) {
        wait(arrive(1, sim_file, sim_line), sim_file, sim_line);
    }
    void arrive_and_drop(SIM_CALLED_FROM) {
        if (!sim_is_shared(this)) {
            counting.arrive_and_drop();
            return;
        }
        cp_async_commit_group();
        cp_async_wait_group(0);
        sim_mbarrier_arrive_and_drop(SIM_CALLER, sim_handle(SIM_CALLER));
    }
    static constexpr ptrdiff_t max() {
        return (1 << 20) - 1;
    }
};

} /* namespace cuda */
