/* A launch by a program: the kernel runs before the call returns, and its error comes later, as on a GPU. */
#define _GNU_SOURCE
#include "program.h"
#include "../machine.h"
#include <execinfo.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef SIM_COUNTED
#include "../counted/accessed.h"
#include "../counted/concurrent.h"
#include "../counted/counted.h"
#endif

enum { LAUNCH_FAILURE = 719, ILLEGAL_ADDRESS = 700, MISALIGNED = 716, ASSERTION = 710, TOO_LARGE = 720 };
enum { INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_CONFIGURATION = 9, INVALID_HANDLE = 400 };

static int error_of(const sim_report *report) {
    switch (report->kind) {
    case SIM_INVALID_LAUNCH:
        return INVALID_CONFIGURATION;
    case SIM_OUT_OF_BOUNDS:
    case SIM_CRASH:
        return ILLEGAL_ADDRESS;
    case SIM_MISALIGNED:
        return MISALIGNED;
    case SIM_ASSERTION:
        return ASSERTION;
    case SIM_OUT_OF_MEMORY:
        return OUT_OF_MEMORY;
    default:
        return LAUNCH_FAILURE;
    }
}

static void tell(void) {
    sim_program_said();
    fflush(stdout);
    const sim_report *report = sim_last_report();
    if (sim_program_tell) {
        sim_program_tell();
        return;
    }
    char line[4096], in_kernel[600];
    snprintf(in_kernel, sizeof in_kernel, "in %s:", report->kernel);
    const char *behind = report->pc ? strstr(report->message, in_kernel) : NULL;
    if (behind && sim_program_line_of((const void *)(uintptr_t)report->pc, line, sizeof line)) {
        behind += strlen(in_kernel) - 1;
        fprintf(stderr, "cudasim: %.*s (%s)%s\n", (int)(behind - report->message), report->message, line,
                behind);
    } else {
        fprintf(stderr, "cudasim: %s\n", report->message);
    }
}

/* Which line of the program called the library whose kernel has failed. */
static void tell_caller(void) {
    enum { MOST_FRAMES = 64 };
    void *frames[MOST_FRAMES];
    sim_program_say_at("calls the library whose kernel this is", frames, backtrace(frames, MOST_FRAMES));
}

/* In a checked program a kernel may access the program's memory, and nothing else of the process. */
static void allow_all(void) {
#ifdef SIM_COUNTED
    enum { MOST = 2000 }; /* fewer than the counted build has room for (counted/places.h) */
    if (sim_allocation_count() > MOST) {
        fprintf(stderr, "cudasim: %u allocations at a time, and at most %d can be checked\n",
                sim_allocation_count(), MOST);
        exit(EXIT_FAILURE);
    }
    accessed_keep(sim_are_there_streams());
    counted_forbid_all();
    for (unsigned i = 0; i < sim_allocation_count(); i++) {
        const struct sim_allocation *of = sim_allocation_number(i);
        if (of->is_symbol || !sim_memory_is_for(of, sim_device_now()))
            continue; /* variables are known; another device's memory is out of bounds */
        char name[48];
        if (of->called.name)
            snprintf(name, sizeof name, "%s", of->called.name);
        else
            snprintf(name, sizeof name, "memory of line %d", of->called.line);
        counted_allow(of->begin, of->bytes, 0, name);
        if (of->written)
            counted_unwritten(of->written);
    }
#endif
}

/* ---- Launches by kernels: those that have not run yet, in the order of the requests ---- */

struct child {
    struct child *next;
    struct sim_program_launch launch;
};
enum { ALIGNMENT = 64 }; /* of each value: no type of CUDA needs more */
static struct child *first_child, **end_of_children = &first_child;
static pthread_mutex_t children = PTHREAD_MUTEX_INITIALIZER; /* of kernels on several OS threads */

static size_t rounded(size_t bytes) {
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Copies a piece into the memory, and moves on behind it. */
static void *piece(unsigned char **memory, const void *from, size_t bytes) {
    void *to = memcpy(*memory, from, bytes);
    *memory += rounded(bytes);
    return to;
}

int sim_program_launches_later(const struct sim_program_launch *launch, void *const *values,
                               const size_t *bytes) {
    size_t pointer_bytes = launch->pointer_count * sizeof *launch->pointers;
    size_t all = rounded(sizeof(struct child)) + rounded(launch->argument_bytes) + rounded(pointer_bytes);
    for (unsigned i = 0; i < launch->pointer_count; i++)
        all += rounded(bytes[i]);
    unsigned char *memory = aligned_alloc(ALIGNMENT, all);
    if (!memory) {
        sim_report_no_memory();
        sim_block_abandon();
    }
    struct child *child = piece(&memory, &(struct child){NULL, *launch}, sizeof *child);
    child->launch.arguments = piece(&memory, launch->arguments, launch->argument_bytes);
    child->launch.pointers = piece(&memory, launch->pointers, pointer_bytes);
    size_t offset = (size_t)((const char *)values - (const char *)launch->arguments);
    void **copies = (void **)(uintptr_t)((const char *)child->launch.arguments + offset);
    for (unsigned i = 0; i < launch->pointer_count; i++)
        copies[i] = piece(&memory, values[i], bytes[i]);
    pthread_mutex_lock(&children);
    *end_of_children = child;
    end_of_children = &child->next;
    pthread_mutex_unlock(&children);
    return 0;
}

/* NULL if there is none. */
static struct child *next_child(void) {
    struct child *child = first_child;
    if (child && !(first_child = child->next))
        end_of_children = &first_child;
    return child;
}

/* ---- Launches ---- */

static _Atomic uint64_t number; /* of the launch that runs, and 0 between two */
static _Atomic(const char *) running, file;
static atomic_int line;

/* The lines where threads of the kernel are in the next half second, "; it is at a.cu:3 to 7". */
static void say_where(char *text, size_t room) {
#ifdef SIM_COUNTED
    enum { MOST = 16, TIMES = 50 };
    const struct timespec a_while = {0, 10000000};
    unsigned long long now[MOST], seen[MOST] = {0};
    char place[4096];
    int first = INT_MAX, last = 0;
    unsigned count = 0;
    for (int time = 0; time < TIMES; time++, nanosleep(&a_while, NULL))
        for (unsigned i = counted_running(now, MOST), j; i-- > 0;) {
            for (j = 0; j < count && seen[j] != now[i]; j++)
                ;
            if (j == count && count < MOST)
                seen[count++] = now[i];
        }
    for (unsigned i = 0; i < count; i++)
        if (sim_program_line_of((const void *)(uintptr_t)seen[i], place, sizeof place)) {
            int at = atoi(strrchr(place, ':') + 1);
            first = at < first ? at : first, last = at > last ? at : last;
        }
    if (last) {
        *strrchr(place, ':') = 0;
        snprintf(text, room, last > first ? "; it is at %s:%d to %d" : "; it is at %s:%d", place, first,
                 last);
    }
#else
    snprintf(text, room, "; `cudasim check` tells where it is");
#endif
}

/* Tells once of a kernel that may never end. */
static void *tell_long_kernels(void *unused) {
    (void)unused;
    enum { LONG = 24 }; /* half seconds */
    const struct timespec half_a_second = {0, 500000000};
    int waited = 0;
    for (uint64_t seen = 0;; nanosleep(&half_a_second, NULL)) {
        uint64_t now = number;
        waited = now == seen ? waited + 1 : 0;
        seen = now;
        char where[4200] = "";
        if (!now || waited != LONG)
            continue;
        say_where(where, sizeof where);
        if (now == number)
            fprintf(stderr, "cudasim: %s, launched at %s:%d, is not done after 12 seconds%s\n", running, file,
                    line, where);
    }
    return NULL;
}

static void watch_for_long_kernels(void) {
    pthread_t watcher;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the program's threads */
    if (pthread_create(&watcher, NULL, tell_long_kernels, NULL) == 0)
        pthread_detach(watcher);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Runs one grid; its error comes later. */
static int launch_grid(const struct sim_program_launch *launch) {
    static uint64_t count;
    static pthread_once_t watches = PTHREAD_ONCE_INIT;
    pthread_once(&watches, watch_for_long_kernels);
    if (sim_program_error(0) || sim_program_has_failed())
        return sim_program_error(0); /* as on a GPU: what a kernel would do after a failed one is not told */
    dim3 grid = {launch->grid[0], launch->grid[1], launch->grid[2]};
    dim3 block = {launch->block[0], launch->block[1], launch->block[2]};
    if (launch->is_cooperative) {
        uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z;
        int threads = (int)(block.x * block.y * block.z);
        size_t bytes = launch->shared_bytes + launch->static_shared_bytes;
        if (blocks > (uint64_t)sim_gpu_blocks(threads, bytes) * (uint64_t)sim_gpu_now()->multiprocessors)
            return sim_program_error(TOO_LARGE);
    }
#ifndef SIM_COUNTED
    sim_divergence_is_tolerated = true;
#endif
    sim_is_cooperative = launch->is_cooperative;
    sim_device_launches();
    sim_symbols_become(sim_device_now());
    sim_memory_open(sim_device_now());
    allow_all();
    fflush(stdout);
    running = launch->kernel;
    file = launch->file;
    line = launch->line;
    number = ++count;
    int failed =
        (int)sim_launch_clusters(launch->kernel, launch->file, launch->enter, launch->arguments,
                                 launch->argument_bytes, grid, block, launch->shared_bytes, launch->cluster);
    number = 0;
    sim_stream_goes_on(launch->stream);
#ifdef SIM_COUNTED
    if (!failed)
        concurrent_kernel(launch->stream,
                          &(struct sim_called){launch->kernel, launch->file, launch->line, NULL});
#endif
    for (unsigned i = 0; i < launch->pointer_count; i++)
        sim_memory_is_used(launch->pointers[i].pointer, launch->stream, !launch->pointers[i].is_constant,
                           launch->kernel);
    sim_memory_close();
    if (!failed)
        return sim_program_error(0);
    int error = error_of(sim_last_report());
    tell();
    if (!launch->line)
        tell_caller();
    if (sim_last_report()->kind == SIM_INVALID_LAUNCH || error == OUT_OF_MEMORY)
        return sim_program_error(error);
    sim_program_fails(error);
    return sim_program_error(0);
}

int sim_program_launches(const struct sim_program_launch *launch) {
    if (!sim_stream_exists(launch->stream) || sim_stream_device(launch->stream) != sim_device_now())
        return sim_program_error(INVALID_HANDLE);
    int error = launch_grid(launch);
    for (struct child *child = next_child(); child; child = next_child()) {
        child->launch.stream = launch->stream;
        launch_grid(&child->launch); /* nothing, where an earlier one has failed */
        free(child);
    }
    return error;
}
