/* One launch runs at a time: an OS thread that makes one waits until the others have ended. An interrupt of
 * an OS thread ends its launch, or its wait, and leaves the launches of the others alone. */
#define _GNU_SOURCE
#include "machine.h"
#include <pthread.h>
#include <signal.h>
#include <time.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t unlocked = PTHREAD_COND_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool is_taken;

/* The state of this OS thread. A signal handler on the same thread reads and writes it. */
static _Thread_local volatile sig_atomic_t has_lock;
static _Thread_local volatile sig_atomic_t is_interrupted;
static _Thread_local bool expects_interrupts;

/* For tables that OS threads share; it is held for a few instructions only. */
static pthread_mutex_t momentary = PTHREAD_MUTEX_INITIALIZER;

static void lock_momentary(void) {
    pthread_mutex_lock(&momentary);
}

void sim_unlock_for_a_moment(void) {
    pthread_mutex_unlock(&momentary);
}

/* A fork waits for the momentary mutex, so that its tables are whole in the child. The other mutex, and the
 * lock, may belong to a thread that the child does not have. */
static void start_anew_in_child(void) {
    pthread_mutex_init(&mutex, NULL);
    pthread_cond_init(&unlocked, NULL);
    is_taken = false;
    sim_unlock_for_a_moment();
}

static void set_up(void) {
    pthread_atfork(lock_momentary, sim_unlock_for_a_moment, start_anew_in_child);
}

void sim_lock_for_a_moment(void) {
    pthread_once(&once, set_up);
    lock_momentary();
}

/* For changes of what signals do, in all simulators of the process. */
static pthread_mutex_t *of_signals = &momentary;

void *sim_signals_lock(void) {
    pthread_once(&once, set_up);
    return of_signals;
}

void sim_use_signals_lock(void *lock) {
    of_signals = lock;
}

/* A signal handler must not wake a thread that waits on a condition, so such a thread polls.
 */
static void wait_for_lock(void) {
    enum { NANOSECONDS = 50000000, SECOND = 1000000000 };
    struct timespec until;
    if (!expects_interrupts) {
        pthread_cond_wait(&unlocked, &mutex);
        return;
    }
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += NANOSECONDS;
    until.tv_sec += until.tv_nsec / SECOND;
    until.tv_nsec %= SECOND;
    pthread_cond_timedwait(&unlocked, &mutex, &until);
}

bool sim_lock_launches(void) {
    pthread_once(&once, set_up);
    pthread_mutex_lock(&mutex);
    while (is_taken && !is_interrupted)
        wait_for_lock();
    bool is_mine = !is_interrupted;
    if (is_mine)
        is_taken = true;
    pthread_mutex_unlock(&mutex);
    if (!is_mine)
        return false;
    atomic_store(&sim_stops, false);
    has_lock = 1;
    if (is_interrupted) /* meanwhile, by a signal that saw no lock */
        sim_stop();
    return true;
}

void sim_unlock_launches(void) {
    has_lock = 0;
    pthread_mutex_lock(&mutex);
    is_taken = false;
    pthread_cond_signal(&unlocked);
    pthread_mutex_unlock(&mutex);
}

/* ---- Interrupts ---- */

void sim_interrupt(void) {
    sim_stop();
}

void sim_expect_interrupts(bool expect) {
    expects_interrupts = expect;
    is_interrupted = 0;
}

void sim_interrupt_this_thread(void) {
    is_interrupted = 1;
    if (has_lock)
        sim_stop();
}
