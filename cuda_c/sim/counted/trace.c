/* The trace of one block: what its warps did, request by request, with the values that moved.
 *
 * A player draws it. A request is known when the logs of a warp's lanes have been put together (requests.c),
 * some time after its accesses; by then memory may hold something else. So each access notes its value at
 * once, in a queue of its thread, and a request takes the values of its lanes from the front of their queues.
 * A store is announced before it happens: its value is read when the same OS thread does anything else.
 *
 * Only one block is traced, so one OS thread writes here at a time. */
#include "../watch.h"
#include "recorder.h"
#include <stdlib.h>

/* The values of a thread's accesses that are not yet part of a request. */
struct values {
    unsigned first, count;
    unsigned owed; /* accesses that became part of a request before their value was noted */
    uint64_t value[LOG_ENTRIES];
};

static struct {
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
} trace;

int counted_trace(unsigned launch, unsigned long long block, unsigned long long most_events) {
    free(trace.events);
    free(trace.values);
    memset(&trace, 0, sizeof trace);
    if (most_events == 0)
        return 1;
    trace.launches_before = launch + 1;
    trace.block = block;
    trace.most = most_events;
    trace.events = malloc(most_events * sizeof *trace.events);
    trace.values = calloc(SIM_MAX_BLOCK_THREADS, sizeof *trace.values);
    trace.is_on = trace.events && trace.values;
    return trace.is_on;
}

unsigned long long counted_event_count(void) {
    return trace.count;
}

unsigned long long counted_events_missed(void) {
    return trace.missed;
}

const counted_event *counted_event_at(unsigned long long index) {
    return index < trace.count ? &trace.events[index] : NULL;
}

const counted_place *counted_place_at(unsigned index) {
    return index < trace.place_count ? &trace.places[index] : NULL;
}

dim3 counted_traced_block(void) {
    return trace.block_size;
}

void trace_begin_launch(const struct sim_launch *launch) {
    trace.is_this_launch = trace.is_on && trace.launches_before > 0 && --trace.launches_before == 0;
    if (trace.is_this_launch)
        trace.block_size = launch->block;
}

bool trace_begin_block(struct recorder *self) {
    return trace.is_this_launch && trace.block == self->block_number - 1;
}

static uint64_t value_at(const void *memory, unsigned bytes) {
    uint64_t value = 0;
    memcpy(&value, memory, bytes < sizeof value ? bytes : sizeof value);
    return value;
}

void trace_settle(void) {
    if (trace.stored)
        *trace.stored_value = value_at(trace.stored, trace.stored_bytes);
    trace.stored = NULL;
}

void trace_access(struct recorder *self, uintptr_t address, unsigned bytes, counted_operation operation) {
    trace_settle();
    struct values *values = &trace.values[self->thread];
    if (values->owed > 0) {
        values->owed--;
        return;
    }
    uint64_t *value = &values->value[(values->first + values->count++) % LOG_ENTRIES];
    *value = value_at((const void *)address, bytes);
    if (operation != COUNTED_LOAD) {
        trace.stored = (const void *)address;
        trace.stored_bytes = bytes;
        trace.stored_value = value;
    }
}

static counted_event *new_event(counted_event_kind kind, unsigned warp, unsigned lanes) {
    if (trace.count == trace.most) {
        trace.missed++;
        return NULL;
    }
    counted_event *event = &trace.events[trace.count++];
    *event = (counted_event){.kind = kind, .warp = warp, .lanes = lanes};
    return event;
}

static unsigned number_of_place(const struct place *place) {
    unsigned number = 0;
    while (number < trace.place_count && trace.places[number].begin != place->begin)
        number++;
    if (number == trace.place_count && number < MOST_PLACES) {
        counted_place *copy = &trace.places[trace.place_count++];
        copy->begin = place->begin;
        copy->bytes = place->end - place->begin;
        copy->element_bytes = place->element_bytes;
        copy->space = place->space;
        snprintf(copy->name, sizeof copy->name, "%s", place->name);
    }
    return number;
}

void trace_request(unsigned warp, const struct site *site, const uintptr_t *addresses, unsigned lanes) {
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
        struct values *values = &trace.values[warp * SIM_WARP_THREADS + lane];
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
        if (trace.stored && trace.stored_value == &values->value[values->first])
            trace.stored = NULL;
        values->first = (values->first + 1) % LOG_ENTRIES;
        values->count--;
    }
}

void trace_event(counted_event_kind kind, unsigned warp, unsigned lanes) {
    new_event(kind, warp, lanes);
}
