/* A launch in the counted build: what is set up for it, what each OS thread hands in, and the result.
 *
 * An instruction gets its number, the same for all OS threads, when one of them first meets it; each OS
 * thread counts for itself what the instructions do. */
#define _GNU_SOURCE
#include "../watch.h"
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
    free(self->places);
    free(self->sites);
    free(self->tallies);
    history_free(self);
    free(self->registers);
    order_free(&self->order);
    free(self->touches);
    free(self->warps);
    free(self);
}

static struct recorder *create_recorder(void) {
    struct recorder *self = aligned_alloc(_Alignof(struct recorder), sizeof *self);
    if (!self)
        return NULL;
    memset(self, 0, sizeof *self);
    self->places = calloc(MOST_PLACES, sizeof *self->places);
    self->sites = calloc(MOST_SITES, sizeof *self->sites);
    self->tallies = calloc(MOST_INSTRUCTIONS, sizeof *self->tallies);
    if (!self->places || !self->sites || !self->tallies || !history_create(self) ||
        !order_create(&self->order)) {
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
    self->barriers = self->warp_operations = 0;
    self->tensor_copies = self->tensor_bytes = self->products = self->product_bytes = 0;
    self->tensor_stores = self->tensor_stored_bytes = 0;
    self->site_count = 1;
    memset(self->known, 0, sizeof self->known);
    self->counts = session_counts();
    self->warned_pc = 0;
    self->fills = session_fills(&self->filler);
    self->until_look = self->counts ? 0 : BASIC_BLOCKS_OF_A_LOOK;
    self->is_alone = is_alone;
    places_begin_launch(self);
    warps_begin_launch(self);
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

/* ---- Results ---- */

/* Takes what the OS threads have counted; their tallies are ready for the next launch afterwards. */
static counted_instruction *collect(counted_launch *result) {
    counted_instruction *counted = calloc(instruction_count ? instruction_count : 1, sizeof *counted);
    for (unsigned i = 0; counted && i < instruction_count; i++) {
        const struct instruction *instruction = &instructions[i];
        counted[i] = (counted_instruction){.pc = instruction->pc,
                                           .space = instruction->space,
                                           .operation = instruction->operation,
                                           .bytes = instruction->bytes};
        counted[i].library = sim_library_of(instruction->pc, &counted[i].offset);
    }
    pthread_mutex_lock(&mutex);
    for (struct recorder *self = all_recorders; self; self = self->next) {
        if (self->launch != launch_number)
            continue;
        result->barriers += self->barriers;
        result->warp_operations += self->warp_operations;
        result->tensor_copies += self->tensor_copies;
        result->tensor_stores += self->tensor_stores;
        result->tensor_stored_bytes += self->tensor_stored_bytes;
        result->tensor_bytes += self->tensor_bytes;
        result->products += self->products;
        result->product_bytes += self->product_bytes;
        for (unsigned i = 0; i < instruction_count; i++) {
            const struct tally *tally = &self->tallies[i];
            if (counted) {
                counted[i].requests += tally->requests;
                counted[i].threads += tally->threads;
                counted[i].addresses += tally->addresses;
                counted[i].sectors += tally->sectors;
                counted[i].wavefronts += tally->wavefronts;
                counted[i].phases += tally->phases;
            }
            self->tallies[i] = (struct tally){0};
        }
    }
    pthread_mutex_unlock(&mutex);
    return counted;
}

void watch_more_workers(void) {
    is_alone = recorder->is_alone = false;
}

bool watch_launch_begins(const struct sim_launch *launch) {
    session_now = session_of_caller();
    if (!session_now)
        return false;
    l2_begin_launch(launch);
    trace_begin_launch(launch);
    order_begin_launch(launch);
    spinning_begin_launch();
    launch_number++;
    instruction_count = 0;
    is_alone = launch->blocks == 1 || launch->workers == 1;
    return regions_begin_launch(session_counts());
}

void watch_launch_ends(const struct sim_launch *launch) {
    recorder = NULL;
    counted_launch result = {.kernel = launch->kernel,
                             .file = launch->file,
                             .grid = launch->grid,
                             .block = launch->block,
                             .dynamic_shared_bytes = launch->dynamic_shared_bytes};
    footprint_count(&result);
    l2_end_launch(all_recorders, &result);
    counted_instruction *counted = collect(&result);
    result.instructions = counted;
    result.instruction_count = counted ? instruction_count : 0;
    pthread_mutex_lock(&mutex);
    warps_end_launch(all_recorders, launch_number, &result);
    for (struct recorder *self = all_recorders; self; self = self->next)
        if (self->launch == launch_number)
            clock_free_all(&self->order.memory);
    pthread_mutex_unlock(&mutex);
    order_end_launch();
    regions_end_launch();
    if (session_now && session_counts() && !launch->reported && !launch->cut_short) {
        session_keep_launch(&result);
    } else {
        free(counted);
        free((void *)result.warps);
    }
}
