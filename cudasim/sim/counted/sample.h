/* A sample of a launch's blocks, to estimate the launch's time on a GPU. */
#pragma once
#include "requests.h"

enum { LINE_SECTORS = 4 };

struct l1_line {
    uint64_t line;                /* its number in memory, plus one; 0: the place is free */
    uint64_t used;                /* when it was used last */
    unsigned sectors;             /* those of its four that are there */
    unsigned asked[LINE_SECTORS]; /* for each, how often the warp had waited that asked for it first */
};

struct block_sectors {
    uint64_t block;
    uint64_t count;
    unsigned long long *sectors;
};

/* How often each thread of the running block has begun a basic block. */
struct passed_block {
    uintptr_t pc;
    uint64_t warps; /* of the blocks that have ended */
    uint64_t threads;
    uint64_t slowest;
    uint64_t most;
    uint32_t of_thread[SIM_MAX_BLOCK_THREADS];
};

enum { PASSED_PLACES = 4096, MOST_PASSED = PASSED_PLACES / 2 };

/* The tool's state. */
struct sample {
    bool is_on;
    struct l1_line *l1; /* sets of ways */
    unsigned l1_sets;
    uint64_t l1_time;
    unsigned waited[SIM_MAX_BLOCK_THREADS / SIM_WARP_THREADS]; /* for loads, by the block's warps */
    uint64_t *touched; /* sectors of the block that runs, a hash table: as in counted_block */
    uint64_t touched_count;
    uint64_t touched_size; /* a power of two */
    struct block_sectors *blocks;
    size_t block_count;
    size_t block_capacity;
    struct passed_block *passed;
    unsigned passed_count;
    uint16_t passed_at[PASSED_PLACES]; /* by a hash of the pc, its number plus one */
};

void sample_free(struct sample *sample);
void sample_worker_begins(struct sample *sample);
void sample_block_begins(struct sample *sample);
void sample_block_ends(struct recorder *recorder);
void sample_barrier_passed(struct sample *sample);
void sample_basic_block(struct sample *sample, uintptr_t pc, unsigned thread);
/* A request of global memory; all 32 addresses are set, as for sectors_of(). */
void sample_request(struct sample *sample, struct tally *tally, counted_operation operation,
                    const uintptr_t addresses[SIM_WARP_THREADS], unsigned warp);
/* Takes what the OS threads have kept. `first`: of all recorders. */
void sample_launch_ends(struct recorder *first, uint64_t launch, counted_launch *result);
void sample_free_results(const counted_launch *launch);
