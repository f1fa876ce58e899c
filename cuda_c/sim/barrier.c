/* __syncthreads() and its relatives: all threads of the block wait for each other.
 *
 * The threads queue up in the order in which they arrive, and the last one makes the whole queue ready.
 * A thread that has returned, or is at another barrier, never arrives: then the others wait in vain. */
#include "machine.h"
#include "watch.h"

int sim_barrier(const struct sim_site *site, int predicate) {
    struct sim_block *block = &sim_worker->block;
    struct sim_thread *self = sim_worker->current;
    if (block->at_barrier.first && block->at_barrier.first->site != site)
        block->sites_differ = true;
    self->site = site;
    sim_queue_append(&block->at_barrier, self);
    block->predicates += predicate;
    block->arrived++;
    watch_barrier_reached(self);

    if (block->arrived == block->size && !block->sites_differ) {
        watch_barrier_passed();
        block->last_predicates = block->predicates;
        block->predicates = 0;
        block->arrived = 0;
        block->ready = block->at_barrier; /* which was empty: everybody was at the barrier */
        block->at_barrier = (struct sim_queue){0};
    }
    sim_block_wait(SIM_WAITS_AT_BARRIER, site);
    self->state = SIM_RUNS;
    return block->last_predicates;
}
