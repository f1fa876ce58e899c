/* Fibers: stacks in one range of addresses with room between them, and the switch between them in assembly
 * for x86-64 (fiber.h) and AArch64. Elsewhere (or with -DSIM_UCONTEXT) POSIX's swapcontext does it, some ten
 * times slower.
 */
#define _GNU_SOURCE
#include "fiber.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

/* ---- The switch ---- */

#ifdef SIM_UCONTEXT

#include <ucontext.h>

void sim_switch_stack(struct sim_fiber *from, struct sim_fiber *to) {
    ucontext_t here; /* lives on the stack that is left, just as the saved registers do elsewhere */
    from->saved = &here;
    swapcontext(&here, to->saved);
}

static void prepare(struct sim_fiber *fiber, unsigned char *top, void (*body)(void)) {
    ucontext_t *context = (ucontext_t *)((uintptr_t)(top - sizeof *context) & ~(uintptr_t)63);
    getcontext(context);
    context->uc_stack.ss_sp = fiber->stack;
    context->uc_stack.ss_size = (size_t)((unsigned char *)context - fiber->stack);
    context->uc_link = NULL;
    makecontext(context, body, 0);
    fiber->saved = context;
}

#elif defined(__x86_64__)

/* Prepares the stack as if body() had just been called, without a caller. */
static void prepare(struct sim_fiber *fiber, unsigned char *top, void (*body)(void)) {
    void **caller = (void **)(void *)top - 1;
    *caller = NULL;
    fiber->saved = caller;
    fiber->frame = NULL;
    fiber->goes_on = (void *)(uintptr_t)body;
}

#else

__asm__(".text\n"
        ".p2align 4\n"
        ".globl sim_switch_stack\n"
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
        "    ldr x9, [x1]\n"
        "    mov sp, x9\n"
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

static void prepare(struct sim_fiber *fiber, unsigned char *top, void (*body)(void)) {
    void **words = (void **)top - SAVED_WORDS;
    memset(words, 0, SAVED_WORDS * sizeof *words);
    words[RETURN_ADDRESS_WORD] = (void *)(uintptr_t)body;
    fiber->saved = words;
}

#endif

#ifdef __SANITIZE_ADDRESS__
static _Thread_local struct sim_fiber *left; /* the fiber that the latest switch came from */

void sim_fiber_switch(struct sim_fiber *from, struct sim_fiber *to) {
    left = from;
    __sanitizer_start_switch_fiber(&from->asan_fake_stack, to->stack, to->stack_bytes);
    sim_switch_stack(from, to);
    const void *stack;
    __sanitizer_finish_switch_fiber(from->asan_fake_stack, &stack, &left->stack_bytes);
    left->stack = (unsigned char *)stack;
}
#endif

void sim_fiber_entered(void) {
#ifdef __SANITIZE_ADDRESS__
    const void *stack; /* tells the bounds of an OS thread's own stack, which nothing else knows */
    __sanitizer_finish_switch_fiber(NULL, &stack, &left->stack_bytes);
    left->stack = (unsigned char *)stack;
#endif
}

/* ---- Stacks ---- */

/* Untouched pages cost no memory, so this can be generous. */
enum { STACK_BYTES = 576 << 10 }; /* local memory, and what the simulator needs itself */

/* Each stack has a slot of addresses; the rest of the slot is inaccessible: a guard below the stack and one
 * above. Guards split mappings, of which Linux allows a process 65,530. On machines with many cores the last
 * stacks have no guards, so that enough mappings remain. */
enum { SLOTS = 1 << (SIM_SLOTS_BITS - SIM_SLOT_BITS), MOST_GUARDED = 8192 };
_Static_assert(STACK_BYTES + SIM_STACK_SHIFTS * SIM_STACK_SHIFT_BYTES < 1 << SIM_SLOT_BITS,
               "room for a guard");
uintptr_t sim_slots = SIM_NO_SLOTS;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint32_t free_slots[SLOTS]; /* those that were given back */
static unsigned free_count, used_count;
static atomic_int guarded;

static void reserve_slots(void) {
    const size_t slot = (size_t)1 << SIM_SLOT_BITS;
    void *range =
        mmap(NULL, (SLOTS + 1) * slot, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED)
        return; /* each stack gets a mapping of its own */
    sim_slots = ((uintptr_t)range + slot - 1) & ~(uintptr_t)(slot - 1);
}

/* NULL: there is none left. */
static unsigned char *take_slot(void) {
    pthread_once(&once, reserve_slots);
    if (sim_slots == SIM_NO_SLOTS)
        return NULL;
    pthread_mutex_lock(&mutex);
    unsigned slot = free_count > 0 ? free_slots[--free_count] : used_count < SLOTS ? used_count++ : SLOTS;
    pthread_mutex_unlock(&mutex);
    return slot < SLOTS ? (unsigned char *)sim_slots + ((size_t)slot << SIM_SLOT_BITS) : NULL;
}

static void give_slot_back(uintptr_t address) {
    pthread_mutex_lock(&mutex);
    free_slots[free_count++] = (uint32_t)((address - sim_slots) >> SIM_SLOT_BITS);
    pthread_mutex_unlock(&mutex);
}

/* Stacks that begin at the same place in a page would compete for the same few cache lines. */
enum { COLOUR_BYTES = 256, COLOURS = 16, NOTE_BYTES = 64 };

void sim_fiber_reset(struct sim_fiber *fiber, void (*body)(void), unsigned number) {
#ifdef __SANITIZE_ADDRESS__
    __asan_unpoison_memory_region(fiber->stack, fiber->stack_bytes);
    fiber->asan_fake_stack = NULL;
#endif
    unsigned char *top = fiber->stack + fiber->stack_bytes - NOTE_BYTES - number % COLOURS * COLOUR_BYTES;
    fiber->kernel_top = NULL; /* with the note, which a fault may have written over */
    prepare(fiber, top, body);
}

/* The whole mapping of a stack, which has no other. */
static unsigned char *mapping_of(const struct sim_fiber *fiber, size_t *bytes) {
    uintptr_t stack = (uintptr_t)fiber->stack, page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    if (sim_is_in_slot(stack)) {
        *bytes = (size_t)1 << SIM_SLOT_BITS;
        return (unsigned char *)(stack >> SIM_SLOT_BITS << SIM_SLOT_BITS);
    }
    *bytes = page_bytes + STACK_BYTES + page_bytes;
    return fiber->stack - page_bytes;
}

bool sim_fiber_create(struct sim_fiber *fiber, void (*body)(void), unsigned number) {
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE), bytes;
    unsigned char *slot = take_slot();
    if (slot) {
        fiber->stack = (unsigned char *)sim_slot_top((uintptr_t)slot) - STACK_BYTES;
    } else {
        void *mapping = mmap(NULL, page_bytes + STACK_BYTES + page_bytes, PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (mapping == MAP_FAILED)
            return false;
        fiber->stack = (unsigned char *)mapping + page_bytes;
    }
    bool has_guards = atomic_fetch_add(&guarded, 1) < MOST_GUARDED;
    unsigned char *first = has_guards ? fiber->stack : mapping_of(fiber, &bytes);
    if (mprotect(first, has_guards ? STACK_BYTES : bytes, PROT_READ | PROT_WRITE) != 0) {
        sim_fiber_destroy(fiber);
        return false;
    }
    fiber->stack_bytes = STACK_BYTES;
    sim_fiber_reset(fiber, body, number);
    return true;
}

bool sim_fiber_overflows(const struct sim_fiber *fiber, uintptr_t address) {
    uintptr_t stack = (uintptr_t)fiber->stack;
    return address < stack && stack - address <= (uintptr_t)sysconf(_SC_PAGESIZE);
}

void sim_fiber_destroy(struct sim_fiber *fiber) {
#ifdef __SANITIZE_ADDRESS__
    /* otherwise the next owner of the pages would find them poisoned by its frames */
    __asan_unpoison_memory_region(fiber->stack, fiber->stack_bytes);
#endif
    size_t bytes;
    unsigned char *mapping = mapping_of(fiber, &bytes);
    bool is_slot = sim_is_in_slot((uintptr_t)mapping);
    atomic_fetch_sub(&guarded, 1);
    if (!is_slot) {
        munmap(mapping, bytes);
        return;
    }
    mmap(mapping, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    give_slot_back((uintptr_t)mapping);
}
