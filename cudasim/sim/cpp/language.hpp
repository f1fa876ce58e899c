/* CUDA C++ for a C++ compiler: qualifiers, built-in variables, and the types that they have.
 *
 * As in C (../cuda.h), a kernel is an ordinary function that is called once per CUDA thread, on a fiber of an
 * OS thread; shared memory is thread-local memory of that OS thread. */
#pragma once
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <string.h>
#include <limits.h>
#include <float.h>
#include <type_traits>

#define __CUDACC__ 1
#define __NVCC__ 1
#define __CUDA_ARCH__ 900 /* Hopper's, which is the GPU of this project */
#define __CUDA_ARCH_LIST__ 900
#define __CUDACC_VER_MAJOR__ 13
#define __CUDACC_VER_MINOR__ 0
#define CUDART_VERSION 13000
#define CUDA_VERSION 13000

#define __global__
#define __device__
#define __host__
#define __constant__ __attribute__((section("sim_constant"))) /* by which a write is noticed */
#define __managed__
/* In a function this says `static` as well. Vectors of 16 bytes are stored in arrays of smaller elements, for
 * which C++ would not align them; nvcc's own layout does. */
#define __shared__ __attribute__((aligned(16))) thread_local
#define __forceinline__ inline __attribute__((always_inline))
#define __inline_hint__
/* For #pragma unroll. Without its loop a kernel does not look at each turn whether it is to stop, which takes
 * longer than the turn. A kernel that is watched keeps its loops: they are where its branches are found. */
#if defined SIM_COUNTED || defined __clang__
#define SIM_UNROLL
#else
#define SIM_UNROLL _Pragma("GCC unroll 32")
#endif
#define __grid_constant__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __maxnreg__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __builtin_align__(bytes) __attribute__((aligned(bytes)))
#define __CUDA_ALIGN__(bytes) __attribute__((aligned(bytes)))
#define CUDART_CB
#define CUDARTAPI

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const {
        return {x, y, z};
    }
};

#include "../vectors.h"
#include "../calls.h"

/* A kernel that is counted or checked is compiled by these flags alone. */
#if defined __SANITIZE_THREAD__
#define SIM_IS_WATCHED
#elif defined __has_feature
#if __has_feature(thread_sanitizer)
#define SIM_IS_WATCHED
#endif
#endif

#ifdef SIM_IS_WATCHED
#ifndef SIM_OWN
#define SIM_OWN sim_registers
#endif
static constexpr struct sim_registers *sim_blind = 0;
#else
/* A call of the loader's function, which the compiler would make at each use, and once for all threads of a
 * block when it is told that the answer never changes: a block stays on its OS thread. */
__attribute__((const, noinline)) static struct sim_registers *sim_own_registers() {
    return &sim_registers;
}
/* In a blind loop (threads.hpp), where the compiler knows it, the loop's own variables; else NULL. It is
 * never written: a function that would do so is none that runs (cudasim/live/blind_loops.py). */
__attribute__((unused)) static struct sim_registers *sim_blind;
/* The thread has made a fault in such a loop, and is to make it again in one that knows it. */
__attribute__((always_inline, unused)) static inline void sim_see() {
    sim_blind = 0;
    __builtin_trap();
}
#define SIM_OWN (*(sim_blind ? sim_blind : sim_own_registers()))
/* Every thread comes by here, so the simulator is only called to tell what is wrong. */
#define sim_launch_bounds(most, file, line)                                                                  \
    (blockDim.x * blockDim.y * blockDim.z <= (most) ? (void)0                                                \
     : sim_blind                                    ? sim_see()                                              \
                                                    : sim_launch_bounds(most, file, line))
#endif
#define threadIdx (SIM_OWN.sim_thread_index)
#define blockIdx (SIM_OWN.sim_block_index)
#define blockDim (SIM_OWN.sim_block_size)
#define gridDim (SIM_OWN.sim_grid_size)
#define SIM_DYNAMIC_SHARED (SIM_OWN.sim_shared_memory)

/* No macro: a kernel may have a variable of its own by this name. */
static constexpr int warpSize = 32;

/* Every function of a header is part of the line that calls it. */
#define SIM_INLINE static inline __attribute__((always_inline))
#define SIM_INLINE_MEMBER __attribute__((always_inline))
/* A function of a precompiled header that is compiled where it is called and nowhere else: what it makes of
 * templates takes longer than many a kernel. */
#define SIM_WHERE_CALLED template <class = void>

/* The dynamic shared memory as sim/portable.h calls it. No macro: a kernel may have a variable of its own by
 * this name. */
struct sim_bytes_of_launch {
    template <class T> SIM_INLINE_MEMBER operator T *() const {
        return (T *)SIM_DYNAMIC_SHARED;
    }
    SIM_INLINE_MEMBER explicit operator uintptr_t() const {
        return (uintptr_t)SIM_DYNAMIC_SHARED;
    }
    SIM_INLINE_MEMBER unsigned char &operator[](size_t i) const {
        return SIM_DYNAMIC_SHARED[i];
    }
    SIM_INLINE_MEMBER unsigned char *operator+(size_t bytes) const {
        return SIM_DYNAMIC_SHARED + bytes;
    }
};
static constexpr sim_bytes_of_launch dynamic_shared;

/* The place that an argument stands for when the caller leaves it out: the caller's. */
#define SIM_CALLED_FROM const char *sim_file = __builtin_FILE(), int sim_line = __builtin_LINE()
#define SIM_CALLER (sim_site_at(sim_file, sim_line))

#define SIM_HERE                                                                                             \
    ({                                                                                                       \
        static const struct sim_site sim_here = {__FILE__, __LINE__};                                        \
        &sim_here;                                                                                           \
    })

template <class T> struct sim_same {
    using type = T;
};
/* T, where the compiler is not to work T out from this argument. */
template <class T> using sim_given = typename sim_same<T>::type;

template <class T> struct sim_is_float16 : std::false_type {};

/* What a call returns, as an object of its own: see cudasim/live/copies.py. */
template <class T> SIM_INLINE constexpr T &&sim_result(T &&returned) {
    return static_cast<T &&>(returned);
}

/* The index i of an array of structs, checked as it is for a read of a member: see cudasim/live/copies.py. */
template <class T> struct sim_a_struct {
    char none;
};
template <class T, size_t count> static constexpr sim_a_struct<T> sim_elements[count] = {};
template <class Array, class Index> SIM_INLINE constexpr Index sim_index(Index i) {
    using A = std::remove_reference_t<Array>;
    using T = std::remove_extent_t<A>;
    if constexpr (std::is_array<A>::value && !std::is_scalar<T>::value && std::extent<A>::value > 0)
        return sim_elements<T, std::extent<A>::value>[i].none ? 0 : i;
    else
        return i;
}

template <class To, class From> SIM_INLINE To sim_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "as many bits");
    To to;
    __builtin_memcpy(&to, &from, sizeof to);
    return to;
}
