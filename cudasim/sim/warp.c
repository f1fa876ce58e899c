/* Warp operations: the lanes that a mask names meet, and the last lane to arrive computes the results of all.
 *
 * On a GPU the lanes of a warp run together; here they run one after another, so a meeting is what makes
 * an exchange possible. Lanes meet when they wait for the same operation with the same mask, also from
 * different lines, as on compute capability 7.0 and later. */
#include "wait.h"

static unsigned number_of(const struct sim_worker *worker, const struct sim_thread *thread) {
    return (unsigned)(thread - worker->block.threads);
}

unsigned sim_lanes_of_warp(const struct sim_block *block, unsigned warp) {
    unsigned lanes = block->size - warp * SIM_WARP_THREADS;
    return lanes >= SIM_WARP_THREADS ? SIM_ALL_LANES : (1u << lanes) - 1;
}

static bool all_wait_for(const struct sim_exchange *exchange, const struct sim_thread *warp, unsigned lanes) {
    for (; lanes; lanes &= lanes - 1) {
        const struct sim_exchange *other = &warp[__builtin_ctz(lanes)].exchange;
        if (other->operation != exchange->operation || other->mask != exchange->mask)
            return false;
    }
    return true;
}

static uint64_t ballot_of(const struct sim_thread *warp, unsigned lanes) {
    uint64_t ballot = 0;
    for (; lanes; lanes &= lanes - 1) {
        int lane = __builtin_ctz(lanes);
        ballot |= warp[lane].exchange.value << lane;
    }
    return ballot;
}

/* What a lane brings to a gathering: its value, and the address for all 32. */
struct gathering {
    uint64_t value;
    uint64_t *all;
    unsigned instructions;
};

static struct gathering *gathering_of(const struct sim_thread *thread) {
    return (struct gathering *)(uintptr_t)thread->exchange.value;
}

static void gather(const struct sim_thread *warp, unsigned lanes) {
    for (unsigned to = lanes; to; to &= to - 1)
        for (unsigned from = lanes; from; from &= from - 1) {
            int lane = __builtin_ctz(from);
            gathering_of(&warp[__builtin_ctz(to)])->all[lane] = gathering_of(&warp[lane])->value;
        }
    if (WATCHED)
        watch_warp_operations(gathering_of(&warp[__builtin_ctz(lanes)])->instructions - 1);
}

/* Inlined, as meet() is, so that shuffles, votes and barriers have a meeting of their own each. */
static inline __attribute__((always_inline)) void exchange_values(struct sim_block *block,
                                                                  enum sim_warp_operation operation,
                                                                  struct sim_thread *warp, unsigned lanes) {
    uint64_t ballot = operation == SIM_BALLOT ? ballot_of(warp, lanes) : 0;
    if (operation == SIM_GATHER)
        gather(warp, lanes);
    if (operation == SIM_MATRIX_ROWS)
        sim_tell_matrix_rows(warp);
    if (operation == SIM_TRANSPOSE)
        sim_transpose_matrices(warp);
    if (operation == SIM_MMA)
        sim_multiply_matrices(warp);
    if (operation == SIM_FRAGMENTS)
        sim_multiply_fragments(warp);
    for (unsigned left = lanes; left; left &= left - 1) {
        struct sim_thread *thread = &warp[__builtin_ctz(left)];
        unsigned source = thread->exchange.source;
        if (operation == SIM_BALLOT)
            thread->exchange.result = ballot;
        else if (lanes >> source & 1)
            thread->exchange.result = warp[source].exchange.value;
        else if (WATCHED && operation == SIM_SHUFFLE)
            sim_report_shuffle(thread, thread->site, source);
        else
            thread->exchange.result = ~(uint64_t)0;
        sim_make_ready(block, thread);
    }
}

static inline __attribute__((always_inline)) uint64_t meet(struct sim_worker *worker,
                                                           const struct sim_site *site,
                                                           enum sim_warp_operation operation, unsigned mask,
                                                           unsigned source, uint64_t value) {
    struct sim_block *block = &worker->block;
    struct sim_thread *self = sim_current(worker);
    unsigned number = number_of(worker, self), lane = number % SIM_WARP_THREADS,
             warp = number / SIM_WARP_THREADS;
    if (!(mask >> lane & 1))
        sim_report_call(SIM_LANE_NOT_IN_MASK, site,
                        "calls a warp operation with mask 0x%08x, which leaves out its own lane %u", mask,
                        lane);

    self->site = site;
    self->exchange = (struct sim_exchange){(uint8_t)operation, (uint8_t)source, mask, value, 0};
    block->exchanging[warp] |= 1u << lane;
    struct sim_thread *threads = self - lane;
    unsigned lanes = mask & sim_lanes_of_warp(block, warp);
    if ((lanes & ~block->exchanging[warp]) == 0 && all_wait_for(&self->exchange, threads, lanes)) {
        block->exchanging[warp] &= ~lanes;
        if (WATCHED)
            watch_lanes_met(warp, lanes);
        exchange_values(block, operation, threads, lanes);
        sim_wait(worker, SIM_RUNS, site); /* in line with the others, so that lanes go on in order */
    } else {
        sim_wait(worker, SIM_WAITS_FOR_LANES, site);
    }
    return self->exchange.result;
}

void sim_warp_barrier(const struct sim_site *site, unsigned mask) {
    meet(sim_worker_of_fiber(), site, SIM_WARP_BARRIER, mask, 0, 0);
}

void sim_meet_for_matrix(const struct sim_site *site, enum sim_warp_operation operation, uint64_t value) {
    struct sim_block *block = &sim_worker->block;
    unsigned warp = number_of(sim_worker, sim_current(sim_worker)) / SIM_WARP_THREADS;
    if (sim_lanes_of_warp(block, warp) != SIM_ALL_LANES)
        sim_report_call(SIM_MISSING_LANE, site,
                        "is a matrix instruction, which needs 32 lanes, in a warp of %d",
                        __builtin_popcount(sim_lanes_of_warp(block, warp)));
    meet(sim_worker, site, operation, SIM_ALL_LANES, 0, value);
}

unsigned sim_ballot(const struct sim_site *site, unsigned mask, int predicate) {
    return (unsigned)meet(sim_worker_of_fiber(), site, SIM_BALLOT, mask, 0, predicate != 0);
}

void sim_gather(const struct sim_site *site, unsigned mask, uint64_t value, uint64_t *all,
                unsigned instructions) {
    struct gathering mine = {value, all, instructions};
    meet(sim_worker_of_fiber(), site, SIM_GATHER, mask, 0, (uint64_t)(uintptr_t)&mine);
}

/* The lane that `lane` reads: itself if the shuffle would leave the segment of `width` lanes. */
static unsigned source_of(unsigned lane, enum sim_shuffle direction, unsigned operand, unsigned width) {
    unsigned first = lane & ~(width - 1), last = lane | (width - 1);
    operand %= SIM_WARP_THREADS; /* the hardware has five bits for it */
    switch (direction) {
    case SIM_SHUFFLE_UP:
        return lane < first + operand ? lane : lane - operand;
    case SIM_SHUFFLE_DOWN:
        return lane + operand > last ? lane : lane + operand;
    case SIM_SHUFFLE_XOR:
        return (lane ^ operand) > last ? lane : lane ^ operand;
    default:
        return first | (operand & (width - 1));
    }
}

uint64_t sim_shuffle(const struct sim_site *site, unsigned mask, uint64_t value, enum sim_shuffle direction,
                     int operand, int width) {
    if (width < 1 || width > SIM_WARP_THREADS || (width & (width - 1)))
        sim_report_call(SIM_SHUFFLE_WIDTH, site,
                        "shuffles with width %d, which is not a power of two from 1 to 32", width);
    struct sim_worker *worker = sim_worker_of_fiber();
    unsigned lane = number_of(worker, sim_current(worker)) % SIM_WARP_THREADS;
    unsigned source = source_of(lane, direction, (unsigned)operand, (unsigned)width);
    return meet(worker, site, SIM_SHUFFLE, mask, source, value);
}

/* A lane that asks for the active lanes waits until no other thread can run. Then the lanes of its warp at
 * the same line are those that a GPU could have brought there together. */
unsigned sim_active_mask(const struct sim_site *site) {
    struct sim_thread *self = sim_current(sim_worker);
    sim_block_wait(SIM_WAITS_FOR_ACTIVE_MASK, site);
    return self->exchange.mask;
}

static bool lets_lanes_leave(unsigned operation) {
    return operation == SIM_WARP_BARRIER || operation == SIM_BALLOT || operation == SIM_SHUFFLE;
}

static void tell_of_left_lanes(const struct sim_site *site) {
    static atomic_bool told;
    if (!atomic_exchange(&told, true))
        fprintf(stderr,
                "cudasim: warning: %s:%d: a mask names lanes that have returned, for which a GPU does not "
                "wait, and whose values are undefined (`check` names them)\n",
                site->file, site->line);
}

/* Lanes that have returned are not waited for: "all non-exited threads named in mask must execute the same
 * intrinsic" (CUDA C++ Programming Guide, "Warp Shuffle Functions"). They have no vote, and a read from one
 * of them is undefined: here all bits are 1, a NaN. Such a mask usually means that all lanes should come, so
 * only a whole program that is run, and not checked, goes on. */
bool sim_settle_left_lanes(void) {
    struct sim_block *block = &sim_worker->block;
    bool any = false;
    if (!sim_divergence_is_tolerated)
        return false;
    for (unsigned number = 0; number < block->size; number++) {
        struct sim_thread *thread = &block->threads[number];
        unsigned lane = number % SIM_WARP_THREADS, warp = number / SIM_WARP_THREADS;
        if (thread->state != SIM_WAITS_FOR_LANES || !lets_lanes_leave(thread->exchange.operation))
            continue;
        struct sim_thread *threads = thread - lane;
        unsigned lanes = thread->exchange.mask & sim_lanes_of_warp(block, warp) & block->exchanging[warp];
        unsigned others = thread->exchange.mask & sim_lanes_of_warp(block, warp) & ~lanes;
        while (others && threads[__builtin_ctz(others)].state == SIM_HAS_RETURNED)
            others &= others - 1;
        if (others || !all_wait_for(&thread->exchange, threads, lanes))
            continue;
        tell_of_left_lanes(thread->site);
        block->exchanging[warp] &= ~lanes;
        exchange_values(block, thread->exchange.operation, threads, lanes);
        any = true;
    }
    return any;
}

bool sim_settle_active_masks(void) {
    struct sim_block *block = &sim_worker->block;
    bool any = false;
    for (unsigned number = 0; number < block->size; number++) {
        struct sim_thread *thread = &block->threads[number];
        if (thread->state != SIM_WAITS_FOR_ACTIVE_MASK)
            continue;
        unsigned first = number / SIM_WARP_THREADS * SIM_WARP_THREADS, mask = 0;
        for (unsigned other = number; other < block->size && other < first + SIM_WARP_THREADS; other++)
            if (block->threads[other].state == SIM_WAITS_FOR_ACTIVE_MASK &&
                block->threads[other].site == thread->site)
                mask |= 1u << (other - first);
        for (unsigned lanes = mask; lanes; lanes &= lanes - 1) {
            struct sim_thread *member = &block->threads[first + (unsigned)__builtin_ctz(lanes)];
            member->exchange.mask = mask;
            sim_make_ready(block, member);
        }
        any = true;
    }
    return any;
}
