/* A launch by a program: the kernel runs before the call returns, and its error comes later, as on a GPU. */
#define _GNU_SOURCE
#include "program.h"
#include "../machine.h"
#include <stdlib.h>
#ifdef SIM_COUNTED
#include "../counted/counted.h"
#endif

enum { LAUNCH_FAILURE = 719, ILLEGAL_ADDRESS = 700, MISALIGNED = 716, ASSERTION = 710, TOO_LARGE = 720 };
enum { INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_CONFIGURATION = 9 };

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
    if (sim_program_tell)
        sim_program_tell(sim_last_report()->message, true);
    else
        fprintf(stderr, "cudasim: %s\n", sim_last_report()->message);
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
    counted_forbid_all();
    for (unsigned i = 0; i < sim_allocation_count(); i++) {
        const struct sim_allocation *of = sim_allocation_number(i);
        if (of->is_symbol)
            continue; /* variables are known */
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

int sim_program_launches(const struct sim_program_launch *launch) {
    if (sim_program_error(0))
        return sim_program_error(0);
    dim3 grid = {launch->grid[0], launch->grid[1], launch->grid[2]};
    dim3 block = {launch->block[0], launch->block[1], launch->block[2]};
    if (launch->is_cooperative) {
        uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z;
        int threads = (int)(block.x * block.y * block.z);
        if (blocks > (uint64_t)sim_gpu_blocks(threads, launch->shared_bytes) *
                         (uint64_t)sim_gpu_now()->multiprocessors)
            return sim_program_error(TOO_LARGE);
    }
    sim_memory_open();
    allow_all();
    fflush(stdout);
    int failed =
        (int)sim_launch_clusters(launch->kernel, launch->file, launch->enter, launch->arguments,
                                 launch->argument_bytes, grid, block, launch->shared_bytes, launch->cluster);
    for (unsigned i = 0; i < launch->pointer_count; i++) {
        struct sim_allocation *memory = sim_allocation_at(launch->pointers[i].pointer);
        if (memory && memory->kind != SIM_DEVICE_MEMORY)
            sim_pending_begins(memory, launch->stream, !launch->pointers[i].is_constant, launch->kernel);
    }
    sim_memory_close();
    if (!failed)
        return sim_program_error(0);
    int error = error_of(sim_last_report());
    tell();
    if (sim_last_report()->kind == SIM_INVALID_LAUNCH || error == OUT_OF_MEMORY)
        return sim_program_error(error);
    sim_program_fails(error);
    return sim_program_error(0);
}
