/* Crashes: an access where no memory is, a local array larger than the stack, a division of integers by zero.
 *
 * The handler runs on a stack of its own. It writes the report and abandons the block, as every other fault
 * does; the fiber that the signal came from never runs again. */
#define _GNU_SOURCE
#include "crash.h"
#include "machine.h"
#include <pthread.h>
#include <signal.h>
#include <ucontext.h>

static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
enum { SIGNALS = sizeof signals / sizeof *signals };

/* The simulator is in a process twice, plain and counted, and both run launches at a time. So the action that
 * this one replaces may be the other simulator's: it is called, and where the other one's was installed
 * later, this one stays below it. */
static struct sigaction actions_before[SIGNALS];
static bool is_installed[SIGNALS];
static unsigned depth;

uintptr_t sim_instruction_of(const void *context) {
#if defined(__x86_64__)
    return (uintptr_t)((const ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    return (uintptr_t)((const ucontext_t *)context)->uc_mcontext.pc;
#else
    (void)context;
    return 0;
#endif
}

uintptr_t sim_stack_pointer_of(const void *context) {
#if defined(__x86_64__)
    return (uintptr_t)((const ucontext_t *)context)->uc_mcontext.gregs[REG_RSP];
#elif defined(__aarch64__)
    return (uintptr_t)((const ucontext_t *)context)->uc_mcontext.sp;
#else
    (void)context;
    return UINTPTR_MAX;
#endif
}

/* Where a function returns to that has just been called. */
static uintptr_t caller_of(const void *context) {
#if defined(__x86_64__)
    return *(const uintptr_t *)((const ucontext_t *)context)->uc_mcontext.gregs[REG_RSP];
#elif defined(__aarch64__)
    return (uintptr_t)((const ucontext_t *)context)->uc_mcontext.regs[30];
#else
    (void)context;
    return 0;
#endif
}

static void report(int number, const siginfo_t *info, const void *context) {
    uintptr_t address = (uintptr_t)info->si_addr, pc = sim_instruction_of(context);
    if (sim_registers.is_blind)
        sim_see_fault(pc);
    sim_report_again(); /* the thread's stack may have had no room for the report that it was writing */
    /* One byte on, as for a call: debug information is asked for the byte before. */
    struct sim_access_report access = {.kind = SIM_CRASH, .thread = sim_current(sim_worker), .pc = pc + 1};
    if (number == SIGFPE)
        sim_report_access(
            &access, "divides an integer by zero, or the smallest one by -1, which CUDA leaves undefined");
    if (number == SIGILL || number == SIGTRAP)
        sim_report_access(&access, "comes to an instruction that ends a program, as __builtin_trap() and "
                                   "__builtin_unreachable() do, or goes astray");
    if (sim_worker->prints_at) { /* the instruction is the C library's */
        access.pc = sim_worker->prints_at;
        sim_worker->prints_at = 0;
        sim_report_access(&access,
                          "has printf() read a string at address %p, where no memory is: the format "
                          "may not fit the arguments",
                          (void *)address);
    }
    const struct sim_site *updates = sim_worker->updates;
    sim_worker->updates = NULL;
    enum { SIGNAL_FRAME_BYTES = 16 << 10 };
    uintptr_t left = sim_stack_pointer_of(context) - (uintptr_t)sim_worker->fiber->stack;
    if (info->si_code == SI_KERNEL && left < SIGNAL_FRAME_BYTES) /* no room for the signal of turns.c */
        sim_report_overflow(&access);
    if (info->si_code == SI_KERNEL) { /* x86-64: address bits that it does not have; which, it does not say */
        const char *what = "accesses an address that no memory can have, or one that its instruction wants "
                           "aligned and is not";
        if (updates)
            sim_report_call(SIM_CRASH, updates, "%s", what);
        sim_report_access(&access, "%s", what);
    }
    if (updates) /* the simulator's own instruction makes the access */
        sim_report_call(SIM_CRASH, updates, "makes an atomic access to %p, where no memory is",
                        info->si_addr);
    if (sim_fiber_overflows(sim_worker->fiber, address))
        sim_report_overflow(&access);
    if (address == pc) { /* the processor has found no instruction there */
        access.pc = caller_of(context);
        sim_report_access(&access, "calls a function at address %p, where there is none", (void *)address);
    }
    sim_report_near_isolated(&access, address);
    const char *others = sim_memory_of_others ? sim_memory_of_others(info->si_addr, true) : NULL;
    if (others)
        sim_report_access(&access, "accesses %s", others);
    sim_report_access(&access, "accesses address %p, where no memory is", (void *)address);
}

static void handle(int number, siginfo_t *info, void *context) {
    if (sim_is_in_kernel())
        report(number, info, context);
    /* The signal is not a kernel's. By default the instruction runs again, and ends the process. */
    for (int i = 0; i < SIGNALS; i++) {
        const struct sigaction *before = &actions_before[i];
        if (signals[i] != number)
            continue;
        if (before->sa_flags & SA_SIGINFO)
            before->sa_sigaction(number, info, context);
        else if (before->sa_handler == SIG_DFL || before->sa_handler == SIG_IGN)
            sigaction(number, before, NULL);
        else
            before->sa_handler(number);
    }
}

static void install(int i) {
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    sigemptyset(&action.sa_mask);
    if (!is_installed[i])
        is_installed[i] = sigaction(signals[i], &action, &actions_before[i]) == 0;
}

/* There is no moment at which a crash in the other simulator's kernel would find neither handler. */
static void take_back(int i) {
    struct sigaction latest;
    if (!is_installed[i] || sigaction(signals[i], NULL, &latest) != 0)
        return;
    bool is_latest = latest.sa_flags & SA_SIGINFO && latest.sa_sigaction == handle;
    if (is_latest && sigaction(signals[i], &actions_before[i], NULL) == 0)
        is_installed[i] = false;
}

void sim_catch_crashes(void) {
    pthread_mutex_lock(sim_signals_lock());
    for (int i = 0; depth == 0 && i < SIGNALS; i++)
        install(i);
    depth++;
    pthread_mutex_unlock(sim_signals_lock());
}

void sim_release_crashes(void) {
    pthread_mutex_lock(sim_signals_lock());
    depth--;
    for (int i = 0; depth == 0 && i < SIGNALS; i++)
        take_back(i);
    pthread_mutex_unlock(sim_signals_lock());
}

void sim_have_signal_stack(void) {
#ifdef __SANITIZE_ADDRESS__
    /* AddressSanitizer gives every thread a signal stack, and takes back whichever it finds there. */
    return;
#endif
    enum { BYTES = 64 << 10 };
    static _Thread_local unsigned char stack[BYTES] __attribute__((aligned(16)));
    stack_t now;
    if (sigaltstack(NULL, &now) == 0 && (now.ss_flags & SS_DISABLE || now.ss_size < BYTES))
        sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = BYTES}, NULL);
}
