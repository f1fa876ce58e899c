/* A crash of host code: usually it touches memory of the GPU, or memory that a kernel may still be using
 * (streams.c). The message tells which, and the signal ends the process, as it would have. */
#define _GNU_SOURCE
#include "program.h"
#include "../crash.h"
#include "../heap.h"
#include "../machine.h"
#include <execinfo.h>
#include <signal.h>
#include <ucontext.h>

const void *sim_program_address;
__thread const void *sim_program_frees;

static void describe(char *text, size_t room, const void *address) {
    const struct sim_allocation *freed = sim_program_frees ? sim_allocation_at(sim_program_frees) : NULL;
    if (freed) {
        snprintf(text, room, "the host code frees %s, which %s has given (%s:%d), by free() or delete: %s",
                 freed->called.name ? freed->called.name : "memory", freed->called.function,
                 freed->called.file, freed->called.line,
                 freed->kind == SIM_PINNED_MEMORY ? "cudaFreeHost() frees it" : "cudaFree() frees it");
        return;
    }
    const struct sim_allocation *of = sim_allocation_at(address);
    if (!of) {
        snprintf(text, room, "the host code accesses address %p, where no memory is", address);
        return;
    }
    const char *name = of->called.name ? of->called.name : "an allocation";
    long long byte = (const unsigned char *)address - of->begin;
    if (of->kind == SIM_DEVICE_MEMORY)
        snprintf(
            text, room,
            "the host code accesses byte %lld of %s, which is memory of the GPU (%s at %s:%d): copy it by "
            "cudaMemcpy()",
            byte, name, of->called.function, of->called.file, of->called.line);
    else
        snprintf(text, room,
                 "the host code accesses byte %lld of %s (%s at %s:%d) while %s may still %s it: nothing has "
                 "waited "
                 "for it, as cudaDeviceSynchronize() does",
                 byte, name, of->called.function, of->called.file, of->called.line,
                 of->uses ? of->uses->by : "a kernel",
                 of->uses && of->uses->writes ? "be writing to" : "be reading");
}

/* Whether the instruction is atomic: a kernel's atomics may access the same place
   (cuda::thread_scope_system). */
static bool is_atomic(const void *context) {
#if defined(__x86_64__)
    enum { LOCK = 0xf0, OPERANDS_OF_16_BITS = 0x66, REX = 0x40, XCHG = 0x86 };
    const unsigned char *at =
        (const unsigned char *)(uintptr_t)((const ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    at += *at == OPERANDS_OF_16_BITS;
    if (*at == LOCK)
        return true;
    at += (*at & 0xf0) == REX;
    return (*at & 0xfe) == XCHG;
#else
    (void)context;
    return false;
#endif
}

/* Whether the place is where the thread's stack would go on. */
static bool is_beside_stack(const void *address, const void *context) {
    enum { NEAR = 1 << 16 };
    return (uintptr_t)address + NEAR - sim_stack_pointer_of(context) < 2 * NEAR;
}

static void handle(int number, siginfo_t *info, void *context) {
    struct sim_allocation *of = number == SIGSEGV ? sim_allocation_at(info->si_addr) : NULL;
    bool is_abort = number == SIGABRT && !(sim_program_frees && sim_allocation_at(sim_program_frees));
    if (of && of->kind != SIM_DEVICE_MEMORY && of->uses && is_atomic(context)) {
        of->uses = NULL; /* not freed: another OS thread may be in malloc() */
        sim_memory_protect(of);
        return; /* and the instruction runs again */
    }
    enum { MOST_FRAMES = 24 };
    char sentence[1200];
    void *frames[MOST_FRAMES];
    int count = backtrace(frames, MOST_FRAMES);
    for (int i = 0; i < count; i++) /* as the other frames, which are behind their calls */
        frames[i] = (char *)frames[i] + ((uintptr_t)frames[i] == sim_instruction_of(context));
    if (number == SIGFPE)
        snprintf(sentence, sizeof sentence, "the host code divides an integer by zero");
    else if (is_abort)
        snprintf(sentence, sizeof sentence, "the host code aborts");
    else if (number != SIGABRT && !of && is_beside_stack(info->si_addr, context))
        snprintf(sentence, sizeof sentence, "the host code needs more stack than there is (`ulimit -s`)");
    else
        describe(sentence, sizeof sentence, info->si_addr);
    signal(number, SIG_DFL); /* the instruction runs again, and ends the process */
    sim_program_say_at(sentence, frames, count);
}

void sim_program_begins_at(const void *address) {
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    static unsigned char stack[1 << 16] __attribute__((aligned(16)));
    sim_program_address = address;
    sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
    sigemptyset(&action.sa_mask);
    void *frame;
    backtrace(&frame, 1); /* which loads a library the first time */
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    sigaction(SIGFPE, &action, NULL);
    sigaction(SIGABRT, &action, NULL); /* of C's and C++'s library, which say why */
}
