/* Races between streams.
 *
 * An operation (a kernel, a copy, a fill) comes after earlier ones of its stream, after what the stream has
 * waited for by events, after all that the host had waited for when it was asked for, and, in the legacy
 * default stream and the streams that wait for it, after each other's (CUDA C++ Programming Guide,
 * "Streams"). Vector clocks keep this order. Two operations that it leaves open race where both use a byte
 * and one writes it; here they run one after another, so the second one finds the race. */
#define _GNU_SOURCE
#include "concurrent.h"
#ifdef SIM_COUNTED
#include "../counted/accessed.h"
#include <stdlib.h>
#include <string.h>

/* The default streams of the devices come first. */
enum { DEFAULT_STREAMS = SIM_MOST_GPUS, MOST_OPERATIONS = 256 };

static struct {
    int device;
    bool is_blocking;
    struct sim_order_clock clock; /* its own entry counts its operations */
} streams[SIM_MOST_CLOCKS];
static unsigned stream_count = DEFAULT_STREAMS;
static struct sim_order_clock host;
static bool are_too_many; /* what comes before what is not known then */

/* What the host has not waited for, the oldest first. */
static struct operation {
    struct sim_called called;
    unsigned stream;
    uint64_t when;
    struct accessed *ranges;
    size_t count;
} operations[MOST_OPERATIONS];
static unsigned operation_count;

unsigned sim_order_stream(int device, bool is_blocking) {
    if (stream_count == SIM_MOST_CLOCKS) {
        are_too_many = true;
        return SIM_NO_CLOCK;
    }
    streams[stream_count].device = device;
    streams[stream_count].is_blocking = is_blocking;
    return stream_count++;
}

static void join(struct sim_order_clock *clock, const struct sim_order_clock *other) {
    for (unsigned i = 0; i < stream_count; i++)
        clock->of[i] = clock->of[i] > other->of[i] ? clock->of[i] : other->of[i];
}

struct sim_order_clock sim_order_of(unsigned stream) {
    if (stream == SIM_NO_CLOCK)
        return host;
    struct sim_order_clock clock = streams[stream].clock;
    join(&clock, &host);
    for (unsigned i = DEFAULT_STREAMS; stream < DEFAULT_STREAMS && i < stream_count; i++)
        if (streams[i].is_blocking && streams[i].device == (int)stream)
            join(&clock, &streams[i].clock);
    if (streams[stream].is_blocking)
        join(&clock, &streams[streams[stream].device].clock);
    return clock;
}

void sim_order_stream_waits(unsigned stream, const struct sim_order_clock *clock) {
    if (stream != SIM_NO_CLOCK)
        join(&streams[stream].clock, clock);
}

void sim_order_host_waits(const struct sim_order_clock *clock) {
    join(&host, clock);
}

void sim_order_device_waits(int device) {
    for (unsigned i = 0; i < stream_count; i++)
        if (i == (unsigned)device || (i >= DEFAULT_STREAMS && streams[i].device == device))
            join(&host, &streams[i].clock);
}

/* ---- Races ---- */

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

static void operation(struct operation now) {
    streams[now.stream].clock = sim_order_of(now.stream);
    now.when = ++streams[now.stream].clock.of[now.stream];
    for (unsigned i = operation_count; i-- > 0;)
        if (host.of[operations[i].stream] >= operations[i].when)
            forget(i);
    for (unsigned i = 0; i < operation_count; i++)
        if (streams[now.stream].clock.of[operations[i].stream] < operations[i].when &&
            tell_race(&now, &operations[i]))
            break;
    if (operation_count == MOST_OPERATIONS)
        forget(0);
    operations[operation_count++] = now;
}

/* Whether operations can overlap, and it is known which. */
static bool are_there_streams(void) {
    return stream_count > DEFAULT_STREAMS && !are_too_many;
}

void sim_order_kernel_begins(void) {
    accessed_keep(are_there_streams());
}

void sim_order_kernel(unsigned stream, const struct sim_called *called) {
    size_t count;
    const struct accessed *ranges = accessed_ranges(&count);
    struct accessed *kept = are_there_streams() && count ? malloc(count * sizeof *kept) : NULL;
    if (kept)
        operation((struct operation){*called, stream, 0, memcpy(kept, ranges, count * sizeof *kept), count});
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

void sim_order_copy(unsigned stream, const struct sim_called *called, const void *to, size_t to_pitch,
                    const void *from, size_t from_pitch, size_t width, size_t rows) {
    if (!are_there_streams())
        return;
    struct operation now = {*called, stream, 0, malloc(2 * rows * sizeof *now.ranges), 0};
    if (!now.ranges)
        return;
    const struct sim_allocation *target = sim_allocation_at(to),
                                *source = from ? sim_allocation_at(from) : NULL;
    /* In the default stream a copy between devices waits for all of both, which wait for it ("Peer-to-Peer
     * Memory Copy"). */
    bool is_barrier = stream < DEFAULT_STREAMS && target && source && target->device != source->device;
    if (is_barrier)
        sim_order_device_waits(target->device), sim_order_device_waits(source->device);
    add_rows(&now, to, to_pitch, width, rows, ACCESSED_WRITTEN);
    add_rows(&now, from, from_pitch, width, rows, ACCESSED_READ);
    accessed_sort(now.ranges, now.count);
    operation(now);
    if (is_barrier)
        sim_order_host_waits(&streams[stream].clock);
}

#endif
