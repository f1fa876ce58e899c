/* How a kernel runs the threads of a block: one after another in a loop, so that a thread costs a few
 * instructions and not a call by the simulator.
 *
 * The loop goes on until a thread does what needs a state of its own: it waits, its turn has become long, or
 * something is to be said about it. The simulator then knows it by threadIdx (sim_catch_up in block.c), takes
 * it out of the loop (`is_alone`), and starts the threads behind it one by one. The turns' signal finds the
 * thread that runs in the same way, so from the end of a thread to the beginning of the next one the loop
 * says that it is between two. A kernel that is watched has no loop. */
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
template <class... P, class Kernel, size_t... I>
__attribute__((no_sanitize("thread"))) SIM_INLINE void
sim_run_threads(const Kernel &kernel, void *const *values, std::index_sequence<I...>) {
    sim_call_thread(kernel, *(P *)values[I]...);
    sim_come_to_end();
}

#else

static constexpr bool sim_is_watched = false;
SIM_INLINE void sim_leave() {
    SIM_OWN.leaves = true;
    if (SIM_OWN.is_alone)
        sim_thread_leaves();
}
/* Nothing of one thread's work may be moved to another's. */
#define SIM_ONE_AFTER_ANOTHER __asm__ volatile("" ::: "memory")
/* False behind the last row of the block. */
SIM_INLINE bool sim_next_row(struct sim_registers *registers) {
    if (registers->thread_index.y + 1 < registers->block_size.y) {
        registers->thread_index.y++;
    } else if (registers->thread_index.z + 1 < registers->block_size.z) {
        registers->thread_index.y = 0;
        registers->thread_index.z++;
    } else {
        return false;
    }
    registers->row += registers->block_size.x;
    return true;
}
/* Values that fit are fetched once. */
template <class P>
using sim_kept = std::conditional_t<std::is_trivially_copyable<P>::value && sizeof(P) <= 64, P, P &>;
template <class... P, class Kernel, size_t... I>
SIM_INLINE void sim_run_threads(const Kernel &kernel, void *const *values, std::index_sequence<I...>) {
    std::tuple<sim_kept<P>...> kept(*(P *)values[I]...);
    struct sim_registers *const registers = &SIM_OWN;
    for (unsigned x = 1;; x++) { /* of the next thread */
        SIM_ONE_AFTER_ANOTHER;
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
        if (x == registers->block_size.x) {
            if (!sim_next_row(registers))
                return;
            x = 0;
        }
        registers->thread_index.x = x;
        SIM_ONE_AFTER_ANOTHER;
        registers->is_between = false;
    }
}

#endif
