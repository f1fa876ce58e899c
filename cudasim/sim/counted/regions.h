/* The global memory of a launch, and what is kept of its words. */
#pragma once
#include "places.h"

/* Global memory, in whole sectors. */
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

bool regions_launch_begins(bool counts); /* false: no memory */
void regions_launch_ends(void);
void regions_add_variable(struct place *place); /* gives it its histories */
unsigned regions_of_arguments(struct region **first);
