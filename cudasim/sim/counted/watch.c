/* Which tools watch what a block and its threads do: each event of ../watch.h calls those that subscribe to
 * it, in order. Launches and OS threads are in launches.c, accesses in access.c. */
#include "../watch.h"
#include "../hopper/watch_hopper.h"
#include "recorder.h"

static uint32_t number_of_block(const struct sim_registers *registers) {
    uint3 index = registers->sim_block_index;
    dim3 grid = registers->sim_grid_size;
    return (index.z * grid.y + index.y) * grid.x + index.x;
}

/* Blocks of a cluster read each other's histories, so they invalidate them by the same numbers. */
static uint32_t next_block_count(const struct recorder *self) {
    const struct sim_worker *worker = self->worker;
    const struct sim_cluster *cluster = sim_launch_now.cluster > 1 ? worker->cluster : NULL;
    if (!cluster)
        return self->block_count + 1;
    if (worker->rank > 0)
        return ((const struct recorder *)cluster->block[0]->recorder)->block_count;
    uint32_t most = 0;
    for (unsigned rank = 0; rank < cluster->size; rank++) {
        const struct recorder *other = cluster->block[rank]->recorder;
        most = other->block_count > most ? other->block_count : most;
    }
    return most + 1;
}

void watch_block_begins(struct sim_worker *worker) {
    struct recorder *self = recorder;
    self->block_number = number_of_block(worker->registers) + 1;
    self->block_count = next_block_count(self);
    look_after(self, self->requests.is_on ? 0 : BASIC_BLOCKS_OF_A_LOOK);
    order_begin_block(self);
    history_block_begins(&self->history);
    spinning_block_begins(&self->spinning);
    requests_block_begins(self);
    l2_block_begins(self);
    sample_block_begins(&self->sample);
    clusters_block_begins(&self->clusters);
    registers_block_begins(self->registers);
    trace_block_begins(&self->trace, self->block_number);
}

void watch_block_abandoned(void) {
    struct recorder *self = recorder;
    trace_settle(&self->trace);
    history_forget_write(&self->history);
    requests_block_abandoned(self);
    trace_block_abandoned(&self->trace);
}

static void keep_own_memory(struct recorder *self, const struct sim_fiber *fiber) {
    bool is_known = fiber && fiber->kernel_top && !self->worker->hopper;
    self->stack = is_known ? (uintptr_t)fiber->stack : 0;
    self->own_bytes = is_known ? (uintptr_t)fiber->kernel_top - self->stack : 0;
}

void watch_thread_runs(struct sim_worker *worker, const struct sim_thread *thread) {
    struct recorder *self = worker->recorder;
    trace_settle(&self->trace);
    history_settle_write(self, &self->history);
    self->thread = (unsigned)(thread - worker->block.threads);
    self->own = (struct past){.block = self->block_number,
                              .lanes = 1u << self->thread % SIM_WARP_THREADS,
                              .what = self->cells_tag | self->thread / SIM_WARP_THREADS << PAST_WARP};
    keep_own_memory(self, thread->fiber); /* which it may get only now */
    order_thread_runs(&self->order, self->thread);
    requests_thread_runs(&self->requests, self->thread);
    spinning_thread_runs(&self->spinning);
}

void watch_kernel_begins(struct sim_worker *worker) {
    keep_own_memory(worker->recorder, worker->fiber);
    *sim_fiber_note(worker->fiber) = worker->recorder;
}

bool watch_all_stopped(void) {
    struct recorder *self = recorder;
    const struct sim_block *block = &self->worker->block;
    trace_settle(&self->trace);
    history_settle_write(self, &self->history);
    if (self->sample.is_on && block->started < block->size)
        return false; /* all warps take turns, none goes ahead */
    bool any_can_go_on = requests_all_stopped(self);
    if (block->returned == block->size) {
        history_settle_read(self);
        sample_block_ends(self);
    }
    return any_can_go_on;
}

void watch_barrier_reached(const struct sim_thread *thread) {
    struct recorder *self = recorder;
    unsigned warp = (unsigned)(thread - self->worker->block.threads) / SIM_WARP_THREADS;
    trace_settle(&self->trace);
    if (requests_barrier_reached(self, warp))
        trace_event(&self->trace, COUNTED_BARRIER_REACHED, warp,
                    sim_lanes_of_warp(&self->worker->block, warp));
}

void watch_barrier_passed(void) {
    struct recorder *self = recorder;
    trace_event(&self->trace, COUNTED_BARRIER_PASSED, 0, 0);
    history_settle_read(self);
    spinning_changed(&self->spinning);
    order_barrier(self);
    requests_barrier_passed(self);
    sample_barrier_passed(&self->sample);
    watch_block_met();
}

void watch_lanes_met(unsigned warp, unsigned lanes) {
    struct recorder *self = recorder;
    order_meeting(self, warp, lanes);
    trace_settle(&self->trace);
    requests_lanes_met(self, warp, lanes);
    trace_event(&self->trace, COUNTED_LANES_MET, warp, lanes);
}

void watch_warp_operations(unsigned more) {
    requests_warp_operations(&recorder->requests, more);
}

void watch_fence(bool in_block) {
    order_fence(recorder, in_block);
}

/* A grid barrier orders as if the thread had fenced, counted its block by an atomic, found all others
 * counted, and fenced again. */
void watch_grid_barrier_reached(const void *object) {
    order_fence(recorder, false);
    order_strong_write(recorder, (uintptr_t)object, false, true);
}

void watch_grid_barrier_passed(const void *object) {
    order_strong_read(recorder, (uintptr_t)object);
    order_fence(recorder, false);
}

void watch_async_access(const void *pc, const void *address, unsigned bytes, bool writes,
                        const void *completes_on) {
    async_access(recorder, (uintptr_t)pc, (uintptr_t)address, bytes, writes ? COUNTED_STORE : COUNTED_LOAD,
                 order_asynchronous(recorder, completes_on));
}
