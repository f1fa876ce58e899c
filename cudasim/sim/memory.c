/* memset(), memcpy() and memmove() for kernels in C++, instead of the C library's: compiled kernels call the
 * counted build before each load and store, but a library does not. */
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
