/* The parts of the counted build, for its own files.
 *
 *   place        an argument's memory, an array in shared memory      places.c
 *   instruction  one access in a kernel's source                      launches.c
 *   recorder     an OS thread's: the log of each CUDA thread          access.c
 *   request      one execution of an instruction by a warp            requests.c, metrics.c
 *   session      what a caller allows and asks for, and gets          session.c
 *   cluster      blocks that reach each other's shared memory         clusters.c
 *   spinning     deadlocks of threads that wait in loops              spinning.c
 *   order        which accesses happen before which                   order.c, clock.c
 *   history      who accessed each word last; races                   history.c, quick_checks.h
 *   region       the memory for that, for global memory               regions.c
 *   footprint    which words of global memory a launch touches        footprint.c
 *   trace        what the warps of one block did, for a player       trace.c
 *   wave         blocks that run at once; what L2 keeps between them  l2.c */
#pragma once
#include "../machine.h"
#include "counted.h"
#include "history.h"
#include "order.h"

enum {
    SECTOR_BYTES = 32,
    WORD_BYTES = 4,
    MOST_INSTRUCTIONS = 1 << 15, /* a launch; of these 15 bits are kept, of sites 16 */
    MOST_SITES = 1 << 16,
    MOST_PLACES = 256,
    MOST_STATIC_SHARED_BYTES = 48 << 10, /* more has to be dynamic, on every GPU */
};

/* Memory that belongs together. */
struct place {
    uintptr_t begin;
    uintptr_t end;
    counted_space space;
    unsigned element_bytes; /* 0: not known */
    char name[48];
    struct history *history; /* of each granule, from the one that `begin` is in; NULL: not checked */
    unsigned granule_bits;   /* its bytes are 1 << granule_bits */
    uint32_t *settled;       /* global: of each granule, for whom plain reads add nothing (history.h) */
    bool is_constant;        /* a __constant__ variable */
    const struct sim_worker *owner; /* of another block's shared memory (DSMEM); else NULL */
    struct shared_word *words;      /* shared: likewise for each word */
    _Atomic unsigned char *touched; /* global, when the launch is counted: likewise for each word, */
    size_t first_word;              /* the number of the first of them in its region, */
    unsigned char *pages;           /* which pages of the region's words were touched at all, */
    uint32_t *touched_in;           /* and for each sector, see l2.c */
};

/* Global memory, from a sector's begin to a sector's end. */
struct region {
    uintptr_t begin;
    size_t words;
    unsigned granule_bits;
    struct history *history;
    uint32_t *settled;
    _Atomic unsigned char *touched;
    unsigned char *pages;
    uint32_t *touched_in;
};
enum { PAGE_WORDS = 1 << 14 };

/* What an instruction has done so far, for one OS thread. */
struct tally {
    uint64_t requests;
    uint64_t threads;
    uint64_t addresses;
    uint64_t sectors;
    uint64_t wavefronts;
    uint64_t phases;
};

/* Sorts as the instructions stand in the program. An access that the compiler makes of several, such as a
 * struct's, has several parts. */
typedef uint64_t instruction_key;
enum { KEY_PART_BITS = 6 };

struct instruction {
    instruction_key key;
    uintptr_t pc;
    counted_space space;
    counted_operation operation;
    unsigned bytes;
};

/* An instruction and a place that it accesses. */
struct site {
    instruction_key key;
    struct place *place;
    unsigned instruction;
};

/* One access that a thread is about to make, or has made. */
struct access {
    uintptr_t pc;
    uintptr_t address;
    unsigned bytes;
    counted_operation operation;
    struct place *place;
    unsigned instruction;
    uint32_t flags;  /* PAST_STRONG and so on */
    unsigned thread; /* its number in its block; of an asynchronous copy, its agent's (order.h) */
    uint32_t time;
};

/* A write that races with another write, until its value can be seen. */
struct waiting_write {
    bool is_there;
    struct access access;
    struct past other;
    unsigned char before[16];
};

/* The accesses of one CUDA thread that are not yet part of a request, in order. */
enum { MOST_BASIC_BLOCKS_PASSED = 256 };     /* beyond them turns of loops are not noticed */
enum { LOG_ENTRIES = 519, SITE_SHIFT = 48 }; /* the size keeps the logs of a warp in different cache sets */
struct log {
    unsigned count;
    bool waits;                   /* it is full, and its thread has stopped for that */
    uintptr_t place;              /* in the kernel: where its thread is */
    unsigned basic_blocks_passed; /* of the kernel, in the order in which they stand there */
    uint32_t passed[MOST_BASIC_BLOCKS_PASSED];
    uint64_t entry[LOG_ENTRIES]; /* site << SITE_SHIFT | address; with site 0, the end of a turn of a loop */
};

/* What is known about an instruction since it last accessed another place than before. */
struct known_site {
    instruction_key key;
    uintptr_t begin;
    uintptr_t last; /* the largest offset from there at which it may access */
    struct place *place;
    unsigned site; /* 0: what it accesses there is not counted */
    unsigned instruction;
    /* The place's, when it begins with a whole word and is kept in words: for what is quickly checked. */
    struct history *history;
    const uint32_t *settled;
    struct shared_word *words;
};

/* The latest access of a block to the shared memory of another one of its cluster. */
struct reach {
    struct past past; /* its block is 0: there was none */
    uintptr_t pc;
    unsigned thread;
};
enum { MOST_REACHED = 16 }; /* as many as a cluster has blocks */

/* How the threads of a block wait in loops of their own: spinning.c. */
struct spinner {
    uint3 thread;
    uint3 block;
    uintptr_t pc; /* of what it looks at; 0: there is none */
};
struct spinning {
    uint64_t changes;        /* of memory that this OS thread has made, and threads that have returned */
    uint64_t changes_before; /* at the last look */
    bool this_turn_waits;    /* the running thread has looked at something that others may change */
    bool other_turns;        /* a long turn has ended since the last look in which a thread did not */
    uintptr_t pc;            /* where the running thread has looked last */
    struct spinner latest[2];
    uint64_t round; /* in which it was looked at last, and */
    unsigned looks; /* how often in that round */
};

/* Basic blocks of a kernel: about a millisecond; and a part of it. */
enum { BASIC_BLOCKS_OF_A_TURN = 1 << 16, BASIC_BLOCKS_OF_A_LOOK = 1 << 6 };
enum { KNOWN_SITES_BITS = 11, KNOWN_SITES = 1 << KNOWN_SITES_BITS };

struct recorder {
    struct recorder *next; /* of all recorders */
    struct sim_worker *worker;
    uint64_t launch; /* the number of the launch that it was set up for */
    struct log *log; /* of the thread that runs */
    unsigned thread; /* its number in its block */
    /* The part of its stack that is its kernel's: nobody else's concern. 0 bytes while wgmma may write to it.
     */
    uintptr_t stack;
    uintptr_t own_bytes;

    bool counts;    /* requests too, not only faults */
    int until_look; /* basic blocks until look_around(); at most 0 while each access has to be looked at */
    unsigned basic_blocks; /* basic blocks of the kernel since a thread last gave up its turn */
    bool is_alone;         /* no other OS thread runs blocks of this launch */
    struct spinning spinning;
    struct reach reach[MOST_REACHED]; /* by the other block's rank */
    struct order order;
    uint32_t block_count;                     /* the blocks that this OS thread has run */
    uint32_t block_number;                    /* in the grid, plus one */
    unsigned at_barrier[SIM_MAX_BLOCK_WARPS]; /* lanes of each warp that have reached it */

    bool is_traced;    /* the block that runs */
    bool is_abandoned; /* likewise: its launch ended with a fault */
    uint64_t barriers;
    uint64_t warp_operations;
    uint64_t tensor_copies; /* by TMA, and their bytes */
    uint64_t tensor_bytes;
    uint64_t tensor_stores; /* and reductions, likewise */
    uint64_t tensor_stored_bytes;
    uint64_t products; /* wgmma, and the bytes that they read in shared memory */
    uint64_t product_bytes;
    struct place *places;
    unsigned place_count;
    struct place heap_place;          /* of the block of the device's heap that was looked up last */
    struct used_registers *registers; /* of each thread, once one has asked for a product; else NULL */
    struct site *sites;
    unsigned site_count;
    struct tally *tallies;          /* of each instruction */
    struct history *shared_history; /* the memory for it */
    struct shared_word *shared_words;
    size_t shared_used;         /* words of it */
    size_t static_shared_bytes; /* of the arrays that the launch has used */
    struct waiting_write waiting_write;
    uintptr_t warned_pc; /* where a shift went too far last */
    bool fills;          /* shared memory that nobody has written, with `filler` */
    unsigned char filler;
    bool has_unwritten_read;
    unsigned unwritten_repetitions;
    struct access unwritten_read;
    counted_warp *warps; /* of the launch, where they are kept */
    size_t warp_count;
    size_t warp_capacity;
    uint32_t warps_block;                 /* the block that the next line is about */
    size_t own_warp[SIM_MAX_BLOCK_WARPS]; /* where in `warps` each of its warps is, plus one */
    unsigned wave;                        /* that the block is in, from 1; 0: the launch has but one */
    uint64_t *touches;                    /* of the launch, see l2.c */
    size_t touch_count;
    size_t touch_capacity;
    _Alignas(64) struct known_site known[KNOWN_SITES];
    struct log logs[SIM_MAX_BLOCK_THREADS];
};

/* This OS thread's, while it runs a launch; else NULL. */
extern _Thread_local struct recorder *recorder;

/* A new entry of the log of the thread that runs, which waits for its warp when its log is full. */
static inline __attribute__((always_inline)) void append(struct recorder *self, uint64_t entry) {
    struct log *log = self->log;
    log->entry[log->count++] = entry;
    if (__builtin_expect(log->count == LOG_ENTRIES, 0)) {
        log->waits = true;
        sim_block_wait(SIM_WAITS_FOR_WARP, NULL);
    }
}

/* ---- launches.c ---- */
/* An index is the same for all OS threads of a launch. */
const struct instruction *instruction_at(unsigned index);
/* This OS thread's number for an instruction that accesses a place; never 0. */
unsigned site_of(struct recorder *recorder, const struct instruction *instruction, struct place *place);

/* ---- places.c ---- */
void places_begin_launch(struct recorder *recorder);
/* Where an access is, or NULL when it may not be made. */
struct place *place_of(struct recorder *recorder, uintptr_t address, unsigned bytes);
const struct place *nearest_place(const struct recorder *recorder, uintptr_t address);
bool is_shared(const struct recorder *recorder, uintptr_t address);

/* ---- clusters.c ---- */
/* Shared memory of another block of the cluster; false when the address is in none. */
bool clusters_find_place(struct recorder *recorder, uintptr_t address, unsigned bytes, struct place *found);
/* The running thread reaches into the shared memory of another block. */
void clusters_reach(struct recorder *recorder, const struct access *access);

/* ---- warps.c ---- */
void warps_begin_launch(struct recorder *recorder);
/* A request of a warp: of global memory, or with `wavefronts` of shared memory. */
void warps_request(struct recorder *recorder, unsigned warp, const struct instruction *instruction,
                   unsigned sectors, unsigned wavefronts);
/* Takes what the OS threads have kept, `first` of all recorders. */
void warps_end_launch(struct recorder *first, uint64_t launch, counted_launch *result);

/* ---- session.c ---- */
struct session;
struct trace;
extern struct session *session_now;      /* the caller's of the launch that runs */
struct session *session_of_caller(void); /* NULL: no memory */
struct counted_gpu {
    unsigned multiprocessors;
    unsigned long long l2_bytes;
};
struct counted_gpu session_gpu(void);
bool session_counts(void);
struct trace **session_trace(void); /* the caller's; NULL: no memory */
bool session_keeps_warps(void);
bool session_fills(unsigned char *filler); /* shared memory that nobody has written, with that byte */
unsigned argument_count(void);
struct place *argument_at(unsigned index);
void session_keep_launch(const counted_launch *launch);
void session_warn(const sim_report *warning);

/* ---- regions.c ---- */
bool regions_begin_launch(bool counts); /* false: no memory */
void regions_end_launch(void);
void regions_add_variable(struct place *place); /* gives it its histories */
unsigned regions_of_arguments(struct region **first);

/* ---- footprint.c ---- */
void footprint_count(counted_launch *result);
/* `access` is the same for all lanes but for its address. */
void footprint_request(struct recorder *recorder, const struct access *access, const uintptr_t *addresses,
                       unsigned lanes);

/* ---- l2.c ---- */
void l2_begin_launch(const struct sim_launch *launch);
unsigned l2_wave_of_block(uint64_t block);
/* `latest` belongs to the sector. */
void l2_touch(struct recorder *recorder, uint32_t *latest, uint64_t sector, bool writes);
/* Fills in what comes from DRAM and goes there. `first` of all recorders. */
void l2_end_launch(struct recorder *first, counted_launch *result);

/* ---- requests.c ---- */
/* Puts what the lanes of a warp have logged together, and takes it out of the logs. What comes after the end
 * of a log that was cut off is not known yet, so what others did after that may stay. */
void requests_of_warp(struct recorder *recorder, unsigned warp);

/* ---- trace.c ---- */
void trace_free(struct trace *trace);
void trace_begin_launch(const struct sim_launch *launch);
bool trace_begin_block(struct recorder *recorder); /* whether it is traced; then: */
/* The running thread's access, after it was logged. */
void trace_access(struct recorder *recorder, uintptr_t address, unsigned bytes, counted_operation operation);
void trace_settle(void); /* the running thread is about to do something else, or another one to run */
void trace_request(unsigned warp, const struct site *site, const uintptr_t *addresses, unsigned lanes);
void trace_event(counted_event_kind kind, unsigned warp, unsigned lanes);
/* ---- access.c ---- */
/* TMA accesses bytes that follow each other, as this agent. */
void async_access(struct recorder *recorder, uintptr_t pc, uintptr_t address, unsigned bytes,
                  counted_operation operation, struct agent agent);

/* What the running thread does to the word of an mbarrier; it is no request. */
void mbarrier_access(struct recorder *recorder, uintptr_t pc, uintptr_t word, counted_operation operation);

/* ---- metrics.c ---- */
/* All 32 addresses are there; a lane that takes no part has that of one that does. */
unsigned sectors_of(const uintptr_t addresses[SIM_WARP_THREADS]);
struct wavefronts {
    unsigned number;
    unsigned phases; /* as many would do if no two lanes of a phase wanted different words of a bank */
};
struct wavefronts wavefronts_of(const uintptr_t addresses[SIM_WARP_THREADS], unsigned lanes, unsigned bytes);
/* How many of the lanes go to different places. */
unsigned different_addresses(const uintptr_t addresses[SIM_WARP_THREADS], unsigned lanes);

/* ---- registers.c ---- */
/* The running thread accesses its stack, where its registers are that wgmma adds to or reads. */
void registers_access(struct recorder *recorder, uintptr_t pc, uintptr_t address, unsigned bytes,
                      bool writes);
void registers_begin_block(struct recorder *recorder);

/* ---- spinning.c ---- */
void spinning_begin_launch(void);

/* ---- faults.c ---- */
/* `self` waits in vain, and so do all others; `other`: one of them, or NULL. */
noreturn void fault_spinning(const struct spinner *self, const struct spinner *other);
/* Each reports the running thread's access and ends the launch. */
noreturn void fault_out_of_bounds(const struct recorder *recorder, const struct access *access);
noreturn void fault_index(uintptr_t pc, long long index, const char *array);
noreturn void fault_misaligned(const struct recorder *recorder, const struct access *access);
noreturn void fault_uninitialised(const struct recorder *recorder, const struct access *access);
/* An access of the running thread to its stack, beyond what its arrays can be in. */
noreturn void fault_local(const struct recorder *recorder, uintptr_t pc, counted_operation operation);
/* Of a value of `type` at `address`, which is not whole in the array that the pointer points into. */
noreturn void fault_object(const struct recorder *recorder, uintptr_t pc, uintptr_t address,
                           counted_operation operation, const char *type);
noreturn void fault_constant(const struct recorder *recorder, const struct access *access);
noreturn void fault_static_shared(const struct recorder *recorder);
noreturn void fault_race(const struct recorder *recorder, const struct access *access,
                         const struct past *other);
void warn_of_same_value(const struct recorder *recorder, const struct access *access,
                        const struct past *other);
