/* bar.sync and bar.arrive: a block's sixteen barriers by number. The threads that come tell how many it waits
 * for. */
#include "async.h"
#include "watch_hopper.h"

/* The barrier, after it has counted the running thread. */
static struct sim_named_barrier *come(const struct sim_site *site, int number, int threads) {
    if (number < 0 || number >= SIM_NAMED_BARRIERS)
        sim_report_call(SIM_BARRIER_DIVERGENCE, site, "comes to barrier %d; a block has 0 to %d", number,
                        SIM_NAMED_BARRIERS - 1);
    if (threads <= 0 || threads % SIM_WARP_THREADS)
        sim_report_call(SIM_BARRIER_DIVERGENCE, site,
                        "comes to barrier %d of %d threads, which is no multiple of %d", number, threads,
                        SIM_WARP_THREADS);
    struct sim_named_barrier *barrier = &sim_hopper_here()->named[number];
    if (barrier->arrived > 0 && barrier->expected != (unsigned)threads)
        sim_report_call(SIM_BARRIER_DIVERGENCE, site,
                        "comes to barrier %d as one of %d threads, and those at %s:%d as one of %u", number,
                        threads, barrier->came_at->file, barrier->came_at->line, barrier->expected);
    if (barrier->arrived++ == 0)
        barrier->came_at = site;
    barrier->expected = (unsigned)threads;
    sim_current(sim_worker)->site = site;
    return barrier;
}

static bool passes(struct sim_named_barrier *barrier, int number) {
    if (barrier->arrived < barrier->expected)
        return false;
    if (WATCHED)
        watch_named_barrier_passed((unsigned)number, barrier);
    barrier->arrived = 0;
    barrier->arriving = 0;
    sim_wake(sim_worker, &barrier->waiting); /* the running thread too, in line with the others */
    return true;
}

void sim_named_barrier(const struct sim_site *site, int number, int threads) {
    struct sim_named_barrier *barrier = come(site, number, threads);
    sim_queue_append(&barrier->waiting, sim_current(sim_worker));
    bool all_came = passes(barrier, number);
    sim_block_wait(all_came ? SIM_RUNS : SIM_WAITS_AT_NAMED_BARRIER, site);
}

void sim_named_barrier_arrive(const struct sim_site *site, int number, int threads) {
    struct sim_named_barrier *barrier = come(site, number, threads);
    unsigned warp = (unsigned)(sim_current(sim_worker) - sim_worker->block.threads) / SIM_WARP_THREADS;
    barrier->arriving |= 1u << warp;
    if (WATCHED)
        watch_named_barrier_arrives((unsigned)number, barrier);
    passes(barrier, number);
}
