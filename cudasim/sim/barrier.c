/* __syncthreads() and its relatives: all threads of the block wait for each other.
 *
 * The rule is that of PTX's bar.sync, to which they compile: the barrier waits for all threads of the block
 * that have not exited. Since it is .aligned, all threads of a warp must execute the same barrier
 * instruction. Different warps may come from different lines.
 *
 * A lane at the kernel's end has exited, or has gone past a barrier in a branch that it did not take. In C++
 * the kernel's text distinguishes them: a lane that executes `return` exits (sim_leave), and a lane that
 * comes to the last line has gone past (sim_come_to_end). Kernels in C do not tell.
 *
 * A whole program that is run, and not checked, goes on after a warning: since compute capability 7.0 each
 * thread may come to a barrier on its own, and programs rely on it.
 *
 * The threads queue up in the order in which they arrive, and the last one makes the whole queue ready. */
#include "wait.h"

void sim_pass_barrier(struct sim_block *block) {
    if (block->arrived + block->returned < block->size)
        return;
    if (WATCHED)
        watch_barrier_passed();
    block->last_predicates = block->predicates;
    block->predicates = 0;
    block->arrived = 0;
    block->idle_turns = block->long_turns = 0;
    block->ready = block->at_barrier; /* which was empty: everybody was at the barrier, or had returned */
    block->at_barrier = (struct sim_queue){0};
    memset(block->barrier_of_warp, 0, sizeof block->barrier_of_warp);
}

bool sim_divergence_is_tolerated;

bool sim_tolerates_divergence(const struct sim_site *site) {
    static atomic_bool told;
    if (sim_divergence_is_tolerated && !atomic_exchange(&told, true))
        fprintf(
            stderr,
            "cudasim: warning: %s:%d: threads of a warp come to different barriers, or some to the kernel's "
            "end, which CUDA leaves undefined; goes on as a GPU since compute capability 7.0 would, where "
            "each thread counts by itself (`check` names the threads)\n",
            site->file, site->line);
    return sim_divergence_is_tolerated;
}

int sim_barrier(const struct sim_site *site, int predicate) {
    struct sim_worker *worker = sim_worker_of_fiber();
    struct sim_block *block = &worker->block;
    struct sim_thread *self = sim_current(worker);
    unsigned number = (unsigned)(self - block->threads);
    const struct sim_thread **first = &block->barrier_of_warp[number / SIM_WARP_THREADS];
    const struct sim_thread *ended = block->ended_of_warp[number / SIM_WARP_THREADS];
    self->site = site;
    if (ended && !sim_tolerates_divergence(site))
        sim_report_skipped_barrier(self, ended);
    if (!*first)
        *first = self;
    else if ((*first)->site != site && !sim_tolerates_divergence(site))
        sim_report_two_barriers(site, *first);
    sim_queue_append(&block->at_barrier, self);
    block->predicates += predicate;
    block->arrived++;
    if (WATCHED)
        watch_barrier_reached(self);
    sim_pass_barrier(block);
    sim_wait(worker, SIM_WAITS_AT_BARRIER, site);
    self->state = SIM_RUNS;
    return block->last_predicates;
}
