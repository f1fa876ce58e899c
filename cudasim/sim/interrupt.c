/* Interrupts: from a signal, and inside a loop that never waits. */
#define _GNU_SOURCE
#include "interrupt.h"
#include "machine.h"
#include <pthread.h>
#include <signal.h>

static struct sigaction program_action;
static pthread_t catcher;
static unsigned depth;
static int caught; /* 0: none */

static void interrupt(int number, siginfo_t *info, void *context) {
    /* The operating system delivers a signal of the process to any of its threads. */
    if (!pthread_equal(pthread_self(), catcher)) {
        pthread_kill(catcher, number);
        return;
    }
    sim_interrupt_this_thread();
    if (program_action.sa_flags & SA_SIGINFO)
        program_action.sa_sigaction(number, info, context);
    else
        program_action.sa_handler(number);
}

void sim_catch_signal(int number) {
    if (depth++ > 0 || sigaction(number, NULL, &program_action) != 0)
        return;
    catcher = pthread_self();
    sim_expect_interrupts(true);
    bool is_handled = (program_action.sa_flags & SA_SIGINFO) ||
                      (program_action.sa_handler != SIG_DFL && program_action.sa_handler != SIG_IGN);
    struct sigaction action = program_action;
    action.sa_sigaction = interrupt;
    action.sa_flags |= SA_SIGINFO;
    if (is_handled && sigaction(number, &action, NULL) == 0)
        caught = number;
}

void sim_release_signal(void) {
    if (--depth > 0)
        return;
    if (caught)
        sigaction(caught, &program_action, NULL);
    caught = 0;
    sim_expect_interrupts(false);
}
