/* Happens-before, updated at everything that orders threads; order.h defines it. */
#include "order.h"
#include "../watch.h"
#include "recorder.h"
#include <pthread.h>
#include <stdlib.h>

/* ---- Where threads hand on what they know: words with atomic or volatile accesses, and objects ----
 */

enum { SLOTS = 1 << 12 };

struct handed_on {
    struct handed_on *next;
    uintptr_t address;
    uint32_t block;               /* of shared memory, whose addresses the next block has too; else 0 */
    const struct clock *in_grid;  /* to all threads */
    const struct clock *in_block; /* to those of `in_block_of` */
    uint32_t in_block_of;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct handed_on *slots[SLOTS];
atomic_bool order_any_handed_on;
static unsigned levels;

static struct handed_on **slot_of(uintptr_t address) {
    return &slots[(address >> 2) * 0x9e3779b97f4a7c15u >> 52];
}

static struct handed_on *find(uintptr_t address, uint32_t block) {
    struct handed_on *at = *slot_of(address);
    while (at && (at->address != address || at->block != block))
        at = at->next;
    return at;
}

static struct handed_on *find_or_add(uintptr_t address, uint32_t block) {
    struct handed_on *found = find(address, block);
    if (!found && (found = calloc(1, sizeof *found))) {
        *found = (struct handed_on){.next = *slot_of(address), .address = address, .block = block};
        *slot_of(address) = found;
        atomic_store(&order_any_handed_on, true);
        history_blocks_know();
    }
    return found;
}

void order_begin_launch(const struct sim_launch *launch) {
    levels = clock_levels(launch->grid_blocks + 1);
}

void order_end_launch(void) {
    if (!atomic_exchange(&order_any_handed_on, false))
        return;
    for (unsigned slot = 0; slot < SLOTS; slot++)
        while (slots[slot]) {
            struct handed_on *next = slots[slot]->next;
            free(slots[slot]);
            slots[slot] = next;
        }
}

/* ---- An OS thread's part ---- */

bool order_create(struct order *order) {
    order->knowledge = calloc(SIM_MAX_BLOCK_WARPS, sizeof *order->knowledge);
    order->threads = calloc(SIM_MAX_BLOCK_THREADS, sizeof *order->threads);
    order->warps = calloc(1, sizeof *order->warps);
    return order->knowledge && order->threads && order->warps;
}

void order_free(struct order *order) {
    free(order->knowledge);
    free(order->threads);
    free(order->warps);
    clock_free_all(&order->memory);
}

static void begin_epoch(struct order *order) {
    static _Atomic uint32_t epochs = ORDER_FIRST_EPOCH;
    while ((order->epoch = atomic_fetch_add_explicit(&epochs, 1, memory_order_relaxed)) < ORDER_FIRST_EPOCH)
        ;
}

static void have_clocks(struct order *order) {
    order->has_clocks = true;
    order->epoch = ORDER_ALL_EPOCHS;
}

void order_begin_block(struct recorder *self) {
    struct order *order = &self->order;
    const uint32_t nearly_full = UINT32_MAX - (1u << 30);
    if (order->time > nearly_full) {
        memset(order->knowledge, 0, SIM_MAX_BLOCK_WARPS * sizeof *order->knowledge);
        memset(order->warp_time, 0, sizeof order->warp_time);
        memset(order->warps, 0, sizeof *order->warps);
        order->time = 0;
    }
    order->barrier_time = ++order->time;
    if (order->has_clocks)
        memset(order->threads, 0, SIM_MAX_BLOCK_THREADS * sizeof *order->threads);
    order->has_clocks = false;
    begin_epoch(order);
}

static const struct clock *join(struct order *order, const struct clock *a, const struct clock *b) {
    return clock_join(&order->memory, levels, a, b);
}

/* What the running thread has read of others becomes what it knows. */
static void take_over(struct recorder *self, unsigned thread, bool in_block) {
    struct thread_order *own = &self->order.threads[thread];
    if (own->strong_read_count == 0 || !order_crosses_blocks())
        return;
    pthread_mutex_lock(&mutex);
    for (unsigned i = 0; i < own->strong_read_count; i++) {
        const struct handed_on *of_grid = find(own->strong_reads[i], 0);
        const struct handed_on *of_block = find(own->strong_reads[i], self->block_number);
        const struct handed_on *found = of_block ? of_block : of_grid;
        if (!found)
            continue;
        if (!in_block || of_block)
            own->known = join(&self->order, own->known, found->in_grid);
        if (found->in_block_of == self->block_number)
            own->known = join(&self->order, own->known, found->in_block);
        have_clocks(&self->order);
    }
    pthread_mutex_unlock(&mutex);
}

/* Everything that the running thread knows, itself included; what it does from now on is later than that. */
static const struct clock *all_known(struct recorder *self) {
    struct order *order = &self->order;
    unsigned lane = self->thread % SIM_WARP_THREADS, own_warp = self->thread / SIM_WARP_THREADS;
    struct known_thread *threads = order->warps->listed;
    unsigned count = 0;
    order->now = order->warp_time[own_warp] = ++order->time;
    for (unsigned warp = 0; warp < SIM_MAX_BLOCK_WARPS; warp++)
        for (unsigned other = 0; other < SIM_WARP_THREADS; other++) {
            uint32_t time = order->warps->time[own_warp][warp], of_lane = 0;
            if (warp == own_warp)
                of_lane = other == lane ? order->now : order->knowledge[warp].time[lane][other];
            time = of_lane > time ? of_lane : time;
            if (time > order->barrier_time)
                threads[count++] = (struct known_thread){warp * SIM_WARP_THREADS + other, time};
        }
    have_clocks(order);
    const struct clock *own =
        clock_of_block(&order->memory, levels, self->block_number, order->barrier_time, threads, count);
    return join(order, order->threads[self->thread].known, own);
}

/* ---- Barriers and meetings ---- */

static void forget_strong_reads(struct order *order, unsigned thread) {
    order->threads[thread].strong_read_count = 0;
}

/* Afterwards all of these threads know, and have fenced, what any one of them knows and has fenced. */
static void join_threads(struct recorder *self, unsigned first, uint64_t lanes, unsigned count) {
    struct order *order = &self->order;
    const struct clock *known = NULL, *fenced = NULL, *fenced_block = NULL;
    for (unsigned i = 0; i < count; i++) {
        if (!(lanes >> i % SIM_WARP_THREADS & 1))
            continue;
        take_over(self, first + i, false);
        forget_strong_reads(order, first + i);
        const struct thread_order *thread = &order->threads[first + i];
        known = join(order, known, thread->known);
        fenced = join(order, fenced, thread->fenced);
        fenced_block = join(order, fenced_block, thread->fenced_block);
    }
    for (unsigned i = 0; i < count; i++)
        if (lanes >> i % SIM_WARP_THREADS & 1) {
            struct thread_order *thread = &order->threads[first + i];
            thread->known = known;
            thread->fenced = fenced;
            thread->fenced_block = fenced_block;
        }
}

void order_barrier(struct recorder *self) {
    if (self->order.has_clocks)
        join_threads(self, 0, SIM_ALL_LANES, self->worker->block.size);
    self->order.barrier_time = ++self->order.time;
    if (!self->order.has_clocks)
        begin_epoch(&self->order);
}

void order_all(struct recorder *self) {
    self->order.now = self->order.barrier_time = ++self->order.time;
    if (!self->order.has_clocks)
        begin_epoch(&self->order);
}

void order_cluster(struct recorder *const *blocks, unsigned count) {
    const struct clock *all = NULL;
    history_blocks_know();
    for (unsigned i = 0; i < count; i++) {
        struct recorder *self = blocks[i];
        struct order *order = &self->order;
        order_barrier(self);
        order->now = order->barrier_time;
        all = join(order, all, order->has_clocks ? order->threads[0].known : NULL);
        all = join(order, all,
                   clock_of_block(&order->memory, levels, self->block_number, order->barrier_time, NULL, 0));
    }
    for (unsigned i = 0; i < count; i++) {
        struct order *order = &blocks[i]->order;
        have_clocks(order);
        for (unsigned thread = 0; thread < blocks[i]->worker->block.size; thread++)
            order->threads[thread].known = all;
    }
}

void order_meeting(struct recorder *self, unsigned warp, unsigned lanes) {
    struct order *order = &self->order;
    struct warp_knowledge *knowledge = &order->knowledge[warp];
    uint32_t together[SIM_WARP_THREADS] = {0};
    uint32_t now = ++order->time;
    order->warp_time[warp] = now;
    for (unsigned left = lanes; left; left &= left - 1) {
        const uint32_t *known = knowledge->time[__builtin_ctz(left)];
        for (unsigned lane = 0; lane < SIM_WARP_THREADS; lane++)
            together[lane] = known[lane] > together[lane] ? known[lane] : together[lane];
    }
    for (unsigned left = lanes; left; left &= left - 1)
        together[__builtin_ctz(left)] = now;
    for (unsigned left = lanes; left; left &= left - 1)
        memcpy(knowledge->time[__builtin_ctz(left)], together, sizeof together);
    if (order->has_clocks)
        join_threads(self, warp * SIM_WARP_THREADS, lanes, SIM_WARP_THREADS);
}

/* ---- Barriers of a part of the block ---- */

static void join_times(uint32_t *into, const uint32_t *from) {
    for (unsigned warp = 0; warp < SIM_MAX_BLOCK_WARPS; warp++)
        into[warp] = from[warp] > into[warp] ? from[warp] : into[warp];
}

static unsigned warp_of(const struct recorder *self, const struct sim_thread *thread) {
    return (unsigned)(thread - self->worker->block.threads) / SIM_WARP_THREADS;
}

static void join_clocks_of(struct recorder *self, const struct sim_queue *threads) {
    struct order *order = &self->order;
    const struct clock *known = NULL;
    for (const struct sim_thread *thread = threads->first; thread; thread = thread->next) {
        unsigned number = (unsigned)(thread - self->worker->block.threads);
        take_over(self, number, false);
        forget_strong_reads(order, number);
        known = join(order, known, order->threads[number].known);
    }
    for (const struct sim_thread *thread = threads->first; thread; thread = thread->next)
        order->threads[thread - self->worker->block.threads].known = known;
}

void order_warps_met(struct recorder *self, const struct sim_queue *threads, unsigned barrier) {
    struct order *order = &self->order;
    uint32_t together[SIM_MAX_BLOCK_WARPS], now = ++order->time;
    memcpy(together, order->warps->passed[barrier], sizeof together);
    for (const struct sim_thread *thread = threads->first; thread; thread = thread->next) {
        join_times(together, order->warps->time[warp_of(self, thread)]);
        together[warp_of(self, thread)] = now;
    }
    for (const struct sim_thread *thread = threads->first; thread; thread = thread->next) {
        memcpy(order->warps->time[warp_of(self, thread)], together, sizeof together);
        order->warp_time[warp_of(self, thread)] = now;
    }
    order_thread_runs(order, self->thread);
    if (order->has_clocks)
        join_clocks_of(self, threads);
}

void order_end_phase(struct recorder *self, unsigned barrier) {
    struct block_knowledge *warps = self->order.warps;
    memcpy(warps->passed[barrier], warps->arrived[barrier], sizeof *warps->passed);
}

void order_pass(struct recorder *self, unsigned barrier) {
    struct block_knowledge *warps = self->order.warps;
    join_times(warps->time[self->thread / SIM_WARP_THREADS], warps->passed[barrier]);
}

/* ---- Fences and strong accesses ---- */

void order_fence(struct recorder *self, bool in_block) {
    struct thread_order *own = &self->order.threads[self->thread];
    take_over(self, self->thread, in_block);
    if (!in_block)
        forget_strong_reads(&self->order, self->thread);
    const struct clock *known = all_known(self);
    own->fenced_block = known;
    if (!in_block)
        own->fenced = known;
}

void order_strong_read(struct recorder *self, uintptr_t address) {
    struct thread_order *own = &self->order.threads[self->thread];
    for (unsigned i = 0; i < own->strong_read_count; i++)
        if (own->strong_reads[i] == address)
            return;
    if (own->strong_read_count == STRONG_READS) /* the oldest is forgotten */
        memmove(own->strong_reads, own->strong_reads + 1,
                --own->strong_read_count * sizeof *own->strong_reads);
    own->strong_reads[own->strong_read_count++] = address;
    have_clocks(&self->order);
}

void order_strong_write(struct recorder *self, uintptr_t address, bool in_block, bool reads_too) {
    const struct thread_order *own = &self->order.threads[self->thread];
    const struct clock *in_grid = in_block ? NULL : own->fenced;
    uint32_t block = is_shared(self, address) ? self->block_number : 0;
    if (!own->fenced_block && !order_crosses_blocks())
        return;
    pthread_mutex_lock(&mutex);
    struct handed_on *to = own->fenced_block ? find_or_add(address, block) : find(address, block);
    if (to) {
        if (!reads_too) /* a reader of this sees nothing that was written before */
            to->in_grid = to->in_block = NULL;
        if (to->in_block_of != self->block_number)
            to->in_block = NULL;
        to->in_block_of = self->block_number;
        to->in_grid = join(&self->order, to->in_grid, in_grid);
        to->in_block = join(&self->order, to->in_block, own->fenced_block);
    }
    pthread_mutex_unlock(&mutex);
}

/* ---- Objects ---- */

static void hand_on(struct recorder *self, const void *object, const struct clock *clock) {
    pthread_mutex_lock(&mutex);
    struct handed_on *to = find_or_add((uintptr_t)object, 0);
    if (to)
        to->in_grid = join(&self->order, to->in_grid, clock);
    pthread_mutex_unlock(&mutex);
}

void order_arrive(struct recorder *self, unsigned barrier, const void *word) {
    struct order *order = &self->order;
    unsigned warp = self->thread / SIM_WARP_THREADS;
    uint32_t *arrived = order->warps->arrived[barrier];
    join_times(arrived, order->warps->time[warp]);
    arrived[warp] = order->now = order->warp_time[warp] = ++order->time;
    if (order->has_clocks && order->threads[self->thread].known)
        hand_on(self, word, order->threads[self->thread].known);
}

void order_acquire(struct recorder *self, const void *object) {
    struct thread_order *own = &self->order.threads[self->thread];
    pthread_mutex_lock(&mutex);
    const struct handed_on *found = find((uintptr_t)object, 0);
    if (found) {
        own->known = join(&self->order, own->known, found->in_grid);
        have_clocks(&self->order);
    }
    pthread_mutex_unlock(&mutex);
}

void order_forget(struct recorder *self, const void *object) {
    (void)self;
    pthread_mutex_lock(&mutex);
    struct handed_on *found = find((uintptr_t)object, 0);
    if (found)
        found->in_grid = found->in_block = NULL;
    pthread_mutex_unlock(&mutex);
}

struct agent order_asynchronous(struct recorder *self, const void *object) {
    enum { AGENTS = 1024 };
    struct order *order = &self->order;
    struct agent agent = {SIM_MAX_BLOCK_THREADS + (unsigned)((uintptr_t)object >> 3) % AGENTS, ++order->time};
    struct known_thread known = {agent.thread, agent.time + 1};
    hand_on(self, object, clock_of_block(&order->memory, levels, self->block_number, 0, &known, 1));
    return agent;
}

/* ---- The query ---- */

static bool warp_knows(const struct warp_knowledge *knowledge, const struct past *past, unsigned lane,
                       unsigned other) {
    return past->time < knowledge->time[lane][other];
}

bool order_is_before(const struct recorder *self, const struct past *past) {
    const struct order *order = &self->order;
    unsigned warp = past_warp(past), lane = self->thread % SIM_WARP_THREADS;
    bool same_block = past->block == self->block_number;
    bool same_warp = same_block && warp == self->thread / SIM_WARP_THREADS;
    if (same_block && warp < SIM_MAX_BLOCK_WARPS &&
        (past->time < order->barrier_time ||
         past->time < order->warps->time[self->thread / SIM_WARP_THREADS][warp]))
        return true;
    const struct clock *known = order->has_clocks ? order->threads[self->thread].known : NULL;
    if (!known && !same_warp)
        return false;
    for (unsigned lanes = past->lanes; lanes; lanes &= lanes - 1) {
        unsigned other = (unsigned)__builtin_ctz(lanes);
        if (same_warp && (other == lane || warp_knows(&order->knowledge[warp], past, lane, other)))
            continue;
        unsigned thread = warp * SIM_WARP_THREADS + other;
        if (!known || past->time >= clock_time_of(known, levels, past->block, thread))
            return false;
    }
    return true;
}
