/* Work that a library does on the host here and on the GPU elsewhere: Thrust's algorithms. While one of
 * them runs, it and the program's functions that it calls may touch the memory of the GPU. It begins after
 * all work that the program has asked for. */
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
/* bytes: of a read that goes beyond the end; 0: nobody has written there */
static void tell(const struct sim_allocation *of, size_t byte, size_t bytes) {
    enum { MOST_FRAMES = 64 };
    void *frames[MOST_FRAMES];
    char sentence[400], many[48] = "byte", why[80] = "nobody has written since";
    if (bytes) {
        snprintf(many, sizeof many, "%zu bytes from byte", bytes);
        snprintf(why, sizeof why, "has %zu", of->bytes);
    }
    snprintf(sentence, sizeof sentence, "a library reads %s %zu%s of %s (%s at %s:%d), which %s", many, byte,
             bytes ? " on" : "", of->called.name ? of->called.name : "an allocation", of->called.function,
             of->called.file, of->called.line, why);
    sim_program_say_at(sentence, frames, backtrace(frames, MOST_FRAMES));
}

/* A library's writes count as written. Some of what it reads may be padding, so a read is reported only if
 * all of it is unwritten, once for each allocation. Behind a failed kernel nothing else of the GPU's has run,
 * which might have written it. */
static void watch(uintptr_t address, size_t bytes, bool writes, bool is_copy) {
    struct sim_allocation *of = sim_allocation_at((const void *)address);
    size_t byte = of ? address - (uintptr_t)of->begin : 0;
    static const unsigned char *told;
    if (!of || !of->written)
        return;
    bool is_beyond = bytes > of->bytes - byte;
    if (writes && !is_beyond)
        memset(of->written + byte, 1, bytes);
    if (writes || is_copy || told == of->begin || sim_program_has_failed() ||
        (!is_beyond && memchr(of->written + byte, 1, bytes)))
        return;
    told = of->begin;
    tell(of, byte, is_beyond ? bytes : 0);
}
#endif

void sim_library_fails(int error, const char *file, int line, const char *words) {
    enum { MOST_FRAMES = 64 };
    static const char folder[] = "/include/cccl/";
    const char *header = strstr(file, folder);
    if (!header) { /* CubDebug() of the program's own */
        fprintf(stderr, "CUDA error %d [%s, %d]: %s\n", error, file, line, words);
        return;
    }
    void *frames[MOST_FRAMES];
    char sentence[400];
    snprintf(sentence, sizeof sentence, "a library's call fails: %s (%s:%d)", words, header + strlen(folder),
             line);
    sim_program_say_at(sentence, frames, backtrace(frames, MOST_FRAMES));
}

void sim_library_reads(const void *from, size_t bytes) {
#ifdef SIM_COUNTED
    watch((uintptr_t)from, bytes, false, false);
#else
    (void)from, (void)bytes;
#endif
}

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
