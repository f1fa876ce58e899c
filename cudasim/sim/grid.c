/* The barrier of the whole grid (cooperative groups' grid.sync()): one thread of each block counts its block
 * and waits until all blocks have been counted; the block's other threads wait for it. Meanwhile more OS
 * threads run the blocks that have not started (turns.c). */
#include "machine.h"
#include "watch.h"

/* The first of the block's threads that have not exited. */
static bool comes_for_block(const struct sim_block *block, const struct sim_thread *self) {
    const struct sim_thread *thread = block->threads;
    while (thread->state == SIM_HAS_RETURNED)
        thread++;
    return thread == self;
}

bool sim_is_cooperative = true;

bool sim_grid_has_barrier(void) {
    return sim_is_cooperative;
}

void sim_grid_barrier(const struct sim_site *site) {
    struct sim_launch *launch = &sim_launch_now;
    if (!sim_is_cooperative)
        sim_report_call(
            SIM_TRAP, site,
            "comes to a barrier of the grid, and the launch is not cooperative: its blocks need not "
            "run at the same time; cudaLaunchCooperativeKernel() makes one that is");
    sim_barrier(site, 0);
    if (comes_for_block(&sim_worker->block, sim_current(sim_worker))) {
        /* Which does not end without this block. A block that goes on late is to know nothing of what others
         * did until they came to the next one, so the phases take turns with two objects. */
        unsigned blocks = (unsigned)launch->blocks, phase = atomic_load(&launch->grid_arrivals) / blocks;
        const void *object = (const char *)&launch->grid_arrivals + phase % 2;
        if (WATCHED)
            watch_grid_barrier_reached(object);
        atomic_fetch_add(&launch->grid_arrivals, 1);
        unsigned all = (phase + 1) * blocks;
        while (atomic_load(&launch->grid_arrivals) < all) {
            if (WATCHED)
                watch_wait(SIM_CALLER);
            else
                sim_start_more_blocks(); /* at once: the block's other threads wait for this one */
            sim_yield();
        }
        if (WATCHED)
            watch_grid_barrier_passed(object);
    }
    sim_barrier(site, 0);
}
