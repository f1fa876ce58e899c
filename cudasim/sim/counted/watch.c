/* What the counted build does when a block, a thread, a barrier or a meeting of lanes begins or ends. */
#include "../watch.h"
#include "../hopper/watch_hopper.h"
#include "recorder.h"

static unsigned warps_of(const struct recorder *self) {
    return (self->worker->block.started + SIM_WARP_THREADS - 1) / SIM_WARP_THREADS;
}

static uint32_t number_of_block(const struct sim_registers *registers) {
    uint3 index = registers->block_index;
    dim3 grid = registers->grid_size;
    return (index.z * grid.y + index.y) * grid.x + index.x;
}

/* Blocks of a cluster look at each other's histories, so the numbers by which those are void are the same. */
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
    self->wave = l2_wave_of_block(self->block_number - 1);
    self->block_count = next_block_count(self);
    memset(self->reach, 0, sizeof self->reach);
    self->spinning.changes++;
    self->spinning.latest[0].pc = self->spinning.latest[1].pc = 0;
    self->has_unwritten_read = self->waiting_write.is_there = false;
    memset(self->at_barrier, 0, sizeof self->at_barrier);
    for (unsigned thread = 0; self->counts && thread < worker->block.size; thread++)
        self->logs[thread].place = self->logs[thread].basic_blocks_passed = 0;
    order_begin_block(self);
    if (self->registers)
        registers_begin_block(self);
    self->is_traced = trace_begin_block(self);
}

/* What the lanes did before the fault belongs in the trace. */
static void end_trace(struct recorder *self) {
    trace_settle();
    self->is_abandoned = true;
    for (unsigned warp = 0; warp < warps_of(self); warp++)
        requests_of_warp(self, warp);
    self->is_abandoned = self->is_traced = false;
}

void watch_block_abandoned(void) {
    struct recorder *self = recorder;
    if (self->is_traced)
        end_trace(self);
    self->waiting_write.is_there = false;
    for (unsigned thread = 0; self->counts && thread < SIM_MAX_BLOCK_THREADS; thread++) {
        self->logs[thread].count = 0;
        self->logs[thread].waits = false;
    }
}

static void keep_own_memory(struct recorder *self, const struct sim_fiber *fiber) {
    bool is_known = fiber && fiber->kernel_top && !self->worker->hopper;
    self->stack = is_known ? (uintptr_t)fiber->stack : 0;
    self->own_bytes = is_known ? (uintptr_t)fiber->kernel_top - self->stack : 0;
}

void watch_thread_runs(const struct sim_thread *thread) {
    struct recorder *self = recorder;
    if (self->is_traced)
        trace_settle();
    if (self->waiting_write.is_there)
        history_settle_write(self);
    self->thread = (unsigned)(thread - self->worker->block.threads);
    self->log = &self->logs[self->thread];
    keep_own_memory(self, thread->fiber); /* which it may get only now */
    self->spinning.this_turn_waits = false;
    order_thread_runs(self);
}

void watch_kernel_begins(const struct sim_fiber *fiber) {
    keep_own_memory(recorder, fiber);
    *sim_fiber_note(fiber) = recorder;
}

/* A thread whose log is full goes on when there is room in it again. */
bool watch_all_stopped(void) {
    struct recorder *self = recorder;
    struct sim_block *block = &self->worker->block;
    if (self->is_traced)
        trace_settle();
    bool any = false;
    if (self->waiting_write.is_there)
        history_settle_write(self);
    for (unsigned warp = 0; self->counts && warp < warps_of(self); warp++)
        requests_of_warp(self, warp);
    for (unsigned thread = 0; self->counts && thread < block->started; thread++) {
        struct log *log = &self->logs[thread];
        if (log->waits && log->count < LOG_ENTRIES) {
            log->waits = false;
            sim_make_ready(&block->threads[thread]);
            any = true;
        }
    }
    if (block->returned == block->size)
        history_settle_read(self);
    return any;
}

void watch_barrier_reached(const struct sim_thread *thread) {
    struct recorder *self = recorder;
    struct sim_block *block = &self->worker->block;
    unsigned warp = (unsigned)(thread - block->threads) / SIM_WARP_THREADS;
    if (++self->at_barrier[warp] < (unsigned)__builtin_popcount(sim_lanes_of_warp(block, warp)))
        return;
    self->at_barrier[warp] = 0;
    self->barriers++;
    if (self->is_traced)
        trace_settle();
    if (self->counts)
        requests_of_warp(self, warp);
    if (self->is_traced)
        trace_event(COUNTED_BARRIER_REACHED, warp, sim_lanes_of_warp(block, warp));
}

void watch_barrier_passed(void) {
    struct recorder *self = recorder;
    if (self->is_traced)
        trace_event(COUNTED_BARRIER_PASSED, 0, 0);
    history_settle_read(self);
    self->spinning.changes++;
    order_barrier(self);
    for (unsigned warp = 0; warp < warps_of(self); warp++) /* warps of which some lanes have returned */
        self->barriers += self->at_barrier[warp] > 0;
    memset(self->at_barrier, 0, sizeof self->at_barrier);
    watch_block_met();
}

void watch_lanes_met(unsigned warp, unsigned lanes) {
    struct recorder *self = recorder;
    self->warp_operations++;
    order_meeting(self, warp, lanes);
    if (self->is_traced)
        trace_settle();
    if (self->counts && lanes == sim_lanes_of_warp(&self->worker->block, warp))
        requests_of_warp(self, warp);
    if (self->is_traced)
        trace_event(COUNTED_LANES_MET, warp, lanes);
}

void watch_warp_operations(unsigned more) {
    recorder->warp_operations += more;
}

void watch_fence(bool in_block) {
    order_fence(recorder, in_block);
}

/* The order of a grid barrier: as if the thread had fenced, counted its block by an atomic, found all others
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
