/* What a library does for a program on the host that it would do on the GPU: Thrust's algorithms, CUB's
 * device-wide functions. While one of them runs, and the functions of the program that it calls, it may touch
 * the memory of the GPU. It begins after all that the program has asked for. */
#include "program.h"
#include "../machine.h"
#include "../watch.h"
#include <string.h>

static unsigned depth; /* of functions that call each other */

bool sim_program_is_in_kernel(void) {
    return sim_is_in_kernel();
}

#ifdef SIM_COUNTED
static void mark(uintptr_t address, size_t bytes, bool writes) {
    const struct sim_allocation *of = writes ? sim_allocation_at((const void *)address) : NULL;
    if (of && of->written && bytes <= of->bytes - (address - (uintptr_t)of->begin))
        memset(of->written + (address - (uintptr_t)of->begin), 1, bytes);
}
#endif

bool sim_library_begins(void) {
    if (sim_is_in_kernel())
        return false;
    sim_program_begins(); /* other OS threads wait until it ends */
    if (depth++ == 0) {
        sim_memory_open();
#ifdef SIM_COUNTED
        watch_library = mark;
#endif
    }
    return true;
}

void sim_library_ends(bool waits) {
    if (--depth == 0) {
#ifdef SIM_COUNTED
        watch_library = NULL;
#endif
        sim_memory_close();
    }
    if (waits)
        sim_pending_ends(NULL);
    sim_program_ends(0);
}

/* No line of the program is known, and such memory is freed by the library. */
static const struct sim_called a_library = {.function = "Thrust", .file = "?", .name = "memory of Thrust"};

void *sim_library_memory(size_t bytes, enum sim_memory_kind kind) {
    void *memory = NULL;
    sim_program_begins();
    sim_program_ends(sim_memory_take(&memory, bytes, kind, a_library));
    return memory;
}

void sim_library_gives_back(void *memory, enum sim_memory_kind kind) {
    sim_program_begins();
    sim_program_ends(sim_memory_give_back(memory, kind, a_library));
}
