/* Bounds: which memory a kernel may access, and its name. Other tools keep their state of a place's words in
 * the place. */
#pragma once
#include "access.h"

enum {
    MOST_PLACES = 4096,
    MOST_STATIC_SHARED_BYTES = 48 << 10, /* more has to be dynamic, on every GPU */
};

/* A piece of memory that belongs together. */
struct place {
    uintptr_t begin;
    uintptr_t end;
    counted_space space;
    unsigned element_bytes; /* 0: not known */
    char name[48];
    struct history *history;        /* of each granule, from the one that `begin` is in; NULL: not checked */
    unsigned granule_bits;          /* its bytes are 1 << granule_bits */
    struct past *cells;             /* global: likewise; they say whether there is a history (history.h) */
    bool is_constant;               /* a __constant__ variable */
    const struct sim_worker *owner; /* of another block's shared memory (DSMEM); else NULL */
    struct shared_word *words;      /* shared: likewise for each word */
    _Atomic unsigned char *touched; /* global, when the launch is counted: likewise for each word, */
    size_t first_word;              /* the number of the first of them in its region, */
    unsigned char *pages;           /* which pages of the region's words were touched at all, */
    uint32_t *touched_in;           /* and for each sector, see l2.c */
    unsigned char *written;         /* global, of each byte: whether anybody has; NULL: all (unwritten.h) */
};

/* The tool's state. */
struct places {
    struct place *all;
    unsigned count;
    struct place heap;          /* the block of the device's heap that was looked up last */
    size_t static_shared_bytes; /* of the arrays that the launch has used */
};

bool places_create(struct places *places); /* false: no memory */
void places_free(struct places *places);
void places_worker_begins(struct recorder *recorder);

/* The place of an access, or NULL if it is not allowed. */
struct place *place_of(struct recorder *recorder, uintptr_t address, unsigned bytes);
/* The place of an access that its instruction is known to make: of the heap's blocks another one may have
 * been looked up since. */
void places_look_again(struct recorder *recorder, const struct place *place, uintptr_t address);
const struct place *nearest_place(struct recorder *recorder, uintptr_t address);
bool is_shared(const struct recorder *recorder, uintptr_t address);
