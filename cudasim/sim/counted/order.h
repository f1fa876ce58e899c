/* Happens-before: which accesses come before what the running thread does now.
 *
 * cudasim/docs/memory_model.md has the definition, with references to the PTX documentation. In short: a
 * thread's own accesses are in order; a barrier and a meeting of lanes (__syncwarp(), shuffles, votes) order
 * what their threads did before with what they do after; and a fence, a strong write, a strong read of it and
 * another fence do so between any two threads that their scopes include.
 *
 * Time is a number for each block, which grows at its barriers, meetings and fences. One number holds what
 * the threads of a block know of each other by barriers, and a matrix what the lanes of a warp know of each
 * other. All other knowledge is a clock (clock.h). */
#pragma once
#include "../machine.h"
#include "clock.h"

struct recorder;

enum { PAST_INSTRUCTION_MASK = (1 << 15) - 1 };

/* A recorded access. Asynchronous copies have a warp number that no warp of a block has. */
struct past {
    union {
        struct {
            uint32_t block; /* its number in the grid, plus one; 0: there was none */
            uint32_t lanes; /* of the warp: one that wrote, those that read */
        };
        uint64_t block_and_lanes; /* for cells */
    };
    uint32_t time;
    uint32_t what; /* instruction | warp << PAST_WARP | bytes of the word << PAST_BYTES | flags */
};
enum {
    PAST_WARP = 16,
    PAST_BYTES = 22,
    PAST_WARP_MASK = (1 << 6) - 1,
    PAST_BYTES_MASK = 15,
    PAST_STRONG = 1 << 26,   /* an atomic, or volatile */
    PAST_UPDATES = 1 << 27,  /* it writes */
    PAST_IN_BLOCK = 1 << 28, /* its scope is the block */
    PAST_VOLATILE = 1 << 29,
    PAST_LOCKED = 1 << 30,    /* not of the access: see history.h */
    PAST_TWO_WARPS = 1 << 15, /* likewise: see history.c; so there are half as many instructions */
};

static inline unsigned past_warp(const struct past *past) {
    return past->what >> PAST_WARP & PAST_WARP_MASK;
}
static inline unsigned past_bytes(const struct past *past) {
    return past->what >> PAST_BYTES & PAST_BYTES_MASK;
}

/* [lane][other]: `lane` comes after everything that `other` did up to this time. */
struct warp_knowledge {
    uint32_t time[SIM_WARP_THREADS][SIM_WARP_THREADS];
};

/* What warps know of each other by named barriers and mbarriers, where a part of the block meets: the time up
 * to which a warp comes after everything that another one did. Warps suffice: `bar.sync` is for whole warps,
 * and a lane that waits for an mbarrier waits for its warp. */
enum { ORDER_MBARRIERS = 64, ORDER_BARRIERS = ORDER_MBARRIERS + 16, ORDER_NO_BARRIER = ORDER_BARRIERS };
struct block_knowledge {
    uint32_t time[SIM_MAX_BLOCK_WARPS][SIM_MAX_BLOCK_WARPS];
    uint32_t arrived[ORDER_BARRIERS + 1][SIM_MAX_BLOCK_WARPS]; /* what the threads that arrived at one know */
    uint32_t passed[ORDER_BARRIERS + 1][SIM_MAX_BLOCK_WARPS];  /* the same when its last phase ended */
    struct known_thread listed[SIM_MAX_BLOCK_THREADS];         /* of a clock that is being made */
};

/* What a thread knows, and hands on, by fences. The scope of the block has its own clock. */
enum { STRONG_READS = 4 };
struct thread_order {
    const struct clock *known;        /* what happens before what it does now */
    const struct clock *fenced;       /* what it knew at its latest fence: its strong writes hand that on */
    const struct clock *fenced_block; /* the same, to threads of its block */
    uintptr_t strong_reads[STRONG_READS]; /* where it has read what others may have handed on */
    unsigned strong_read_count;           /* since its latest fence or barrier */
};

/* The state of one OS thread. */
enum { ORDER_NO_EPOCH = 0, ORDER_ALL_EPOCHS = 1, ORDER_FIRST_EPOCH };
struct order {
    uint32_t time;
    uint32_t barrier_time;                   /* of the latest barrier */
    uint32_t warp_time[SIM_MAX_BLOCK_WARPS]; /* of its lanes' latest meeting or fence */
    uint32_t now;                            /* the stamp of what the running thread does */
    struct warp_knowledge *knowledge;        /* of each warp */
    struct block_knowledge *warps;
    struct thread_order *threads; /* of each thread */
    bool has_clocks;              /* some thread of the block has one */
    uint32_t epoch; /* a number of the block's own from a barrier to the next, as long as it has no clocks */
    struct clock_memory memory;
};

bool order_create(struct order *order); /* false: no memory */
void order_free(struct order *order);
void order_begin_launch(const struct sim_launch *launch);
void order_end_launch(void);
void order_begin_block(struct recorder *recorder);

static inline void order_thread_runs(struct order *order, unsigned thread) {
    uint32_t time = order->warp_time[thread / SIM_WARP_THREADS];
    order->now = time > order->barrier_time ? time : order->barrier_time;
}
void order_barrier(struct recorder *recorder);
/* Everything before comes before everything after; some threads may still be behind. */
void order_all(struct recorder *recorder);
/* Barriers have numbers: mbarriers, named ones from ORDER_MBARRIERS on, and ORDER_NO_BARRIER. The warps of
 * these threads meet, and come after those that arrived at the barrier without waiting. */
void order_warps_met(struct recorder *recorder, const struct sim_queue *threads, unsigned barrier);
/* The running thread arrives, or has waited. `word`: the barrier's address. */
void order_arrive(struct recorder *recorder, unsigned barrier, const void *word);
void order_end_phase(struct recorder *recorder, unsigned barrier);
void order_pass(struct recorder *recorder, unsigned barrier);
/* The barrier of a cluster: what all threads of these blocks did comes before what all of them do. */
void order_cluster(struct recorder *const *blocks, unsigned count);
void order_meeting(struct recorder *recorder, unsigned warp, unsigned lanes);
void order_fence(struct recorder *recorder, bool in_block);
/* A strong access of the running thread; `in_block` is its scope. */
void order_strong_read(struct recorder *recorder, uintptr_t address);
void order_strong_write(struct recorder *recorder, uintptr_t address, bool in_block, bool reads_too);

/* An object on which asynchronous accesses complete, such as an mbarrier: a thread that acquires it comes
 * after the accesses that have completed on it. */
void order_acquire(struct recorder *recorder, const void *object);
void order_forget(struct recorder *recorder, const void *object);
/* Stamps asynchronous accesses of the running thread's block, which happen before any thread that acquires
 * `object`: with the number of their agent, a thread's number beyond those of a block, and its time. */
struct agent {
    unsigned thread;
    uint32_t time;
};
struct agent order_asynchronous(struct recorder *recorder, const void *object);

/* Whether `past` happens before what the running thread does now. */
bool order_is_before(const struct recorder *recorder, const struct past *past);
/* False while no thread of the launch can know anything of another block. */
extern __attribute__((visibility("hidden"))) atomic_bool order_any_handed_on;
static inline bool order_crosses_blocks(void) {
    return atomic_load_explicit(&order_any_handed_on, memory_order_relaxed);
}
