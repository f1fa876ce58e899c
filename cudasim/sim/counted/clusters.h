/* Distributed shared memory: a block reads and writes the shared memory of another block of its cluster. */
#pragma once
#include "access.h"

/* The latest access of a block to the shared memory of another one of its cluster. */
struct reach {
    struct past past; /* its block is 0: there was none */
    uintptr_t pc;
    unsigned thread;
};
enum { MOST_REACHED = 16 }; /* as many as a cluster has blocks */

/* The tool's state. */
struct clusters {
    struct reach reach[MOST_REACHED]; /* by the other block's rank */
};

static inline void clusters_block_begins(struct clusters *clusters) {
    *clusters = (struct clusters){0};
}
/* Shared memory of another block of the cluster; false when the address is in none. */
bool clusters_find_place(struct recorder *recorder, uintptr_t address, unsigned bytes, struct place *found);
/* The running thread reaches into the shared memory of another block. */
void clusters_reach(struct recorder *recorder, const struct access *access);
