/* cuda::atomic and cuda::atomic_ref: atomics as objects, with the orders and scopes of C++ and CUDA. */
#pragma once
#include "asynchronous.hpp"

namespace cuda {

enum memory_order {
    memory_order_relaxed,
    memory_order_consume,
    memory_order_acquire,
    memory_order_release,
    memory_order_acq_rel,
    memory_order_seq_cst
};

/* The fences of an order around an operation: a release fence before it, an acquire fence after it. */
template <thread_scope Scope> SIM_INLINE void sim_fence_of() {
    if (Scope == thread_scope_block)
        sim_fence_block();
    else if (Scope != thread_scope_thread)
        sim_fence();
}
template <thread_scope Scope> struct sim_ordered {
    memory_order order;
    explicit sim_ordered(memory_order order) : order(order) {
        if (order == memory_order_release || order == memory_order_acq_rel || order == memory_order_seq_cst)
            sim_fence_of<Scope>();
    }
    ~sim_ordered() {
        if (order != memory_order_relaxed && order != memory_order_release)
            sim_fence_of<Scope>();
    }
};

template <class T, thread_scope Scope = thread_scope_system> struct atomic_ref {
    using value_type = T;
    T *at;
    explicit atomic_ref(T &to) : at(&to) {}
    T sim_update(enum sim_atomic operation, T value, memory_order order, const char *file, int line,
                 T compare = T()) const {
        sim_ordered<Scope> ordered(order);
        return sim_atomically<T>(operation, at, value, compare, file, line, Scope == thread_scope_block);
    }
#define SIM_ORDER memory_order order = memory_order_seq_cst
    T load(SIM_ORDER, SIM_CALLED_FROM) const {
        return sim_update(SIM_ATOMIC_ADD, T(0), order, sim_file, sim_line);
    }
    operator T() const {
        return load();
    }
    void store(T value, SIM_ORDER, SIM_CALLED_FROM) const {
        sim_update(SIM_ATOMIC_EXCHANGE, value, order, sim_file, sim_line);
    }
    T exchange(T value, SIM_ORDER, SIM_CALLED_FROM) const {
        return sim_update(SIM_ATOMIC_EXCHANGE, value, order, sim_file, sim_line);
    }
    T fetch_add(T value, SIM_ORDER, SIM_CALLED_FROM) const {
        return sim_update(SIM_ATOMIC_ADD, value, order, sim_file, sim_line);
    }
    T fetch_sub(T value, SIM_ORDER, SIM_CALLED_FROM) const {
        return sim_update(SIM_ATOMIC_ADD, (T)-value, order, sim_file, sim_line);
    }
    T fetch_min(T value, SIM_ORDER, SIM_CALLED_FROM) const {
        return sim_update(SIM_ATOMIC_MIN, value, order, sim_file, sim_line);
    }
    T fetch_max(T value, SIM_ORDER, SIM_CALLED_FROM) const {
        return sim_update(SIM_ATOMIC_MAX, value, order, sim_file, sim_line);
    }
    T fetch_and(T value, SIM_ORDER, SIM_CALLED_FROM) const {
        return sim_update(SIM_ATOMIC_AND, value, order, sim_file, sim_line);
    }
    T fetch_or(T value, SIM_ORDER, SIM_CALLED_FROM) const {
        return sim_update(SIM_ATOMIC_OR, value, order, sim_file, sim_line);
    }
    T fetch_xor(T value, SIM_ORDER, SIM_CALLED_FROM) const {
        return sim_update(SIM_ATOMIC_XOR, value, order, sim_file, sim_line);
    }
    bool compare_exchange_strong(T &expected, T value, SIM_ORDER, SIM_CALLED_FROM) const {
        T old = sim_update(SIM_ATOMIC_COMPARE_AND_SWAP, value, order, sim_file, sim_line, expected);
        bool swapped = __builtin_memcmp(&old, &expected, sizeof old) == 0;
        expected = old;
        return swapped;
    }
    bool compare_exchange_strong(T &expected, T value, memory_order order, memory_order,
                                 SIM_CALLED_FROM) const {
        return compare_exchange_strong(expected, value, order, sim_file, sim_line);
    }
    bool compare_exchange_weak(T &expected, T value, SIM_ORDER, SIM_CALLED_FROM) const {
        return compare_exchange_strong(expected, value, order, sim_file, sim_line);
    }
    bool compare_exchange_weak(T &expected, T value, memory_order order, memory_order,
                               SIM_CALLED_FROM) const {
        return compare_exchange_strong(expected, value, order, sim_file, sim_line);
    }
    void wait(T old, SIM_ORDER, SIM_CALLED_FROM) const {
        while (load(order, sim_file, sim_line) == old)
            sim_sleep();
    }
    void notify_one() const {}
    void notify_all() const {}
    T operator=(T value) const {
        store(value);
        return value;
    }
    T operator++() const {
        return fetch_add(1) + 1;
    }
    T operator++(int) const {
        return fetch_add(1);
    }
    T operator--() const {
        return fetch_sub(1) - 1;
    }
    T operator--(int) const {
        return fetch_sub(1);
    }
    T operator+=(T value) const {
        return fetch_add(value) + value;
    }
    T operator-=(T value) const {
        return fetch_sub(value) - value;
    }
#undef SIM_ORDER
};

template <class T, thread_scope Scope = thread_scope_system> struct atomic : atomic_ref<T, Scope> {
    T value;
    atomic(T value = T()) : atomic_ref<T, Scope>(this->value), value(value) {}
};

SIM_INLINE void atomic_thread_fence(memory_order order, thread_scope scope = thread_scope_system) {
    if (order == memory_order_relaxed || scope == thread_scope_thread)
        return;
    if (scope == thread_scope_block)
        sim_fence_block();
    else
        sim_fence();
}

namespace std {
using cuda::memory_order;
using cuda::memory_order_acq_rel;
using cuda::memory_order_acquire;
using cuda::memory_order_consume;
using cuda::memory_order_relaxed;
using cuda::memory_order_release;
using cuda::memory_order_seq_cst;
template <class T> using atomic = cuda::atomic<T, thread_scope_system>;
template <class T> using atomic_ref = cuda::atomic_ref<T, thread_scope_system>;
using cuda::atomic_thread_fence;
} // namespace std

} /* namespace cuda */
