/* Races: the histories of words of memory. A history has the last accesses that matter for races. */
#pragma once
#include "access.h"
#include "places.h"

/* The history of a word, or of an element of an array with smaller elements. If an access happens before a
 * later one of the same kind, only the later one matters. Of unordered ones two are kept, of different blocks
 * or warps if possible. */
struct history {
    struct past uses[2]; /* reads, atomics and volatile writes since the latest plain write, and plain writes
                            of bytes that it has not written */
    struct past write;   /* which it is */
};

/* The history of a word of shared memory. */
struct shared_word {
    uint32_t block;       /* the history is void when it is not the one that runs */
    uint32_t initialised; /* which of its bytes have been written */
};

/* A write of at most a word that races with another write, until its value can be seen.
 */
struct doubt {
    struct access access;
    struct past other;
    uintptr_t word;
    uint32_t bytes;          /* of the word: those that both write */
    unsigned char before[4]; /* the word, as the other left it */
};

/* The tool's state. */
struct races {
    struct history *shared; /* memory for the histories of shared memory, */
    struct shared_word *words;
    size_t used;          /* and how many words of it are in use */
    struct doubt *doubts; /* of the write that the running thread is about to make */
    unsigned doubt_count;
    unsigned doubt_capacity;
    bool is_announced; /* a part of that write; the others follow before it is made */
    bool fills;        /* fills unwritten shared memory with `filler` */
    unsigned char filler;
    bool has_unwritten_read;
    unsigned repetitions; /* of it */
    struct access unwritten_read;
};

bool history_create(struct races *races); /* false: no memory */
void history_free(struct races *races);
void history_worker_begins(struct recorder *recorder);
/* Gives a place in shared memory its histories, unless it is larger than a block's shared memory. */
void history_of_shared(struct recorder *recorder, struct place *place);

/* TMA or another block writes shared memory, and orders the write itself. */
void history_written(struct recorder *recorder, const struct place *place, uintptr_t address, size_t bytes);

/* The running thread is about to make the access. Ends the launch when it races. */
void history_check(struct recorder *recorder, const struct access *access);

/* The same for a plain read of a whole word of shared memory if that is quick, as it nearly always is;
 * returns false if not. */
static inline bool history_check_read(struct history *history, const struct shared_word *word,
                                      const struct order *order, uint32_t block, uint32_t block_count,
                                      unsigned thread) {
    struct past *uses = history->uses;
    const struct past *write = &history->write;
    uint32_t barrier = order->barrier_time;
    if (word->block != block_count || word->initialised != PAST_BYTES_MASK || write->block != block ||
        write->time >= barrier)
        return false;
    /* Two warps have read it, so any write now races with one of them. */
    if ((uses[1].what & PAST_TWO_WARPS) && !order->has_clocks && uses[0].block == block &&
        uses[1].block == block && uses[0].time >= barrier && uses[1].time >= barrier)
        return true;
    const uint32_t kind =
        PAST_WARP_MASK << PAST_WARP | PAST_BYTES_MASK << PAST_BYTES | PAST_UPDATES | PAST_STRONG;
    if (uses[0].time != order->now || uses[0].block != block || (uses[1].what & PAST_UPDATES) ||
        (uses[0].what & kind) != (PAST_BYTES_MASK << PAST_BYTES | thread / SIM_WARP_THREADS << PAST_WARP))
        return false;
    uses[0].lanes |= 1u << thread % SIM_WARP_THREADS;
    return true;
}

/* Several OS threads may access one word of global memory. */
static inline void history_lock(struct history *history, bool is_alone) {
    if (is_alone)
        return;
    while (__atomic_fetch_or(&history->write.what, PAST_LOCKED, __ATOMIC_ACQUIRE) & PAST_LOCKED)
        ;
}
static inline void history_unlock(struct history *history, bool is_alone) {
    if (!is_alone)
        __atomic_store_n(&history->write.what, history->write.what & ~(uint32_t)PAST_LOCKED,
                         __ATOMIC_RELEASE);
}

/* Handles a plain access to a whole word of global memory if it is the first in this launch: there is nothing
 * to compare it with. Returns false if it is not the first. */
static inline bool history_begins(struct history *history, bool is_alone, const struct past *now) {
    history_lock(history, is_alone);
    bool is_first = !history->write.block && !history->uses[0].block && !history->uses[1].block;
    if (is_first && (now->what & PAST_UPDATES)) {
        uint32_t locked = history->write.what & PAST_LOCKED;
        history->write.block_and_lanes = now->block_and_lanes;
        history->write.time = now->time;
        __atomic_store_n(&history->write.what, now->what | locked, __ATOMIC_RELAXED);
    } else if (is_first) {
        history->uses[0] = *now;
    }
    history_unlock(history, is_alone);
    return is_first;
}

/* The same for a word of global memory that is only read, and that lanes of this warp have just read: this
 * lane joins them. */
static inline bool history_adds_read(struct history *history, bool is_alone, const struct order *order,
                                     uint32_t block, unsigned thread) {
    struct past *uses = history->uses;
    if (history->write.block || uses[0].block != block || order->has_clocks)
        return false;
    const uint32_t kind =
        PAST_WARP_MASK << PAST_WARP | PAST_BYTES_MASK << PAST_BYTES | PAST_UPDATES | PAST_STRONG;
    const uint32_t own = PAST_BYTES_MASK << PAST_BYTES | thread / SIM_WARP_THREADS << PAST_WARP;
    if (uses[0].time != order->now || (uses[0].what & kind) != own || (uses[1].what & PAST_UPDATES))
        return false;
    /* Without the lock: only this OS thread changes its block's entries, and no other adds any. An owner of
     * the lock may have missed this lane, so then the history is checked again with the lock. */
    uint64_t before = uses[0].block_and_lanes;
    struct past after = {.block_and_lanes = before};
    after.lanes |= 1u << thread % SIM_WARP_THREADS;
    if (is_alone)
        uses[0].lanes = after.lanes;
    else if (after.block != block ||
             !__atomic_compare_exchange_n(&uses[0].block_and_lanes, &before, after.block_and_lanes, false,
                                          __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
        return false;
    return is_alone || (!(__atomic_load_n(&history->write.what, __ATOMIC_SEQ_CST) & PAST_LOCKED) &&
                        !history->write.block);
}

/* A write races with another write. It is only a fault if the values differ, which is known when the thread
 * has gone on. */
void history_settle_write_now(struct recorder *recorder);
static inline void history_settle_write(struct recorder *recorder, const struct races *races) {
    if (__builtin_expect(races->doubt_count > 0 && !races->is_announced, 0))
        history_settle_write_now(recorder);
}
/* The running thread's next accesses are parts of one access; all are announced before it is made. */
static inline void history_announce(struct recorder *recorder, struct races *races, bool begins) {
    history_settle_write(recorder, races);
    races->is_announced = begins;
}
static inline void history_forget_write(struct races *races) {
    races->doubt_count = 0;
    races->is_announced = false;
}
static inline void history_block_begins(struct races *races) {
    history_forget_write(races);
    races->has_unwritten_read = false;
}
/* Reports a read of unwritten shared memory, if there was one: no thread will write it before the next
 * barrier. */
void history_settle_read(const struct recorder *recorder);
/* The same for the running thread: after such a read it may go astray, so that read is the fault to report.
 */
void history_settle_own_read(const struct recorder *recorder);
