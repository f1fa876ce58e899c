/* Workers: the OS threads that run blocks.
 *
 * The thread that launches is a worker too; the others are started when they are first needed and wait
 * for the next launch. All take blocks from one counter, a few at a time, until there are none left. */
#define _GNU_SOURCE
#include "crash.h"
#include "machine.h"
#include "watch.h"
#include <dlfcn.h>
#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>

_Thread_local struct sim_worker *sim_worker;
_Thread_local struct sim_registers sim_registers;

/* ---- What a worker does ---- */

static pthread_key_t worker_key; /* frees the worker when its OS thread ends */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void free_shared_memory(struct sim_worker *worker) {
    if (!worker->shared_space)
        free(worker->shared_memory);
    worker->shared_memory = NULL;
    worker->shared_memory_bytes = 0;
}

void sim_worker_free(struct sim_worker *worker) {
    sim_cluster_free(worker);
    if (WATCHED)
        watch_worker_ends(worker);
    for (unsigned i = 0; i < worker->fibers_made; i++)
        sim_fiber_destroy(&worker->fibers[i]);
    for (unsigned i = 0; i < SIM_MAX_BLOCK_THREADS; i++) {
        sim_free_copies(&worker->block.threads[i].copies);
        free(worker->block.threads[i].products.pending);
        sim_free_stores(&worker->block.threads[i].stores);
    }
    free_shared_memory(worker);
    sim_isolated_shared_free(worker);
    free(worker);
}

static void free_worker(void *memory) {
    sim_worker_free(memory);
}

struct sim_worker *sim_worker_create(void) {
    struct sim_worker *worker = aligned_alloc(_Alignof(struct sim_worker), sizeof *worker);
    if (worker) {
        memset(worker, 0, sizeof *worker);
        worker->registers = &sim_registers;
    }
    return worker;
}

static bool have_worker(void) {
    if (!sim_worker) {
        sim_worker = sim_worker_create();
        if (!sim_worker)
            return false;
        pthread_setspecific(worker_key, sim_worker);
    }
    return true;
}

enum { SHARED_ALIGNMENT = 1024 }; /* as on a GPU, where nothing is before it */

/* AddressSanitizer gets exactly the requested size from malloc(), so that it sees an access beyond. */
bool sim_worker_has_shared_memory(struct sim_worker *worker, size_t bytes) {
    if (worker->shared_memory_bytes == bytes)
        return true;
    free_shared_memory(worker);
    if (bytes == 0)
        return true;
#ifndef __SANITIZE_ADDRESS__
    size_t whole = (bytes + SHARED_ALIGNMENT - 1) / SHARED_ALIGNMENT * SHARED_ALIGNMENT;
    worker->shared_memory = sim_isolated_shared(worker, whole);
#endif
    void *memory = NULL;
    if (!worker->shared_memory && posix_memalign(&memory, SHARED_ALIGNMENT, bytes) == 0)
        worker->shared_memory = memory;
    if (worker->shared_memory)
        worker->shared_memory_bytes = bytes;
    return worker->shared_memory != NULL;
}

uint3 sim_index_of_block(uint64_t number) {
    dim3 grid = sim_launch_now.grid;
    uint64_t row = number / grid.x;
    return (uint3){(unsigned)(number % grid.x), (unsigned)(row % grid.y), (unsigned)(row / grid.y)};
}

/* Spare: blocks that a worker has given back, because its own block waits for later ones. */
enum { MOST_SPARE = 256, MOST_HELPERS = 1024 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct sim_range spare[MOST_SPARE];
static atomic_uint spare_count;

static struct sim_range take_spare(void) {
    struct sim_range range = {0, 0};
    pthread_mutex_lock(&mutex);
    if (spare_count > 0)
        range = spare[--spare_count];
    pthread_mutex_unlock(&mutex);
    return range;
}

/* An empty range when there are no blocks left. */
static struct sim_range take_blocks(struct sim_launch *launch) {
    if (atomic_load(&spare_count) > 0) {
        struct sim_range range = take_spare();
        if (range.next < range.end)
            return range;
    }
    uint64_t number = atomic_fetch_add(&launch->next_block, launch->blocks_at_a_time);
    uint64_t end = number + launch->blocks_at_a_time;
    return (struct sim_range){number, end < launch->blocks ? end : launch->blocks};
}

static void run_blocks(void) {
    struct sim_launch *launch = &sim_launch_now;
    if (!have_worker() || !sim_worker_has_shared_memory(sim_worker, launch->dynamic_shared_bytes) ||
        (WATCHED && sim_worker->launch != launch->number && !watch_worker_begins(sim_worker))) {
        sim_report_no_memory();
        return;
    }
    sim_worker->launch = launch->number; /* in which it may begin more than once */
    sim_have_signal_stack();
    struct sim_worker *worker = sim_worker;
    worker->registers->sim_shared_memory = worker->shared_memory;
    worker->registers->sim_block_size = launch->block;
    worker->registers->sim_grid_size = launch->grid;
    fenv_t of_caller; /* who may round upwards or flush small numbers to zero: a kernel does neither */
    fegetenv(&of_caller);
    fesetenv(FE_DFL_ENV);
    atomic_fetch_add(&launch->running, 1);
    sim_turns_join(worker);
    for (worker->range = take_blocks(launch); worker->range.next < worker->range.end;) {
        uint64_t place = worker->range.next, number = launch->chosen ? launch->chosen[place] : place;
        worker->range.next += launch->cluster;
        if (sim_is_stopping() || !sim_cluster_run(worker, number)) {
            atomic_store(&launch->cut_short, true);
            break;
        }
        if (worker->range.next >= worker->range.end)
            worker->range = take_blocks(launch);
    }
    sim_turns_leave(worker);
    atomic_fetch_sub(&launch->running, 1);
    fesetenv(&of_caller);
}

/* ---- The helpers ---- */

static pthread_cond_t work_offered = PTHREAD_COND_INITIALIZER;
static pthread_cond_t work_ended = PTHREAD_COND_INITIALIZER;
static unsigned helpers_made;
static unsigned offers;  /* for helpers to take up */
static unsigned helping; /* helpers that have taken one up and not finished */

static void *help_forever(void *unused) {
    (void)unused;
    pthread_mutex_lock(&mutex);
    for (;;) {
        while (offers == 0)
            pthread_cond_wait(&work_offered, &mutex);
        offers--;
        helping++;
        pthread_mutex_unlock(&mutex);
        run_blocks();
        pthread_mutex_lock(&mutex);
        if (--helping == 0)
            pthread_cond_signal(&work_ended);
    }
    return NULL;
}

/* A helper blocks signals, which are for the threads of the program. But the signals by which the processor
 * refuses a kernel's action have to come to its own thread; otherwise they end the process. */
static void make_helpers(unsigned wanted) {
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGSEGV);
    sigdelset(&all, SIGBUS);
    sigdelset(&all, SIGFPE);
    sigdelset(&all, SIGILL);
    sigdelset(&all, SIGTRAP);
    sigdelset(&all, SIGURG); /* of turns.c */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (helpers_made < wanted) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, help_forever, NULL) != 0)
            break; /* fewer will do */
        pthread_detach(thread);
        helpers_made++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void sim_start_more_blocks(void) {
    struct sim_worker *worker = sim_worker;
    struct sim_launch *launch = &sim_launch_now;
    if (launch->cluster > 1)
        return;
    if (WATCHED)
        watch_more_workers();
    bool too_many = false;
    pthread_mutex_lock(&mutex);
    if (worker->range.next < worker->range.end && spare_count < MOST_SPARE) {
        spare[spare_count++] = worker->range;
        worker->range.next = worker->range.end;
    }
    bool any = spare_count > 0 || atomic_load(&launch->next_block) < launch->blocks;
    if (any && offers == 0) {
        too_many = helping == MOST_HELPERS;
        if (helping == helpers_made)
            make_helpers(helping + 1);
        offers++;
        pthread_cond_signal(&work_offered);
    }
    pthread_mutex_unlock(&mutex);
    if (too_many)
        sim_report_call(
            SIM_DEADLOCK, NULL,
            "waits for another block, as do %d blocks, which is as many as the simulator runs at a "
            "time, and %llu blocks have not started",
            MOST_HELPERS + 1, (unsigned long long)(launch->blocks - launch->next_block));
    if (WATCHED)
        watch_block_waits(any);
    sched_yield();
}

/* After a fork the child has only the thread that forked: none of the helpers, and perhaps a mutex that
 * one of them held. */
static void start_anew_in_child(void) {
    pthread_mutex_init(&mutex, NULL);
    pthread_cond_init(&work_offered, NULL);
    pthread_cond_init(&work_ended, NULL);
    helpers_made = offers = helping = spare_count = 0;
}

/* Threads that never end run this library's code, even after the program has closed it: so it stays
   loaded. */
static void stay_loaded(void) {
    Dl_info library;
    if (dladdr((void *)(uintptr_t)stay_loaded, &library))
        dlopen(library.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

static void set_up(void) {
    stay_loaded();
    pthread_key_create(&worker_key, free_worker);
    pthread_atfork(NULL, NULL, start_anew_in_child);
}

void sim_run_all_blocks(unsigned workers) {
    pthread_once(&once, set_up);
    unsigned helpers = workers - 1;
    pthread_mutex_lock(&mutex);
    make_helpers(helpers);
    spare_count = 0;
    offers = helpers;
    for (unsigned i = 0; i < helpers; i++)
        pthread_cond_signal(&work_offered);
    pthread_mutex_unlock(&mutex);

    run_blocks();

    pthread_mutex_lock(&mutex);
    offers = 0; /* no blocks are left for a helper that has not woken up yet */
    while (helping > 0)
        pthread_cond_wait(&work_ended, &mutex);
    pthread_mutex_unlock(&mutex);
}
