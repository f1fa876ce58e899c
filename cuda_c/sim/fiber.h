/* A fiber: a stack of its own, and the registers that it left there when it last switched away.
 *
 * Switching is a function call that returns on another stack. It costs a few nanoseconds, because only
 * the registers that a C function must preserve are saved. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim_fiber {
    void *saved;          /* where the registers are while it does not run */
    unsigned char *stack; /* its lowest usable address */
    size_t stack_bytes;
    const void *kernel_top; /* a kernel's own frames are below */
    void *asan_fake_stack;  /* AddressSanitizer's, while it does not run */
};

/* Gives a fiber its stack and sets it up to call body(), which never returns, when it is first switched to.
 * `number` spreads the stacks over the cache. False when there is no memory. */
bool sim_fiber_create(struct sim_fiber *fiber, void (*body)(void), unsigned number);
/* Forgets what the fiber was doing: its next switch calls body() anew. */
void sim_fiber_reset(struct sim_fiber *fiber, void (*body)(void), unsigned number);
void sim_fiber_destroy(struct sim_fiber *fiber);
/* Whether the address is in the guard page: a function was called, or has local arrays, for which the stack
 * has no room. */
bool sim_fiber_overflows(const struct sim_fiber *fiber, uintptr_t address);

/* Leaves `from`, the running fiber (or an OS thread's own stack), for `to`; returns when switched back. */
void sim_fiber_switch(struct sim_fiber *from, struct sim_fiber *to);
/* What body() must do first. */
void sim_fiber_entered(void);
