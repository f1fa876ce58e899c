/* One block: its threads take turns on fibers.
 *
 * A fiber runs threads one after another. Only when a thread waits does it keep the fiber, and the next
 * thread gets another: a kernel that never waits needs one fiber and no switches. Until a thread of the block
 * comes to something that is a matter of threads, a kernel in C++ runs them in a loop of its own
 * (cpp/threads.hpp), and the simulator hears of them by sim_current(). Threads that are ready go before
 * threads that have not started, so that a warp gets on with its work while its data is still in the cache.
 * When no thread can run and some still wait, these wait in vain. */
#include "wait.h"

/* The next index in the order of CUDA's thread numbers: x first. x and y are written as one word, because
 * they are read as one for the next thread, and a processor waits where it reads together what it has just
 * written in parts: an eighth of the time that a stencil of one line took. */
static void advance(struct sim_block *block, dim3 size) {
    unsigned x = (unsigned)block->next_xy + 1, y = (unsigned)(block->next_xy >> 32);
    if (x == size.x) {
        x = 0;
        if (++y == size.y) {
            y = 0;
            block->next_z++;
        }
    }
    block->next_xy = (uint64_t)y << 32 | x;
}

/* Not inlined, so that all frames of the kernel are below the address that it notes. */
static __attribute__((noinline)) void enter_kernel(struct sim_worker *worker) {
    if (WATCHED && worker->fiber->kernel_top != __builtin_frame_address(0)) {
        worker->fiber->kernel_top = __builtin_frame_address(0);
        watch_kernel_begins(worker);
    }
    sim_launch_now.enter(sim_launch_now.arguments);
}

static void forget_asynchronous(struct sim_thread *thread) {
    if (thread->copies.count > 0)
        sim_forget_copies(&thread->copies);
    thread->copies.groups = 0;
    if (thread->products.groups > 0 || thread->products.count > 0)
        sim_forget_products(thread);
    if (thread->stores.count > 0)
        sim_end_stores(thread);
    thread->stores.groups = 0;
}

static inline struct sim_thread *start_next(struct sim_block *block) {
    struct sim_thread *thread = &block->threads[block->started++];
    thread->index = (uint3){(unsigned)block->next_xy, (unsigned)(block->next_xy >> 32), block->next_z};
    thread->state = SIM_RUNS;
    advance(block, sim_launch_now.block);
    return thread;
}

static unsigned number_of_running(const struct sim_registers *registers) {
    uint3 index = registers->sim_thread_index;
    dim3 size = registers->sim_block_size;
    return (index.z * size.y + index.y) * size.x + index.x;
}

/* The threads before the one that runs have ended in its loop: they were the first of the block. */
struct sim_thread *sim_catch_up(struct sim_worker *worker) {
    struct sim_block *block = &worker->block;
    struct sim_registers *registers = worker->registers;
    unsigned number = number_of_running(registers);
    while (block->started < number)
        start_next(block)->state = SIM_HAS_RETURNED;
    block->returned = number;
    worker->current = start_next(block);
    worker->current->leaves = registers->leaves;
    registers->is_alone = true;
    unsigned warp = number / SIM_WARP_THREADS;
    if (registers->came_to_end > warp * SIM_WARP_THREADS) /* it counts from 1 */
        block->ended_of_warp[warp] = &block->threads[registers->came_to_end - 1];
    return worker->current;
}

static void run_next_thread(struct sim_worker *worker) {
    struct sim_block *block = &worker->block;
    struct sim_registers *registers = worker->registers;
    if (!registers->is_alone) { /* so no thread has started */
        registers->sim_thread_index = (uint3){0, 0, 0};
        enter_kernel(worker);
        if (!registers->is_alone && number_of_running(registers) == block->size - 1) {
            block->started = block->returned = block->size;
            return;
        }
        sim_current(worker); /* a thread has waited, or the kernel is one in C and runs one at a time */
    } else {
        worker->current = start_next(block);
        worker->current->leaves = false;
        worker->current->fiber = worker->fiber;
        registers->sim_thread_index = worker->current->index;
        if (WATCHED)
            watch_thread_runs(worker, worker->current);
        enter_kernel(worker);
    }
    struct sim_thread *thread = worker->current;
    thread->state = SIM_HAS_RETURNED;
    if (block->is_asynchronous)
        forget_asynchronous(thread);
    block->returned++;
    if (WATCHED)
        watch_change(worker);
    block->idle_turns = block->long_turns = 0;
    if (worker->cluster)
        sim_thread_has_left(worker);
    if (block->arrived > 0)
        sim_pass_barrier(block);
}

static void fiber_body(void);

/* NULL, and a report, when there is no memory for another. */
static struct sim_fiber *take_fiber(struct sim_worker *worker) {
    if (worker->unused_count > 0)
        return worker->unused[--worker->unused_count];
    struct sim_fiber *fiber = &worker->fibers[worker->fibers_made];
    if (!sim_fiber_create(fiber, fiber_body, worker->fibers_made)) {
        sim_report_no_memory();
        return NULL;
    }
    if (!WATCHED)
        *sim_fiber_note(fiber) = worker;
    worker->fibers_made++;
    return fiber;
}

/* All warps that have started have done so with all their lanes. */
static bool is_between_warps(const struct sim_block *block) {
    return block->started % SIM_WARP_THREADS == 0 || block->started == block->size;
}

struct sim_fiber *sim_choose_fiber(struct sim_worker *worker) {
    struct sim_block *block = &worker->block;
    for (;;) {
        if (block->ready.first)
            return sim_take_up_ready(worker, block->ready.first);
        if (WATCHED && is_between_warps(block) && watch_all_stopped())
            continue;
        if (block->started < block->size) {
            struct sim_fiber *fiber = take_fiber(worker);
            if (!fiber)
                sim_block_abandon();
            return fiber;
        }
        if (block->returned == block->size)
            return &worker->home;
        if (sim_settle_active_masks())
            continue;
        if (sim_settle_left_lanes())
            continue;
        if (sim_launch_now.cluster > 1)
            return &worker->home; /* another block of the cluster may let this one go on */
        if (!sim_land_next_copy(worker->cluster))
            sim_report_stuck();
    }
}

/* A fiber is taken only when there is a thread to start. */
static void fiber_body(void) {
    sim_fiber_entered();
    struct sim_worker *worker = sim_worker;
    struct sim_block *block = &worker->block;
    for (;;) {
        do {
            if (sim_is_stopping())
                sim_block_abandon();
            run_next_thread(worker);
        } while (!block->ready.first && block->started < block->size &&
                 !(WATCHED && is_between_warps(block)));
        struct sim_fiber *next = sim_choose_fiber(worker);
        worker->unused[worker->unused_count++] = worker->fiber;
        sim_go_to(worker, next);
    }
}

void sim_block_wait(enum sim_state state, const struct sim_site *site) {
    sim_wait(sim_worker, state, site);
}

/* All threads of the block have had turns and given them up, and none has made progress. */
static bool seems_to_wait_for_others(const struct sim_block *block) {
    enum { TURNS_OF_EACH = 4, LONG_TURNS = 3 };
    return block->started == block->size && (block->idle_turns > TURNS_OF_EACH * block->size ||
                                             block->long_turns > LONG_TURNS * SIM_PARTS_OF_LONG_TURN);
}

void sim_yield(void) {
    struct sim_worker *worker = sim_worker;
    struct sim_block *block = &worker->block;
    if (sim_is_stopping())
        sim_block_abandon();
    if (WATCHED)
        watch_turn_ends();
    struct sim_thread *self = sim_current(worker);
    self->fiber = worker->fiber;
    self->state = SIM_RUNS;
    sim_queue_append(&block->ready, self);
    block->idle_turns++;
    if (seems_to_wait_for_others(block)) {
        block->idle_turns = block->long_turns = 0;
        sim_start_more_blocks();
    }
    struct sim_fiber *next = block->started < block->size ? take_fiber(worker)
                             : sim_launch_now.cluster > 1
                                 ? &worker->home /* it may wait for another block of its cluster */
                                 : sim_choose_fiber(worker);
    if (!next)
        sim_block_abandon();
    sim_go_to(worker, next);
    if (sim_is_stopping())
        sim_block_abandon();
}

void sim_end_turn(unsigned parts) {
    struct sim_block *block = &sim_worker->block;
    block->long_turns += parts;
    if (parts < SIM_PARTS_OF_LONG_TURN && block->idle_turns > 0)
        block->idle_turns--; /* which a short turn is none of */
    sim_yield();
}

void sim_thread_leaves(void) {
    sim_current(sim_worker_of_fiber())->leaves = true;
}

void sim_launch_bounds(unsigned most, const char *file, int line) {
    unsigned threads = sim_worker_of_fiber()->block.size;
    if (threads > most)
        sim_report_call(SIM_INVALID_LAUNCH, sim_site_at(file, line),
                        "is one of %u of its block, and the kernel's __launch_bounds__ allows %u", threads,
                        most);
}

void sim_come_to_end(void) {
    struct sim_worker *worker = sim_worker_of_fiber();
    struct sim_block *block = &worker->block;
    const struct sim_thread *self = sim_current(worker);
    if (self->leaves)
        return;
    unsigned warp = (unsigned)(self - block->threads) / SIM_WARP_THREADS;
    const struct sim_thread *waits = block->barrier_of_warp[warp];
    if (waits && !sim_tolerates_divergence(waits->site))
        sim_report_skipped_barrier(waits, self);
    block->ended_of_warp[warp] = self;
}

noreturn void sim_block_abandon(void) {
    sim_worker->block.abandoned = true;
    if (sim_worker->fiber == &sim_worker->home)
        sim_cluster_abandon(); /* a copy that no thread waited for was wrong */
    sim_go_to(sim_worker, &sim_worker->home);
    __builtin_unreachable();
}

void sim_block_begin(struct sim_worker *worker) {
    struct sim_block *block = &worker->block;
    dim3 size = sim_launch_now.block;
    block->size = size.x * size.y * size.z;
    block->started = 0;
    block->returned = 0;
    worker->registers->is_alone = WATCHED || sim_launch_now.cluster > 1;
    worker->registers->leaves = worker->registers->is_between = worker->registers->is_blind = false;
    worker->registers->is_to_see = worker->unseen != 0;
    worker->registers->came_to_end = worker->registers->row = 0;
    worker->current = NULL;
    block->abandoned = block->is_asynchronous = false;
    block->idle_turns = block->long_turns = 0;
    worker->updates = NULL; /* an abandoned block may have been at an atomic operation */
    memset(block->ended_of_warp, 0, sizeof block->ended_of_warp);
    block->next_xy = 0;
    block->next_z = 0;
    if (worker->hopper)
        sim_hopper_begin_block(worker);
    if (WATCHED)
        watch_block_begins(worker);
}

bool sim_block_can_go_on(const struct sim_block *block) {
    return block->ready.first || block->started < block->size;
}

enum sim_progress sim_block_go_on(struct sim_worker *worker) {
    struct sim_block *block = &worker->block;
    worker->fiber = &worker->home;
    struct sim_fiber *fiber = block->started == 0 ? take_fiber(worker) : sim_choose_fiber(worker);
    if (!fiber)
        return SIM_BLOCK_ABANDONED;
    sim_go_to(worker, fiber);
    return block->abandoned                 ? SIM_BLOCK_ABANDONED
           : block->returned == block->size ? SIM_BLOCK_ENDED
                                            : SIM_BLOCK_WAITS;
}

void sim_block_clean(struct sim_worker *worker) {
    struct sim_block *block = &worker->block;
    if (WATCHED)
        watch_block_abandoned();
    block->ready = block->at_barrier = (struct sim_queue){0};
    block->arrived = 0;
    block->predicates = 0;
    memset(block->barrier_of_warp, 0, sizeof block->barrier_of_warp);
    memset(block->exchanging, 0, sizeof block->exchanging);
    for (unsigned i = 0; i < block->started; i++) {
        sim_forget_copies(&block->threads[i].copies);
        sim_forget_products(&block->threads[i]);
        sim_forget_stores(&block->threads[i].stores);
    }
    worker->unused_count = 0;
    for (unsigned i = 0; i < worker->fibers_made; i++) {
        sim_fiber_reset(&worker->fibers[i], fiber_body, i);
        if (!WATCHED)
            *sim_fiber_note(&worker->fibers[i]) = worker; /* which the fault may have written over */
        worker->unused[worker->unused_count++] = &worker->fibers[i];
    }
}

static bool run_once(struct sim_worker *worker) {
    sim_block_begin(worker);
    if (sim_block_go_on(worker) == SIM_BLOCK_ENDED)
        return true;
    sim_block_clean(worker);
    return false;
}

noreturn void sim_see_fault(uintptr_t pc) {
    sim_worker->unseen = pc;
    sim_block_abandon();
}

/* After a fault in a blind loop the launch has failed, and its threads run again only to tell which it was.
 */
bool sim_block_run(struct sim_worker *worker) {
    if (run_once(worker))
        return true;
    if (worker->unseen) {
        if (run_once(worker))
            sim_report_unseen(worker->unseen);
        worker->unseen = 0;
    }
    return false;
}
