/* A fiber: its own stack, and the registers that it left there when it last switched away.
 *
 * Switching is a function call that returns on another stack. It costs a few nanoseconds, because only
 * the registers that a C function must preserve are saved. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* gcc defines this macro in a build with AddressSanitizer; clang has a feature. */
#if defined(__has_feature) && !defined(__SANITIZE_ADDRESS__)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif

#if !defined(SIM_UCONTEXT) && !defined(__x86_64__) && !defined(__aarch64__)
#define SIM_UCONTEXT
#endif

struct sim_fiber {
    void *saved;          /* where the registers are while it does not run */
    void *frame;          /* on x86-64, the frame pointer then, */
    void *goes_on;        /* and the instruction at which it goes on */
    unsigned char *stack; /* its lowest usable address */
    size_t stack_bytes;
    const void *kernel_top; /* a kernel's own frames are below */
    void *asan_fake_stack;  /* AddressSanitizer's, while it does not run */
};

/* Gives a fiber its stack. The first switch to it calls body(), which never returns. `number` spreads the
 * stacks over the cache. Returns false without memory. */
bool sim_fiber_create(struct sim_fiber *fiber, void (*body)(void), unsigned number);
/* Forgets what the fiber was doing: its next switch calls body() anew. */
void sim_fiber_reset(struct sim_fiber *fiber, void (*body)(void), unsigned number);
void sim_fiber_destroy(struct sim_fiber *fiber);
/* Whether the address is in the guard page: the stack had no room for a called function or its local
 * arrays. */
bool sim_fiber_overflows(const struct sim_fiber *fiber, uintptr_t address);

/* The floating-point control words are not switched: kernels do not change them. */
#if defined(__x86_64__) && !defined(SIM_UCONTEXT)
#ifdef __AVX512F__
#define SIM_AVX512_REGISTERS                                                                                 \
    , "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26",     \
        "xmm27", "xmm28", "xmm29", "xmm30", "xmm31", "k1", "k2", "k3", "k4", "k5", "k6", "k7"
#else
#define SIM_AVX512_REGISTERS
#endif
/* The compiler saves its registers in the caller's frame, which exists anyway. Without a call here, calls and
 * returns match, and the processor predicts returns by calls: threads at one barrier all return to where the
 * thread before them has called. */
static inline __attribute__((always_inline)) void sim_switch_stack(struct sim_fiber *from,
                                                                   struct sim_fiber *to) {
    __asm__ volatile(
        "leaq 1f(%%rip), %%rax\n\t"
        "movq %%rsp, %c[saved](%[from])\n\t"
        "movq %%rbp, %c[frame](%[from])\n\t"
        "movq %%rax, %c[goes_on](%[from])\n\t"
        "movq %c[saved](%[to]), %%rsp\n\t"
        "movq %c[frame](%[to]), %%rbp\n\t"
        "jmp *%c[goes_on](%[to])\n"
        "1:"
        : [from] "+D"(from), [to] "+S"(to)
        : [saved] "i"(offsetof(struct sim_fiber, saved)), [frame] "i"(offsetof(struct sim_fiber, frame)),
          [goes_on] "i"(offsetof(struct sim_fiber, goes_on))
        : "memory", "cc", "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
          "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
          "xmm12", "xmm13", "xmm14", "xmm15" SIM_AVX512_REGISTERS);
}
#else
/* Pushes the registers that a callee must preserve, stores the stack pointer in from->saved, takes that of
 * to->saved, and pops that stack's registers. */
__attribute__((visibility("hidden"))) void sim_switch_stack(struct sim_fiber *from,
                                                            struct sim_fiber *to) __asm__("sim_switch_stack");
#endif
/* Leaves `from`, the running fiber (or an OS thread's own stack), for `to`; returns when switched back. A
 * frame between a kernel and the switch would cost more than the switch itself: each fiber's frame has left
 * the first cache when it returns. */
#ifdef __SANITIZE_ADDRESS__
void sim_fiber_switch(struct sim_fiber *from, struct sim_fiber *to);
#else
static inline void sim_fiber_switch(struct sim_fiber *from, struct sim_fiber *to) {
    sim_switch_stack(from, to);
}
#endif
/* body() must call this first. */
void sim_fiber_entered(void);

/* ---- What the running fiber's stack tells ---- */

/* Stacks are in slots of equal size, so that the stack pointer tells where a stack ends. A thread-local
 * variable would be slower: a library that is loaded late has to call a function for its address.
 * Neighbouring stacks end at different places in their slots; otherwise they would compete for the
 * processor's few TLB entries. */
enum { SIM_SLOT_BITS = 20, SIM_STACK_SHIFTS = 64, SIM_STACK_SHIFT_BYTES = 4096 };
enum { SIM_SLOTS_BITS = 36 };                                     /* of all slots together */
extern __attribute__((visibility("hidden"))) uintptr_t sim_slots; /* where they begin */
/* There are no slots, or none yet: a program has no address within 64 GiB from here. Zero is not possible,
 * because a process with few addresses has its stacks near there. */
#define SIM_NO_SLOTS ((uintptr_t)1 << 63)

static inline uintptr_t sim_stack_pointer(void) {
#if defined(__x86_64__)
    uintptr_t here;
    __asm__("mov %%rsp, %0" : "=r"(here));
    return here;
#else
    return (uintptr_t)__builtin_frame_address(0);
#endif
}
static inline bool sim_is_in_slot(uintptr_t address) {
    return (address - sim_slots) >> SIM_SLOTS_BITS == 0;
}

/* The end of the stack in whose slot `address` is. */
static inline uintptr_t sim_slot_top(uintptr_t address) {
    uintptr_t end = (address | (((uintptr_t)1 << SIM_SLOT_BITS) - 1)) + 1;
    return end - (address >> SIM_SLOT_BITS) % SIM_STACK_SHIFTS * SIM_STACK_SHIFT_BYTES;
}

/* A pointer at the end of a fiber's stack, for the code that runs the fiber. */
static inline void **sim_fiber_note(const struct sim_fiber *fiber) {
    return (void **)(uintptr_t)(fiber->stack + fiber->stack_bytes) - 1;
}
/* The same for the running fiber, whose stack has `address`; NULL: the address is in no slot. */
static inline void **sim_note_at(uintptr_t address) {
    return sim_is_in_slot(address) ? (void **)sim_slot_top(address) - 1 : NULL;
}
