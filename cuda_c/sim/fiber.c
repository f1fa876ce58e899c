/* Fibers: stacks from mmap with a guard page below and one above, and the switch between them in assembly for
 * x86-64 and AArch64. Elsewhere (or with -DSIM_UCONTEXT) POSIX's swapcontext does it, some ten times slower.
 */
#define _GNU_SOURCE
#include "fiber.h"
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ASAN 1
#endif
#endif
#ifdef HAS_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if !defined(SIM_UCONTEXT) && !defined(__x86_64__) && !defined(__aarch64__)
#define SIM_UCONTEXT
#endif

/* ---- The switch ---- */

#ifdef SIM_UCONTEXT

#include <ucontext.h>

static void switch_stack(void **save, void *load) {
    ucontext_t here; /* lives on the stack that is left, just as the saved registers do elsewhere */
    *save = &here;
    swapcontext(&here, load);
}

static void *prepare_stack(unsigned char *stack, unsigned char *top, void (*body)(void)) {
    ucontext_t *context = (ucontext_t *)((uintptr_t)(top - sizeof *context) & ~(uintptr_t)63);
    getcontext(context);
    context->uc_stack.ss_sp = stack;
    context->uc_stack.ss_size = (size_t)((unsigned char *)context - stack);
    context->uc_link = NULL;
    makecontext(context, body, 0);
    return context;
}

#else

/* Pushes the registers that a callee must preserve, stores the stack pointer in *save, takes the stack
 * pointer `load`, and pops that stack's registers. The floating-point control words are not switched:
 * kernels do not change them. */
void switch_stack(void **save, void *load) __asm__("sim_switch_stack");

#if defined(__x86_64__)

__asm__(".text\n"
        ".p2align 4\n"
        "sim_switch_stack:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    popq %rcx\n"   /* a jump is predicted by its last target; */
        "    jmp *%rcx\n"); /* a return would be predicted by the last call, always wrongly */

enum { SAVED_WORDS = 8, RETURN_ADDRESS_WORD = 6 }; /* six registers, body, and body's (no) caller */

#else

__asm__(".text\n"
        ".p2align 4\n"
        "sim_switch_stack:\n"
        "    stp x29, x30, [sp, #-160]!\n"
        "    stp x19, x20, [sp, #16]\n"
        "    stp x21, x22, [sp, #32]\n"
        "    stp x23, x24, [sp, #48]\n"
        "    stp x25, x26, [sp, #64]\n"
        "    stp x27, x28, [sp, #80]\n"
        "    stp d8, d9, [sp, #96]\n"
        "    stp d10, d11, [sp, #112]\n"
        "    stp d12, d13, [sp, #128]\n"
        "    stp d14, d15, [sp, #144]\n"
        "    mov x9, sp\n"
        "    str x9, [x0]\n"
        "    mov sp, x1\n"
        "    ldp x19, x20, [sp, #16]\n"
        "    ldp x21, x22, [sp, #32]\n"
        "    ldp x23, x24, [sp, #48]\n"
        "    ldp x25, x26, [sp, #64]\n"
        "    ldp x27, x28, [sp, #80]\n"
        "    ldp d8, d9, [sp, #96]\n"
        "    ldp d10, d11, [sp, #112]\n"
        "    ldp d12, d13, [sp, #128]\n"
        "    ldp d14, d15, [sp, #144]\n"
        "    ldp x29, x30, [sp], #160\n"
        "    br x30\n");

enum { SAVED_WORDS = 20, RETURN_ADDRESS_WORD = 1 };

#endif

static void *prepare_stack(unsigned char *stack, unsigned char *top, void (*body)(void)) {
    (void)stack;
    void **words = (void **)top - SAVED_WORDS;
    memset(words, 0, SAVED_WORDS * sizeof *words);
    words[RETURN_ADDRESS_WORD] = (void *)(uintptr_t)body;
    return words;
}

#endif

#ifdef HAS_ASAN
static _Thread_local struct sim_fiber *left; /* the fiber that the latest switch came from */
#endif

void sim_fiber_switch(struct sim_fiber *from, struct sim_fiber *to) {
#ifdef HAS_ASAN
    left = from;
    __sanitizer_start_switch_fiber(&from->asan_fake_stack, to->stack, to->stack_bytes);
#endif
    switch_stack(&from->saved, to->saved);
#ifdef HAS_ASAN
    const void *stack;
    __sanitizer_finish_switch_fiber(from->asan_fake_stack, &stack, &left->stack_bytes);
    left->stack = (unsigned char *)stack;
#endif
}

void sim_fiber_entered(void) {
#ifdef HAS_ASAN
    const void *stack; /* tells the bounds of an OS thread's own stack, which nothing else knows */
    __sanitizer_finish_switch_fiber(NULL, &stack, &left->stack_bytes);
    left->stack = (unsigned char *)stack;
#endif
}

/* ---- Stacks ---- */

/* Pages that are never touched cost no memory, so this can be generous. */
enum { STACK_BYTES = 576 << 10 }; /* local memory, and what the simulator needs itself */

/* Guard pages split the mapping they are in, and Linux lets a process have 65,530 of those. On machines with
 * many cores the last stacks go without guards, so that the process is left with enough. */
enum { MOST_GUARDS = 8192 };
static atomic_int guards;

/* Stacks that all begin at the same place in a page would compete for the same few cache lines. */
enum { COLOUR_BYTES = 256, COLOURS = 16 };

void sim_fiber_reset(struct sim_fiber *fiber, void (*body)(void), unsigned number) {
#ifdef HAS_ASAN
    __asan_unpoison_memory_region(fiber->stack, fiber->stack_bytes);
    fiber->asan_fake_stack = NULL;
#endif
    unsigned char *top = fiber->stack + fiber->stack_bytes - number % COLOURS * COLOUR_BYTES;
    fiber->saved = prepare_stack(fiber->stack, top, body);
}

bool sim_fiber_create(struct sim_fiber *fiber, void (*body)(void), unsigned number) {
    size_t guard_bytes = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *mapping = mmap(NULL, guard_bytes + STACK_BYTES + guard_bytes, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED)
        return false;
    if (atomic_fetch_add(&guards, 1) < MOST_GUARDS) {
        mprotect(mapping, guard_bytes, PROT_NONE);
        mprotect(mapping + guard_bytes + STACK_BYTES, guard_bytes, PROT_NONE);
    }
    fiber->stack = mapping + guard_bytes;
    fiber->stack_bytes = STACK_BYTES;
    sim_fiber_reset(fiber, body, number);
    return true;
}

bool sim_fiber_overflows(const struct sim_fiber *fiber, uintptr_t address) {
    uintptr_t stack = (uintptr_t)fiber->stack;
    return address < stack && stack - address <= (uintptr_t)sysconf(_SC_PAGESIZE);
}

void sim_fiber_destroy(struct sim_fiber *fiber) {
    size_t guard_bytes = (size_t)sysconf(_SC_PAGESIZE);
#ifdef HAS_ASAN
    /* what its frames poisoned would stay so for whoever gets the pages next */
    __asan_unpoison_memory_region(fiber->stack, fiber->stack_bytes);
#endif
    munmap(fiber->stack - guard_bytes, guard_bytes + fiber->stack_bytes + guard_bytes);
    atomic_fetch_sub(&guards, 1);
}
