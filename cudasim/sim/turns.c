/* Turns of threads that wait in loops of their own: for a flag, a lock or a counter that others change.
 *
 * On a GPU the other threads make progress meanwhile. Here a thread whose turn has become long gives its OS
 * thread to the other threads of its block, and where these wait as well, one more OS thread runs blocks that
 * have not started (sim_yield, sim_start_more_blocks). The counted build measures a turn by what the thread
 * does (counted/access.c), the plain build by time: one OS thread for all launches looks at the clock. */
#define _GNU_SOURCE
#include "machine.h"
#include <pthread.h>
#include <signal.h>
#include <time.h>

#ifdef SIM_COUNTED

void sim_turns_begin(void) {}
void sim_turns_end(void) {}

#else

/* All threads look up while the notice lasts, which costs time. An OS thread that the system lets wait
 * meanwhile takes the next notice. */
enum { TURN_MICROSECONDS = 10000, NOTICE_MICROSECONDS = 200 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t launched = PTHREAD_COND_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool is_running, is_waiting, has_clock;
static atomic_uint turn;
static _Thread_local unsigned last_turn;

static void sleep_for(long microseconds) {
    enum { NANOSECONDS = 1000 };
    nanosleep(&(struct timespec){.tv_nsec = microseconds * NANOSECONDS}, NULL);
}

static void *look_at_clock(void *unused) {
    (void)unused;
    for (;;) {
        pthread_mutex_lock(&mutex);
        is_waiting = true;
        while (!is_running)
            pthread_cond_wait(&launched, &mutex);
        is_waiting = false;
        pthread_mutex_unlock(&mutex);
        sleep_for(TURN_MICROSECONDS);
        atomic_fetch_add(&turn, 1);
        atomic_fetch_or(&sim_notice, SIM_TURNS_ARE_LONG);
        sleep_for(NOTICE_MICROSECONDS);
        atomic_fetch_and(&sim_notice, ~(unsigned)SIM_TURNS_ARE_LONG);
    }
    return NULL;
}

/* A child of a fork has one thread only. */
static void start_anew_in_child(void) {
    pthread_mutex_init(&mutex, NULL);
    pthread_cond_init(&launched, NULL);
    is_running = is_waiting = has_clock = false;
    atomic_fetch_and(&sim_notice, ~(unsigned)SIM_TURNS_ARE_LONG);
}

static void set_up(void) {
    pthread_atfork(NULL, NULL, start_anew_in_child);
}

static void make_clock(void) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    has_clock = pthread_create(&thread, NULL, look_at_clock, NULL) == 0;
    if (has_clock)
        pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void sim_turns_begin(void) {
    pthread_once(&once, set_up);
    pthread_mutex_lock(&mutex);
    if (!has_clock)
        make_clock();
    is_running = true;
    if (is_waiting)
        pthread_cond_signal(&launched);
    pthread_mutex_unlock(&mutex);
}

void sim_turns_end(void) {
    pthread_mutex_lock(&mutex);
    is_running = false;
    pthread_mutex_unlock(&mutex);
}

static __attribute__((noinline)) void look_up(void) {
    if (!sim_is_in_kernel())
        return; /* code that runs when a library is loaded has branches, too */
    if (sim_is_stopping())
        sim_block_abandon();
    unsigned now = atomic_load(&turn);
    if (last_turn != now) {
        last_turn = now;
        sim_end_turn();
    }
}

/* Kernels in C++ are compiled with -fsanitize-coverage=trace-pc, which calls this at every branch: a loop
 * without an end is a common mistake there, and it must not cost the notebook. */
void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void) {
    if (__builtin_expect(atomic_load_explicit(&sim_notice, memory_order_relaxed) != 0, false))
        look_up();
}

#endif
