/* Streams and events, and the work that may still run when a call returns.
 *
 * A kernel, or a copy of pinned memory, goes on after the call that started it. Host code may touch its
 * memory only after it has waited for the stream, for a later event, for the device, or by a call that waits
 * for everything. Until then host code is refused access (memory.c), so that such a race is found where it
 * happens. CUDA C++ Programming Guide, "Asynchronous Concurrent Execution". */
#define _GNU_SOURCE
#include "concurrent.h"
#include "../machine.h"
#include <stdlib.h>
#include <time.h>

enum { INVALID_HANDLE = 400 };
enum { MOST_WAITED_FOR = 16, STREAM = 0x73747265, EVENT = 0x6576656e };

struct waited_for {
    struct sim_stream *stream;
    int on;
    uint64_t when;
};
struct sim_stream {
    unsigned stamp;
    int device;
    bool is_blocking; /* it and the legacy default stream wait for each other */
    unsigned clock;   /* concurrent.c's */
    unsigned waits;
    struct waited_for waits_for[MOST_WAITED_FOR]; /* the events of other streams */
};
struct sim_event {
    unsigned stamp;
    bool has_time, is_recorded;
    int device; /* on which it was made, and whose streams it may be recorded in */
    struct sim_stream *stream;
    uint64_t when;
    struct timespec time;
    struct sim_order_clock clock;
};

static uint64_t now; /* how many operations have begun */

/* 0 to 2: the default streams */
bool sim_stream_exists(const struct sim_stream *stream) {
    return (uintptr_t)stream <= 2 || stream->stamp == STREAM;
}

static bool is_blocking(const struct sim_stream *stream) {
    return (uintptr_t)stream <= 2 || stream->is_blocking;
}

static bool is_default(const struct sim_stream *stream) {
    return (uintptr_t)stream <= 2;
}

int sim_stream_device(const struct sim_stream *stream) {
    return is_default(stream) ? sim_device_now() : stream->device; /* each device has a default stream */
}

unsigned sim_stream_clock(const struct sim_stream *stream) {
    return is_default(stream) ? (unsigned)sim_device_now() : stream->clock;
}

/* Host code may again use everything that the stream, on that device, used until then. */
static void ends(struct sim_stream *stream, int on, uint64_t until, unsigned depth) {
    for (unsigned i = 0; i < sim_allocation_count(); i++) {
        struct sim_allocation *memory = sim_allocation_number(i);
        bool is_same = memory->stream == stream || (is_default(stream) && is_blocking(memory->stream)) ||
                       (is_default(memory->stream) && is_blocking(stream));
        if (memory->by && memory->on == on && memory->when <= until && is_same)
            sim_memory_is_free(memory);
    }
    if (is_default(stream) || depth == 0)
        return;
    for (unsigned i = 0; i < stream->waits; i++)
        ends(stream->waits_for[i].stream, stream->waits_for[i].on, stream->waits_for[i].when, depth - 1);
}

void sim_pending_ends(struct sim_stream *stream) {
    struct sim_order_clock clock = sim_order_of(sim_stream_clock(stream));
    sim_order_host_waits(&clock);
    ends(stream, sim_stream_device(stream), now, 2);
}

void sim_pending_begins(struct sim_allocation *memory, struct sim_stream *stream, bool writes,
                        const char *by) {
    memory->is_written_meanwhile = writes || (memory->by && memory->is_written_meanwhile);
    memory->by = by;
    memory->stream = stream;
    memory->on = sim_stream_device(stream);
    memory->when = ++now;
}

int sim_device_waits(void) {
    sim_order_device_waits(sim_device_now());
    for (unsigned i = 0; i < sim_allocation_count(); i++)
        if (sim_allocation_number(i)->by && sim_allocation_number(i)->on == sim_device_now())
            sim_memory_is_free(sim_allocation_number(i));
    return sim_program_waits();
}

/* ---- Streams ---- */

int sim_stream_create(struct sim_stream **stream, bool blocking) {
    if (!stream)
        return sim_program_error(1);
    *stream = calloc(1, sizeof **stream);
    if (!*stream)
        return sim_program_error(2);
    (*stream)->stamp = STREAM;
    (*stream)->device = sim_device_now();
    (*stream)->is_blocking = blocking;
    (*stream)->clock = sim_order_stream((*stream)->device, blocking);
    return sim_program_error(0);
}

int sim_stream_wait(struct sim_stream *stream) {
    if (!sim_stream_exists(stream))
        return sim_program_error(INVALID_HANDLE);
    sim_pending_ends(stream);
    return sim_program_waits();
}

/* Its remaining work goes on, and a wait for the device waits for it. */
int sim_stream_destroy(struct sim_stream *stream) {
    if (is_default(stream) || !sim_stream_exists(stream))
        return sim_program_error(INVALID_HANDLE);
    for (unsigned i = 0; i < sim_allocation_count(); i++)
        if (sim_allocation_number(i)->stream == stream)
            sim_allocation_number(i)->stream = NULL;
    stream->stamp = 0; /* kept, so that a use of it is noticed */
    return sim_program_error(0);
}

int sim_stream_wait_for_event(struct sim_stream *stream, struct sim_event *event) {
    if (!sim_stream_exists(stream) || !event || event->stamp != EVENT)
        return sim_program_error(INVALID_HANDLE);
    if (event->is_recorded)
        sim_order_stream_waits(sim_stream_clock(stream), &event->clock);
    if (!is_default(stream) && event->is_recorded)
        stream->waits_for[stream->waits++ % MOST_WAITED_FOR] =
            (struct waited_for){event->stream, event->device, event->when};
    if (!is_default(stream) && stream->waits > MOST_WAITED_FOR)
        stream->waits = MOST_WAITED_FOR;
    return sim_program_error(0);
}

/* ---- Events ---- */

int sim_event_create(struct sim_event **event, bool has_time) {
    if (!event)
        return sim_program_error(1);
    *event = calloc(1, sizeof **event);
    if (!*event)
        return sim_program_error(2);
    (*event)->stamp = EVENT;
    (*event)->device = sim_device_now();
    (*event)->has_time = has_time;
    return sim_program_error(0);
}

static bool is_event(const struct sim_event *event) {
    return event && event->stamp == EVENT;
}

int sim_event_destroy(struct sim_event *event) {
    if (!is_event(event))
        return sim_program_error(INVALID_HANDLE);
    event->stamp = 0;
    return sim_program_error(0);
}

int sim_event_record(struct sim_event *event, struct sim_stream *stream) {
    if (!is_event(event) || !sim_stream_exists(stream) || event->device != sim_stream_device(stream))
        return sim_program_error(INVALID_HANDLE);
    event->is_recorded = true;
    event->stream = stream;
    event->when = now;
    event->clock = sim_order_of(sim_stream_clock(stream));
    clock_gettime(CLOCK_MONOTONIC, &event->time);
    return sim_program_error(0);
}

int sim_event_wait(struct sim_event *event) {
    if (!is_event(event))
        return sim_program_error(INVALID_HANDLE);
    if (event->is_recorded) {
        sim_order_host_waits(&event->clock);
        ends(event->stream, event->device, event->when, 2);
    }
    return sim_program_waits();
}

int sim_event_elapsed(float *milliseconds, struct sim_event *begin, struct sim_event *end) {
    if (!milliseconds)
        return sim_program_error(1);
    if (!is_event(begin) || !is_event(end) || !begin->has_time || !end->has_time || !begin->is_recorded ||
        !end->is_recorded || begin->device != end->device)
        return sim_program_error(INVALID_HANDLE);
    *milliseconds = (float)(1e3 * (double)(end->time.tv_sec - begin->time.tv_sec) +
                            1e-6 * (double)(end->time.tv_nsec - begin->time.tv_nsec));
    return sim_program_error(0);
}
