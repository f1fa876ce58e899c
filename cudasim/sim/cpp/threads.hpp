/* How a kernel runs the threads of a block: one after another in a loop, so that a thread costs a few
 * instructions and not a call by the simulator.
 *
 * The loop goes on until a thread does what needs a state of its own: it waits, its turn has become long, or
 * something is to be said about it. The simulator then knows it by threadIdx (sim_catch_up in block.c), takes
 * it out of the loop (`is_alone`), and starts the threads behind it one by one. The turns' signal finds the
 * thread that runs in the same way, so from the end of a thread to the beginning of the next one the loop
 * says that it is between two. A kernel that is watched has no loop.
 *
 * Where a kernel, with all that it calls, is a piece of the loop and calls nothing of the simulator, nobody
 * asks which thread runs, and the loop need not say so: it has threadIdx in a register, and the compiler
 * moves out of it what all threads compute, and computes several threads at a time. Each kernel is compiled
 * in such a blind loop as well, and what the compiler has made of it tells whether it may run
 * (cudasim/live/blind_loops.py). After a fault in one the block runs again in the other loop, which tells the
 * thread (block.c). */
#pragma once
#include "language.hpp"
#include <tuple>
#include <utility>

/* A kernel's own copy of an object that has a destructor. The processor's convention for calls hands such an
 * object over by its address, and the caller destroys it; so a call by address leaves out what no GPU does
 * either: the copy's construction and its end in each thread. The bytes are copied, since a thread may write
 * to its parameter. */
template <class P> struct sim_bytes_of_object {
    alignas(P) unsigned char bytes[sizeof(P)];
    __attribute__((no_sanitize("thread"))) SIM_INLINE_MEMBER explicit sim_bytes_of_object(const P &of) {
        __builtin_memcpy(bytes, (const void *)&of, sizeof bytes);
    }
    SIM_INLINE_MEMBER operator P &() {
        return *(P *)bytes;
    }
};
template <class P> static constexpr bool sim_is_destroyed = !std::is_trivially_destructible<P>::value;
template <class P> using sim_as_called = std::conditional_t<sim_is_destroyed<P>, P &, P>;
template <class P> using sim_of_thread = std::conditional_t<sim_is_destroyed<P>, sim_bytes_of_object<P>, P &>;

template <class Kernel, class... V> SIM_INLINE void sim_call_thread(const Kernel &kernel, V &...values) {
    kernel(values...);
}
template <class... P, class... V> SIM_INLINE void sim_call_thread(void (*kernel)(P...), V &...values) {
    if constexpr ((sim_is_destroyed<P> || ...))
        ((void (*)(sim_as_called<P>...))kernel)(sim_of_thread<P>(values)...);
    else
        kernel(values...);
}

#ifdef SIM_IS_WATCHED

static constexpr bool sim_is_watched = true;
SIM_INLINE void sim_leave() {
    sim_thread_leaves();
}
/* An argument, on the thread's stack: a struct's own constructor may copy it, which is watched
 * (cudasim/live/copies.py), and elsewhere it is in memory of the host. */
template <class P,
          bool = std::is_trivially_copy_constructible<P>::value && std::is_trivially_destructible<P>::value>
struct sim_own_argument {
    alignas(P) char bytes[sizeof(P)];
    __attribute__((no_sanitize("thread"), always_inline)) explicit sim_own_argument(const void *from) {
        __builtin_memcpy(bytes, from, sizeof bytes);
    }
    SIM_INLINE_MEMBER operator P &() {
        return *(P *)bytes;
    }
};
template <class P> struct sim_own_argument<P, false> {
    void *value;
    SIM_INLINE_MEMBER explicit sim_own_argument(void *value) : value(value) {}
    SIM_INLINE_MEMBER operator P &() {
        return *(P *)value;
    }
};
template <class... P, class Kernel, size_t... I>
__attribute__((no_sanitize("thread"))) SIM_INLINE void
sim_run_threads(const Kernel &kernel, void *const *values, std::index_sequence<I...>) {
    sim_call_thread(kernel, (P &)sim_own_argument<P>(values[I])...);
    sim_come_to_end();
}

#else

static constexpr bool sim_is_watched = false;
SIM_INLINE void sim_leave() {
    if (sim_blind)
        return;
    SIM_OWN.leaves = true;
    if (SIM_OWN.is_alone)
        sim_thread_leaves();
}
/* Nothing of one thread's work may be moved to another's. */
#define SIM_ONE_AFTER_ANOTHER __asm__ volatile("" ::: "memory")
/* False behind the last row of the block. */
SIM_INLINE bool sim_next_row(struct sim_registers *registers) {
    if (registers->sim_thread_index.y + 1 < registers->sim_block_size.y) {
        registers->sim_thread_index.y++;
    } else if (registers->sim_thread_index.z + 1 < registers->sim_block_size.z) {
        registers->sim_thread_index.y = 0;
        registers->sim_thread_index.z++;
    } else {
        return false;
    }
    registers->row += registers->sim_block_size.x;
    return true;
}
/* Values that fit are fetched once. */
template <class P>
using sim_kept = std::conditional_t<std::is_trivially_copyable<P>::value && sizeof(P) <= 64, P, P &>;
/* With an index below this an int holds what is made of blockIdx.x, blockDim.x and threadIdx.x, as the
 * compiler has to know where it computes neighbours together. */
static constexpr unsigned sim_most_in_blind = 0x7fffffff - 1024;
/* The threads of a block, and no account of them. The assignments to sim_blind are for the compiler, which
 * finds that nobody reads what they leave, or the loop does not run. */
template <class... P, class Kernel, size_t... I>
SIM_INLINE void sim_run_all(const Kernel &kernel, void *const *values, std::index_sequence<I...>) {
    std::tuple<sim_kept<P>...> kept(*(P *)values[I]...);
    struct sim_registers own = *sim_own_registers();
    const dim3 size = own.sim_block_size;
    if (size.x > 1024 || own.sim_block_index.x * size.x > sim_most_in_blind)
        __builtin_unreachable();
    for (own.sim_thread_index.z = 0; own.sim_thread_index.z < size.z; own.sim_thread_index.z++)
        for (unsigned y = 0; y < size.y; y++)
            for (unsigned x = 0; x < size.x; x++) {
                own.sim_thread_index.x = x;
                own.sim_thread_index.y = y;
                sim_blind = &own;
                sim_call_thread(kernel, std::get<I>(kept)...);
                sim_blind = 0;
            }
}
template <class Kernel, class... P>
__attribute__((noipa)) static void sim_run_blind(const Kernel kernel, void *const *values) {
    sim_run_all<P...>(kernel, values, std::index_sequence_for<P...>());
}
/* What cudasim/live/blind_loops.py lists: those loops that may run. */
extern "C" const void *const __start_sim_blind_loops[] __attribute__((weak, visibility("hidden")));
extern "C" const void *const __stop_sim_blind_loops[] __attribute__((weak, visibility("hidden")));
inline bool sim_is_listed(const void *loop) {
    const void *const *listed = __start_sim_blind_loops;
    while (listed < __stop_sim_blind_loops && *listed != loop)
        listed++;
    return listed < __stop_sim_blind_loops;
}
/* Of a kernel that the type names, and not a pointer. */
template <class Kernel> struct sim_is_named : std::is_empty<Kernel> {};
template <class... P, class Kernel>
SIM_INLINE bool sim_have_run_blind(struct sim_registers *registers, const Kernel &kernel,
                                   void *const *values) {
    if constexpr (sim_is_named<Kernel>::value) {
        static const bool is_listed = sim_is_listed((const void *)sim_run_blind<Kernel, P...>);
        const dim3 size = registers->sim_block_size;
        if (!is_listed || registers->is_alone || registers->is_to_see ||
            (uint64_t)registers->sim_block_index.x * size.x > sim_most_in_blind)
            return false;
        /* From here on the turns' signal does nothing; it may have taken the first thread out of the loop. */
        registers->is_blind = true;
        SIM_ONE_AFTER_ANOTHER;
        const bool is_first = !registers->is_alone;
        if (is_first) {
            sim_run_blind<Kernel, P...>(kernel, values);
            registers->is_between = true;
            registers->sim_thread_index = {size.x - 1, size.y - 1, size.z - 1};
            SIM_ONE_AFTER_ANOTHER;
        }
        registers->is_blind = false;
        return is_first;
    }
    return false;
}
template <class... P, class Kernel, size_t... I>
SIM_INLINE void sim_run_threads(const Kernel &kernel, void *const *values, std::index_sequence<I...>) {
    struct sim_registers *const registers = sim_own_registers();
    if (sim_have_run_blind<P...>(registers, kernel, values))
        return;
    std::tuple<sim_kept<P>...> kept(*(P *)values[I]...);
    for (unsigned x = 1;; x++) { /* of the next thread */
        SIM_ONE_AFTER_ANOTHER;
        if (sim_blind)
            __builtin_unreachable();
        sim_call_thread(kernel, std::get<I>(kept)...);
        SIM_ONE_AFTER_ANOTHER;
        registers->is_between = true;
        SIM_ONE_AFTER_ANOTHER;
        if (registers->is_alone | registers->leaves) {
            if (registers->is_alone) {
                registers->is_between = false;
                sim_come_to_end();
                return;
            }
            registers->leaves = false;
        } else {
            registers->came_to_end = registers->row + x;
        }
        if (x == registers->sim_block_size.x) {
            if (!sim_next_row(registers))
                return;
            x = 0;
        }
        registers->sim_thread_index.x = x;
        SIM_ONE_AFTER_ANOTHER;
        registers->is_between = false;
    }
}

#endif
