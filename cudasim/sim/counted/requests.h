/* Counting: a warp's requests of memory, one by one, and its other counted events. */
#pragma once
#include "access.h"

/* The accesses of one CUDA thread that are not yet part of a request, in order. */
enum { MOST_BASIC_BLOCKS_PASSED = 256 }; /* beyond them turns of loops are not noticed */
enum { LOGGED_OF_SAMPLES = 24 };         /* few enough for warps to run side by side, as those of a GPU do */
enum { LOG_ENTRIES = 519, SITE_SHIFT = 48 }; /* the size keeps the logs of a warp in different cache sets */
struct log {
    unsigned count;
    bool waits;                   /* it is full, and its thread has stopped for that */
    uintptr_t place;              /* in the kernel: where its thread is */
    unsigned basic_blocks_passed; /* of the kernel, in the order in which they stand there */
    uint32_t passed[MOST_BASIC_BLOCKS_PASSED];
    uint64_t entry[LOG_ENTRIES]; /* site << SITE_SHIFT | address; with site 0, the end of a turn of a loop */
};

/* The counts of an instruction so far, for one OS thread. */
struct tally {
    uint64_t requests;
    uint64_t threads;
    uint64_t addresses;
    uint64_t sectors;
    uint64_t wavefronts;
    uint64_t phases;
    uint64_t lines; /* of a sample, and the sectors that were not in L1 */
    uint64_t missed;
    uint64_t waits;
    uint64_t first_requests, first_waits; /* those of the blocks' first warps */
    uint64_t wavefronts_of_8, wavefronts_of_16;
    uintptr_t address;
};

/* The tool's state. */
struct requests {
    bool is_on;                               /* the launch is counted, and not only checked */
    unsigned most_logged;                     /* entries of a log after which a thread waits for its warp */
    bool is_abandoned;                        /* the block that runs: its launch ended with a fault */
    struct log *log;                          /* of the thread that runs */
    unsigned at_barrier[SIM_MAX_BLOCK_WARPS]; /* lanes of each warp that have reached it */
    uint64_t barriers;
    uint64_t warp_operations;
    uint64_t tensor_copies; /* by TMA, and their bytes */
    uint64_t tensor_bytes;
    uint64_t tensor_stores; /* and reductions, likewise */
    uint64_t tensor_stored_bytes;
    uint64_t products; /* wgmma, and the bytes that they read in shared memory */
    uint64_t product_bytes;
    struct tally *tallies; /* of each instruction */
    struct log *logs;      /* of each thread */
};

bool requests_create(struct requests *requests); /* false: no memory */
void requests_free(struct requests *requests);
void requests_worker_begins(struct recorder *recorder);
void requests_block_begins(struct recorder *recorder);
static inline void requests_thread_runs(struct requests *requests, unsigned thread) {
    requests->log = &requests->logs[thread];
}
void requests_block_abandoned(struct recorder *recorder);
bool requests_all_stopped(struct recorder *recorder);                    /* true: some threads can go on */
bool requests_barrier_reached(struct recorder *recorder, unsigned warp); /* true: by the whole warp */
void requests_barrier_passed(struct recorder *recorder);
void requests_lanes_met(struct recorder *recorder, unsigned warp, unsigned lanes);
/* Adds up the counts of all OS threads, and clears them for the next launch. `first`: of all recorders.
 * Returns the numbers of each instruction, or NULL without memory for them. */
counted_instruction *requests_launch_ends(struct recorder *first, uint64_t launch, counted_launch *result);

/* Adds an entry to the running thread's log. A thread whose log is full waits for its warp. */
static inline __attribute__((always_inline)) void requests_append(struct requests *requests, uint64_t entry) {
    struct log *log = requests->log;
    log->entry[log->count++] = entry;
    if (__builtin_expect(log->count >= requests->most_logged, 0)) {
        log->waits = true;
        sim_block_wait(SIM_WAITS_FOR_WARP, NULL);
    }
}
static inline void requests_access(struct requests *requests, uintptr_t pc, unsigned site,
                                   uintptr_t address) {
    requests->log->place = pc;
    requests_append(requests, (uint64_t)site << SITE_SHIFT | address);
}
static inline void requests_warp_operations(struct requests *requests, unsigned more) {
    requests->warp_operations += more;
}
static inline void requests_tensor_copy(struct requests *requests, uint64_t bytes) {
    requests->tensor_copies++;
    requests->tensor_bytes += bytes;
}
static inline void requests_tensor_store(struct requests *requests, uint64_t bytes) {
    requests->tensor_stores++;
    requests->tensor_stored_bytes += bytes;
}
static inline void requests_product(struct requests *requests, uint64_t bytes) {
    requests->products++;
    requests->product_bytes += bytes;
}
/* Whether a thread that gets to `pc` begins another turn of a loop: it has been there before, and since then
 * at no earlier place. (Compilers also move basic blocks and jump back from there.) */
static inline bool requests_turn_begins(struct log *log, uintptr_t pc) {
    uint32_t basic_block = (uint32_t)pc;
    unsigned count = log->basic_blocks_passed;
    while (count > 0 && log->passed[count - 1] > basic_block)
        count--;
    bool before = count > 0 && log->passed[count - 1] == basic_block;
    if (!before && count < MOST_BASIC_BLOCKS_PASSED)
        log->passed[count++] = basic_block;
    log->basic_blocks_passed = count;
    return before;
}

/* A basic block of the kernel begins. */
static inline void requests_basic_block(struct requests *requests, uintptr_t pc) {
    struct log *log = requests->log;
    uintptr_t end = log->place;
    log->place = pc;
    if (requests_turn_begins(log, pc) && (log->count == 0 || log->entry[log->count - 1] != end))
        requests_append(requests, end);
}

/* ---- metrics.c ---- */
/* All 32 addresses are set; a lane that takes no part has the address of one that does. */
unsigned sectors_of(const uintptr_t addresses[SIM_WARP_THREADS]);
struct wavefronts {
    unsigned number;
    unsigned phases; /* as many would do if no two lanes of a phase wanted different words of a bank */
};
struct wavefronts wavefronts_of(const uintptr_t addresses[SIM_WARP_THREADS], unsigned lanes, unsigned bytes);
/* The number of distinct places of the lanes. */
unsigned different_addresses(const uintptr_t addresses[SIM_WARP_THREADS], unsigned lanes);
