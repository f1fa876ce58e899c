/* Atomics. Like CUDA's they order nothing but themselves. */
#pragma once
#include "half.hpp"
#include "bfloat16.hpp"

template <class T> constexpr enum sim_type sim_type_of() {
    if (std::is_same<T, __half>::value)
        return SIM_FLOAT16;
    if (std::is_same<T, __nv_bfloat16>::value)
        return SIM_BFLOAT16;
    if (std::is_same<T, float>::value)
        return SIM_FLOAT;
    if (std::is_same<T, double>::value)
        return SIM_DOUBLE;
    if (sizeof(T) == 2)
        return SIM_UINT16;
    if (sizeof(T) == 8)
        return std::is_signed<T>::value ? SIM_INT64 : SIM_UINT64;
    return std::is_signed<T>::value ? SIM_INT32 : SIM_UINT32;
}

template <class T>
SIM_INLINE T sim_atomically(enum sim_atomic operation, volatile T *address, T value, T compare,
                            const char *file, int line, bool in_block = false) {
    sim_site site = {file, line};
    uint64_t value_bits = 0, compare_bits = 0;
    __builtin_memcpy(&value_bits, &value, sizeof value);
    __builtin_memcpy(&compare_bits, &compare, sizeof compare);
    auto call = in_block ? ::sim_atomic_in_block : ::sim_atomic;
    value_bits = call(&site, operation, sim_type_of<T>(), address, value_bits, compare_bits);
    __builtin_memcpy(&value, &value_bits, sizeof value);
    return value;
}

#define SIM_DEFINE_ATOMIC(name, operation, argument)                                                         \
    template <class T> SIM_INLINE T name(T *address, sim_given<T> value, SIM_CALLED_FROM) {                  \
        return sim_atomically<T>(operation, address, argument, T(), sim_file, sim_line);                     \
    }                                                                                                        \
    template <class T> SIM_INLINE T name##_block(T *address, sim_given<T> value, SIM_CALLED_FROM) {          \
        return sim_atomically<T>(operation, address, argument, T(), sim_file, sim_line, true);               \
    }                                                                                                        \
    template <class T> SIM_INLINE T name##_system(T *address, sim_given<T> value, SIM_CALLED_FROM) {         \
        return sim_atomically<T>(operation, address, argument, T(), sim_file, sim_line);                     \
    }
SIM_DEFINE_ATOMIC(atomicAdd, SIM_ATOMIC_ADD, value)
SIM_DEFINE_ATOMIC(atomicSub, SIM_ATOMIC_ADD, (T)-value)
SIM_DEFINE_ATOMIC(atomicMin, SIM_ATOMIC_MIN, value)
SIM_DEFINE_ATOMIC(atomicMax, SIM_ATOMIC_MAX, value)
SIM_DEFINE_ATOMIC(atomicAnd, SIM_ATOMIC_AND, value)
SIM_DEFINE_ATOMIC(atomicOr, SIM_ATOMIC_OR, value)
SIM_DEFINE_ATOMIC(atomicXor, SIM_ATOMIC_XOR, value)
SIM_DEFINE_ATOMIC(atomicExch, SIM_ATOMIC_EXCHANGE, value)
SIM_DEFINE_ATOMIC(atomicInc, SIM_ATOMIC_INCREMENT, value)
SIM_DEFINE_ATOMIC(atomicDec, SIM_ATOMIC_DECREMENT, value)

#define SIM_DEFINE_COMPARE_AND_SWAP(name, in_block)                                                          \
    template <class T>                                                                                       \
    SIM_INLINE T name(T *address, sim_given<T> compare, sim_given<T> value, SIM_CALLED_FROM) {               \
        return sim_atomically<T>(SIM_ATOMIC_COMPARE_AND_SWAP, address, value, compare, sim_file, sim_line,   \
                                 in_block);                                                                  \
    }
SIM_DEFINE_COMPARE_AND_SWAP(atomicCAS, false)
SIM_DEFINE_COMPARE_AND_SWAP(atomicCAS_block, true)
SIM_DEFINE_COMPARE_AND_SWAP(atomicCAS_system, false)

/* The first read of a loop around atomicCAS() (cudasim/live/swap_loops.py). */
template <class T> SIM_INLINE volatile T *sim_guess(T *at) {
    return at;
}

/* Vectors: each element separately, as in CUDA. */
SIM_INLINE __half2 atomicAdd(__half2 *address, __half2 value, SIM_CALLED_FROM) {
    return {atomicAdd(&address->x, value.x, sim_file, sim_line),
            atomicAdd(&address->y, value.y, sim_file, sim_line)};
}
SIM_INLINE __nv_bfloat162 atomicAdd(__nv_bfloat162 *address, __nv_bfloat162 value, SIM_CALLED_FROM) {
    return {atomicAdd(&address->x, value.x, sim_file, sim_line),
            atomicAdd(&address->y, value.y, sim_file, sim_line)};
}
SIM_INLINE float2 atomicAdd(float2 *address, float2 value, SIM_CALLED_FROM) {
    return {atomicAdd(&address->x, value.x, sim_file, sim_line),
            atomicAdd(&address->y, value.y, sim_file, sim_line)};
}
SIM_INLINE float4 atomicAdd(float4 *address, float4 value, SIM_CALLED_FROM) {
    return {atomicAdd(&address->x, value.x, sim_file, sim_line),
            atomicAdd(&address->y, value.y, sim_file, sim_line),
            atomicAdd(&address->z, value.z, sim_file, sim_line),
            atomicAdd(&address->w, value.w, sim_file, sim_line)};
}

/* ---- nvcc's own atomics, with an order and a scope: gcc's, by other names ---- */

enum {
    __NV_ATOMIC_RELAXED,
    __NV_ATOMIC_CONSUME,
    __NV_ATOMIC_ACQUIRE,
    __NV_ATOMIC_RELEASE,
    __NV_ATOMIC_ACQ_REL,
    __NV_ATOMIC_SEQ_CST
};
enum {
    __NV_THREAD_SCOPE_THREAD,
    __NV_THREAD_SCOPE_BLOCK,
    __NV_THREAD_SCOPE_CLUSTER,
    __NV_THREAD_SCOPE_DEVICE,
    __NV_THREAD_SCOPE_SYSTEM
};
SIM_INLINE void __nv_atomic_thread_fence(int order, int scope = __NV_THREAD_SCOPE_SYSTEM) {
    if (order == __NV_ATOMIC_RELAXED || scope == __NV_THREAD_SCOPE_THREAD)
        return;
    if (scope == __NV_THREAD_SCOPE_BLOCK)
        sim_fence_block();
    else
        sim_fence();
}
/* A release fence comes before the operation, an acquire fence after it. */
template <class T>
SIM_INLINE T sim_ordered_update(enum sim_atomic operation, T *address, T value, T compare, int order,
                                int scope, const char *file, int line) {
    using plain = std::remove_cv_t<T>;
    static_assert(sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8, "atomics are of 2, 4 or 8 bytes here");
    if (order != __NV_ATOMIC_CONSUME && order != __NV_ATOMIC_ACQUIRE)
        __nv_atomic_thread_fence(order, scope);
    plain old = sim_atomically<plain>(operation, const_cast<plain *>(address), value, compare, file, line,
                                      scope == __NV_THREAD_SCOPE_BLOCK);
    if (order != __NV_ATOMIC_RELEASE)
        __nv_atomic_thread_fence(order, scope);
    return old;
}
#define SIM_SCOPE int scope = __NV_THREAD_SCOPE_SYSTEM, SIM_CALLED_FROM
#define SIM_DEFINE_ORDERED(name, operation, argument)                                                        \
    template <class T>                                                                                       \
    SIM_INLINE T __nv_atomic_##name(T *address, sim_given<T> value, int order, SIM_SCOPE) {                  \
        return sim_ordered_update<T>(operation, address, argument, T(), order, scope, sim_file, sim_line);   \
    }
SIM_DEFINE_ORDERED(exchange_n, SIM_ATOMIC_EXCHANGE, value)
SIM_DEFINE_ORDERED(fetch_add, SIM_ATOMIC_ADD, value)
SIM_DEFINE_ORDERED(fetch_sub, SIM_ATOMIC_ADD, (T)-value)
SIM_DEFINE_ORDERED(fetch_and, SIM_ATOMIC_AND, value)
SIM_DEFINE_ORDERED(fetch_or, SIM_ATOMIC_OR, value)
SIM_DEFINE_ORDERED(fetch_xor, SIM_ATOMIC_XOR, value)
SIM_DEFINE_ORDERED(fetch_min, SIM_ATOMIC_MIN, value)
SIM_DEFINE_ORDERED(fetch_max, SIM_ATOMIC_MAX, value)
/* The value stays: it is swapped for itself. */
template <class T> SIM_INLINE std::remove_cv_t<T> __nv_atomic_load_n(T *address, int order, SIM_SCOPE) {
    using plain = std::remove_cv_t<T>;
    return sim_ordered_update<plain>(SIM_ATOMIC_COMPARE_AND_SWAP, const_cast<plain *>(address), plain(),
                                     plain(), order, scope, sim_file, sim_line);
}
template <class T> SIM_INLINE void __nv_atomic_store_n(T *address, sim_given<T> value, int order, SIM_SCOPE) {
    __nv_atomic_exchange_n(address, value, order, scope, sim_file, sim_line);
}
template <class T>
SIM_INLINE bool __nv_atomic_compare_exchange_n(T *address, sim_given<T> *expected, sim_given<T> value, bool,
                                               int order, int order_of_failure, SIM_SCOPE) {
    if (order < order_of_failure)
        order = order_of_failure;
    T old = sim_ordered_update<T>(SIM_ATOMIC_COMPARE_AND_SWAP, address, value, *expected, order, scope,
                                  sim_file, sim_line);
    bool is_swapped = __builtin_memcmp(&old, expected, sizeof old) == 0;
    *expected = old;
    return is_swapped;
}
template <class T> SIM_INLINE void __nv_atomic_load(T *address, sim_given<T> *to, int order, SIM_SCOPE) {
    *to = __nv_atomic_load_n(address, order, scope, sim_file, sim_line);
}
template <class T> SIM_INLINE void __nv_atomic_store(T *address, sim_given<T> *value, int order, SIM_SCOPE) {
    __nv_atomic_store_n(address, *value, order, scope, sim_file, sim_line);
}
template <class T>
SIM_INLINE void __nv_atomic_exchange(T *address, sim_given<T> *value, sim_given<T> *old, int order,
                                     SIM_SCOPE) {
    *old = __nv_atomic_exchange_n(address, *value, order, scope, sim_file, sim_line);
}
template <class T>
SIM_INLINE bool __nv_atomic_compare_exchange(T *address, sim_given<T> *expected, sim_given<T> *value,
                                             bool weak, int order, int order_of_failure, SIM_SCOPE) {
    return __nv_atomic_compare_exchange_n(address, expected, *value, weak, order, order_of_failure, scope,
                                          sim_file, sim_line);
}
#undef SIM_SCOPE
