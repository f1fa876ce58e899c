/* What an OS thread that makes launches allows, asks for and gets. Each OS thread has its own session, so
 * several may count and check at the same time. Launches themselves run one after another, each with the
 * session of its caller. */
#include "recorder.h"
#include <pthread.h>
#include <stdlib.h>

enum { MOST_WARNINGS = 64 };

struct session {
    struct place arguments[MOST_PLACES / 2];
    unsigned argument_count;
    bool counts_nothing; /* only faults are looked for */
    bool keeps_warps;
    unsigned long long sampled_l1_bytes; /* 0: no sample */
    bool fills;                          /* shared memory that nobody has written, with */
    unsigned char filler;
    struct counted_gpu gpu;
    counted_launch *launches;
    unsigned launch_count;
    unsigned launch_capacity;
    sim_report warnings[MOST_WARNINGS];
    unsigned warning_count;
    struct trace *trace; /* NULL: none was ever asked for */
};

struct session *session_now;
static pthread_key_t key; /* frees a session when its OS thread ends */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Thread_local struct session *own_session;

static void free_session(void *memory) {
    own_session = memory;
    counted_clear();
    free(own_session->launches);
    trace_free(own_session->trace);
    free(own_session);
    own_session = NULL;
}

static void make_key(void) {
    pthread_key_create(&key, free_session);
}

struct session *session_of_caller(void) {
    pthread_once(&once, make_key);
    if (!own_session && (own_session = calloc(1, sizeof *own_session))) {
        own_session->gpu = (struct counted_gpu){132, 50ull << 20};
        pthread_setspecific(key, own_session);
    }
    return own_session;
}

struct trace **session_trace(void) {
    struct session *self = session_of_caller();
    return self ? &self->trace : NULL;
}

/* ---- What the caller says ---- */

void counted_allow(const void *memory, unsigned long long bytes, unsigned element_bytes, const char *name) {
    struct session *self = session_of_caller();
    if (!self || self->argument_count == MOST_PLACES / 2 || bytes == 0)
        return;
    struct place *place = &self->arguments[self->argument_count++];
    *place = (struct place){.begin = (uintptr_t)memory,
                            .end = (uintptr_t)memory + bytes,
                            .space = COUNTED_GLOBAL,
                            .element_bytes = element_bytes};
    snprintf(place->name, sizeof place->name, "%s", name);
}

void counted_unwritten(unsigned char *written) {
    struct session *self = session_of_caller();
    if (self && self->argument_count > 0)
        self->arguments[self->argument_count - 1].written = written;
}

void counted_forbid_all(void) {
    struct session *self = session_of_caller();
    if (self)
        self->argument_count = 0;
}

void counted_keep_warps(int keep) {
    struct session *self = session_of_caller();
    if (self)
        self->keeps_warps = keep;
}

void counted_sample(unsigned long long l1_bytes) {
    struct session *self = session_of_caller();
    if (self)
        self->sampled_l1_bytes = l1_bytes;
}

void counted_only_check(int only) {
    struct session *self = session_of_caller();
    if (self)
        self->counts_nothing = only;
}

void counted_fill_unwritten(int byte) {
    struct session *self = session_of_caller();
    if (self) {
        self->fills = byte >= 0;
        self->filler = (unsigned char)byte;
    }
}

void counted_set_gpu(unsigned multiprocessors, unsigned long long l2_bytes) {
    struct session *self = session_of_caller();
    if (self)
        self->gpu = (struct counted_gpu){multiprocessors, l2_bytes};
}

/* ---- What the running launch asks ---- */

unsigned argument_count(void) {
    return session_now->argument_count;
}

struct place *argument_at(unsigned index) {
    return &session_now->arguments[index];
}

bool session_counts(void) {
    return !session_now->counts_nothing;
}

bool session_fills(unsigned char *filler) {
    *filler = session_now->filler;
    return session_now->fills;
}

unsigned long long session_sampled_l1_bytes(void) {
    return session_now->sampled_l1_bytes;
}

bool session_keeps_warps(void) {
    return session_now->keeps_warps;
}

struct counted_gpu session_gpu(void) {
    return session_now->gpu;
}

/* ---- Results ---- */

unsigned counted_launch_count(void) {
    struct session *self = session_of_caller();
    return self ? self->launch_count : 0;
}

const counted_launch *counted_launch_at(unsigned index) {
    return index < counted_launch_count() ? &own_session->launches[index] : NULL;
}

static void free_launch(const counted_launch *launch) {
    free((void *)launch->instructions);
    sample_free_results(launch);
    free((void *)launch->warps);
}

void counted_clear(void) {
    struct session *self = session_of_caller();
    for (unsigned i = 0; self && i < self->launch_count; i++)
        free_launch(&self->launches[i]);
    if (self)
        self->launch_count = self->warning_count = 0;
}

void session_keep_launch(const counted_launch *launch) {
    enum { FIRST_CAPACITY = 16 };
    struct session *self = session_now;
    if (self->launch_count == self->launch_capacity) {
        unsigned capacity = self->launch_capacity ? 2 * self->launch_capacity : FIRST_CAPACITY;
        counted_launch *larger = realloc(self->launches, capacity * sizeof *larger);
        if (!larger) {
            free_launch(launch);
            return;
        }
        self->launches = larger;
        self->launch_capacity = capacity;
    }
    self->launches[self->launch_count++] = *launch;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* One for each pair of instructions. */
void session_warn(const sim_report *warning) {
    struct session *self = session_now;
    pthread_mutex_lock(&mutex);
    unsigned i = 0;
    while (i < self->warning_count &&
           (self->warnings[i].pc != warning->pc || self->warnings[i].other_pc != warning->other_pc))
        i++;
    if (i == self->warning_count && i < MOST_WARNINGS)
        self->warnings[self->warning_count++] = *warning;
    pthread_mutex_unlock(&mutex);
}

unsigned counted_warning_count(void) {
    struct session *self = session_of_caller();
    return self ? self->warning_count : 0;
}

const sim_report *counted_warning_at(unsigned index) {
    return index < counted_warning_count() ? &own_session->warnings[index] : NULL;
}
