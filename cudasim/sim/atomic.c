/* Atomics: one compare-and-swap loop for every operation and type.
 *
 * They are real atomics of the CPU, because blocks run on several OS threads. Like CUDA's they order
 * nothing else; __threadfence() does. */
#include "machine.h"
#include "watch.h"

void sim_fence(void) {
    if (WATCHED)
        watch_fence(false);
    atomic_thread_fence(memory_order_seq_cst);
}

void sim_fence_block(void) {
    if (WATCHED)
        watch_fence(true);
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
    case SIM_FLOAT16:
        return sim_float_of_half((uint16_t)a) < sim_float_of_half((uint16_t)b);
    case SIM_BFLOAT16:
        return __uint_as_float((unsigned)a << 16) < __uint_as_float((unsigned)b << 16);
    default:
        return a < b;
    }
}

static uint16_t bfloat16_of_float(float v) {
    unsigned bits = __float_as_uint(v);
    if (v != v)
        return 0x7fff;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
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
    if (type == SIM_FLOAT16)
        return sim_half_of_double((double)sim_float_of_half((uint16_t)a) +
                                  (double)sim_float_of_half((uint16_t)b));
    if (type == SIM_BFLOAT16)
        return bfloat16_of_float(__uint_as_float((unsigned)a << 16) + __uint_as_float((unsigned)b << 16));
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
    case SIM_ATOMIC_INCREMENT:
        return old >= value ? 0 : old + 1;
    case SIM_ATOMIC_DECREMENT:
        return old == 0 || old > value ? value : old - 1;
    default:
        return old == compare ? value : old;
    }
}

unsigned sim_bytes_of_type(enum sim_type type) {
    switch (type) {
    case SIM_INT64:
    case SIM_UINT64:
    case SIM_DOUBLE:
        return 8;
    case SIM_UINT16:
    case SIM_FLOAT16:
    case SIM_BFLOAT16:
        return 2;
    default:
        return 4;
    }
}

static uint64_t load(volatile void *address, unsigned bytes) {
    if (bytes == 8)
        return __atomic_load_n((volatile uint64_t *)address, __ATOMIC_RELAXED);
    if (bytes == 4)
        return __atomic_load_n((volatile uint32_t *)address, __ATOMIC_RELAXED);
    return __atomic_load_n((volatile uint16_t *)address, __ATOMIC_RELAXED);
}

/* Returns false when another thread was first; *old is then what it wrote. Truncates *desired to the
   bytes. */
static bool replace(volatile void *address, unsigned bytes, uint64_t *old, uint64_t *desired) {
    bool replaced;
    if (bytes == 8)
        return __atomic_compare_exchange_n((volatile uint64_t *)address, old, *desired, true,
                                           __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    if (bytes == 4) {
        uint32_t word = (uint32_t)*old, wanted = (uint32_t)*desired;
        replaced = __atomic_compare_exchange_n((volatile uint32_t *)address, &word, wanted, true,
                                               __ATOMIC_RELAXED, __ATOMIC_RELAXED);
        *old = word, *desired = wanted;
        return replaced;
    }
    uint16_t word = (uint16_t)*old, wanted = (uint16_t)*desired;
    replaced = __atomic_compare_exchange_n((volatile uint16_t *)address, &word, wanted, true,
                                           __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    *old = word, *desired = wanted;
    return replaced;
}

void sim_combine(enum sim_atomic operation, enum sim_type type, void *address, uint64_t value) {
    unsigned bytes = sim_bytes_of_type(type);
    uint64_t old = load(address, bytes), desired;
    do
        desired = apply(operation, type, old, value, 0);
    while (!replace(address, bytes, &old, &desired));
}

static void check_alignment(const struct sim_site *site, const volatile void *address, unsigned bytes) {
    if ((uintptr_t)address % bytes)
        sim_report_call(SIM_MISALIGNED, site, "makes an atomic access to %p, which is not a multiple of %u",
                        (void *)(uintptr_t)address, bytes);
}

static uint64_t update(const struct sim_site *site, const void *pc, enum sim_atomic operation,
                       enum sim_type type, volatile void *address, uint64_t value, uint64_t compare,
                       bool in_block) {
    unsigned bytes = sim_bytes_of_type(type);
    if (WATCHED)
        watch_atomic(pc, address, bytes, in_block);
    struct sim_worker *worker = sim_worker_of_fiber();
    worker->updates = site;
    uint64_t old = load(address, bytes), desired;
    do {
        if (WATCHED)
            watch_atomic_replaces(pc, address, bytes, in_block);
        desired = apply(operation, type, old, value, compare);
    } while (!replace(address, bytes, &old, &desired));
    worker->updates = NULL;
    /* An atomic that changed nothing may be a turn of a loop that waits for another thread, which makes
     * progress meanwhile on a GPU. Nobody waits by a minimum or maximum. */
    if (desired != old) {
        if (WATCHED)
            watch_change(worker);
    } else if (operation != SIM_ATOMIC_MIN && operation != SIM_ATOMIC_MAX) {
        sim_yield();
    }
    return old;
}

uint64_t sim_atomic(const struct sim_site *site, enum sim_atomic operation, enum sim_type type,
                    volatile void *address, uint64_t value, uint64_t compare) {
    check_alignment(site, address, sim_bytes_of_type(type));
    return update(site, SIM_CALLER, operation, type, address, value, compare, false);
}

uint64_t sim_atomic_in_block(const struct sim_site *site, enum sim_atomic operation, enum sim_type type,
                             volatile void *address, uint64_t value, uint64_t compare) {
    check_alignment(site, address, sim_bytes_of_type(type));
    return update(site, SIM_CALLER, operation, type, address, value, compare, true);
}
