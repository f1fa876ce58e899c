/* Atomics: one compare-and-swap loop for every operation and type.
 *
 * They are real atomics of the CPU, because blocks run on several OS threads. Like CUDA's they order
 * nothing else; __threadfence() does. */
#include "machine.h"
#include "watch.h"

void sim_fence(void) {
    atomic_thread_fence(memory_order_seq_cst);
}

static bool is_less(enum sim_type type, uint64_t a, uint64_t b) {
    switch (type) {
    case SIM_INT32:
        return (int32_t)a < (int32_t)b;
    case SIM_INT64:
        return (int64_t)a < (int64_t)b;
    case SIM_FLOAT:
        return __uint_as_float((unsigned)a) < __uint_as_float((unsigned)b);
    case SIM_DOUBLE: {
        double x, y;
        memcpy(&x, &a, sizeof x);
        memcpy(&y, &b, sizeof y);
        return x < y;
    }
    default:
        return a < b;
    }
}

static uint64_t sum(enum sim_type type, uint64_t a, uint64_t b) {
    if (type == SIM_FLOAT)
        return __float_as_uint(__uint_as_float((unsigned)a) + __uint_as_float((unsigned)b));
    if (type == SIM_DOUBLE) {
        double x, y;
        memcpy(&x, &a, sizeof x);
        memcpy(&y, &b, sizeof y);
        x += y;
        memcpy(&a, &x, sizeof a);
        return a;
    }
    return a + b;
}

static uint64_t apply(enum sim_atomic operation, enum sim_type type, uint64_t old, uint64_t value,
                      uint64_t compare) {
    switch (operation) {
    case SIM_ATOMIC_ADD:
        return sum(type, old, value);
    case SIM_ATOMIC_MIN:
        return is_less(type, value, old) ? value : old;
    case SIM_ATOMIC_MAX:
        return is_less(type, old, value) ? value : old;
    case SIM_ATOMIC_AND:
        return old & value;
    case SIM_ATOMIC_OR:
        return old | value;
    case SIM_ATOMIC_XOR:
        return old ^ value;
    case SIM_ATOMIC_EXCHANGE:
        return value;
    default:
        return old == compare ? value : old;
    }
}

uint64_t sim_atomic(const struct sim_site *site, enum sim_atomic operation, enum sim_type type,
                    volatile void *address, uint64_t value, uint64_t compare) {
    bool wide = type == SIM_INT64 || type == SIM_UINT64 || type == SIM_DOUBLE;
    unsigned bytes = wide ? 8 : 4;
    if ((uintptr_t)address % bytes)
        sim_report_call(SIM_MISALIGNED, site, "makes an atomic access to %p, which is not a multiple of %u",
                        (void *)(uintptr_t)address, bytes);
    watch_atomic(SIM_CALLER, address, bytes);
    uint64_t old, desired;
    if (wide) {
        volatile uint64_t *word = address;
        old = __atomic_load_n(word, __ATOMIC_RELAXED);
        do
            desired = apply(operation, type, old, value, compare);
        while (!__atomic_compare_exchange_n(word, &old, desired, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    } else {
        volatile uint32_t *word = address;
        uint32_t old_word = __atomic_load_n(word, __ATOMIC_RELAXED);
        do
            desired = apply(operation, type, old_word, value, compare);
        while (!__atomic_compare_exchange_n(word, &old_word, (uint32_t)desired, true, __ATOMIC_RELAXED,
                                            __ATOMIC_RELAXED));
        old = old_word;
        desired = (uint32_t)desired;
    }
    /* What changed nothing may be one turn of a loop that waits for another thread, and on a GPU that
     * thread makes progress meanwhile. A minimum or maximum is no way to wait. */
    if (desired == old && operation != SIM_ATOMIC_MIN && operation != SIM_ATOMIC_MAX)
        sim_yield();
    return old;
}
