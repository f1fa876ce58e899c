/* A launch in the counted build: its preparation, what each OS thread hands in, and the result.
 *
 * An instruction gets its number, the same for all OS threads, when one of them first executes it. Each OS
 * thread keeps its own counts. */
#define _GNU_SOURCE
#include "../watch.h"
#include "accessed.h"
#include "recorder.h"
#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct recorder *all_recorders;
static uint64_t launch_number;
static bool is_alone; /* the launch has but one OS thread */

/* ---- Instructions ---- */

static struct instruction instructions[MOST_INSTRUCTIONS];
static unsigned instruction_count;

static unsigned instruction_index(const struct instruction *wanted) {
    pthread_mutex_lock(&mutex);
    unsigned index = 0;
    while (index < instruction_count &&
           (instructions[index].key != wanted->key || instructions[index].space != wanted->space))
        index++;
    if (index == instruction_count && index < MOST_INSTRUCTIONS - 1)
        instructions[instruction_count++] = *wanted;
    pthread_mutex_unlock(&mutex);
    return index;
}

const struct instruction *instruction_at(unsigned index) {
    return &instructions[index];
}

unsigned instructions_of_launch(void) {
    return instruction_count;
}

unsigned site_of(struct recorder *self, const struct instruction *instruction, struct place *place) {
    unsigned site = 1;
    while (site < self->site_count &&
           (self->sites[site].key != instruction->key || self->sites[site].place != place))
        site++;
    if (site == self->site_count && site < MOST_SITES - 1) {
        self->sites[site] = (struct site){instruction->key, place, instruction_index(instruction)};
        self->site_count++;
    }
    return site;
}

/* ---- Recorders ---- */

static void free_recorder(struct recorder *self) {
    pthread_mutex_lock(&mutex);
    struct recorder **link = &all_recorders;
    while (*link && *link != self)
        link = &(*link)->next;
    if (*link)
        *link = self->next;
    pthread_mutex_unlock(&mutex);
    free(self->sites);
    order_free(&self->order);
    history_free(&self->history);
    requests_free(&self->requests);
    warps_free(&self->warps);
    sample_free(&self->sample);
    l2_free(&self->l2);
    places_free(&self->places);
    registers_free(self->registers);
    free(self);
}

static struct recorder *create_recorder(void) {
    struct recorder *self = aligned_alloc(_Alignof(struct recorder), sizeof *self);
    if (!self)
        return NULL;
    memset(self, 0, sizeof *self);
    self->sites = calloc(MOST_SITES, sizeof *self->sites);
    if (!self->sites || !order_create(&self->order) || !history_create(&self->history) ||
        !requests_create(&self->requests) || !places_create(&self->places)) {
        free_recorder(self);
        return NULL;
    }
    pthread_mutex_lock(&mutex);
    self->next = all_recorders;
    all_recorders = self;
    pthread_mutex_unlock(&mutex);
    return self;
}

bool watch_worker_begins(struct sim_worker *worker) {
    struct recorder *self = worker->recorder;
    if (!self && !(self = worker->recorder = create_recorder())) /* kept from launch to launch */
        return false;
    self->worker = worker;
    self->launch = launch_number;
    self->site_count = 1;
    memset(self->known, 0, sizeof self->known);
    self->is_alone = is_alone;
    self->cells_tag = regions_tag();
    requests_worker_begins(self);
    warps_worker_begins(&self->warps);
    sample_worker_begins(&self->sample);
    history_worker_begins(self);
    places_worker_begins(self);
    recorder = self;
    return true;
}

void watch_worker_runs(struct sim_worker *worker) {
    recorder = worker->recorder;
}

void watch_worker_ends(struct sim_worker *worker) {
    if (worker->recorder)
        free_recorder(worker->recorder);
}

/* ---- Launches ---- */

unsigned counted_running(unsigned long long *pcs, unsigned most) {
    unsigned count = 0;
    pthread_mutex_lock(&mutex);
    for (struct recorder *self = all_recorders; self && count < most; self = self->next)
        if (self->launch == launch_number)
            pcs[count++] = atomic_load_explicit(&self->at, memory_order_relaxed);
    pthread_mutex_unlock(&mutex);
    return count;
}

void watch_more_workers(void) {
    is_alone = recorder->is_alone = false;
}

bool watch_launch_begins(const struct sim_launch *launch) {
    session_now = session_of_caller();
    if (!session_now)
        return false;
    l2_launch_begins(launch);
    trace_launch_begins(launch);
    order_begin_launch(launch);
    spinning_launch_begins();
    launch_number++;
    instruction_count = 0;
    is_alone = launch->blocks == 1 || launch->workers == 1;
    bool has_memory = regions_launch_begins(session_counts());
    history_launch_begins();
    return has_memory;
}

void watch_launch_ends(const struct sim_launch *launch) {
    recorder = NULL;
    counted_launch result = {.kernel = launch->kernel,
                             .file = launch->file,
                             .grid = launch->grid,
                             .block = launch->block,
                             .dynamic_shared_bytes = launch->dynamic_shared_bytes};
    footprint_launch_ends(&result);
    accessed_launch_ends();
    pthread_mutex_lock(&mutex);
    l2_launch_ends(all_recorders, &result);
    counted_instruction *counted = requests_launch_ends(all_recorders, launch_number, &result);
    result.instructions = counted;
    result.instruction_count = counted ? instruction_count : 0;
    warps_launch_ends(all_recorders, launch_number, &result);
    sample_launch_ends(all_recorders, launch_number, &result);
    for (struct recorder *self = all_recorders; self; self = self->next)
        if (self->launch == launch_number)
            clock_free_all(&self->order.memory);
    pthread_mutex_unlock(&mutex);
    order_end_launch();
    regions_launch_ends(launch->reported || launch->cut_short);
    if (session_now && session_counts() && !launch->reported && !launch->cut_short) {
        session_keep_launch(&result);
    } else {
        free(counted);
        free((void *)result.warps);
        sample_free_results(&result);
    }
}
