/* What a thread does on its own: assert, trap, sleep, read the clock. */
#define _GNU_SOURCE
#include "machine.h"
#include <stdlib.h>
#include <time.h>

void sim_assertion_failed(const struct sim_site *site, const char *expression) {
    if (!sim_is_in_kernel()) { /* but in the host code of a program */
        fprintf(stderr, "%s:%d: assertion `%s' failed\n", site->file, site->line, expression);
        abort();
    }
    sim_report_call(SIM_ASSERTION, site, "finds assert(%s) to be false", expression);
}

void sim_trap(const struct sim_site *site) {
    sim_report_call(SIM_TRAP, site, "calls __trap()");
}

void sim_sleep(void) {
    sim_yield();
}

long long sim_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    enum { NANOSECONDS = 1000000000 };
    return (long long)now.tv_sec * NANOSECONDS + now.tv_nsec;
}
