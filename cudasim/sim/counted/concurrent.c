/* Races between streams.
 *
 * Two operations (kernels, copies, fills) whose order program/streams.c leaves open race where both use a
 * byte and one writes it. Here they run one after another, so the second one finds the race. */
#define _GNU_SOURCE
#include "concurrent.h"
#include "accessed.h"
#include <stdlib.h>
#include <string.h>

/* What the host has not waited for, the oldest first. */
enum { MOST_OPERATIONS = 256 };
static struct operation {
    struct sim_called called;
    struct sim_moment moment;
    struct accessed *ranges;
    size_t count;
} operations[MOST_OPERATIONS];
static unsigned operation_count;

static bool is_race(unsigned how, unsigned other) {
    const unsigned strong = ACCESSED_READ_STRONGLY | ACCESSED_UPDATED;
    return how & ACCESSED_WRITTEN || other & ACCESSED_WRITTEN ||
           (how & ACCESSED_UPDATED && other & ~strong) || (other & ACCESSED_UPDATED && how & ~strong);
}

static const char *uses(unsigned how, bool is_now) {
    bool writes = how & (ACCESSED_WRITTEN | ACCESSED_UPDATED);
    return is_now ? writes ? "writes" : "reads" : writes ? "be writing" : "be reading";
}

static bool tell_race(const struct operation *now, const struct operation *other) {
    const struct accessed *a = now->ranges, *b = other->ranges;
    const struct accessed *a_end = a + now->count, *b_end = b + other->count;
    while (a < a_end && b < b_end) {
        uintptr_t from = a->begin > b->begin ? a->begin : b->begin, to = a->end < b->end ? a->end : b->end;
        const struct sim_allocation *of =
            from < to && is_race(a->how, b->how) ? sim_allocation_at((const void *)from) : NULL;
        if (of) {
            sim_program_say(
                &now->called,
                "race between streams: %s byte %zu of %s, which %s at %s:%d may still %s in another "
                "stream: neither an event nor the host has waited for it",
                uses(a->how, true), from - (uintptr_t)of->begin,
                of->called.name ? of->called.name : "an allocation", other->called.function,
                other->called.file, other->called.line, uses(b->how, false));
            return true;
        }
        *(a->end < b->end ? &a : &b) += 1;
    }
    return false;
}

static void forget(unsigned i) {
    free(operations[i].ranges);
    memmove(&operations[i], &operations[i + 1], (--operation_count - i) * sizeof *operations);
}

static void operation(struct sim_stream *stream, struct operation now) {
    now.moment = sim_stream_now(stream);
    for (unsigned i = operation_count; i-- > 0;)
        if (sim_host_is_after(operations[i].moment))
            forget(i);
    for (unsigned i = 0; i < operation_count; i++)
        if (!sim_stream_is_after(stream, operations[i].moment) && tell_race(&now, &operations[i]))
            break;
    if (operation_count == MOST_OPERATIONS)
        forget(0);
    operations[operation_count++] = now;
}

void concurrent_kernel(struct sim_stream *stream, const struct sim_called *called) {
    size_t count;
    const struct accessed *ranges = accessed_ranges(&count);
    struct accessed *kept = count ? malloc(count * sizeof *kept) : NULL;
    if (kept)
        operation(stream, (struct operation){.called = *called,
                                             .ranges = memcpy(kept, ranges, count * sizeof *kept),
                                             .count = count});
}

static void add_rows(struct operation *to, const void *from, size_t pitch, size_t width, size_t rows,
                     unsigned how) {
    if (!from || !sim_allocation_at(from))
        return;
    for (size_t row = 0; row < rows; row++) {
        uintptr_t begin = (uintptr_t)from + row * pitch;
        to->ranges[to->count++] = (struct accessed){begin, begin + width, how};
    }
}

void concurrent_copy(struct sim_stream *stream, const struct sim_called *called, const void *to,
                     size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t rows) {
    if (!sim_are_there_streams())
        return;
    struct operation now = {.called = *called, .ranges = malloc(2 * rows * sizeof *now.ranges)};
    if (!now.ranges)
        return;
    add_rows(&now, to, to_pitch, width, rows, ACCESSED_WRITTEN);
    add_rows(&now, from, from_pitch, width, rows, ACCESSED_READ);
    accessed_sort(now.ranges, now.count);
    operation(stream, now);
}
