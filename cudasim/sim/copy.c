/* Asynchronous copies: each thread keeps a list of the copies that it has asked for, in order, and carries
 * out a group of them only when it waits for that group. */
#include "machine.h"
#include "watch.h"
#include <stdlib.h>

static void ask(const struct sim_site *site, const void *pc, void *shared, const void *global, unsigned bytes,
                unsigned present) {
    struct sim_copies *copies = &sim_current(sim_worker)->copies;
    sim_worker->block.is_asynchronous = true;
    if (((uintptr_t)shared | (present ? (uintptr_t)global : 0)) % bytes)
        sim_report_call(SIM_MISALIGNED, site,
                        "copies %u bytes from %p to %p, and both must be multiples of %u", bytes, global,
                        shared, bytes);
    for (unsigned asked = 0, piece = present & -present; asked < present; asked += piece)
        if (WATCHED)
            watch_copy_asked(pc, (const char *)global + asked, piece);
    if (WATCHED)
        watch_copy_is_pending(pc, shared, bytes);
    if (copies->count == copies->capacity) {
        enum { FIRST_CAPACITY = 16 };
        unsigned capacity = copies->capacity ? 2 * copies->capacity : FIRST_CAPACITY;
        struct sim_copy *pending = realloc(copies->pending, capacity * sizeof *pending);
        if (!pending) {
            sim_report_no_memory();
            sim_block_abandon();
        }
        copies->pending = pending;
        copies->capacity = capacity;
    }
    copies->pending[copies->count++] = (struct sim_copy){shared, global, pc, bytes, present, copies->groups};
}

void sim_cp_async(const struct sim_site *site, void *shared, const void *global, unsigned bytes, bool valid) {
    ask(site, SIM_CALLER, shared, global, bytes, valid ? bytes : 0);
}

void sim_cp_async_partly(const struct sim_site *site, void *shared, const void *global, unsigned bytes,
                         unsigned present) {
    if (present > bytes)
        sim_report_call(SIM_OUT_OF_BOUNDS, site, "copies %u bytes into %u", present, bytes);
    ask(site, SIM_CALLER, shared, global, bytes, present);
}

void cp_async_commit_group(void) {
    sim_worker->block.is_asynchronous = true;
    sim_current(sim_worker)->copies.groups++;
}

void cp_async_wait_group(unsigned groups_in_flight) {
    struct sim_copies *copies = &sim_current(sim_worker)->copies;
    unsigned landed = 0;
    for (; landed < copies->count; landed++) {
        const struct sim_copy *copy = &copies->pending[landed];
        if (copy->group + groups_in_flight >= copies->groups)
            break;
        if (WATCHED)
            watch_copy_lands(copy->pc, copy->shared, copy->bytes);
        if (copy->present > 0)
            memcpy(copy->shared, copy->global, copy->present);
        memset((char *)copy->shared + copy->present, 0, copy->bytes - copy->present);
    }
    copies->count -= landed;
    if (copies->count > 0)
        memmove(copies->pending, copies->pending + landed, copies->count * sizeof *copies->pending);
}

/* Drops the copies of a thread that has ended without waiting for them. */
void sim_forget_copies(struct sim_copies *copies) {
    copies->count = 0;
    copies->groups = 0;
}

void sim_free_copies(struct sim_copies *copies) {
    free(copies->pending);
    *copies = (struct sim_copies){0};
}
