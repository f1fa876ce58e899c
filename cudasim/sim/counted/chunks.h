/* Shared memory in pieces of 16 bytes, for the files that stages.h declares. */
#pragma once
#include "stages.h"
#include "warp_clocks.h"

enum { CHUNK_BYTES = 16, CHUNKS = (256 << 10) / CHUNK_BYTES, NO_ROW = 0xffff };

enum writer { NOBODY, THREADS, ASYNCHRONOUS };

struct reader {
    uint32_t time; /* of the warp that read; 0: none */
    uint16_t warp;
    bool is_product;
};

struct chunk {
    uint32_t block; /* all of this is void when it is not the block that runs */
    uint8_t writer;
    uint8_t swizzle;             /* of a copy */
    uint16_t row;                /* of the box; NO_ROW: not of a copy */
    uint16_t column;             /* in units of 16 bytes */
    uint16_t agent;              /* THREADS: the warp; ASYNCHRONOUS: the mbarrier that counts the bytes */
    uint32_t when;               /* the warp's time; the mbarrier's phase */
    const struct sim_site *site; /* of what TMA or another block did */
    const struct sim_site *read_site;
    struct reader reader[SIM_MOST_WARPGROUPS];
    /* For what TMA stores, or copies to another block, from there. */
    struct {
        const struct sim_site *site; /* NULL: there is none */
        uint32_t number;             /* of the store */
        bool has_mbarrier;           /* which counts it: when its phase `when` has ended, it has been read */
        bool has_read;               /* else: the warp `agent` waited for that, at its time `when` */
        uint16_t agent;
        uint32_t when;
    } stored;
};

struct stages {
    uint32_t block;
    bool began_with_block; /* and not in the middle of it, when the block's order had this time: */
    uint32_t begun;
    struct chunk chunk[CHUNKS];
};

/* NULL when there is no memory to keep it in. */
struct chunk *chunk_at(struct sim_worker *owner, uint32_t offset);
/* Whether `warp` comes after the last write and after a proxy fence that follows it. */
bool chunk_write_is_known(struct warp_clocks *clocks, unsigned warp, const struct chunk *chunk);
bool chunk_write_is_fenced(struct warp_clocks *clocks, unsigned warp, const struct chunk *chunk);

/* The running thread's place: an instruction of Hopper's has a site, an ordinary access a program counter.
 */
struct here {
    const struct sim_site *site;
    uintptr_t pc;
    struct sim_worker *owner; /* of the memory, and */
    uint32_t offset;          /* where in its window */
    const char *does;
};

noreturn void chunk_fault(const struct here *here, sim_report_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
noreturn void chunk_fault_not_waited(const struct here *here, const struct chunk *chunk);
noreturn void chunk_fault_stored(const struct here *here, const struct chunk *chunk);
noreturn void chunk_fault_not_fenced(const struct here *here, const struct chunk *chunk);

/* stored.c: a thread is about to write to a place from which TMA stores. */
void chunk_check_store(struct warp_clocks *clocks, const struct here *here, const struct chunk *chunk,
                       unsigned warp);
