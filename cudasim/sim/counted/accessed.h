/* Which bytes of the arguments a checked launch has used and how, for races between streams
 * (concurrent.c). */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ACCESSED_READ = 1, ACCESSED_WRITTEN = 2, ACCESSED_READ_STRONGLY = 4, ACCESSED_UPDATED = 8 };

/* Bytes that were all used in the same ways; UPDATED is by atomic operations and volatile writes. */
struct accessed {
    uintptr_t begin, end;
    unsigned how;
};

/* From the next launch on they are kept, or no more. */
void accessed_keep(bool keeps);
/* The last launch's, in the order of their addresses, until the next one. None where they are too many. */
const struct accessed *accessed_ranges(size_t *count);
void accessed_launch_ends(void);
void accessed_sort(struct accessed *ranges, size_t count); /* by their addresses */
