/* What the tools know of an access: its instruction, the place that it accesses, and the access itself. */
#pragma once
#include "../machine.h"
#include "counted.h"
#include "order.h"

enum {
    SECTOR_BYTES = 32,
    WORD_BYTES = 4,
    MOST_INSTRUCTIONS = 1 << 15, /* a launch; of these 15 bits are kept, of sites 16 */
    MOST_SITES = 1 << 16,
};

/* Sorts in the order of the program's text. An access of several instructions, such as a struct's, has
 * several parts. */
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

/* ---- launches.c ---- */
/* An index is the same for all OS threads of a launch. */
const struct instruction *instruction_at(unsigned index);
unsigned instructions_of_launch(void); /* how many it has so far */
/* This OS thread's number for an instruction that accesses a place; never 0. */
unsigned site_of(struct recorder *recorder, const struct instruction *instruction, struct place *place);

/* ---- access.c ---- */
/* TMA accesses contiguous bytes, as this agent. */
void async_access(struct recorder *recorder, uintptr_t pc, uintptr_t address, unsigned bytes,
                  counted_operation operation, struct agent agent);
/* The running thread's access to the word of an mbarrier; it is no request. */
void mbarrier_access(struct recorder *recorder, uintptr_t pc, uintptr_t word, counted_operation operation);
