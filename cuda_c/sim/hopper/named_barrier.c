/* bar.sync: a block's sixteen barriers by number, each for as many threads as those who come say. */
#include "async.h"
#include "watch_hopper.h"

void sim_named_barrier(const struct sim_site *site, int number, int threads) {
    if (number < 0 || number >= SIM_NAMED_BARRIERS)
        sim_report_call(SIM_BARRIER_DIVERGENCE, site, "comes to barrier %d; a block has 0 to %d", number,
                        SIM_NAMED_BARRIERS - 1);
    if (threads <= 0 || threads % SIM_WARP_THREADS)
        sim_report_call(SIM_BARRIER_DIVERGENCE, site,
                        "comes to barrier %d of %d threads, which is no multiple of %d", number, threads,
                        SIM_WARP_THREADS);
    struct sim_named_barrier *barrier = &sim_hopper_here()->named[number];
    struct sim_thread *self = sim_worker->current;
    if (barrier->arrived > 0 && barrier->expected != (unsigned)threads)
        sim_report_call(SIM_BARRIER_DIVERGENCE, site,
                        "comes to barrier %d as one of %d threads, and those at %s:%d as one of %u", number,
                        threads, barrier->waiting.first->site->file, barrier->waiting.first->site->line,
                        barrier->expected);
    barrier->expected = (unsigned)threads;
    self->site = site;
    sim_queue_append(&barrier->waiting, self);
    if (++barrier->arrived < (unsigned)threads) {
        sim_block_wait(SIM_WAITS_AT_NAMED_BARRIER, site);
        return;
    }
    watch_threads_met(&barrier->waiting);
    barrier->arrived = 0;
    sim_wake(sim_worker, &barrier->waiting); /* itself too, in line with the others */
    sim_block_wait(SIM_RUNS, site);
}
