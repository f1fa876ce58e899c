/* Barriers, votes, shuffles and reductions of a block and of a warp. */
#pragma once
#include "language.hpp"

#define __syncthreads() ((void)sim_barrier(SIM_HERE, 0))
#define __syncthreads_count(predicate) (sim_barrier(SIM_HERE, (predicate) ? 1 : 0))
#define __syncthreads_or(predicate) (sim_barrier(SIM_HERE, (predicate) ? 1 : 0) != 0)
#define __syncthreads_and(predicate) (sim_barrier(SIM_HERE, (predicate) ? 0 : 1) == 0)
#define __barrier_sync(number) __syncthreads()
#define __activemask() sim_active_mask(SIM_HERE)

SIM_INLINE void __syncwarp(unsigned mask = ~0u, SIM_CALLED_FROM) {
    sim_warp_barrier(SIM_CALLER, mask);
}
SIM_INLINE unsigned __ballot_sync(unsigned mask, int predicate, SIM_CALLED_FROM) {
    return sim_ballot(SIM_CALLER, mask, predicate != 0);
}
SIM_INLINE int __any_sync(unsigned mask, int predicate, SIM_CALLED_FROM) {
    return sim_ballot(SIM_CALLER, mask, predicate != 0) != 0;
}
SIM_INLINE int __all_sync(unsigned mask, int predicate, SIM_CALLED_FROM) {
    return sim_ballot(SIM_CALLER, mask, predicate == 0) == 0;
}

/* ---- Shuffles: any type, eight bytes at a time ---- */

template <class T> SIM_INLINE T sim_from_words(const uint64_t *words) {
    union {
        char none;
        T value;
    } to = {};
    __builtin_memcpy((void *)&to.value, words, sizeof(T));
    return to.value;
}
template <class T>
SIM_INLINE T sim_shuffled(const sim_site *site, unsigned mask, T value, enum sim_shuffle direction,
                          int operand, int width) {
    uint64_t words[(sizeof(T) + 7) / 8] = {};
    __builtin_memcpy(words, &value, sizeof value);
    for (uint64_t &word : words)
        word = ::sim_shuffle(site, mask, word, direction, operand, width);
    __builtin_memcpy(&value, words, sizeof value);
    return value;
}
template <class T>
SIM_INLINE T __shfl_sync(unsigned mask, T value, int lane, int width = warpSize, SIM_CALLED_FROM) {
    return sim_shuffled(SIM_CALLER, mask, value, SIM_SHUFFLE_INDEX, lane, width);
}
template <class T>
SIM_INLINE T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize, SIM_CALLED_FROM) {
    return sim_shuffled(SIM_CALLER, mask, value, SIM_SHUFFLE_UP, (int)delta, width);
}
template <class T>
SIM_INLINE T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize, SIM_CALLED_FROM) {
    return sim_shuffled(SIM_CALLER, mask, value, SIM_SHUFFLE_DOWN, (int)delta, width);
}
template <class T>
SIM_INLINE T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = warpSize, SIM_CALLED_FROM) {
    return sim_shuffled(SIM_CALLER, mask, value, SIM_SHUFFLE_XOR, lane_mask, width);
}

/* ---- Reductions, scans and matches: each lane gets the values of all others at once ---- */

/* The steps of a tree over the lanes of a mask. */
SIM_INLINE unsigned sim_steps(unsigned mask) {
    int lanes = __builtin_popcount(mask);
    return lanes > 1 ? 32u - (unsigned)__builtin_clz((unsigned)lanes - 1) : 1u;
}
template <class T> struct sim_values {
    static constexpr int WORDS = (sizeof(T) + 7) / 8;
    uint64_t of[WORDS][32];
    SIM_INLINE_MEMBER sim_values(const sim_site *site, unsigned mask, const T &value, unsigned instructions) {
        uint64_t words[WORDS] = {};
        __builtin_memcpy(words, &value, sizeof value);
        for (int i = 0; i < WORDS; i++)
            sim_gather(site, mask, words[i], of[i], instructions);
    }
    SIM_INLINE_MEMBER T operator[](int lane) const {
        uint64_t words[WORDS];
        for (int i = 0; i < WORDS; i++)
            words[i] = of[i][lane];
        return sim_from_words<T>(words);
    }
};
template <class T, class Operation>
SIM_INLINE T sim_reduced(const sim_site *site, unsigned mask, T value, Operation operation,
                         unsigned instructions = 1) {
    sim_values<T> values(site, mask, value, instructions);
    int lane = __builtin_ctz(mask);
    T result = values[lane];
    for (unsigned rest = mask & (mask - 1); rest; rest &= rest - 1)
        result = operation(result, values[__builtin_ctz(rest)]);
    return result;
}
template <class T> SIM_INLINE T __reduce_add_sync(unsigned mask, T value, SIM_CALLED_FROM) {
    return sim_reduced(SIM_CALLER, mask, value, [](T a, T b) { return a + b; });
}
template <class T> SIM_INLINE T __reduce_min_sync(unsigned mask, T value, SIM_CALLED_FROM) {
    return sim_reduced(SIM_CALLER, mask, value, [](T a, T b) { return b < a ? b : a; });
}
template <class T> SIM_INLINE T __reduce_max_sync(unsigned mask, T value, SIM_CALLED_FROM) {
    return sim_reduced(SIM_CALLER, mask, value, [](T a, T b) { return a < b ? b : a; });
}
SIM_INLINE unsigned __reduce_and_sync(unsigned mask, unsigned value, SIM_CALLED_FROM) {
    return sim_reduced(SIM_CALLER, mask, value, [](unsigned a, unsigned b) { return a & b; });
}
SIM_INLINE unsigned __reduce_or_sync(unsigned mask, unsigned value, SIM_CALLED_FROM) {
    return sim_reduced(SIM_CALLER, mask, value, [](unsigned a, unsigned b) { return a | b; });
}
SIM_INLINE unsigned __reduce_xor_sync(unsigned mask, unsigned value, SIM_CALLED_FROM) {
    return sim_reduced(SIM_CALLER, mask, value, [](unsigned a, unsigned b) { return a ^ b; });
}
template <class T> SIM_INLINE unsigned __match_any_sync(unsigned mask, T value, SIM_CALLED_FROM) {
    sim_values<T> values(SIM_CALLER, mask, value, 1);
    unsigned same = 0;
    for (unsigned rest = mask; rest; rest &= rest - 1)
        if (values[__builtin_ctz(rest)] == value)
            same |= rest & -rest;
    return same;
}
template <class T>
SIM_INLINE unsigned __match_all_sync(unsigned mask, T value, int *all_same, SIM_CALLED_FROM) {
    *all_same = __match_any_sync(mask, value, sim_file, sim_line) == mask;
    return *all_same ? mask : 0;
}

/* ---- Asynchronous copies ---- */

SIM_INLINE void __pipeline_memcpy_async(void *shared, const void *global, size_t bytes, size_t zeros = 0,
                                        SIM_CALLED_FROM) {
    sim_cp_async_partly(SIM_CALLER, shared, global, (unsigned)bytes, (unsigned)(bytes - zeros));
}
SIM_INLINE void __pipeline_commit() {
    cp_async_commit_group();
}
SIM_INLINE void __pipeline_wait_prior(unsigned groups) {
    cp_async_wait_group(groups);
}

/* ---- Fences, time and faults ---- */

SIM_INLINE void __threadfence() {
    sim_fence();
}
SIM_INLINE void __threadfence_block() {
    sim_fence_block();
}
SIM_INLINE void __threadfence_system() {
    sim_fence();
}
SIM_INLINE void __nanosleep(unsigned) {
    sim_sleep();
}
/* Programmatic dependent launch: a launch begins when the one before it has ended, one of the orders that are
 * allowed. */
SIM_INLINE void cudaGridDependencySynchronize() {}
SIM_INLINE void cudaTriggerProgrammaticLaunchCompletion() {}
SIM_INLINE long long clock64() {
    return sim_clock();
}
SIM_INLINE unsigned __nv_lane() {
    return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % warpSize;
}
#define __trap() sim_trap(SIM_HERE)
#define __brkpt() sim_trap(SIM_HERE)
#define __prof_trigger(number) ((void)0)
#define __assume(condition) ((void)0)
#define __builtin_assume(condition) ((void)0)
SIM_INLINE void __nv_prefetch(const void *) {}
