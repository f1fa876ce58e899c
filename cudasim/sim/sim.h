/* The CPU simulator as a library: run a kernel, read the report of a failure, interrupt it.
 *
 * Kernels do not include this file but cuda.h, which builds on it. Python's cffi reads this file as it
 * stands, which is why it includes nothing. */
#pragma once

typedef struct uint3 {
    unsigned x, y, z;
} uint3;

typedef struct dim3 {
    unsigned x, y, z;
} dim3;

/* CUDA's own numbers. */
typedef enum cudaError {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorMisalignedAddress = 716,
    cudaErrorLaunchFailure = 719
} cudaError_t;

typedef enum sim_report_kind {
    SIM_NO_REPORT = 0,
    SIM_INVALID_LAUNCH = 1,     /* a grid, block or shared memory size that no GPU runs; nothing ran */
    SIM_BARRIER_DIVERGENCE = 2, /* some threads of a block wait at a barrier that others never reach */
    SIM_MISSING_LANE = 3,       /* a lane named in the mask of a warp operation never takes part in it */
    SIM_LANE_NOT_IN_MASK = 4,   /* a lane called a warp operation with a mask that leaves it out */
    SIM_SHUFFLE_WIDTH = 5,      /* a width that is no power of two up to 32 */
    SIM_MISALIGNED = 6,         /* an atomic or asynchronous copy at no multiple of its size */
    SIM_OUT_OF_MEMORY = 7,      /* this machine has no memory left for the simulated threads */
    SIM_INTERRUPTED = 8,        /* sim_interrupt() */
    /* found by the counted build only (counted/counted.h): */
    SIM_OUT_OF_BOUNDS = 9,  /* an access outside every argument, array and shared memory; it was not made */
    SIM_UNINITIALISED = 10, /* a read of shared memory that its block has not written */
    SIM_RACE = 11,          /* two threads of a block, the same bytes, a write, and nothing between them */
    SIM_BLOCK_RACE = 12,    /* the same for two blocks of one launch and global memory */
    /* found by every build: */
    SIM_ASSERTION = 13, /* assert() of what is false */
    SIM_TRAP = 14,      /* __trap() */
    SIM_CRASH = 15,     /* the processor refused an access, or a division by zero */
    SIM_UNDEFINED = 16, /* a conversion or a shift that C++ leaves undefined (undefined.c) */
    /* of Hopper's machine (hopper/): */
    SIM_DEADLOCK = 20,         /* threads wait for what never comes */
    SIM_MBARRIER_MISUSE = 21,  /* an mbarrier, or a count of registers, that PTX does not allow */
    SIM_WRONG_LAYOUT = 22,     /* a tensor map or a descriptor that does not say what is there */
    SIM_BLOCK_HAS_EXITED = 23, /* an access to the shared memory of a block that has exited */
    /* and of these, found by the counted build only: */
    SIM_STAGE_RACE = 24,     /* TMA or wgmma and another access to shared memory, with nothing between them */
    SIM_NO_PROXY_FENCE = 25, /* an ordinary store that TMA or wgmma reads without fence.proxy.async between */
    SIM_SHUFFLE_SOURCE = 27, /* a shuffle reads from a lane that its mask leaves out */
    SIM_PENDING_SUMS = 26,   /* registers of a wgmma that were used before it was waited for */
    SIM_NO_REGISTER_FENCE = 28, /* registers that a thread used, and then a wgmma without wgmma.fence */
    SIM_UNWRITTEN = 29          /* a read of global memory that was given unwritten and still is */
} sim_report_kind;

/* Why a launch failed. `thread` waits, calls or accesses memory; `other` is the one for which it waits or
 * with which it races. */
typedef struct sim_report {
    sim_report_kind kind;
    const char *kernel;
    const char *file;
    int line; /* 0 when the fault belongs to no line */
    int has_thread;
    int has_other;
    uint3 block;
    uint3 thread;
    uint3 other;
    const char *other_file; /* where `other` is; NULL when it has returned */
    int other_line;
    /* For an access to memory: debug information has its file and line by these. */
    unsigned long long pc; /* 0 where there is none */
    unsigned long long other_pc;
    uint3 other_block;
    int has_index;
    long long index;    /* in elements of the argument or array that is meant */
    char message[1024]; /* all of the above in a sentence */
} sim_report;

/* Calls enter(arguments) once for every thread of the grid and returns when all have ended. The `bytes` of
 * arguments are read during the call only. Launches from several OS threads run one after another. */
cudaError_t sim_launch(const char *kernel, const char *file, void (*enter)(const void *),
                       const void *arguments, unsigned long long argument_bytes, dim3 grid, dim3 block,
                       unsigned long long dynamic_shared_bytes);
/* The same with clusters of `cluster` consecutive blocks along x. */
cudaError_t sim_launch_clusters(const char *kernel, const char *file, void (*enter)(const void *),
                                const void *arguments, unsigned long long argument_bytes, dim3 grid,
                                dim3 block, unsigned long long dynamic_shared_bytes, unsigned cluster);

/* The next launch of this OS thread runs on a copy of this memory with no memory near it, so that an access
 * beyond it is a fault; what the launch changes is copied back. Returns the copy's address, or NULL without
 * room; then the launch has to use the memory itself. sim_isolate_nothing() undoes all such calls. */
void *sim_isolate(void *original, unsigned long long bytes, unsigned element_bytes, const char *name);
void sim_isolate_nothing(void);

/* Whether the memory to be copied contains an address of itself: a kernel that uses it as a pointer would
 * miss the copy. */
int sim_isolated_have_addresses(void);

/* Two simulators in a process, the plain and the counted one, catch crashes by the same signals. The second
 * one gets the first one's lock before its first launch, so that they take turns to change what the signals
 * do. */
void *sim_signals_lock(void);
void sim_use_signals_lock(void *lock);

/* The report on this OS thread's last launch; its kind is SIM_NO_REPORT after a success. */
const sim_report *sim_last_report(void);

/* How many OS threads run blocks. The default is CUDASIM_THREADS of the environment, or else one per CPU;
 * sim_set_threads(0) restores it. sim_set_own_threads() is for launches of the calling OS thread; 0: as many
 * as for all. */
void sim_set_threads(int threads);
void sim_set_own_threads(int threads);
int sim_get_threads(void);

/* Samples the next launches of this OS thread: only some blocks run, given by their numbers in the grid, x
 * first. The first launch runs the first counts[0] of `blocks`, the second one the next counts[1], and so on;
 * all later launches run those of the last one. 0 launches: all blocks run. The arrays stay the caller's.
 * Blocks of a cluster are consecutive. */
void sim_choose_blocks(const unsigned long long *blocks, const unsigned long long *counts,
                       unsigned long long launches);

/* Stops the running launch, which then fails with SIM_INTERRUPTED; does nothing between launches. It is safe
 * in a signal handler and from any OS thread. It takes effect when a block or a thread starts and at
 * barriers, warp operations and atomics that change nothing; not inside a plain loop. */
void sim_interrupt(void);

/* The library of a report's program counter, and the offset in it; NULL if it is in none. */
const char *sim_library_of(unsigned long long pc, unsigned long long *offset);
