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

/* A cell is what is kept of each granule of global memory: its history, if that is one plain access to the
 * whole granule, as it nearly always is. So an access is compared with 16 bytes, and the memory for histories
 * is touched only where there are more. A tag in place of the bytes names the cell's launch. A cell of
 * another one is empty, and nobody clears the cells between launches. */
enum {
    CELL_TAG = PAST_BYTES, /* and of PAST_STRONG: both are known of what a cell has */
    CELL_MOST_TAG = 31,
    CELL_TAG_MASK = CELL_MOST_TAG << CELL_TAG,
    /* There is a history. Then the cell has no block, and in place of lanes the epoch (order.h) in which
     * plain reads add nothing to that history. */
    CELL_HAS_HISTORY = PAST_TWO_WARPS,
};
/* What a cell with a history has in `what`, if plain reads may add nothing to it. No cell has it while
 * threads can know anything of another block. */
extern __attribute__((visibility("hidden"))) uint32_t history_settled;

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
void history_launch_begins(void);
void history_blocks_know(void); /* of each other, from now on */
void history_free(struct races *races);
void history_worker_begins(struct recorder *recorder);
/* Gives a place in shared memory its histories, unless it is larger than a block's shared memory. */
void history_of_shared(struct recorder *recorder, struct place *place);

/* TMA or another block writes shared memory, and orders the write itself. */
void history_written(struct recorder *recorder, const struct place *place, uintptr_t address, size_t bytes);

/* The running thread is about to make the access. Ends the launch when it races. */
void history_check(struct recorder *recorder, const struct access *access);

/* The same for a plain read of a granule of which another one is the whole history, if they are unordered;
 * else returns false. */
bool history_adds_read(struct recorder *recorder, const struct place *place, size_t index,
                       unsigned instruction);

/* The history that a cell of the launch with this tag stands for: `kept`, if there is one, else `made`. */
struct history *history_of_cell(const struct past *cell, uint32_t tag, struct history *kept,
                                struct history *made);

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

/* Several OS threads may access one granule of global memory. */
static inline void cell_lock(struct past *cell, bool is_alone) {
    if (is_alone)
        return;
    while (__atomic_fetch_or(&cell->what, PAST_LOCKED, __ATOMIC_ACQUIRE) & PAST_LOCKED)
        ;
}
static inline void cell_unlock(struct past *cell, bool is_alone) {
    if (!is_alone)
        __atomic_store_n(&cell->what, cell->what & ~(uint32_t)PAST_LOCKED, __ATOMIC_RELEASE);
}
/* The two that another OS thread may read although the cell is locked are written at once. */
static inline __attribute__((always_inline)) void cell_set(struct past *cell, const struct past *to) {
    __atomic_store_n(&cell->block_and_lanes, to->block_and_lanes, __ATOMIC_RELAXED);
    cell->time = to->time;
    __atomic_store_n(&cell->what, to->what, __ATOMIC_RELAXED);
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
