/* The sentences in which faults are told. The line is not known here: debug information has it, and Python
 * reads that. */
#include "recorder.h"

static const char *verb(counted_operation operation) {
    return operation == COUNTED_LOAD ? "reads" : operation == COUNTED_STORE ? "writes" : "updates";
}

/* Arrays in shared memory have no known type; words are a good guess. */
static long long index_in(const struct place *place, uintptr_t address, unsigned bytes) {
    long long element = place->element_bytes ? place->element_bytes : bytes < WORD_BYTES ? bytes : WORD_BYTES;
    long long offset = (long long)(address - place->begin);
    return offset >= 0 ? offset / element : -((-offset + element - 1) / element);
}

static const struct sim_thread *running(void) {
    return sim_worker->current;
}

static struct sim_access_report report_of(sim_report_kind kind, const struct access *access,
                                          const struct place *place) {
    struct sim_access_report report = {.kind = kind, .thread = running(), .pc = access->pc};
    if (place) {
        report.has_index = true;
        report.index = index_in(place, access->address, access->bytes);
    }
    return report;
}

/* A thread that has read what nobody has written goes astray because of that. */
static void settle_own_read(const struct recorder *self) {
    if (self->unwritten_reader == self->thread)
        shadow_settle(self);
}

void fault_out_of_bounds(const struct recorder *self, const struct access *access) {
    settle_own_read(self);
    const struct place *near = nearest_place(self, access->address);
    const uintptr_t most_shared = SIM_MAX_SHARED_BYTES;
    if (!near && access->address < most_shared && self->worker->shared_memory_bytes == 0) {
        struct place nothing = {.begin = 0, .space = COUNTED_SHARED};
        struct sim_access_report report = report_of(SIM_OUT_OF_BOUNDS, access, &nothing);
        sim_report_access(&report,
                          "%s dynamic_shared[%lld], and the launch gave the block no dynamic shared memory",
                          verb(access->operation), report.index);
    }
    struct sim_access_report report = report_of(SIM_OUT_OF_BOUNDS, access, near);
    if (!near)
        sim_report_access(&report, "%s %u bytes at %p, which is in no argument and no shared memory",
                          verb(access->operation), access->bytes, (void *)access->address);
    long long elements = index_in(near, near->end, access->bytes);
    sim_report_access(&report, "%s %u bytes at %s[%lld], which has %lld elements", verb(access->operation),
                      access->bytes, near->name, report.index, elements);
}

void fault_index(uintptr_t pc, long long index, const char *array) {
    settle_own_read(recorder);
    struct sim_access_report report = {
        .kind = SIM_OUT_OF_BOUNDS, .thread = running(), .pc = pc, .has_index = true, .index = index};
    sim_report_access(&report, "uses index %lld on an array of type %s", index, array);
}

void fault_misaligned(const struct recorder *self, const struct access *access) {
    (void)self;
    struct sim_access_report report = report_of(SIM_MISALIGNED, access, access->place);
    sim_report_access(&report, "%s %u bytes at %s[%lld], whose address is not a multiple of %u",
                      verb(access->operation), access->bytes, access->place->name, report.index,
                      access->bytes);
}

void fault_uninitialised(const struct recorder *self, const struct access *access, unsigned thread) {
    (void)self;
    struct sim_access_report report = report_of(SIM_UNINITIALISED, access, access->place);
    report.thread = &sim_worker->block.threads[thread];
    sim_report_access(&report, "%s %s[%lld], which no thread of the block has written",
                      verb(access->operation), access->place->name, report.index);
}

void fault_race(const struct recorder *self, const struct access *access, unsigned other_thread,
                unsigned other_site) {
    const struct instruction *other = instruction_at(self->sites[other_site].instruction);
    const struct sim_thread *thread = &sim_worker->block.threads[other_thread];
    struct sim_access_report report = report_of(SIM_RACE, access, access->place);
    report.other = &thread->index;
    report.other_block = &sim_worker->registers->block_index;
    report.other_pc = other->pc;
    bool waits = thread->state == SIM_WAITS_AT_BARRIER && thread->site;
    char where[200] = "";
    if (waits)
        snprintf(where, sizeof where, " and now waits at the barrier at %s:%d,", thread->site->file,
                 thread->site->line);
    sim_report_access(&report,
                      "%s %s[%lld] with nothing to order it after thread (%u, %u, %u), which%s %s it",
                      verb(access->operation), access->place->name, report.index, thread->index.x,
                      thread->index.y, thread->index.z, where, verb(other->operation));
}

static uint3 index_of(uint64_t number, dim3 size) {
    return (uint3){(unsigned)(number % size.x), (unsigned)(number / size.x % size.y),
                   (unsigned)(number / size.x / size.y)};
}

void fault_between_blocks(const struct recorder *self, const struct access *access, unsigned thread,
                          const struct other_access *other) {
    (void)self;
    struct sim_access_report report = report_of(SIM_BLOCK_RACE, access, access->place);
    report.thread = &sim_worker->block.threads[thread];
    if (!other)
        sim_report_access(&report, "%s %s[%lld], which other blocks of the launch access too",
                          verb(access->operation), access->place->name, report.index);
    const struct instruction *instruction = instruction_at(other->instruction);
    uint3 other_thread = index_of(other->thread, sim_launch_now.block);
    uint3 other_block = index_of(other->block, sim_launch_now.grid);
    report.other = &other_thread;
    report.other_block = &other_block;
    report.other_pc = instruction->pc;
    sim_report_access(
        &report, "%s %s[%lld], which thread (%u, %u, %u) of block (%u, %u, %u) of the same launch %s",
        verb(access->operation), access->place->name, report.index, other_thread.x, other_thread.y,
        other_thread.z, other_block.x, other_block.y, other_block.z, verb(instruction->operation));
}
