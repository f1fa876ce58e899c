/* The global memory of a launch, and what is kept of its words. */
#pragma once
#include "places.h"

/* Global memory, in whole sectors. */
struct region {
    uintptr_t begin;
    size_t words;
    unsigned granule_bits;
    struct history *history;
    struct past *cells;
    _Atomic unsigned char *touched;
    unsigned char *pages;
    uint32_t *touched_in;
};
enum { PAGE_WORDS = 1 << 14 };

bool regions_launch_begins(bool counts); /* false: no memory */
void regions_launch_ends(bool with_fault);
uint32_t regions_tag(void); /* of the launch's cells (history.h) */
/* Gives the place its histories, which are a part of those of the whole that it belongs to. */
void regions_add_variable(struct place *place, const struct place *whole);
void regions_forget(uintptr_t begin, size_t bytes); /* the histories of memory that is given anew */
unsigned regions_of_arguments(struct region **first);
