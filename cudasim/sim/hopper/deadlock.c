/* Deadlocks: all threads wait, no copy is in flight, and nothing else could let them go on. The report tells
 * which threads wait where, and what is missing there. */
#include "async.h"
#include "watch_hopper.h"
#include <stdarg.h>
#include <stdio.h>

enum { MOST_TEXT = 900, MOST_GROUPS = 5 };

struct text {
    char of[MOST_TEXT];
    size_t length;
};

__attribute__((format(printf, 2, 3))) static void say(struct text *text, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int said = vsnprintf(text->of + text->length, sizeof text->of - text->length, format, arguments);
    va_end(arguments);
    text->length += said > 0 ? (size_t)said : 0;
    if (text->length > sizeof text->of - 1)
        text->length = sizeof text->of - 1;
}

static bool waits(const struct sim_thread *thread) {
    return thread->state != SIM_RUNS && thread->state != SIM_HAS_RETURNED;
}

bool sim_waits_for_hopper(const struct sim_block *block) {
    for (unsigned i = 0; i < block->started; i++)
        if (block->threads[i].state >= SIM_WAITS_AT_NAMED_BARRIER &&
            block->threads[i].state <= SIM_WAITS_FOR_WARPGROUP)
            return true;
    return false;
}

static void say_missing(struct text *text, const struct sim_mbarrier *barrier) {
    bool lacks_arrivals = barrier->pending > 0;
    say(text, "the mbarrier initialised at %s:%d, whose phase %u (parity %u)", barrier->initialised->file,
        barrier->initialised->line, barrier->completed, barrier->completed % 2);
    if (lacks_arrivals)
        say(text, " lacks %u of %u arrivals", barrier->pending, barrier->arrivals);
    if (barrier->bytes > 0)
        say(text, "%s %lld bytes that were announced and that no copy brings",
            lacks_arrivals ? " and" : " lacks", (long long)barrier->bytes);
    if (barrier->bytes < 0)
        say(text, "%s got %lld bytes more than were announced", lacks_arrivals ? " and has" : " has",
            -(long long)barrier->bytes);
}

static void say_what_for(struct text *text, const struct sim_worker *worker,
                         const struct sim_thread *thread) {
    const struct sim_cluster *cluster = worker->cluster;
    switch (thread->state) {
    case SIM_WAITS_AT_MBARRIER:
        say_missing(text, thread->mbarrier);
        break;
    case SIM_WAITS_AT_NAMED_BARRIER:
        say(text, "the other threads of a numbered barrier");
        break;
    case SIM_WAITS_AT_CLUSTER_BARRIER:
        say(text, "the barrier of its cluster, to which %u threads have come",
            cluster ? cluster->at_barrier_count : 0);
        break;
    case SIM_WAITS_FOR_WARPGROUP:
        say(text, "the rest of its warpgroup to wait for the same products");
        break;
    case SIM_WAITS_AT_BARRIER:
        say(text, "__syncthreads(), to which %u of the block's %u threads have come", worker->block.arrived,
            worker->block.size);
        break;
    default:
        say(text, "other lanes of its warp");
        break;
    }
}

/* Whether an earlier thread waits for the same at the same place. */
static bool is_like_one_before(const struct sim_block *block, unsigned number) {
    const struct sim_thread *thread = &block->threads[number];
    for (unsigned i = 0; i < number; i++) {
        const struct sim_thread *other = &block->threads[i];
        if (waits(other) && other->state == thread->state && other->site == thread->site &&
            other->mbarrier == thread->mbarrier)
            return true;
    }
    return false;
}

static unsigned count_like(const struct sim_block *block, unsigned number) {
    const struct sim_thread *thread = &block->threads[number];
    unsigned count = 0;
    for (unsigned i = 0; i < block->started; i++) {
        const struct sim_thread *other = &block->threads[i];
        count += waits(other) && other->state == thread->state && other->site == thread->site &&
                 (thread->state != SIM_WAITS_AT_MBARRIER || other->mbarrier == thread->mbarrier);
    }
    return count;
}

/* An mbarrier that lacks bytes explains most: the report first names a thread that waits there. */
static const struct sim_thread *first_to_tell(const struct sim_block *block) {
    const struct sim_thread *first = NULL;
    for (unsigned i = 0; i < block->started; i++) {
        const struct sim_thread *thread = &block->threads[i];
        bool lacks_bytes = thread->state == SIM_WAITS_AT_MBARRIER && thread->mbarrier->bytes != 0;
        if (lacks_bytes)
            return thread;
        if (!first && waits(thread))
            first = thread;
    }
    return first;
}

void sim_report_deadlock(struct sim_worker *worker) {
    if (WATCHED)
        watch_deadlock();
    struct text text = {.length = 0};
    const struct sim_block *block = &worker->block;
    const struct sim_thread *first = first_to_tell(block);
    unsigned number = (unsigned)(first - block->threads), groups = 1;
    say(&text, "waits in vain for ");
    say_what_for(&text, worker, first);
    if (count_like(block, number) > 1)
        say(&text, ", as do %u others", count_like(block, number) - 1);
    for (unsigned i = 0; i < block->started && groups < MOST_GROUPS; i++) {
        const struct sim_thread *thread = &block->threads[i];
        if (!waits(thread) || is_like_one_before(block, i) ||
            (thread->state == first->state && thread->site == first->site &&
             thread->mbarrier == first->mbarrier))
            continue;
        say(&text, "; thread (%u, %u, %u)", thread->index.x, thread->index.y, thread->index.z);
        if (count_like(block, i) > 1)
            say(&text, " and %u others", count_like(block, i) - 1);
        say(&text, " at %s:%d for ", thread->site->file, thread->site->line);
        say_what_for(&text, worker, thread);
        groups++;
    }
    if (block->returned > 0)
        say(&text, "; %u threads have returned", block->returned);
    sim_report_of(SIM_DEADLOCK, first, first->site, "%s", text.of);
}
