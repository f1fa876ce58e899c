/* Work that a library does on the host here and on the GPU elsewhere: Thrust's algorithms, CUB's device-wide
 * functions. While one of them runs, it and the program's functions that it calls may touch the memory of the
 * GPU. It begins after all work that the program has asked for. */
#include "program.h"
#include "../machine.h"
#include "../watch.h"
#include <execinfo.h>
#include <stdio.h>
#include <string.h>

static unsigned depth; /* of functions that call each other */

bool sim_program_is_in_kernel(void) {
    return sim_is_in_kernel();
}

#ifdef SIM_COUNTED
static void tell_unwritten(const struct sim_allocation *of, size_t byte) {
    enum { MOST_FRAMES = 64 };
    void *frames[MOST_FRAMES];
    char sentence[400];
    snprintf(sentence, sizeof sentence,
             "a library reads byte %zu of %s (%s at %s:%d), which nobody has written since", byte,
             of->called.name ? of->called.name : "an allocation", of->called.function, of->called.file,
             of->called.line);
    sim_program_say_at(sentence, frames, backtrace(frames, MOST_FRAMES));
}

/* A library's writes count as written. Some of what it reads may be padding, so a read is reported only if
 * all of it is unwritten, and once for each allocation. */
static void watch(uintptr_t address, size_t bytes, bool writes, bool is_copy) {
    struct sim_allocation *of = sim_allocation_at((const void *)address);
    size_t byte = of ? address - (uintptr_t)of->begin : 0;
    if (!of || !of->written || bytes > of->bytes - byte)
        return;
    if (writes) {
        memset(of->written + byte, 1, bytes);
        return;
    }
    static const unsigned char *told;
    if (is_copy || told == of->begin || memchr(of->written + byte, 1, bytes))
        return;
    told = of->begin;
    tell_unwritten(of, byte);
}
#endif

bool sim_library_begins(void) {
    if (sim_is_in_kernel())
        return false;
    sim_program_begins(); /* other OS threads wait until it ends */
    if (depth++ == 0) {
        sim_memory_open(SIM_ALL_DEVICES);
#ifdef SIM_COUNTED
        watch_library = watch;
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
        sim_host_waits(NULL);
    sim_program_ends(0);
}

/* The program's line is unknown, and the library frees such memory. */
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
