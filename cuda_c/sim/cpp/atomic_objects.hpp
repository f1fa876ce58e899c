/* cuda::atomic and cuda::atomic_ref: atomics as objects. Every order is the strongest here. */
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

template <class T> struct sim_atomic_operations {
    static T add(T *at, T value) {
        sim_fence();
        T old = atomicAdd(at, value);
        sim_fence();
        return old;
    }
    static T exchange(T *at, T value) {
        sim_fence();
        T old = atomicExch(at, value);
        sim_fence();
        return old;
    }
};

template <class T, thread_scope Scope = thread_scope_system> struct atomic_ref {
    T *at;
    explicit atomic_ref(T &to) : at(&to) {}
    T load(memory_order = memory_order_seq_cst) const {
        return sim_atomic_operations<T>::add(at, T(0));
    }
    operator T() const {
        return load();
    }
    void store(T value, memory_order = memory_order_seq_cst) const {
        sim_atomic_operations<T>::exchange(at, value);
    }
    T exchange(T value, memory_order = memory_order_seq_cst) const {
        return sim_atomic_operations<T>::exchange(at, value);
    }
    T fetch_add(T value, memory_order = memory_order_seq_cst) const {
        return sim_atomic_operations<T>::add(at, value);
    }
    T fetch_sub(T value, memory_order = memory_order_seq_cst) const {
        return sim_atomic_operations<T>::add(at, (T)-value);
    }
    T fetch_min(T value, memory_order = memory_order_seq_cst) const {
        return atomicMin(at, value);
    }
    T fetch_max(T value, memory_order = memory_order_seq_cst) const {
        return atomicMax(at, value);
    }
    T fetch_and(T value, memory_order = memory_order_seq_cst) const {
        return atomicAnd(at, value);
    }
    T fetch_or(T value, memory_order = memory_order_seq_cst) const {
        return atomicOr(at, value);
    }
    bool compare_exchange_strong(T &expected, T value, memory_order = memory_order_seq_cst,
                                 memory_order = memory_order_seq_cst) const {
        T old = atomicCAS(at, expected, value);
        bool swapped = old == expected;
        expected = old;
        return swapped;
    }
    bool compare_exchange_weak(T &expected, T value, memory_order = memory_order_seq_cst,
                               memory_order = memory_order_seq_cst) const {
        return compare_exchange_strong(expected, value);
    }
    T operator++() const {
        return fetch_add(1) + 1;
    }
    T operator++(int) const {
        return fetch_add(1);
    }
    T operator+=(T value) const {
        return fetch_add(value) + value;
    }
};

template <class T, thread_scope Scope = thread_scope_system> struct atomic : atomic_ref<T, Scope> {
    T value;
    atomic(T value = T()) : atomic_ref<T, Scope>(this->value), value(value) {}
};

SIM_INLINE void atomic_thread_fence(memory_order, thread_scope = thread_scope_system) {
    sim_fence();
}

} /* namespace cuda */
