/* The trace of one block: what its warps did, request by request, with the values.
 *
 * A player draws it. A request is known when the logs of a warp's lanes have been merged (requests.c), some
 * time after its accesses; by then memory may have changed. So each access notes its value at once, in a
 * queue of its thread, and a request takes its lanes' values from the front of their queues. A store is
 * announced before it happens: its value is read when the same OS thread does anything else.
 *
 * Each OS thread that makes launches has its own trace. Only one block of a launch is traced, so one OS
 * thread writes here at a time. */
#include "../watch.h"
#include "recorder.h"
#include <stdlib.h>

/* The values of a thread's accesses that are not yet part of a request. */
struct values {
    unsigned first, count;
    unsigned owed; /* accesses that became part of a request before their value was noted */
    uint64_t value[LOG_ENTRIES];
};

struct trace {
    bool is_on;
    unsigned launches_before; /* that begin before the one to trace */
    bool is_this_launch;
    uint64_t block;
    dim3 block_size;
    size_t most, count, missed;
    counted_event *events;
    struct values *values; /* of each thread */
    counted_place places[MOST_PLACES];
    unsigned place_count;
    const void *stored; /* by the latest access, a store; NULL: its value is noted already */
    unsigned stored_bytes;
    uint64_t *stored_value; /* where it belongs */
};

/* The running launch's trace; NULL if it is not traced. */
static struct trace *now;

static void forget(struct trace *trace) {
    free(trace->events);
    free(trace->values);
    memset(trace, 0, sizeof *trace);
}

void trace_free(struct trace *trace) {
    if (trace)
        forget(trace);
    free(trace);
}

static struct trace *trace_of_caller(void) {
    struct trace **trace = session_trace();
    if (trace && !*trace)
        *trace = calloc(1, sizeof **trace);
    return trace ? *trace : NULL;
}

int counted_trace(unsigned launch, unsigned long long block, unsigned long long most_events) {
    struct trace *self = trace_of_caller();
    if (!self)
        return 0;
    forget(self);
    if (most_events == 0)
        return 1;
    self->launches_before = launch + 1;
    self->block = block;
    self->most = most_events;
    self->events = malloc(most_events * sizeof *self->events);
    self->values = calloc(SIM_MAX_BLOCK_THREADS, sizeof *self->values);
    self->is_on = self->events && self->values;
    return self->is_on;
}

unsigned long long counted_event_count(void) {
    struct trace *self = trace_of_caller();
    return self ? self->count : 0;
}

unsigned long long counted_events_missed(void) {
    struct trace *self = trace_of_caller();
    return self ? self->missed : 0;
}

const counted_event *counted_event_at(unsigned long long index) {
    struct trace *self = trace_of_caller();
    return self && index < self->count ? &self->events[index] : NULL;
}

const counted_place *counted_place_at(unsigned index) {
    struct trace *self = trace_of_caller();
    return self && index < self->place_count ? &self->places[index] : NULL;
}

dim3 counted_traced_block(void) {
    struct trace *self = trace_of_caller();
    return self ? self->block_size : (dim3){0, 0, 0};
}

void trace_launch_begins(const struct sim_launch *launch) {
    struct trace **of_caller = session_trace(), *self = of_caller ? *of_caller : NULL;
    bool is_this_launch = self && self->is_on && self->launches_before > 0 && --self->launches_before == 0;
    now = is_this_launch ? self : NULL;
    if (now)
        now->block_size = launch->block;
}

void trace_block_begins(struct tracing *self, uint32_t block_number) {
    self->is_on = now && now->block == block_number - 1;
}

static uint64_t value_at(const void *memory, unsigned bytes) {
    uint64_t value = 0;
    memcpy(&value, memory, bytes < sizeof value ? bytes : sizeof value);
    return value;
}

void trace_settle_now(void) {
    if (now->stored)
        *now->stored_value = value_at(now->stored, now->stored_bytes);
    now->stored = NULL;
}

void trace_this_access(unsigned thread, uintptr_t address, unsigned bytes, counted_operation operation) {
    trace_settle_now();
    struct values *values = &now->values[thread];
    if (values->owed > 0) {
        values->owed--;
        return;
    }
    uint64_t *value = &values->value[(values->first + values->count++) % LOG_ENTRIES];
    *value = value_at((const void *)address, bytes);
    if (operation != COUNTED_LOAD) {
        now->stored = (const void *)address;
        now->stored_bytes = bytes;
        now->stored_value = value;
    }
}

static counted_event *new_event(counted_event_kind kind, unsigned warp, unsigned lanes) {
    if (now->count == now->most) {
        now->missed++;
        return NULL;
    }
    counted_event *event = &now->events[now->count++];
    *event = (counted_event){.kind = kind, .warp = warp, .lanes = lanes};
    return event;
}

static unsigned number_of_place(const struct place *place) {
    unsigned number = 0;
    while (number < now->place_count && now->places[number].begin != place->begin)
        number++;
    if (number == now->place_count && number < MOST_PLACES) {
        counted_place *copy = &now->places[now->place_count++];
        copy->begin = place->begin;
        copy->bytes = place->end - place->begin;
        copy->element_bytes = place->element_bytes;
        copy->space = place->space;
        snprintf(copy->name, sizeof copy->name, "%s", place->name);
    }
    return number;
}

void trace_this_request(unsigned warp, const struct site *site, const uintptr_t *addresses, unsigned lanes) {
    const struct instruction *instruction = instruction_at(site->instruction);
    counted_event *event = new_event(COUNTED_REQUEST, warp, lanes);
    if (event) {
        event->pc = instruction->pc;
        event->space = instruction->space;
        event->operation = instruction->operation;
        event->bytes = instruction->bytes;
        event->place = number_of_place(site->place);
    }
    for (unsigned left = lanes; left; left &= left - 1) {
        unsigned lane = (unsigned)__builtin_ctz(left);
        struct values *values = &now->values[warp * SIM_WARP_THREADS + lane];
        if (event)
            event->address[lane] = addresses[lane];
        if (values->count == 0) {
            values->owed++;
            continue;
        }
        if (event) {
            event->known |= 1u << lane;
            event->value[lane] = values->value[values->first];
        }
        if (now->stored && now->stored_value == &values->value[values->first])
            now->stored = NULL;
        values->first = (values->first + 1) % LOG_ENTRIES;
        values->count--;
    }
}

void trace_this_event(counted_event_kind kind, unsigned warp, unsigned lanes) {
    new_event(kind, warp, lanes);
}
