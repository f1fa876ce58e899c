/* Atomic operations of a program's host code (std::atomic): the compiler's instrumentation calls these
 * functions. They do what the instruction would have done, in the strongest order. Kernels have CUDA's own
 * atomics (../atomic.c). */
#include <stdbool.h>
#include <stdint.h>

#define ORDER __ATOMIC_SEQ_CST

#define ATOMICS(bits, type)                                                                                  \
    type __tsan_atomic##bits##_load(const volatile type *place, int order);                                  \
    type __tsan_atomic##bits##_load(const volatile type *place, int order) {                                 \
        (void)order;                                                                                         \
        return __atomic_load_n(place, ORDER);                                                                \
    }                                                                                                        \
    void __tsan_atomic##bits##_store(volatile type *place, type value, int order);                           \
    void __tsan_atomic##bits##_store(volatile type *place, type value, int order) {                          \
        (void)order;                                                                                         \
        __atomic_store_n(place, value, ORDER);                                                               \
    }                                                                                                        \
    UPDATE(bits, type, exchange, __atomic_exchange_n)                                                        \
    UPDATE(bits, type, fetch_add, __atomic_fetch_add)                                                        \
    UPDATE(bits, type, fetch_sub, __atomic_fetch_sub)                                                        \
    UPDATE(bits, type, fetch_and, __atomic_fetch_and)                                                        \
    UPDATE(bits, type, fetch_or, __atomic_fetch_or)                                                          \
    UPDATE(bits, type, fetch_xor, __atomic_fetch_xor)                                                        \
    UPDATE(bits, type, fetch_nand, __atomic_fetch_nand)                                                      \
    SWAP(bits, type, compare_exchange_strong)                                                                \
    SWAP(bits, type, compare_exchange_weak)

#define UPDATE(bits, type, name, does)                                                                       \
    type __tsan_atomic##bits##_##name(volatile type *place, type value, int order);                          \
    type __tsan_atomic##bits##_##name(volatile type *place, type value, int order) {                         \
        (void)order;                                                                                         \
        return does(place, value, ORDER);                                                                    \
    }
#define SWAP(bits, type, name)                                                                               \
    int __tsan_atomic##bits##_##name(volatile type *place, type *expected, type value, int order,            \
                                     int else_);                                                             \
    int __tsan_atomic##bits##_##name(volatile type *place, type *expected, type value, int order,            \
                                     int else_) {                                                            \
        (void)order, (void)else_;                                                                            \
        return __atomic_compare_exchange_n(place, expected, value, false, ORDER, ORDER);                     \
    }

ATOMICS(8, uint8_t)
ATOMICS(16, uint16_t)
ATOMICS(32, uint32_t)
ATOMICS(64, uint64_t)

void __tsan_atomic_thread_fence(int order);
void __tsan_atomic_thread_fence(int order) {
    (void)order;
    __atomic_thread_fence(ORDER);
}
void __tsan_atomic_signal_fence(int order);
void __tsan_atomic_signal_fence(int order) {
    (void)order;
    __atomic_signal_fence(ORDER);
}

/* Accesses to an object's table of virtual functions. */
void __tsan_vptr_update(void **place, void *value);
void __tsan_vptr_update(void **place, void *value) {
    (void)place, (void)value;
}
void __tsan_vptr_read(void **place);
void __tsan_vptr_read(void **place) {
    (void)place;
}
