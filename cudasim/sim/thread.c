/* What a thread does on its own: assert, trap, sleep, read the clock, convert 16-bit floats. */
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

float sim_float_of_half(uint16_t bits) {
    _Float16 half;
    memcpy(&half, &bits, sizeof half);
    return (float)half;
}

uint16_t sim_half_of_double(double value) {
    _Float16 half = (_Float16)value;
    uint16_t bits;
    memcpy(&bits, &half, sizeof bits);
    return bits;
}
