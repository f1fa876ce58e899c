/* Clocks: what a thread knows of its launch's threads, beyond what it knows from barriers and its warp.
 *
 * Each block has its own time. An access is stamped with its block, its thread and the block's time. A clock
 * is a vector clock: for a block and a thread it gives the time up to which that thread's accesses happen
 * before the clock's owner. Most launches need no clocks, and in other launches most blocks know little of
 * each other, so a clock is a tree over block numbers that shares its unchanged parts with the clocks that it
 * was made from. Clocks never change once they are made, so OS threads may read them without a lock; all of a
 * launch are freed together. NULL is the clock that knows nothing. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct clock;

/* The memory of the clocks that one OS thread makes. */
struct clock_memory {
    struct clock_arena *arenas;
    unsigned char *next;
    unsigned char *end;
};

/* What is known of one thread of a block: its accesses before `time`. */
struct known_thread {
    uint32_t thread;
    uint32_t time;
};

/* Frees all clocks that were made with this memory. */
void clock_free_all(struct clock_memory *memory);

/* A clock that knows all accesses of one block before `all`, and for `count` of its threads, in ascending
 * order, those before their times. `levels` is the launch's, from clock_levels(). */
const struct clock *clock_of_block(struct clock_memory *memory, unsigned levels, uint64_t block, uint32_t all,
                                   const struct known_thread *threads, unsigned count);
unsigned clock_levels(uint64_t blocks);

/* The clock that knows what either of the two knows. */
const struct clock *clock_join(struct clock_memory *memory, unsigned levels, const struct clock *a,
                               const struct clock *b);

/* The time before which it knows the thread's accesses; 0: it knows none. */
uint32_t clock_time_of(const struct clock *clock, unsigned levels, uint64_t block, unsigned thread);
