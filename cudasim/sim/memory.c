/* memset(), memcpy() and memmove() of a kernel in C++, which calls these for the C library's: the compiler
 * calls the counted build before each load and store of a kernel, but not before those in a library. */
#include "machine.h"
#include "watch.h"

void *sim_memset(void *to, int value, size_t bytes) {
    if (WATCHED)
        watch_range(SIM_CALLER, to, bytes, true);
    return memset(to, value, bytes);
}

void *sim_memmove(void *to, const void *from, size_t bytes) {
    if (WATCHED)
        watch_range(SIM_CALLER, from, bytes, false);
    if (WATCHED)
        watch_range(SIM_CALLER, to, bytes, true);
    return memmove(to, from, bytes);
}
