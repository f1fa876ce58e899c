/* Turns of threads that wait in loops of their own: for a flag, a lock or a counter that others change.
 *
 * On a GPU the other threads make progress meanwhile. Here a thread whose turn has become long gives its OS
 * thread to the other threads of its block, and where these wait as well, one more OS thread runs blocks that
 * have not started (sim_yield, sim_start_more_blocks). The counted build measures a turn by what the thread
 * does (counted/access.c), the plain build by time: one OS thread for all launches looks at the clock, and
 * interrupts those that run blocks by a signal. So a kernel's loops have nothing in them but its own work. */
#define _GNU_SOURCE
#include "crash.h"
#include "hopper/async.h"
#include "machine.h"
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#ifdef SIM_COUNTED

void sim_turns_begin(void) {}
void sim_turns_end(void) {}
void sim_turns_join(struct sim_worker *worker) {
    (void)worker;
}
void sim_turns_leave(struct sim_worker *worker) {
    (void)worker;
}

#else

/* A signal that finds its thread in the simulator's or the C library's code is repeated within a turn. By
 * default this one does nothing, so that it may come late. */
enum { TURN_SIGNAL = SIGURG, SIGNAL_MICROSECONDS = 2000, SIGNALS_PER_TURN = 5 };
/* Once threads of a block have had long turns, and none has got anywhere, turns are short for a while: where
 * hundreds wait for one that does not, a round of long ones takes seconds. */
enum { SHORT_MICROSECONDS = 200, SHORT_TURNS = 100 };
_Static_assert(SHORT_MICROSECONDS *SIM_PARTS_OF_LONG_TURN == SIGNAL_MICROSECONDS * SIGNALS_PER_TURN, "");
static atomic_int short_turns; /* to come */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t launched = PTHREAD_COND_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool is_running, is_waiting, has_clock;
static struct sim_worker *workers; /* that run blocks */
static atomic_uint turn;
static _Thread_local unsigned last_turn;
struct seen {
    uint3 block, thread;
    uint64_t launch;
};
_Static_assert(sizeof(struct seen) == 2 * sizeof(uint3) + sizeof(uint64_t), "there is nothing between");
static _Thread_local struct seen seen_last;
static struct sigaction action_before;

/* The code that kernels of the launch are in. */
static uintptr_t code_begin, code_end;

static void signal_workers(void) {
    pthread_mutex_lock(&mutex);
    for (struct sim_worker *worker = workers; worker; worker = worker->next_to_signal)
        pthread_kill(worker->os_thread, TURN_SIGNAL);
    pthread_mutex_unlock(&mutex);
}

static void *look_at_clock(void *unused) {
    (void)unused;
    for (unsigned signals = 1;; signals++) {
        pthread_mutex_lock(&mutex);
        is_waiting = true;
        while (!is_running)
            pthread_cond_wait(&launched, &mutex);
        is_waiting = false;
        pthread_mutex_unlock(&mutex);
        bool is_short = atomic_load(&short_turns) > 0;
        long microseconds = is_short ? SHORT_MICROSECONDS : SIGNAL_MICROSECONDS;
        nanosleep(&(struct timespec){.tv_nsec = microseconds * 1000}, NULL);
        if (is_short)
            atomic_fetch_sub(&short_turns, 1);
        if (is_short || signals % SIGNALS_PER_TURN == 0)
            atomic_fetch_add(&turn, 1);
        signal_workers();
    }
    return NULL;
}

/* Whether the signal before this one found the same thread: a turn is not over for one that has just begun.
 */
static bool is_seen_again(void) {
    struct seen now = {sim_registers.sim_block_index, sim_registers.sim_thread_index, sim_worker->launch};
    bool is_same = memcmp(&now, &seen_last, sizeof now) == 0;
    seen_last = now;
    return is_same;
}

static void look_up(void) {
    if (sim_is_stopping())
        sim_block_abandon();
    if (sim_registers.is_between ||
        sim_registers.is_blind) /* no thread is known that could give up its turn */
        return;
    unsigned now = atomic_load(&turn);
    bool is_short = atomic_load(&short_turns) > 0, has_been_long = is_seen_again() || is_short;
    if (last_turn != now && has_been_long) {
        last_turn = now;
        if (is_short || sim_worker->block.long_turns > SIM_PARTS_OF_LONG_TURN)
            atomic_store(&short_turns, SHORT_TURNS);
        sim_end_turn(is_short ? 1 : SIM_PARTS_OF_LONG_TURN);
    }
}

/* On the stack of the thread that runs, which goes on, with all its registers, when it is switched to again.
 * In a kernel's own code nobody has a lock, or a queue that is half changed. */
static void interrupt(int number, siginfo_t *info, void *context) {
    if (sim_instruction_of(context) - code_begin < code_end - code_begin && sim_is_in_kernel()) {
        int error = errno;
        look_up();
        errno = error;
    } else if (action_before.sa_flags & SA_SIGINFO) {
        action_before.sa_sigaction(number, info, context);
    } else if (action_before.sa_handler != SIG_DFL && action_before.sa_handler != SIG_IGN) {
        action_before.sa_handler(number);
    }
}

/* A child of a fork has one thread only. */
static void start_anew_in_child(void) {
    pthread_mutex_init(&mutex, NULL);
    pthread_cond_init(&launched, NULL);
    is_running = is_waiting = has_clock = false;
    workers = NULL;
}

static void set_up(void) {
    struct sigaction action = {.sa_sigaction = interrupt, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(TURN_SIGNAL, &action, &action_before);
    pthread_atfork(NULL, NULL, start_anew_in_child);
}

static int look_in_library(struct dl_phdr_info *library, size_t size, void *enter) {
    (void)size;
    if (!sim_library_has(library, (uintptr_t)enter))
        return 0;
    for (unsigned i = 0; i < library->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &library->dlpi_phdr[i];
        uintptr_t begin = library->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_LOAD && (uintptr_t)enter - begin < part->p_memsz)
            code_begin = begin, code_end = begin + part->p_memsz;
    }
    return 1;
}

/* Kernels in C, which are in the simulator's own library, have no turns. */
static void find_code(void) {
    uintptr_t enter = (uintptr_t)sim_launch_now.enter;
    if (enter - code_begin >= code_end - code_begin)
        dl_iterate_phdr(look_in_library, (void *)enter);
    if ((uintptr_t)find_code - code_begin < code_end - code_begin)
        code_end = code_begin;
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
    find_code();
    pthread_mutex_lock(&mutex);
    if (!has_clock)
        make_clock();
    is_running = true;
    if (is_waiting)
        pthread_cond_signal(&launched);
    pthread_mutex_unlock(&mutex);
}

void sim_turns_end(void) {
    atomic_store(&short_turns, 0);
    pthread_mutex_lock(&mutex);
    is_running = false;
    pthread_mutex_unlock(&mutex);
}

void sim_turns_join(struct sim_worker *worker) {
    pthread_mutex_lock(&mutex);
    worker->os_thread = pthread_self();
    worker->next_to_signal = workers;
    workers = worker;
    pthread_mutex_unlock(&mutex);
}

void sim_turns_leave(struct sim_worker *worker) {
    pthread_mutex_lock(&mutex);
    struct sim_worker **place = &workers;
    while (*place != worker)
        place = &(*place)->next_to_signal;
    *place = worker->next_to_signal;
    pthread_mutex_unlock(&mutex);
}

#endif
