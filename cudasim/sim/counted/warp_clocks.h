/* What each warp of a cluster knows of the others, for the checks of TMA and wgmma (stages.c). It is a vector
 * clock with an entry for each warp of each block; a second one for what fences made known to the async
 * proxy; and a count of each mbarrier's phases. Warps suffice: their lanes wait for mbarriers and ask for
 * products together. */
#pragma once
#include "../hopper/async.h"

enum { CLOCK_WARPS = SIM_MAX_BLOCK_WARPS, CLOCK_BARRIERS = SIM_MOST_MBARRIERS };

struct warp_clocks {
    unsigned blocks;
    size_t length;    /* of one clock, in entries */
    uint32_t entry[]; /* one clock for each warp, then two for each mbarrier: what arrivals of this phase
                       * know, and what the last phase knew when it ended */
};

/* The clocks of the running block's cluster; NULL without memory for them. */
struct warp_clocks *clocks_here(void);
void clocks_begin(struct sim_cluster *cluster);

unsigned clocks_warp(const struct sim_worker *worker, const struct sim_thread *thread);
unsigned clocks_barrier(const struct sim_worker *owner, const struct sim_mbarrier *barrier);

/* What `warp` knows: another warp's time, its time by a proxy fence, and an mbarrier's phases. */
uint32_t *clocks_time(struct warp_clocks *clocks, unsigned warp, unsigned of);
uint32_t *clocks_fenced(struct warp_clocks *clocks, unsigned warp, unsigned of);
uint32_t *clocks_phases(struct warp_clocks *clocks, unsigned warp, unsigned of_barrier);

void clocks_forget_barrier(struct warp_clocks *clocks, unsigned barrier);
void clocks_arrive(struct warp_clocks *clocks, unsigned warp, unsigned barrier);
void clocks_end_phase(struct warp_clocks *clocks, unsigned barrier, uint32_t completed);
void clocks_pass(struct warp_clocks *clocks, unsigned warp, unsigned barrier);
void clocks_fence(struct warp_clocks *clocks, unsigned warp);
/* All of these meet: afterwards each knows what any of them knew. */
void clocks_meet(struct warp_clocks *clocks, const unsigned *warps, unsigned count);
