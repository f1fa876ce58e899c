/* An OS thread's part of a counted launch: what every tool may ask about the running thread, and the tools,
 * each with its state. A tool is a header and a C file of its name, and only these two use its state.
 * watch.c, launches.c and access.c tell it what happens (../watch.h explains how a tool subscribes).
 *
 *   places     bounds: an argument's memory, an array in shared memory   places.c, bounds.c
 *   order      which accesses happen before which                        order.c, clock.c
 *   history    races: who accessed each word last                        history.c, quick_checks.h
 *   requests   counting: what a warp asks of memory at once              requests.c, metrics.c
 *   warps      the same for each warp                                    warps.c
 *   sample     L1, basic blocks and sectors of some blocks                sample.c
 *   footprint  which words of global memory a launch touches             footprint.c
 *   l2         what L2 keeps between blocks that run at once             l2.c
 *   trace      what the warps of one block did, for a player             trace.c
 *   spinning   deadlocks of threads that wait in loops                   spinning.c
 *   clusters   blocks that reach each other's shared memory              clusters.c
 *   registers  what wgmma adds to or reads                               registers.c
 *   unwritten  reads of global memory that nobody has written            unwritten.c
 *   stages     shared memory that TMA and wgmma reach                    stages.c, stored.c
 *
 * session.c has what a caller allows, asks for and gets; regions.c has the memory for what is kept of global
 * memory, and accessed.c reads from it which bytes a launch has used. */
#pragma once
#include "access.h"
#include "clusters.h"
#include "faults.h"
#include "footprint.h"
#include "history.h"
#include "l2.h"
#include "order.h"
#include "places.h"
#include "regions.h"
#include "registers.h"
#include "requests.h"
#include "sample.h"
#include "session.h"
#include "spinning.h"
#include "trace.h"
#include "unwritten.h"
#include "warps.h"

/* What is known about an instruction since it last accessed another place than before. */
struct known_site {
    instruction_key key;
    uintptr_t begin;
    uintptr_t last; /* the largest offset from there at which it may access */
    struct place *place;
    unsigned site; /* 0: what it accesses there is not counted */
    uint16_t instruction;
    uint8_t granule_bits;
    bool has_words; /* in shared memory, of which it accesses whole words */
    /* For quick checks: what is kept of the place, if the instruction accesses whole granules of it. */
    struct past *cells;
    unsigned char *written;
    uintptr_t granules; /* of the place, if it accesses one of them; else 0 */
};
_Static_assert(sizeof(struct known_site) == 64, "one line of the cache");
enum { KNOWN_SITES_BITS = 11, KNOWN_SITES = 1 << KNOWN_SITES_BITS };

struct recorder {
    struct sim_worker *worker; /* first: see sim_worker_of_fiber() */
    struct recorder *next;     /* of all recorders */
    uint64_t launch;           /* the number of the launch that it was set up for */
    unsigned thread;           /* that runs: its number in its block */
    /* The kernel's part of its stack, which no tool needs to see. 0 bytes while wgmma may write to it.
     */
    uintptr_t stack;
    uintptr_t own_bytes;
    _Atomic uintptr_t at; /* the basic block that was looked at last; any thread may ask for it */
    int until_look;       /* basic blocks until look_around(); at most 0 while each access is looked at */
    const struct known_site *quick; /* then those that nothing is known of, else `known` */
    bool is_alone;                  /* no other OS thread runs blocks of this launch */
    uint32_t block_count;           /* the blocks that this OS thread has run */
    uint32_t block_number;          /* in the grid, plus one */
    uint32_t cells_tag;             /* of the launch (history.h) */
    struct past own; /* a plain read by the running thread, as a cell has it, but for its instruction */
    struct site *sites;
    unsigned site_count;

    struct order order;
    struct races history;
    struct spinning spinning;
    struct requests requests;
    struct tracing trace;
    struct warps warps;
    struct sample sample;
    struct l2 l2;
    struct places places;
    struct clusters clusters;
    struct used_registers *registers;

    _Alignas(64) struct known_site known[KNOWN_SITES];
};

/* This OS thread's recorder while it runs a launch; else NULL. */
extern _Thread_local struct recorder *recorder;

/* So many basic blocks from now on. 0: every access has to be handled, and not only the blocks that are due.
 */
extern const struct known_site unknown_sites[KNOWN_SITES];
static inline void look_after(struct recorder *self, int basic_blocks) {
    self->until_look = basic_blocks;
    self->quick = basic_blocks > 0 ? self->known : unknown_sites;
}
