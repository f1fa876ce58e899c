/* The sentences that describe faults. The line is not known here: Python reads it from debug information. */
#include "../watch.h"
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

static const struct sim_thread *thread_of(const struct access *access) {
    return access->thread < SIM_MAX_BLOCK_THREADS ? &sim_worker->block.threads[access->thread] : running();
}

static struct sim_access_report report_of(sim_report_kind kind, const struct access *access,
                                          const struct place *place) {
    struct sim_access_report report = {.kind = kind, .thread = thread_of(access), .pc = access->pc};
    if (place) {
        report.has_index = true;
        report.index = index_in(place, access->address, access->bytes);
    }
    return report;
}

void fault_out_of_bounds(struct recorder *self, const struct access *access) {
    history_settle_own_read(self);
    if (sim_fiber_overflows(self->worker->fiber, access->address)) {
        struct sim_access_report overflow = report_of(SIM_CRASH, access, NULL);
        sim_report_overflow(&overflow);
    }
    const struct place *near = nearest_place(self, access->address);
    const char *others =
        sim_memory_of_others ? sim_memory_of_others((const void *)access->address, !near) : NULL;
    if (others) {
        struct sim_access_report report = report_of(SIM_OUT_OF_BOUNDS, access, NULL);
        sim_report_access(&report, "%s %u bytes in %s", verb(access->operation), access->bytes, others);
    }
    const uintptr_t most_shared = SIM_MAX_SHARED_BYTES;
    if (!near && access->address < most_shared && self->worker->shared_memory_bytes == 0) {
        struct place nothing = {.begin = 0, .space = COUNTED_SHARED};
        struct sim_access_report report = report_of(SIM_OUT_OF_BOUNDS, access, &nothing);
        sim_report_access(&report,
                          "%s %u bytes at address %llu: of a null pointer, which None and a tensor without "
                          "elements are, or of dynamic_shared, and the launch gave the block no dynamic "
                          "shared memory",
                          verb(access->operation), access->bytes, (unsigned long long)access->address);
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
    history_settle_own_read(recorder);
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

void fault_uninitialised(const struct recorder *self, const struct access *access) {
    (void)self;
    struct sim_access_report report = report_of(SIM_UNINITIALISED, access, access->place);
    const struct sim_block *block = &sim_worker->block;
    unsigned left = 0;
    for (unsigned i = 0; i < block->size; i++)
        left += block->threads[i].leaves;
    char why[80] = "";
    if (left > 0)
        snprintf(why, sizeof why, "; %u of its %u threads have left the kernel by `return` before", left,
                 block->size);
    sim_report_access(&report, "%s %s[%lld], which no thread of the block has written%s",
                      verb(access->operation), access->place->name, report.index, why);
}

void fault_unwritten(const struct recorder *self, const struct access *access) {
    (void)self;
    struct sim_access_report report = report_of(SIM_UNWRITTEN, access, access->place);
    sim_report_access(&report,
                      "%s %s[%lld], whose memory was given unwritten and no thread has written since",
                      verb(access->operation), access->place->name, report.index);
}

void fault_local(const struct recorder *self, uintptr_t pc, counted_operation operation) {
    history_settle_own_read(self);
    struct sim_access_report report = {.kind = SIM_OUT_OF_BOUNDS, .thread = running(), .pc = pc};
    sim_report_access(&report, "%s beyond its local arrays", verb(operation));
}

void fault_object(struct recorder *self, uintptr_t pc, uintptr_t address, counted_operation operation,
                  const char *type) {
    history_settle_own_read(self);
    struct sim_access_report report = {.kind = SIM_OUT_OF_BOUNDS, .thread = running(), .pc = pc};
    const struct place *near = nearest_place(self, address);
    if (!near)
        sim_report_access(&report, "%s a value of type %s beyond the array that its pointer points into",
                          verb(operation), type);
    long long index = index_in(near, address, WORD_BYTES), elements = index_in(near, near->end, WORD_BYTES);
    if (index >= elements) /* beyond a block of the heap, whose end gcc 16 knows */
        sim_report_access(&report, "%s a value of type %s at %s[%lld], which has %lld elements",
                          verb(operation), type, near->name, index, elements);
    sim_report_access(&report,
                      "%s a value of type %s at %p, beyond the array that its pointer points into; there is "
                      "%s[%lld]",
                      verb(operation), type, (void *)address, near->name, index);
}

void fault_constant(const struct recorder *self, const struct access *access) {
    (void)self;
    struct sim_access_report report = report_of(SIM_OUT_OF_BOUNDS, access, access->place);
    sim_report_access(&report, "%s %s[%lld], which is __constant__: kernels may only read it",
                      verb(access->operation), access->place->name, report.index);
}

void fault_static_shared(size_t bytes) {
    struct sim_access_report report = {.kind = SIM_INVALID_LAUNCH, .thread = running()};
    sim_report_access(&report,
                      "uses %zu bytes of __shared__ arrays; a block can have %d, and more only as dynamic "
                      "shared memory",
                      bytes, MOST_STATIC_SHARED_BYTES);
}

void watch_shift(const void *pc, unsigned bits, unsigned count) {
    static _Thread_local struct {
        uint64_t launch;
        const void *pc;
    } warned; /* of what this OS thread has warned last */
    if (!recorder || (warned.launch == recorder->launch && warned.pc == pc))
        return;
    warned.launch = recorder->launch;
    warned.pc = pc;
    struct sim_access_report about = {.kind = SIM_UNDEFINED, .thread = running(), .pc = (uintptr_t)pc};
    sim_report warning;
    sim_describe_access(
        &warning, &about,
        "shifts a number of %u bits by %u, which C++ leaves undefined; it went on with a GPU's "
        "value: all bits are shifted out",
        bits, count);
    session_warn(&warning);
}

void fault_spinning(const struct spinner *self, const struct spinner *other) {
    struct sim_access_report report = {.kind = SIM_DEADLOCK, .thread = running(), .pc = self->pc};
    const char *all =
        "waits here for what nobody does: all blocks that run only wait, none changes anything, "
        "and no block is left to start";
    if (!other)
        sim_report_access(&report, "%s", all);
    report.other = &other->thread;
    report.other_block = &other->block;
    report.other_pc = other->pc;
    sim_report_access(&report, "%s; thread (%u, %u, %u) of block (%u, %u, %u) waits", all, other->thread.x,
                      other->thread.y, other->thread.z, other->block.x, other->block.y, other->block.z);
}

/* ---- Races ---- */

static uint3 index_of(uint64_t number, dim3 size) {
    return (uint3){(unsigned)(number % size.x), (unsigned)(number / size.x % size.y),
                   (unsigned)(number / size.x / size.y)};
}

/* The other one of the two racing accesses, and its place. */
struct other {
    uint3 thread;
    uint3 block;
    char words[300];
};

static void describe(const struct recorder *self, const struct past *past, struct other *other) {
    const unsigned number =
        past_warp(past) * SIM_WARP_THREADS + (unsigned)(__builtin_ctz(past->lanes) % SIM_WARP_THREADS);
    bool same_block = past->block == self->block_number;
    other->block = index_of(past->block - 1, sim_launch_now.grid);
    if (number >= SIM_MAX_BLOCK_THREADS) {
        other->thread = (uint3){0, 0, 0};
        snprintf(other->words, sizeof other->words, "an asynchronous copy of block (%u, %u, %u), which",
                 other->block.x, other->block.y, other->block.z);
        return;
    }
    other->thread = index_of(number, sim_launch_now.block);
    int said = snprintf(other->words, sizeof other->words, "thread (%u, %u, %u)", other->thread.x,
                        other->thread.y, other->thread.z);
    char *rest = other->words + said;
    size_t room = sizeof other->words - (size_t)said;
    const struct sim_thread *thread = &sim_worker->block.threads[number];
    if (!same_block)
        snprintf(rest, room, " of block (%u, %u, %u), which", other->block.x, other->block.y, other->block.z);
    else if (thread->state == SIM_WAITS_AT_BARRIER && thread->site)
        snprintf(rest, room, ", which now waits at the barrier at %s:%d and", thread->site->file,
                 thread->site->line);
    else
        snprintf(rest, room, ", which");
}

static struct sim_access_report report_of_two(const struct recorder *self, const struct access *access,
                                              const struct past *past, struct other *other) {
    bool same_block = past->block == self->block_number;
    struct sim_access_report report =
        report_of(same_block ? SIM_RACE : SIM_BLOCK_RACE, access, access->place);
    describe(self, past, other);
    report.other = &other->thread;
    report.other_block = &other->block;
    report.other_pc = instruction_at(past->what & PAST_INSTRUCTION_MASK)->pc;
    return report;
}

static const char *verb_of(const struct past *past) {
    return verb(instruction_at(past->what & PAST_INSTRUCTION_MASK)->operation);
}

void fault_race(const struct recorder *self, const struct access *access, const struct past *past) {
    struct other other;
    struct sim_access_report report = report_of_two(self, access, past, &other);
    const struct place *place = access->place;
    char where[40];
    /* An address in the simulator's shared memory tells a reader nothing, so the message names the place in
     * the array. */
    if (place->space == COUNTED_SHARED)
        snprintf(where, sizeof where, "byte %zu of it", (size_t)(access->address - place->begin));
    else
        snprintf(where, sizeof where, "at %p", (void *)access->address);
    bool relies_on_steps = place->space == COUNTED_SHARED && (access->flags & past->what & PAST_VOLATILE) &&
                           past->block == self->block_number &&
                           past_warp(past) == access->thread / SIM_WARP_THREADS;
    const char *why =
        relies_on_steps
            ? "\nvolatile does not order lanes of a warp: since Volta they do not run in step (CUDA C++ "
              "Programming Guide, Independent Thread Scheduling). Write __syncwarp() between the read and "
              "the "
              "write of each step, or add up by __shfl_down_sync()"
            : "";
    sim_report_access(&report, "%s %s[%lld], %s, with nothing to order it after %s %s it%s",
                      verb(access->operation), place->name, report.index, where, other.words, verb_of(past),
                      why);
}

void warn_of_same_value(const struct recorder *self, const struct access *access, const struct past *past) {
    struct other other;
    struct sim_access_report about = report_of_two(self, access, past, &other);
    sim_report warning;
    sim_describe_access(&warning, &about,
                        "%s %s[%lld] with nothing to order it after %s wrote the same value",
                        verb(access->operation), access->place->name, about.index, other.words);
    session_warn(&warning);
}
