/* Deadlocks of threads that wait in their own loops. */
#pragma once
#include "access.h"

/* Numbers of basic blocks: about a millisecond of a kernel, and a part of that. */
enum { BASIC_BLOCKS_OF_A_TURN = 1 << 16, BASIC_BLOCKS_OF_A_LOOK = 1 << 6 };

struct spinner {
    uint3 thread;
    uint3 block;
    uintptr_t pc; /* of what it looks at; 0: there is none */
};

/* The tool's state. */
struct spinning {
    uint64_t changes;        /* of memory that this OS thread has made, and threads that have returned */
    uint64_t changes_before; /* at the last look */
    unsigned basic_blocks;   /* of the kernel since a thread last gave up its turn */
    bool this_turn_waits;    /* the running thread has looked at something that others may change */
    bool other_turns;        /* a long turn has ended since the last look in which a thread did not */
    uintptr_t pc;            /* where the running thread has looked last */
    struct spinner latest[2];
    uint64_t round; /* in which it was looked at last, and */
    unsigned looks; /* how often in that round */
};

void spinning_launch_begins(void);
void spinning_block_begins(struct spinning *spinning);

static inline void spinning_thread_runs(struct spinning *spinning) {
    spinning->this_turn_waits = false;
}
/* The running thread has changed memory, or passed a barrier. */
static inline void spinning_changed(struct spinning *spinning) {
    spinning->changes++;
}
/* Counts basic blocks that have begun; ends the turn of a thread that has run for long. */
static inline void spinning_basic_blocks(struct spinning *spinning, unsigned more) {
    spinning->basic_blocks += more;
    if (spinning->basic_blocks >= BASIC_BLOCKS_OF_A_TURN)
        sim_end_turn(SIM_PARTS_OF_LONG_TURN);
}
