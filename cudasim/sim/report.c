/* Reports: they find out what went wrong, put it into a sentence, and stop the launch. */
#include "machine.h"
#include <stdarg.h>

atomic_bool sim_stops;
const char *(*sim_memory_of_others)(const void *address, bool is_far);

/* Adds to a message that is cut off where its room ends. */
__attribute__((format(printf, 2, 3))) static void say(sim_report *report, const char *format, ...) {
    size_t said = strlen(report->message);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(report->message + said, sizeof report->message - said, format, arguments);
    va_end(arguments);
}

static const char *name_of(sim_report_kind kind) {
    switch (kind) {
    case SIM_INVALID_LAUNCH:
        return "invalid launch";
    case SIM_BARRIER_DIVERGENCE:
        return "barrier divergence";
    case SIM_MISSING_LANE:
        return "missing lane";
    case SIM_LANE_NOT_IN_MASK:
        return "lane not in mask";
    case SIM_SHUFFLE_WIDTH:
        return "invalid shuffle width";
    case SIM_MISALIGNED:
        return "misaligned address";
    case SIM_OUT_OF_MEMORY:
        return "out of memory";
    case SIM_INTERRUPTED:
        return "interrupted";
    case SIM_OUT_OF_BOUNDS:
        return "out of bounds";
    case SIM_UNINITIALISED:
        return "uninitialised shared memory";
    case SIM_RACE:
        return "race";
    case SIM_BLOCK_RACE:
        return "race between blocks";
    case SIM_ASSERTION:
        return "assertion";
    case SIM_TRAP:
        return "trap";
    case SIM_SHUFFLE_SOURCE:
        return "shuffle from a lane that takes no part";
    case SIM_CRASH:
        return "crash";
    case SIM_UNDEFINED:
        return "undefined arithmetic";
    case SIM_DEADLOCK:
        return "deadlock";
    case SIM_MBARRIER_MISUSE:
        return "mbarrier misuse";
    case SIM_WRONG_LAYOUT:
        return "wrong layout";
    case SIM_BLOCK_HAS_EXITED:
        return "block has exited";
    case SIM_STAGE_RACE:
        return "race for a stage";
    case SIM_NO_PROXY_FENCE:
        return "missing proxy fence";
    case SIM_PENDING_SUMS:
        return "sums not waited for";
    case SIM_NO_REGISTER_FENCE:
        return "missing register fence";
    case SIM_UNWRITTEN:
        return "unwritten memory";
    default:
        return "no report";
    }
}

static void begin(sim_report *report, sim_report_kind kind, const struct sim_site *site) {
    *report = (sim_report){.kind = kind, .kernel = sim_launch_now.kernel, .file = sim_launch_now.file};
    say(report, "%s in %s", name_of(kind), report->kernel);
    if (site) {
        report->file = site->file;
        report->line = site->line;
        say(report, " (%s:%d)", site->file, site->line);
    }
    say(report, ": ");
}

static void name_thread(sim_report *report, const struct sim_thread *thread) {
    uint3 block = sim_worker->block_index;
    report->has_thread = 1;
    report->thread = thread->index;
    report->block = block;
    say(report, "thread (%u, %u, %u) of block (%u, %u, %u) ", thread->index.x, thread->index.y,
        thread->index.z, block.x, block.y, block.z);
}

static void name_other(sim_report *report, const struct sim_thread *other) {
    report->has_other = 1;
    report->other = other->index;
    say(report, "thread (%u, %u, %u), which ", other->index.x, other->index.y, other->index.z);
    if (other->state == SIM_HAS_RETURNED) {
        say(report, "has returned");
        return;
    }
    report->other_file = other->site->file;
    report->other_line = other->site->line;
    say(report,
        other->state == SIM_WAITS_AT_BARRIER ? "waits at the barrier at %s:%d"
                                             : "waits for other lanes at %s:%d",
        other->site->file, other->site->line);
}

/* True for the first report of the launch only; the others are dropped. */
static bool is_first(void) {
    bool first = !atomic_exchange(&sim_launch_now.reported, true);
    if (first)
        sim_launch_now.reporter = sim_worker;
    sim_stop();
    return first;
}

void sim_report_again(void) {
    if (atomic_load(&sim_launch_now.reported) && sim_launch_now.reporter == sim_worker)
        atomic_store(&sim_launch_now.reported, false);
}

void sim_report_launch(sim_report *report, sim_report_kind kind, const char *what, ...) {
    begin(report, kind, NULL);
    size_t said = strlen(report->message);
    va_list arguments;
    va_start(arguments, what);
    vsnprintf(report->message + said, sizeof report->message - said, what, arguments);
    va_end(arguments);
}

void sim_report_no_memory(void) {
    if (is_first())
        sim_report_launch(&sim_launch_now.report, SIM_OUT_OF_MEMORY,
                          "this machine has no memory left for the simulated threads");
}

static void tell(sim_report_kind kind, const struct sim_thread *thread, const struct sim_site *site,
                 const char *what, va_list arguments) {
    if (!is_first())
        return;
    sim_report *report = &sim_launch_now.report;
    begin(report, kind, site);
    name_thread(report, thread);
    size_t said = strlen(report->message);
    vsnprintf(report->message + said, sizeof report->message - said, what, arguments);
}

noreturn void sim_report_call(sim_report_kind kind, const struct sim_site *site, const char *what, ...) {
    va_list arguments;
    va_start(arguments, what);
    tell(kind, sim_current(sim_worker), site, what, arguments);
    va_end(arguments);
    sim_block_abandon();
}

void sim_report_of(sim_report_kind kind, const struct sim_thread *thread, const struct sim_site *site,
                   const char *what, ...) {
    va_list arguments;
    va_start(arguments, what);
    tell(kind, thread, site, what, arguments);
    va_end(arguments);
}

static void say_access(sim_report *report, const struct sim_access_report *access, const char *what,
                       va_list arguments) {
    begin(report, access->kind, NULL);
    name_thread(report, access->thread);
    report->pc = access->pc;
    report->has_index = access->has_index;
    report->index = access->index;
    if (access->other) {
        report->has_other = 1;
        report->other = *access->other;
        report->other_block = *access->other_block;
        report->other_pc = access->other_pc;
    }
    size_t said = strlen(report->message);
    vsnprintf(report->message + said, sizeof report->message - said, what, arguments);
}

void sim_describe_access(sim_report *report, const struct sim_access_report *access, const char *what, ...) {
    va_list arguments;
    va_start(arguments, what);
    say_access(report, access, what, arguments);
    va_end(arguments);
}

noreturn void sim_report_shuffle(const struct sim_thread *thread, const struct sim_site *site,
                                 unsigned source) {
    if (is_first()) {
        sim_report *report = &sim_launch_now.report;
        begin(report, SIM_SHUFFLE_SOURCE, site);
        name_thread(report, thread);
        unsigned number = (unsigned)(thread - sim_worker->block.threads);
        const struct sim_thread *other = thread - number % SIM_WARP_THREADS + source;
        say(report,
            "reads from lane %u, which its mask 0x%08x leaves out or the block does not have; the "
            "value is undefined",
            source, thread->exchange.mask);
        report->has_other = 1;
        report->other = other->index;
    }
    sim_block_abandon();
}

noreturn void sim_report_access(const struct sim_access_report *access, const char *what, ...) {
    va_list arguments;
    va_start(arguments, what);
    if (is_first())
        say_access(&sim_launch_now.report, access, what, arguments);
    va_end(arguments);
    sim_block_abandon();
}

void sim_report_unseen(uintptr_t pc) {
    uint3 block = sim_worker->block_index;
    if (!is_first())
        return;
    begin(&sim_launch_now.report, SIM_CRASH, NULL);
    sim_launch_now.report.pc = pc + 1; /* debug information is asked for the byte before */
    say(&sim_launch_now.report,
        "a thread of block (%u, %u, %u) accesses an address where no memory is, or divides by zero; which "
        "one "
        "is not known, since none does when the block runs again on what it has written",
        block.x, block.y, block.z);
}

void sim_report_overflow(const struct sim_access_report *access) {
    sim_report_access(access, "needs more local memory than the %zu bytes of a simulated thread",
                      sim_worker->fiber->stack_bytes);
}

/* A lane that `thread` waits for in a warp operation, and that does not wait for it. */
static const struct sim_thread *missing_lane(const struct sim_thread *thread) {
    const struct sim_block *block = &sim_worker->block;
    unsigned number = (unsigned)(thread - block->threads), warp = number / SIM_WARP_THREADS;
    const struct sim_thread *first = thread - number % SIM_WARP_THREADS;
    for (unsigned lanes = thread->exchange.mask & sim_lanes_of_warp(block, warp); lanes; lanes &= lanes - 1) {
        const struct sim_thread *other = &first[__builtin_ctz(lanes)];
        if (other->state != SIM_WAITS_FOR_LANES || other->exchange.mask != thread->exchange.mask ||
            other->exchange.operation != thread->exchange.operation)
            return other;
    }
    __builtin_unreachable(); /* if all waited for each other, they would have met */
}

static void report_barrier(const struct sim_thread *waiting, const struct sim_thread *missing) {
    sim_report *report = &sim_launch_now.report;
    begin(report, SIM_BARRIER_DIVERGENCE, waiting->site);
    name_thread(report, waiting);
    say(report, "waits at a barrier that %u of the block's %u threads have reached; it waits for ",
        sim_worker->block.arrived, sim_worker->block.size);
    name_other(report, missing);
}

static void report_missing_lane(const struct sim_thread *waiting, const struct sim_thread *missing) {
    sim_report *report = &sim_launch_now.report;
    begin(report, SIM_MISSING_LANE, waiting->site);
    name_thread(report, waiting);
    say(report, "waits for the lanes of mask 0x%08x, among them ", waiting->exchange.mask);
    name_other(report, missing);
    if (missing->state == SIM_WAITS_FOR_LANES)
        say(report, ", in another operation or with another mask (0x%08x)", missing->exchange.mask);
}

noreturn void sim_report_two_barriers(const struct sim_site *site, const struct sim_thread *other) {
    if (is_first()) {
        sim_report *report = &sim_launch_now.report;
        begin(report, SIM_BARRIER_DIVERGENCE, site);
        name_thread(report, sim_current(sim_worker));
        say(report, "comes to this barrier, but another of its warp to another one: ");
        name_other(report, other);
        say(report, "; __syncthreads() is bar.sync, which is .aligned: all threads of a warp that have not "
                    "exited must execute the same one");
    }
    sim_block_abandon();
}

noreturn void sim_report_skipped_barrier(const struct sim_thread *at_barrier,
                                         const struct sim_thread *ended) {
    if (is_first()) {
        sim_report *report = &sim_launch_now.report;
        begin(report, SIM_BARRIER_DIVERGENCE, at_barrier->site);
        name_thread(report, at_barrier);
        say(report,
            "comes to this barrier, and thread (%u, %u, %u) of its warp has gone past it to the kernel's "
            "end; "
            "__syncthreads() is bar.sync, which is .aligned: all threads of a warp that have not exited must "
            "execute it. A thread that is not to come has to `return` before",
            ended->index.x, ended->index.y, ended->index.z);
        report->has_other = 1;
        report->other = ended->index;
    }
    sim_block_abandon();
}

/* A lane is looked for before a barrier: a warp that is stuck never gets to the barrier. But where the
 * missing lane is itself at a barrier, that barrier is the one that not all threads reach. */
noreturn void sim_report_stuck(void) {
    const struct sim_block *block = &sim_worker->block;
    if (sim_waits_for_hopper(block)) {
        sim_report_deadlock(sim_worker);
        sim_block_abandon();
    }
    const struct sim_thread *at_barrier = block->at_barrier.first;
    const struct sim_thread *elsewhere = NULL;
    bool first = is_first();
    for (unsigned number = 0; first && number < block->size; number++) {
        const struct sim_thread *thread = &block->threads[number];
        if (thread->state == SIM_WAITS_FOR_LANES) {
            const struct sim_thread *missing = missing_lane(thread);
            if (missing->state == SIM_WAITS_AT_BARRIER)
                report_barrier(missing, thread);
            else
                report_missing_lane(thread, missing);
            sim_block_abandon();
        }
        if (!elsewhere && thread->state != SIM_HAS_RETURNED && thread->site != at_barrier->site)
            elsewhere = thread;
    }
    if (first)
        report_barrier(at_barrier, elsewhere);
    sim_block_abandon();
}
