/* How the running thread waits, inlined into barriers and warp operations, where threads spend their time:
 * every value stored on the way is on the stack of each of up to 1024 fibers, and has to be fetched again. */
#pragma once
#include "machine.h"
#include "watch.h"

/* Continues the first thread in the queue of those that can run, and prefetches what the one after it needs,
 * which was unused while all others had their turns: its stack, the note there, and who comes behind it. */
static inline struct sim_fiber *sim_take_up_ready(struct sim_worker *worker, struct sim_thread *thread) {
    struct sim_thread *after = thread->next;
    worker->block.ready.first = after;
    if (after) {
        __builtin_prefetch(after->fiber->saved);
        __builtin_prefetch((const char *)after->fiber->saved + 64);
        __builtin_prefetch(sim_fiber_note(after->fiber));
        __builtin_prefetch(after->next);
    }
    worker->current = thread;
    worker->registers->sim_thread_index = thread->index;
    if (WATCHED)
        watch_thread_runs(worker, thread);
    return thread->fiber;
}

static inline void sim_go_to(struct sim_worker *worker, struct sim_fiber *fiber) {
    struct sim_fiber *from = worker->fiber;
    if (fiber != from) {
        worker->fiber = fiber;
        sim_fiber_switch(from, fiber);
    }
}

/* The worker's running thread waits until another one makes it ready. */
static inline void sim_wait(struct sim_worker *worker, enum sim_state state, const struct sim_site *site) {
    if (sim_is_stopping())
        sim_block_abandon();
    struct sim_thread *self = sim_current(worker), *next = worker->block.ready.first;
    self->fiber = worker->fiber;
    self->site = site;
    self->state = state;
    sim_go_to(worker, next ? sim_take_up_ready(worker, next) : sim_choose_fiber(worker));
    if (sim_is_stopping())
        sim_block_abandon();
}
