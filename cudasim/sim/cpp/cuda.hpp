/* What every kernel in C++ has without an #include, as with nvcc: cuda_runtime.h and what it includes. */
#pragma once

/* Without std::legendre() and libstdc++'s other special functions: they are inline functions that call
 * templates, which each source would instantiate again, in half of the time that a small kernel takes to
 * compile. A source that names one gets them back (special_functions.hpp). The headers are those that they
 * bring along. */
#include <cstddef>
#undef _GLIBCXX_USE_STD_SPEC_FUNCS
#include <limits>
#if __has_include(<bits/stl_algobase.h>)
#include <bits/stl_algobase.h>
#endif

#include "assert.h"
#include "atomics.hpp"
#include "entry.hpp"
#include "host_types.hpp"
#include "intrinsics.hpp"
#include "ptx_matrix.hpp"
#include "shifts.hpp"
#include "simd.hpp"
#include "special.hpp"
#include "surfaces.hpp"
#include "threads.hpp"
#include "warp.hpp"
#include <cstring>
#include <utility>
#include "memory.hpp" /* after what uses the C library's own */

/* ---- How a kernel is called: `arguments` are pointers to the values ---- */

/* A kernel that the compiler knows by its type. */
template <auto address> struct sim_constant_kernel {
    template <class... V> SIM_INLINE_MEMBER void operator()(V &...values) const {
        address(values...);
    }
};
/* The kernel's type, of functions of its name: it alone returns nothing. */
template <class... A> auto sim_entered(void (*kernel)(A...)) -> void (*)(A...);
template <auto address, class... A>
__attribute__((no_sanitize("thread"))) SIM_INLINE void sim_enter(void (*kernel)(A...),
                                                                 const void *arguments) {
    if constexpr (sim_is_watched || (sim_is_destroyed<A> || ...))
        sim_run_threads<std::remove_cv_t<A>...>(kernel, (void *const *)arguments,
                                                std::index_sequence_for<A...>());
    else
        sim_run_threads<std::remove_cv_t<A>...>(sim_constant_kernel<address>(), (void *const *)arguments,
                                                std::index_sequence_for<A...>());
}
