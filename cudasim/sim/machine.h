/* The parts of the simulated machine, for the simulator's own files.
 *
 *   launch   one grid, run by several OS threads together          launch.c
 *   worker   an OS thread that runs blocks, one after another      worker.c
 *   block    the threads of a block, and where each of them is     block.c, barrier.c, warp.c
 *   thread   one CUDA thread, which owns a fiber while it waits    copy.c, atomic.c
 *   cluster  blocks that run together on one OS thread             hopper/
 *
 * `sim_worker` leads to everything that the running CUDA thread belongs to. */
#pragma once
#include "cuda.h"
#include "fiber.h"
#include "hopper/hopper.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdnoreturn.h>

enum {
    SIM_WARP_THREADS = 32,
    SIM_MAX_BLOCK_THREADS = 1024,
    SIM_MAX_BLOCK_WARPS = SIM_MAX_BLOCK_THREADS / SIM_WARP_THREADS,
    SIM_CACHE_LINE = 64,
    SIM_MAX_SHARED_BYTES = 227 << 10, /* what a block can have on compute capability 9.0 */
    SIM_REMEMBERED_SITES = 64,
};

enum sim_state {
    SIM_RUNS, /* or is ready to */
    SIM_WAITS_AT_BARRIER,
    SIM_WAITS_FOR_LANES,
    SIM_WAITS_FOR_ACTIVE_MASK,
    SIM_WAITS_FOR_WARP, /* in the counted build: the rest of its warp is to catch up */
    SIM_WAITS_AT_NAMED_BARRIER,
    SIM_WAITS_AT_MBARRIER,
    SIM_WAITS_AT_CLUSTER_BARRIER,
    SIM_WAITS_FOR_WARPGROUP,
    SIM_HAS_RETURNED
};

enum sim_warp_operation {
    SIM_WARP_BARRIER,
    SIM_BALLOT,
    SIM_SHUFFLE,
    SIM_GATHER,
    SIM_MATRIX_ROWS,
    SIM_TRANSPOSE,
    SIM_MMA,
    SIM_FRAGMENTS
};

/* What a lane brings to a warp operation, and takes away. */
struct sim_exchange {
    uint8_t operation; /* one of enum sim_warp_operation */
    uint8_t source;    /* the lane that a shuffle reads */
    uint32_t mask;
    uint64_t value;
    uint64_t result;
};

/* Asynchronous copies that have not landed, oldest first. */
struct sim_copy {
    void *shared;
    const void *global;
    const void *pc; /* of the call that asked for it; NULL in the plain build */
    unsigned bytes;
    unsigned present; /* of them that are copied; the others are zeros */
    unsigned group;
};
struct sim_copies {
    struct sim_copy *pending;
    unsigned count;
    unsigned capacity;
    unsigned groups; /* committed so far */
};

/* A wgmma that a thread has asked for: hopper/wgmma.c. */
struct sim_product {
    float *sum;
    struct sim_wgmma asked;
    const struct sim_site *site;
    unsigned group;
};
struct sim_products {
    struct sim_product *pending; /* oldest first */
    unsigned count;
    unsigned capacity;
    unsigned groups; /* committed so far */
};

/* Boxes that a thread has asked TMA to store: hopper/tma_store.c. */
struct sim_stores {
    struct sim_store *pending; /* oldest first */
    unsigned count;
    unsigned capacity;
    unsigned groups; /* committed so far */
};

/* What each turn of a thread needs is in one line of the cache. */
struct sim_thread {
    _Alignas(SIM_CACHE_LINE) struct sim_thread *next; /* in the queue that it is in */
    struct sim_fiber *fiber;                          /* that it waits on */
    enum sim_state state;
    uint3 index;
    const struct sim_site *site; /* where it waits */
    struct sim_exchange exchange;
    /* The next line of the cache. */
    struct sim_copies copies;
    struct sim_products products;
    struct sim_stores stores;
    bool leaves;                         /* by a `return` of the kernel's own text, not past its last line */
    const struct sim_mbarrier *mbarrier; /* that it waits for, or has waited for last */
    const struct sim_site *waited_at;
    unsigned waited_parity;
    bool waited_at_once;
};
_Static_assert(offsetof(struct sim_thread, copies) == SIM_CACHE_LINE, "one line");

struct sim_queue {
    struct sim_thread *first;
    struct sim_thread *last;
};

struct sim_block {
    unsigned size;     /* threads */
    unsigned started;  /* threads start in order; this many have */
    unsigned returned; /* this many have ended */
    uint64_t next_xy;  /* the index of the thread that starts next: x in the lower half, y in the upper one */
    unsigned next_z;
    struct sim_queue ready;
    struct sim_queue at_barrier;
    unsigned arrived;                                              /* threads at the barrier */
    const struct sim_thread *barrier_of_warp[SIM_MAX_BLOCK_WARPS]; /* each warp's first thread at it */
    const struct sim_thread *ended_of_warp[SIM_MAX_BLOCK_WARPS];   /* that came to the kernel's end */
    int predicates;                                                /* how many came with a true predicate */
    int last_predicates;                      /* the same for the barrier that was passed last */
    unsigned exchanging[SIM_MAX_BLOCK_WARPS]; /* the lanes of each warp that wait for others */
    bool abandoned;
    bool is_asynchronous; /* some thread has asked for copies, products or stores, or has made groups of them
                           */
    unsigned idle_turns;  /* that threads have given up since one last returned or passed a barrier */
    unsigned long_turns;  /* likewise, parts of long ones, of those that ended because they were long */
    struct sim_thread threads[SIM_MAX_BLOCK_THREADS];
};

/* Blocks, by number; `next` is the first that has not started. */
struct sim_range {
    uint64_t next;
    uint64_t end;
};

struct sim_launch {
    const char *kernel;
    const char *file;
    void (*enter)(const void *);
    const void *arguments;
    unsigned long long argument_bytes;
    dim3 grid;
    dim3 block;
    size_t dynamic_shared_bytes;
    unsigned cluster; /* blocks of a cluster, which follow each other along x */
    unsigned workers; /* OS threads that run its blocks */
    uint64_t number;  /* counts launches */
    uint64_t grid_blocks;
    const unsigned long long *chosen; /* the numbers of those that run; NULL: all do */
    uint64_t blocks;                  /* that run */
    uint64_t blocks_at_a_time;
    _Atomic uint64_t next_block;
    _Atomic unsigned running;          /* OS threads that run blocks of it now */
    _Atomic unsigned grid_arrivals;    /* of blocks, at all barriers of the grid together */
    atomic_bool reported;              /* somebody is writing or has written the report */
    const struct sim_worker *reporter; /* who that is */
    atomic_bool cut_short;             /* some block did not run to its end */
    sim_report report;
};

struct sim_worker {
    struct sim_block block;
    struct sim_thread *current; /* the thread that runs, for sim_current(); NULL: one in a loop */
    struct sim_fiber *fiber;    /* that it runs on */
    struct sim_fiber home;      /* the OS thread's own stack */
    struct sim_fiber fibers[SIM_MAX_BLOCK_THREADS];
    struct sim_fiber *unused[SIM_MAX_BLOCK_THREADS]; /* a stack: what was used last is used next */
    unsigned fibers_made;
    unsigned unused_count;
    unsigned char *shared_memory; /* the dynamic kind */
    size_t shared_memory_bytes;
    unsigned char *shared_space; /* the address space that it is in (isolation.c); NULL: none of its own */
    size_t shared_space_bytes;
    struct sim_registers *registers; /* this OS thread's */
    uintptr_t unseen; /* where a thread of the block has made a fault in a blind loop; else 0 */
    uint3 block_index;
    const struct sim_site *updates; /* where the running thread makes an atomic access; else NULL */
    uintptr_t prints_at;            /* behind the running thread's call of printf(); else 0 */
    struct sim_range range;         /* what it is to run */
    uint64_t launch;                /* the number of the launch that it was set up for */
    unsigned rank;                  /* of its block in the cluster */
    struct sim_cluster *cluster;    /* NULL until somebody asks for it */
    unsigned char *statics;    /* its block's static shared memory, while another block of the cluster runs */
    struct sim_hopper *hopper; /* likewise */
    void *recorder;            /* the counted build's */
    pthread_t os_thread;       /* that it is, while it runs blocks */
    struct sim_worker *next_to_signal;
    const struct sim_site *sites[SIM_REMEMBERED_SITES]; /* by their lines: a loop has several places */
};

extern struct sim_launch sim_launch_now;
extern _Thread_local struct sim_worker *sim_worker;

/* The same for whoever is on a fiber, in fewer steps: in the plain build its stack has a note of the worker,
 * in the counted one a note of the recorder, which begins with the worker. */
static inline struct sim_worker *sim_worker_of_fiber(void) {
    void **note = sim_note_at(sim_stack_pointer());
    if (!note)
        return sim_worker;
#ifdef SIM_COUNTED
    note = *note;
#endif
    return *note;
}

/* The thread that runs. In a kernel's loop over the threads of its block it is known by its index alone,
 * until somebody asks. */
struct sim_thread *sim_catch_up(struct sim_worker *worker);
static inline struct sim_thread *sim_current(struct sim_worker *worker) {
    struct sim_thread *current = worker->current;
    return __builtin_expect(current != NULL, true) ? current : sim_catch_up(worker);
}

/* Whether this OS thread is on a fiber that kernels run on, and not in the code of the program or of the
 * host. */
static inline bool sim_is_in_kernel(void) {
    return sim_worker && sim_worker->fiber && sim_worker->fiber != &sim_worker->home;
}

/* The launch is to end early, for a report or an interrupt. */
extern atomic_bool sim_stops;
static inline bool sim_is_stopping(void) {
    return atomic_load_explicit(&sim_stops, memory_order_relaxed);
}
static inline void sim_stop(void) {
    atomic_store(&sim_stops, true);
}

/* lock.c: one launch at a time */
bool sim_lock_launches(void); /* false: this OS thread was interrupted while it waited */
void sim_unlock_launches(void);
void sim_expect_interrupts(bool expect); /* of this OS thread; forgets those that it has had */
void sim_interrupt_this_thread(void);    /* its launch, or its wait for the lock; for signal handlers */
void sim_lock_for_a_moment(void); /* for tables that OS threads share; a fork waits until nobody has it */
void sim_unlock_for_a_moment(void);

/* worker.c */
void sim_run_all_blocks(unsigned workers);  /* of sim_launch_now */
struct sim_worker *sim_worker_create(void); /* NULL: no memory; likewise false */
void sim_worker_free(struct sim_worker *worker);
bool sim_worker_has_shared_memory(struct sim_worker *worker, size_t bytes);
uint3 sim_index_of_block(uint64_t number);
/* Threads of this block wait for other blocks: one more OS thread takes up those that have not started. */
void sim_start_more_blocks(void);

/* block.c */
bool sim_block_run(struct sim_worker *worker); /* false when it was abandoned */
/* The same in turns, for a block whose threads wait for those of another block. */
enum sim_progress { SIM_BLOCK_ENDED, SIM_BLOCK_WAITS, SIM_BLOCK_ABANDONED };
void sim_block_begin(struct sim_worker *worker);
bool sim_block_can_go_on(const struct sim_block *block);
enum sim_progress sim_block_go_on(struct sim_worker *worker);
noreturn void sim_see_fault(uintptr_t pc);       /* of a thread in a blind loop (cpp/threads.hpp) */
void sim_block_clean(struct sim_worker *worker); /* takes back what threads hold that never return */
noreturn void sim_block_abandon(void);
/* The fiber to switch to: that of a thread that can run, or the OS thread's own stack when the block has
 * ended. */
struct sim_fiber *sim_choose_fiber(struct sim_worker *worker);
/* The running thread waits, with its state saying for what, until somebody makes it ready (wait.h). */
void sim_block_wait(enum sim_state state, const struct sim_site *site);
void sim_yield(void); /* the running thread lets all others have a turn */
/* The same, of a thread that has run for long and may wait for another in a loop; parts: of a long turn. */
enum { SIM_PARTS_OF_LONG_TURN = 50 };
void sim_end_turn(unsigned parts);
static inline void sim_queue_append(struct sim_queue *queue, struct sim_thread *thread) {
    thread->next = NULL;
    if (queue->first)
        queue->last->next = thread;
    else
        queue->first = thread;
    queue->last = thread;
}
static inline void sim_make_ready(struct sim_block *block, struct sim_thread *thread) {
    thread->state = SIM_RUNS;
    sim_queue_append(&block->ready, thread);
}

/* barrier.c */
void sim_pass_barrier(struct sim_block *block); /* threads wait at it: they go on once all have come */
extern bool sim_divergence_is_tolerated;        /* of programs that are run */
bool sim_tolerates_divergence(const struct sim_site *site); /* says so, once */

/* grid.c */
extern bool sim_is_cooperative; /* the launch; those of programs may not be */

/* warp.c */
unsigned sim_lanes_of_warp(const struct sim_block *block, unsigned warp);
bool sim_settle_active_masks(void); /* false when no thread waits for one */
bool sim_settle_left_lanes(void);   /* false when no lanes wait for one that has returned alone */
/* `value`: a pointer to a struct of matrix.c. */
void sim_meet_for_matrix(const struct sim_site *site, enum sim_warp_operation operation, uint64_t value);

/* matrix.c: what the last lane of a warp to come does for all of them, whose threads these are */
void sim_tell_matrix_rows(const struct sim_thread *warp);
void sim_transpose_matrices(const struct sim_thread *warp);
void sim_multiply_matrices(const struct sim_thread *warp);
float sim_cut_off(double v); /* the float next to v towards zero: v, where it is one */

/* fragments.c */
void sim_multiply_fragments(const struct sim_thread *warp);

/* atomic.c: what the machine does for no thread */
unsigned sim_bytes_of_type(enum sim_type type);
void sim_combine(enum sim_atomic operation, enum sim_type type, void *address, uint64_t value);

/* copy.c */
void sim_forget_copies(struct sim_copies *copies);
void sim_free_copies(struct sim_copies *copies);

/* hopper/ */
void sim_thread_has_left(struct sim_worker *worker);
bool sim_cluster_run(struct sim_worker *worker, uint64_t number);
void sim_cluster_free(struct sim_worker *worker);
noreturn void sim_cluster_abandon(void);
bool sim_land_next_copy(struct sim_cluster *cluster);
void sim_forget_products(struct sim_thread *thread);
void sim_end_stores(struct sim_thread *thread);
void sim_forget_stores(struct sim_stores *stores);
void sim_free_stores(struct sim_stores *stores);
bool sim_waits_for_hopper(const struct sim_block *block);
void sim_report_deadlock(struct sim_worker *worker);
void sim_hopper_begin_block(struct sim_worker *worker);

/* turns.c */
void sim_turns_begin(void); /* a launch begins; or it ends */
void sim_turns_end(void);
void sim_turns_join(struct sim_worker *worker); /* this OS thread begins to run blocks; or it has ended */
void sim_turns_leave(struct sim_worker *worker);

/* isolation.c */
/* Dynamic shared memory of a block, far from everything else; NULL: there is no room. */
unsigned char *sim_isolated_shared(struct sim_worker *worker, size_t bytes);
void sim_isolated_shared_free(struct sim_worker *worker);
bool sim_isolation_begin(void); /* false: no memory */
void sim_isolation_end(void);
struct sim_access_report;
/* Reports the access when it is near a copy; else returns. */
/* A phrase about an address that is memory and yet not this launch's; NULL: it is not. program/ sets it. */
extern const char *(*sim_memory_of_others)(const void *address, bool is_far);
void sim_report_near_isolated(struct sim_access_report *access, uintptr_t address);

/* runtime.c */
cudaError_t sim_set_last_error(cudaError_t error); /* unless it is a success; returns it */

/* report.c: the first report of a launch is kept, and stops the launch */
noreturn void sim_report_call(sim_report_kind kind, const struct sim_site *site, const char *what, ...)
    __attribute__((format(printf, 3, 4))); /* the running thread made a wrong call */
/* The running thread comes to a barrier, and `other` of its warp waits at another one. */
noreturn void sim_report_two_barriers(const struct sim_site *site, const struct sim_thread *other);
/* A lane waits at a barrier, and another of its warp has gone past it. */
noreturn void sim_report_skipped_barrier(const struct sim_thread *at_barrier, const struct sim_thread *ended);
/* A thread shuffles from a lane that takes no part. */
noreturn void sim_report_shuffle(const struct sim_thread *thread, const struct sim_site *site,
                                 unsigned source);
noreturn void sim_report_stuck(void); /* the threads of this block that wait do so in vain */
/* The same as sim_report_call() of any thread of this block; returns. */
void sim_report_of(sim_report_kind kind, const struct sim_thread *thread, const struct sim_site *site,
                   const char *what, ...) __attribute__((format(printf, 4, 5)));
/* A thread accesses memory at `pc`; see sim_report for the rest. */
struct sim_access_report {
    sim_report_kind kind;
    const struct sim_thread *thread;
    uintptr_t pc;
    bool has_index;
    long long index;
    const uint3 *other; /* NULL when there is no other thread */
    const uint3 *other_block;
    uintptr_t other_pc;
};
noreturn void sim_report_access(const struct sim_access_report *access, const char *what, ...)
    __attribute__((format(printf, 2, 3)));
/* The report that this worker has begun, and cannot end, makes place for another one. */
void sim_report_again(void);
/* The access is below the thread's stack. */
noreturn void sim_report_overflow(const struct sim_access_report *access);
/* A thread of this block, which one is not known, has made a fault there that none makes when they run again.
 */
void sim_report_unseen(uintptr_t pc);
/* The same as sim_report_access() without an end of the launch. */
void sim_describe_access(sim_report *report, const struct sim_access_report *access, const char *what, ...)
    __attribute__((format(printf, 3, 4)));
void sim_report_no_memory(void);
void sim_report_launch(sim_report *report, sim_report_kind kind, const char *what, ...)
    __attribute__((format(printf, 3, 4))); /* the launch as a whole */
