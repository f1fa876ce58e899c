/* The parts of Hopper's machine, for the simulator's own files.
 *
 *   window         32-bit addresses of shared memory               window.c
 *   cluster        blocks that run together on one OS thread       cluster.c
 *   statics        their static shared memory                      statics.c
 *   mbarrier       a barrier in shared memory                      mbarrier.c
 *   named barrier  one of a block's sixteen                        named_barrier.c
 *   tensor copy    a box on its way into shared memory             tma.c, box.c
 *   store          a box on its way from there to global memory    tma_store.c
 *   product        a wgmma that has been issued                    wgmma.c, wgmma_product.c
 *
 * A thread that waits for one of these is in its queue, with a state that tells so. When no thread can run
 * and no copy is in flight, they wait in vain (deadlock.c). */
#pragma once
#include "../machine.h"
#include "hopper.h"
#include "tensor_map.h"
#include <setjmp.h>

enum {
    SIM_MOST_CLUSTER = 16,
    SIM_MOST_MBARRIERS = 64, /* of a block */
    SIM_NAMED_BARRIERS = 16,
    SIM_WARPGROUP_THREADS = 128,
    SIM_MOST_WARPGROUPS = SIM_MAX_BLOCK_THREADS / SIM_WARPGROUP_THREADS,
    SIM_MOST_TRANSACTION_BYTES = (1 << 20) -
        1, /* that an mbarrier can count; PTX ISA, "Contents of mbarrier" */
    SIM_MOST_ARRIVALS = (1 << 20) - 1,
};

struct sim_mbarrier {
    uint64_t *word;     /* in shared memory */
    uint64_t stamp;     /* what the word must contain: the simulator's own note of the state */
    unsigned arrivals;  /* of a phase */
    unsigned pending;   /* arrivals that the current phase lacks */
    int64_t bytes;      /* that have been announced and have not come */
    unsigned completed; /* phases */
    struct sim_queue waiting;
    const struct sim_site *initialised; /* where */
    const struct sim_thread *initialised_by;
    bool is_fenced; /* by fence.mbarrier_init since then */
};

struct sim_named_barrier {
    struct sim_queue waiting;
    unsigned arrived;
    unsigned expected;
    const struct sim_site *came_at; /* the first of them */
    uint32_t arriving;              /* warps that have arrived and do not wait */
};

/* A warpgroup's threads that wait for its products. */
struct sim_warpgroup {
    struct sim_queue waiting;
    unsigned arrived;
};

/* A block's state beside its threads. */
struct sim_hopper {
    uintptr_t static_anchor; /* the pointer at which the window of static shared memory begins; 0: none yet */
    void *stages;            /* the counted build's */
    unsigned mbarriers;
    struct sim_mbarrier mbarrier[SIM_MOST_MBARRIERS];
    struct sim_named_barrier named[SIM_NAMED_BARRIERS];
    struct sim_warpgroup warpgroup[SIM_MOST_WARPGROUPS];
};

/* A place in shared memory. */
struct sim_place {
    struct sim_worker *owner;
    unsigned char *pointer; /* as the owner's threads have it */
};

/* A box of a tensor. */
struct sim_box {
    CUtensorMap map; /* as it was then: the thread that asks may be gone before the copy lands */
    int coordinate[SIM_MOST_DIMENSIONS];
};

/* A box that TMA has to copy. */
struct sim_tensor_copy {
    struct sim_box box;
    struct sim_place from; /* instead of a tensor, unless its owner is NULL */
    uint32_t to;           /* in each block's window, and */
    uint32_t barrier;      /* the mbarrier that counts the bytes */
    uint16_t blocks;       /* by rank */
    const struct sim_site *site;
    struct sim_worker *asked_by;
    struct sim_thread *thread;
};

/* A box that TMA has to store, or to combine with the tensor. */
struct sim_store {
    struct sim_box box;
    struct sim_place from;
    enum sim_atomic operation; /* SIM_ATOMIC_EXCHANGE: it stores */
    const struct sim_site *site;
    const void *pc;       /* of the call that asked for it; NULL in the plain build */
    unsigned group;       /* that it is committed in */
    uint32_t number;      /* of the OS thread's stores */
    unsigned char *bytes; /* that it has read; NULL: it has read nothing yet */
};

struct sim_cluster {
    jmp_buf home; /* where a fault leads that is found between the blocks' turns */
    unsigned size;
    struct sim_worker *block[SIM_MOST_CLUSTER]; /* each block is run by a worker of its own */
    bool ended[SIM_MOST_CLUSTER];
    unsigned ended_count;
    struct sim_queue at_barrier[SIM_MOST_CLUSTER]; /* of the cluster, by block */
    unsigned at_barrier_count;
    bool barrier_is_ordered;
    struct sim_tensor_copy *copies; /* that have not landed, oldest first */
    unsigned copy_count;
    unsigned copy_capacity;
    void *clocks; /* the counted build's */
};

/* What exists only once it is used. */
struct sim_hopper *sim_hopper_here(void);   /* of the running thread's block */
struct sim_cluster *sim_cluster_here(void); /* a block that was launched without one is one by itself */

/* cluster.c */
/* Runs the blocks of a cluster, the first of which has this number; false when they were abandoned. */
bool sim_cluster_run(struct sim_worker *worker, uint64_t number);
void sim_cluster_free(struct sim_worker *worker);
/* Makes a queue of threads of this or another block ready. */
void sim_wake(struct sim_worker *owner, struct sim_queue *queue);

/* statics.c */
/* Whether an address is in a loaded library's code or variables that all threads share. */
struct dl_phdr_info;
bool sim_library_has(const struct dl_phdr_info *library, uintptr_t address);
/* Switches to another block of the cluster. */
void sim_statics_change(struct sim_worker *from, struct sim_worker *to);
void sim_statics_forget(struct sim_worker *worker);
/* The beginning of the kernel's variables; NULL: it has none, or they are unknown. */
unsigned char *sim_statics_begin(void);
bool sim_is_static(const void *pointer);
/* Finds the variable whose copy in this block contains an address; false if there is none. */
bool sim_statics_find(const struct sim_worker *owner, uintptr_t address, uintptr_t *variable);

/* window.c */
/* The present place of its bytes: static memory is elsewhere while another block of the cluster runs. */
unsigned char *sim_bytes_at(struct sim_worker *owner, void *pointer);
/* Resolves an address; reports one that is not in shared memory, or in a block that has ended. */
struct sim_place sim_place_of(const struct sim_site *site, uint32_t address, size_t bytes);
/* The same place of the block `rank`. */
struct sim_place sim_place_in(const struct sim_site *site, uint32_t address, size_t bytes, unsigned rank);
/* The bits of a place in this block that decide its swizzle. */
uint32_t sim_offset_of(struct sim_worker *owner, const void *pointer);

/* 16 bytes change places inside a row of 32, 64 or 128: the bits of their number, as many as `mask` has, are
 * XORed with those of the address from bit 7 on. PTX ISA, "Swizzling Modes". */
static inline uint32_t sim_swizzled(uint32_t address, uint32_t mask) {
    return address ^ (address >> 7 & mask) << 4;
}

/* mbarrier.c */
struct sim_mbarrier *sim_mbarrier_at(const struct sim_site *site, struct sim_place place);
void sim_mbarrier_bytes_came(struct sim_worker *owner, struct sim_mbarrier *barrier, int64_t bytes);

/* box.c */
/* Reports what is no tensor map of `rank` dimensions; `does`: "copies", or "stores". */
struct sim_box sim_box_at(const struct sim_site *site, const char *does, const void *map, int rank,
                          const int *coordinates);
/* Describes contiguous bytes of global memory as elements of `type`, in contiguous rows of 16 bytes.
 * `shared`: their address in shared memory. Reports misaligned or too many bytes. */
struct sim_box sim_box_of_bytes(const struct sim_site *site, const void *global, uint32_t shared,
                                uint32_t bytes, CUtensorMapDataType type);
size_t sim_box_bytes(const struct sim_box *box);
size_t sim_box_row_bytes(const struct sim_box *box); /* in shared memory; and how many rows */
size_t sim_box_rows(const struct sim_box *box);
/* The address in the tensor of coordinate 0 of this row of the box, the second dimension fastest; NULL if the
 * whole row is outside. */
unsigned char *sim_row_of_tensor(const struct sim_box *box, size_t number);
/* The elements of each row inside the tensor: from *first on, before *end. */
void sim_box_columns(const struct sim_box *box, unsigned *first, unsigned *end);
/* The address of 16 bytes of a row in shared memory, for a box that begins at `base`. */
uint32_t sim_box_chunk(const struct sim_box *box, uint32_t base, size_t row, size_t at);

/* tma.c */
bool sim_land_next_copy(struct sim_cluster *cluster); /* false when none is on its way */

/* wgmma.c */
void sim_forget_products(struct sim_thread *thread);
/* A decoded descriptor of wgmma. PTX ISA, "Matrix Descriptor Format". */
struct sim_matrix_descriptor {
    uint32_t address;
    uint32_t leading; /* bytes */
    uint32_t stride;
    unsigned row_bytes; /* of an atom of eight rows: 16 (no swizzle), 32, 64, 128 */
    bool is_transposed; /* a row has one k */
};
struct sim_matrix_descriptor sim_read_descriptor(uint64_t descriptor, bool is_transposed);
/* The place of 16 bytes of a tile: in memory's `row`, number `chunk` along it. */
uint32_t sim_chunk_address(const struct sim_matrix_descriptor *tile, unsigned row, unsigned chunk);

/* wgmma_product.c: computes the pending product with this number for a warpgroup with these threads */
void sim_multiply_tiles(const struct sim_product *product, const struct sim_thread *warpgroup,
                        unsigned number);

/* deadlock.c */
bool sim_waits_for_hopper(const struct sim_block *block);
/* Reports which threads wait where, and ends the launch. */
void sim_report_deadlock(struct sim_worker *worker);
