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

/* What a loop around atomicCAS() reads first (cudasim/live/swap_loops.py). */
template <class T> SIM_INLINE volatile T *sim_guess(T *at) {
    return at;
}

/* Vectors: each element on its own, as CUDA has it. */
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
