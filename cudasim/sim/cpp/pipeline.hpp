/* cuda::pipeline. For one thread, its stages are groups of cp.async. For a block, they are a ring in shared
 * memory: at each stage's two barriers the producers arrive when it is full, and the consumers when it is
 * empty again. */
#pragma once
#include "asynchronous.hpp"

namespace cuda {

enum class pipeline_role { producer, consumer };

template <thread_scope Scope, unsigned Stages> struct pipeline_shared_state {
    sim_counting_barrier full[Stages], empty[Stages];
    unsigned producers, consumers; /* threads that have said what they are */
};

template <thread_scope Scope = thread_scope_thread> struct pipeline {
    unsigned committed = 0, waited = 0;
    /* For a block: */
    sim_counting_barrier *full = nullptr, *empty = nullptr;
    unsigned stages = 0, released = 0;
    bool produces = true, consumes = true;

    void producer_acquire() {
        if (full && produces)
            empty[committed % stages].sim_wait_for_phases(committed / stages);
    }
    void producer_commit() {
        if (full && produces)
            full[committed % stages].arrive();
        else
            cp_async_commit_group();
        committed++;
    }
    void consumer_wait() {
        if (full && consumes)
            full[waited % stages].sim_wait_for_phases(waited / stages + 1);
        waited++;
        if (!full)
            cp_async_wait_group(committed - waited);
    }
    template <class Duration> bool consumer_wait_for(const Duration &) {
        consumer_wait();
        return true;
    }
    template <class Time> bool consumer_wait_until(const Time &) {
        consumer_wait();
        return true;
    }
    void consumer_release() {
        if (full && consumes)
            empty[released % stages].arrive();
        released++;
    }
    bool quit() {
        for (unsigned i = 0; i < stages; i++)
            (produces ? full : empty)[i].arrive_and_drop();
        return true;
    }
    void sim_wait_prior(unsigned prior) {
        if (!full)
            cp_async_wait_group(prior);
        else if (committed > prior)
            full[(committed - prior - 1) % stages].sim_wait_for_phases((committed - prior - 1) / stages + 1);
    }
};
SIM_INLINE pipeline<thread_scope_thread> make_pipeline() {
    return {};
}
template <class Group, thread_scope Scope, unsigned Stages>
SIM_INLINE pipeline<Scope> sim_make_pipeline(const Group &group, pipeline_shared_state<Scope, Stages> *state,
                                             bool produces, bool consumes, const char *file, int line) {
    bool is_first = group.thread_rank() == 0;
    if (is_first)
        state->producers = state->consumers = 0;
    group.sync(file, line);
    atomicAdd(&state->producers, (unsigned)produces);
    atomicAdd(&state->consumers, (unsigned)consumes);
    group.sync(file, line);
    for (unsigned i = 0; is_first && i < Stages; i++) {
        state->full[i].begin((ptrdiff_t)state->producers);
        state->empty[i].begin((ptrdiff_t)state->consumers);
    }
    group.sync(file, line);
    pipeline<Scope> made;
    made.full = state->full, made.empty = state->empty, made.stages = Stages;
    made.produces = produces, made.consumes = consumes;
    return made;
}
template <class Group, thread_scope Scope, unsigned Stages>
SIM_INLINE pipeline<Scope> make_pipeline(const Group &group, pipeline_shared_state<Scope, Stages> *state,
                                         SIM_CALLED_FROM) {
    return sim_make_pipeline(group, state, true, true, sim_file, sim_line);
}
template <class Group, thread_scope Scope, unsigned Stages>
SIM_INLINE pipeline<Scope> make_pipeline(const Group &group, pipeline_shared_state<Scope, Stages> *state,
                                         pipeline_role role, SIM_CALLED_FROM) {
    bool produces = role == pipeline_role::producer;
    return sim_make_pipeline(group, state, produces, !produces, sim_file, sim_line);
}
template <class Group, thread_scope Scope, unsigned Stages>
SIM_INLINE pipeline<Scope> make_pipeline(const Group &group, pipeline_shared_state<Scope, Stages> *state,
                                         size_t producers, SIM_CALLED_FROM) {
    bool produces = group.thread_rank() < producers;
    return sim_make_pipeline(group, state, produces, !produces, sim_file, sim_line);
}
template <unsigned Prior, thread_scope Scope>
SIM_INLINE void pipeline_consumer_wait_prior(pipeline<Scope> &pipe) {
    pipe.sim_wait_prior(Prior);
}
template <thread_scope Scope, thread_scope BarrierScope>
SIM_INLINE void pipeline_producer_commit(pipeline<Scope> &pipe, barrier<BarrierScope> &) {
    pipe.producer_commit(); /* the copies have landed when their thread arrives at the barrier */
}

} /* namespace cuda */
