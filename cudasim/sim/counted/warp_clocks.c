/* The vector clocks of a cluster's warps: see warp_clocks.h. */
#include "warp_clocks.h"
#include <stdlib.h>

static size_t warps_of(const struct warp_clocks *clocks) {
    return (size_t)clocks->blocks * CLOCK_WARPS;
}

static size_t barriers_of(const struct warp_clocks *clocks) {
    return (size_t)clocks->blocks * CLOCK_BARRIERS;
}

static uint32_t *clock_of_warp(struct warp_clocks *clocks, unsigned warp) {
    return clocks->entry + warp * clocks->length;
}

static uint32_t *arrived(struct warp_clocks *clocks, unsigned barrier) {
    return clocks->entry + (warps_of(clocks) + barrier) * clocks->length;
}

static uint32_t *passed(struct warp_clocks *clocks, unsigned barrier) {
    return clocks->entry + (warps_of(clocks) + barriers_of(clocks) + barrier) * clocks->length;
}

static void join(uint32_t *into, const uint32_t *from, size_t length) {
    for (size_t i = 0; i < length; i++)
        into[i] = from[i] > into[i] ? from[i] : into[i];
}

void clocks_begin(struct sim_cluster *cluster) {
    unsigned blocks = cluster->size;
    size_t warps = (size_t)blocks * CLOCK_WARPS, barriers = (size_t)blocks * CLOCK_BARRIERS;
    size_t length = 2 * warps + barriers, entries = (warps + 2 * barriers) * length;
    struct warp_clocks *clocks = cluster->clocks;
    if (!clocks || clocks->blocks != blocks) {
        free(clocks);
        cluster->clocks = clocks = malloc(sizeof *clocks + entries * sizeof *clocks->entry);
    }
    if (!clocks)
        return;
    clocks->blocks = blocks;
    clocks->length = length;
    memset(clocks->entry, 0, entries * sizeof *clocks->entry);
    /* The block knows everything before its latest barrier: its time was 1 until then. */
    for (unsigned warp = 0; warp < warps; warp++)
        for (unsigned of = 0; of < warps; of++)
            *clocks_time(clocks, warp, of) = of == warp ? 2 : 1;
}

struct warp_clocks *clocks_here(void) {
    return sim_worker->cluster ? sim_worker->cluster->clocks : NULL;
}

unsigned clocks_warp(const struct sim_worker *worker, const struct sim_thread *thread) {
    return worker->rank * CLOCK_WARPS + (unsigned)(thread - worker->block.threads) / SIM_WARP_THREADS;
}

unsigned clocks_barrier(const struct sim_worker *owner, const struct sim_mbarrier *barrier) {
    return owner->rank * CLOCK_BARRIERS + (unsigned)(barrier - owner->hopper->mbarrier);
}

uint32_t *clocks_time(struct warp_clocks *clocks, unsigned warp, unsigned of) {
    return clock_of_warp(clocks, warp) + of;
}

uint32_t *clocks_fenced(struct warp_clocks *clocks, unsigned warp, unsigned of) {
    return clock_of_warp(clocks, warp) + warps_of(clocks) + of;
}

uint32_t *clocks_phases(struct warp_clocks *clocks, unsigned warp, unsigned of_barrier) {
    return clock_of_warp(clocks, warp) + 2 * warps_of(clocks) + of_barrier;
}

void clocks_forget_barrier(struct warp_clocks *clocks, unsigned barrier) {
    memset(arrived(clocks, barrier), 0, clocks->length * sizeof *clocks->entry);
    memset(passed(clocks, barrier), 0, clocks->length * sizeof *clocks->entry);
}

void clocks_arrive(struct warp_clocks *clocks, unsigned warp, unsigned barrier) {
    join(arrived(clocks, barrier), clock_of_warp(clocks, warp), clocks->length);
    ++*clocks_time(clocks, warp, warp);
}

void clocks_end_phase(struct warp_clocks *clocks, unsigned barrier, uint32_t completed) {
    uint32_t *known = passed(clocks, barrier);
    memcpy(known, arrived(clocks, barrier), clocks->length * sizeof *known);
    known[2 * warps_of(clocks) + barrier] = completed;
}

void clocks_pass(struct warp_clocks *clocks, unsigned warp, unsigned barrier) {
    join(clock_of_warp(clocks, warp), passed(clocks, barrier), clocks->length);
}

void clocks_fence(struct warp_clocks *clocks, unsigned warp) {
    join(clocks_fenced(clocks, warp, 0), clocks_time(clocks, warp, 0), warps_of(clocks));
    ++*clocks_time(clocks, warp, warp);
}

void clocks_meet(struct warp_clocks *clocks, const unsigned *warps, unsigned count) {
    uint32_t *all = clock_of_warp(clocks, warps[0]);
    for (unsigned i = 1; i < count; i++)
        join(all, clock_of_warp(clocks, warps[i]), clocks->length);
    for (unsigned i = 1; i < count; i++)
        memcpy(clock_of_warp(clocks, warps[i]), all, clocks->length * sizeof *all);
    for (unsigned i = 0; i < count; i++)
        ++*clocks_time(clocks, warps[i], warps[i]);
}
