/* Streams and events: what comes before what, and what may still go on when a call returns.
 *
 * A kernel, or a copy of pinned memory, goes on after the call that started it. An operation comes after the
 * earlier ones of its stream, after what the stream has waited for by events, after all that the host had
 * waited for when it asked for the operation, and, in the legacy default stream and the streams that wait for
 * it, after each other's (CUDA C++ Programming Guide, "Asynchronous Concurrent Execution"). Vector clocks
 * keep this order. Host code is refused the memory of an operation (memory.c) until the host comes after it,
 * so that such a race is found where it happens; counted/concurrent.c compares operations with each other. */
#define _GNU_SOURCE
#include "program.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { INVALID_HANDLE = 400 };
enum { STREAM = 0x73747265, EVENT = 0x6576656e };

/* How many operations of each stream come before a point of a stream or of the host. Streams behind the last
 * entry have none. */
struct clock {
    uint64_t *of;
    unsigned count;
};
struct sim_stream {
    unsigned stamp;
    int device;
    bool is_blocking; /* it and the legacy default stream wait for each other */
    int priority;
    unsigned number;    /* of its entry in clocks */
    struct clock clock; /* its own entry counts its operations */
    struct sim_stream *next;
};
struct sim_event {
    unsigned stamp;
    bool has_time, is_recorded;
    int device; /* on which it was made, and whose streams it may be recorded in */
    struct timespec time;
    struct clock clock;
};

static struct sim_stream *streams, *defaults[SIM_MOST_GPUS];
static unsigned stream_count; /* of numbers */
static struct clock host;

/* ---- Clocks ---- */

static void grow(struct clock *clock, unsigned count) {
    if (clock->count >= count)
        return;
    clock->of = sim_program_memory(clock->of, count * sizeof *clock->of);
    memset(clock->of + clock->count, 0, (count - clock->count) * sizeof *clock->of);
    clock->count = count;
}

static void join(struct clock *clock, const struct clock *other) {
    grow(clock, other->count);
    for (unsigned i = 0; i < other->count; i++)
        clock->of[i] = clock->of[i] > other->of[i] ? clock->of[i] : other->of[i];
}

static bool has(const struct clock *clock, struct sim_moment moment) {
    return moment.stream < clock->count && clock->of[moment.stream] >= moment.count;
}

static struct sim_moment latest(const struct sim_stream *stream) {
    return (struct sim_moment){stream->number, stream->clock.of[stream->number]};
}

static struct sim_stream *add(int device, bool is_blocking, int priority) {
    struct sim_stream *made = sim_program_memory(NULL, sizeof *made), **over = &streams;
    *made = (struct sim_stream){STREAM, device, is_blocking, priority, stream_count, {NULL, 0}, NULL};
    /* A destroyed stream leaves its number to a new one when the host has waited for it. */
    while (*over && ((*over)->stamp == STREAM || !has(&host, latest(*over))))
        over = &(*over)->next;
    if (*over) {
        made->number = (*over)->number;
        free((*over)->clock.of);
        *over = (*over)->next;
    } else {
        stream_count++;
    }
    grow(&made->clock, made->number + 1);
    made->next = streams;
    return streams = made;
}

/* 0 to 2: the default streams */
static bool is_default(const struct sim_stream *stream) {
    return (uintptr_t)stream <= 2;
}

/* Each device has a default stream. */
static struct sim_stream *meant(struct sim_stream *stream) {
    int device = sim_device_now();
    if (!is_default(stream))
        return stream;
    return defaults[device] ? defaults[device] : (defaults[device] = add(device, true, 0));
}

/* What comes before the next thing in the stream, which is asked for now. */
static struct clock *before_next(struct sim_stream *stream) {
    bool is_legacy = stream == defaults[stream->device];
    join(&stream->clock, &host);
    for (const struct sim_stream *other = streams; stream->is_blocking && other; other = other->next)
        if (other->is_blocking && other->device == stream->device &&
            (is_legacy || other == defaults[other->device]))
            join(&stream->clock, &other->clock);
    return &stream->clock;
}

/* ---- Operations, and the memory that they use ---- */

void sim_stream_goes_on(struct sim_stream *stream) {
    stream = meant(stream);
    before_next(stream)->of[stream->number]++;
}

struct sim_moment sim_stream_now(struct sim_stream *stream) {
    return latest(meant(stream));
}

bool sim_stream_is_after(struct sim_stream *stream, struct sim_moment moment) {
    return has(&meant(stream)->clock, moment);
}

bool sim_host_is_after(struct sim_moment moment) {
    return has(&host, moment);
}

bool sim_are_there_streams(void) {
    return stream_count > 1 || sim_gpu_count() > 1;
}

void sim_stream_reaches(struct sim_stream *stream, int device) {
    struct sim_stream *own = meant(stream);
    if (!is_default(stream) || device == own->device)
        return;
    for (struct sim_stream *of = streams; of; of = of->next)
        if (of->device == device || of->device == own->device)
            join(&own->clock, &of->clock);
    for (struct sim_stream *of = streams; of; of = of->next)
        if (of->device == device || of->device == own->device)
            join(&of->clock, &own->clock);
}

/* Forgets the uses that come before the clock; but `keeps_writes`. */
static void forget(struct sim_allocation *memory, const struct clock *clock, bool keeps_writes) {
    for (struct sim_use **next = &memory->uses; *next;) {
        struct sim_use *use = *next;
        if (!has(clock, use->moment) || (use->writes && keeps_writes)) {
            next = &use->next;
            continue;
        }
        *next = use->next;
        free(use);
    }
}

void sim_memory_is_used(const void *address, struct sim_stream *stream, bool writes, const char *by) {
    struct sim_allocation *memory = sim_allocation_at(address);
    if (!memory || memory->kind == SIM_DEVICE_MEMORY)
        return; /* the host's own, or what it may never touch */
    stream = meant(stream);
    forget(memory, &stream->clock, !writes); /* a wait for this use waits for those */
    struct sim_use **at = &memory->uses, *use = sim_program_memory(NULL, sizeof *use);
    while (!writes && *at)
        at = &(*at)->next;
    *use = (struct sim_use){*at, latest(stream), writes, by};
    *at = use;
}

static void host_waits(const struct clock *clock) {
    join(&host, clock);
    for (unsigned i = 0; i < sim_allocation_count(); i++) {
        struct sim_allocation *memory = sim_allocation_number(i);
        if (memory->uses) {
            forget(memory, &host, false);
            sim_memory_protect(memory);
        }
    }
}

void sim_host_waits(struct sim_stream *stream) {
    host_waits(before_next(meant(stream)));
}

int sim_device_waits(void) {
    for (const struct sim_stream *stream = streams; stream; stream = stream->next)
        if (stream->device == sim_device_now())
            join(&host, &stream->clock);
    host_waits(&host);
    return sim_program_waits();
}

/* ---- Streams ---- */

bool sim_stream_exists(const struct sim_stream *stream) {
    return is_default(stream) || stream->stamp == STREAM;
}

int sim_stream_device(const struct sim_stream *stream) {
    return is_default(stream) ? sim_device_now() : stream->device;
}

int sim_stream_create(struct sim_stream **stream, bool is_blocking, int priority) {
    if (!stream)
        return sim_program_error(1);
    meant(NULL); /* the default stream is there from the beginning */
    *stream = add(sim_device_now(), is_blocking, priority);
    return sim_program_error(0);
}

int sim_stream_made_with(struct sim_stream *stream, bool *is_blocking, int *priority) {
    if (!sim_stream_exists(stream))
        return sim_program_error(INVALID_HANDLE);
    stream = meant(stream);
    *is_blocking = stream->is_blocking;
    *priority = stream->priority;
    return sim_program_error(0);
}

int sim_stream_wait(struct sim_stream *stream) {
    if (!sim_stream_exists(stream))
        return sim_program_error(INVALID_HANDLE);
    sim_host_waits(stream);
    return sim_program_waits();
}

/* Its remaining work goes on, and a wait for the device waits for it. */
int sim_stream_destroy(struct sim_stream *stream) {
    if (is_default(stream) || !sim_stream_exists(stream))
        return sim_program_error(INVALID_HANDLE);
    stream->stamp = 0; /* kept, so that a use of it is noticed */
    return sim_program_error(0);
}

/* ---- Events ---- */

static bool is_event(const struct sim_event *event) {
    return event && event->stamp == EVENT;
}

int sim_event_create(struct sim_event **event, bool has_time) {
    if (!event)
        return sim_program_error(1);
    *event = sim_program_memory(NULL, sizeof **event);
    **event = (struct sim_event){.stamp = EVENT, .device = sim_device_now(), .has_time = has_time};
    return sim_program_error(0);
}

bool sim_event_is_recorded(const struct sim_event *event) {
    return is_event(event) && event->is_recorded;
}

int sim_event_destroy(struct sim_event *event) {
    if (!is_event(event))
        return sim_program_error(INVALID_HANDLE);
    free(event->clock.of);
    event->stamp = 0;
    return sim_program_error(0);
}

int sim_event_record(struct sim_event *event, struct sim_stream *stream) {
    if (!is_event(event) || !sim_stream_exists(stream) || event->device != sim_stream_device(stream))
        return sim_program_error(INVALID_HANDLE);
    event->is_recorded = true;
    event->clock.count = 0; /* nothing of what it was recorded after before */
    join(&event->clock, before_next(meant(stream)));
    clock_gettime(CLOCK_MONOTONIC, &event->time);
    return sim_program_error(0);
}

/* An event that was never recorded has nothing in its clock. */
int sim_event_wait(struct sim_event *event) {
    if (!is_event(event))
        return sim_program_error(INVALID_HANDLE);
    host_waits(&event->clock);
    return sim_program_waits();
}

int sim_stream_wait_for_event(struct sim_stream *stream, struct sim_event *event) {
    if (!sim_stream_exists(stream) || !is_event(event))
        return sim_program_error(INVALID_HANDLE);
    join(before_next(meant(stream)), &event->clock);
    return sim_program_error(0);
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
