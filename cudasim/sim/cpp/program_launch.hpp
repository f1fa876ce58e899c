/* Launches by a program. `k<<<grid, block, bytes, stream>>>(x, n)` comes here as
 *
 *     (sim_launcher(SIM_HERE, "k", k)->*sim_configuration(grid, block, bytes, stream))(x, n)
 *
 * and where k is a template, whose arguments the compiler is to find, with `[](auto... a) { k(a...); }` for k
 * (cudasim/live/host.py). */
#pragma once
#include "program.hpp"

struct sim_configured {
    dim3 grid, block;
    size_t shared_bytes;
    cudaStream_t stream;
};
SIM_HOST sim_configured sim_configuration(dim3 grid, dim3 block, size_t shared_bytes = 0,
                                          cudaStream_t stream = 0) {
    return {grid, block, shared_bytes, stream};
}

/* Which arguments are pointers, and whether the kernel's parameters let it write there. */
template <class P> SIM_HOST sim_argument sim_argument_of(const P &value) {
    if constexpr (std::is_pointer<P>::value)
        return {(const void *)value, std::is_const<std::remove_pointer_t<P>>::value};
    else
        return {0, true};
}

template <class Kernel, class... P> struct sim_call {
    Kernel kernel;
    void *values[sizeof...(P) + 1];

    template <size_t... I> __attribute__((no_sanitize("thread"))) void call(std::index_sequence<I...>) const {
        kernel(*(P *)values[I]...);
    }
    __attribute__((no_sanitize("thread"))) static void enter(const void *self) {
        ((const sim_call *)self)->call(std::index_sequence_for<P...>());
        sim_come_to_end();
    }
};

template <class Kernel, class... P>
SIM_HOST cudaError_t sim_launch_now(const sim_site *site, const char *name, Kernel kernel,
                                    sim_configured with, bool is_cooperative, P... values) {
    const sim_call<Kernel, P...> call = {kernel, {(void *)&values..., 0}};
    const sim_argument pointers[] = {sim_argument_of(values)..., {0, true}};
    const sim_program_launch launch = {name,
                                       site->file,
                                       site->line,
                                       call.enter,
                                       &call,
                                       sizeof call,
                                       pointers,
                                       sizeof...(P),
                                       {with.grid.x, with.grid.y, with.grid.z},
                                       {with.block.x, with.block.y, with.block.z},
                                       with.shared_bytes,
                                       sim_stream_of(with.stream),
                                       1,
                                       is_cooperative};
    return sim_error(sim_program_launches(&launch));
}

/* A kernel with its parameters' types, to which arguments are converted by the host, once. */
template <class... P> struct sim_typed_launch {
    const sim_site *site;
    const char *name;
    void (*kernel)(P...);
    sim_configured with;
    SIM_INLINE_MEMBER void operator()(sim_given<P>... values) const {
        sim_launch_now<void (*)(P...), std::remove_cv_t<P>...>(site, name, kernel, with, false, values...);
    }
};
template <class Kernel> struct sim_any_launch {
    const sim_site *site;
    const char *name;
    Kernel kernel;
    sim_configured with;
    template <class... P> SIM_INLINE_MEMBER void operator()(P... values) const {
        sim_launch_now<Kernel, P...>(site, name, kernel, with, false, values...);
    }
};
template <class Kernel> struct sim_launched {
    const sim_site *site;
    const char *name;
    Kernel kernel;
};
template <class Kernel>
SIM_HOST sim_launched<Kernel> sim_launcher(const sim_site *site, const char *name, Kernel kernel) {
    return {site, name, kernel};
}
template <class... P>
SIM_HOST sim_typed_launch<P...> operator->*(sim_launched<void (*)(P...)> kernel, sim_configured with) {
    return {kernel.site, kernel.name, kernel.kernel, with};
}
template <class Kernel>
SIM_HOST sim_any_launch<Kernel> operator->*(sim_launched<Kernel> kernel, sim_configured with) {
    return {kernel.site, kernel.name, kernel.kernel, with};
}

/* ---- Launches with arguments by their addresses ---- */

template <class... P, size_t... I>
SIM_HOST cudaError_t sim_launch_by_address(const sim_site *site, void (*kernel)(P...), sim_configured with,
                                           bool is_cooperative, void **arguments, std::index_sequence<I...>) {
    return sim_launch_now<void (*)(P...), std::remove_cv_t<P>...>(
        site, "kernel", kernel, with, is_cooperative, *(std::remove_cv_t<P> *)arguments[I]...);
}
template <class... P>
SIM_HOST cudaError_t cudaLaunchKernel(void (*kernel)(P...), dim3 grid, dim3 block, void **arguments,
                                      size_t shared_bytes = 0, cudaStream_t stream = 0, SIM_CALLED) {
    return sim_launch_by_address(sim_site_at(sim_file, sim_line), kernel, {grid, block, shared_bytes, stream},
                                 false, arguments, std::index_sequence_for<P...>());
}
template <class... P>
SIM_HOST cudaError_t cudaLaunchCooperativeKernel(void (*kernel)(P...), dim3 grid, dim3 block,
                                                 void **arguments, size_t shared_bytes = 0,
                                                 cudaStream_t stream = 0, SIM_CALLED) {
    return sim_launch_by_address(sim_site_at(sim_file, sim_line), kernel, {grid, block, shared_bytes, stream},
                                 true, arguments, std::index_sequence_for<P...>());
}

/* A kernel whose type is lost, as `(void *)kernel`: each that is no template is noted when the program
 * begins. */
struct sim_known_kernel {
    const void *address;
    cudaError_t (*launch)(const void *, const sim_site *, sim_configured, bool, void **);
    const sim_known_kernel *next;
    static const sim_known_kernel *&first() {
        static const sim_known_kernel *known;
        return known;
    }
    template <class... P>
    sim_known_kernel(void (*kernel)(P...))
        : address((const void *)kernel), launch([](const void *of, const sim_site *site, sim_configured with,
                                                   bool is_cooperative, void **arguments) {
              return sim_launch_by_address(site, (void (*)(P...))of, with, is_cooperative, arguments,
                                           std::index_sequence_for<P...>());
          }),
          next(first()) {
        first() = this;
    }
};
SIM_HOST cudaError_t sim_launch_known(const void *kernel, sim_configured with, bool is_cooperative,
                                      void **arguments, const char *file, int line) {
    for (const sim_known_kernel *known = sim_known_kernel::first(); known; known = known->next)
        if (known->address == kernel)
            return known->launch(kernel, sim_site_at(file, line), with, is_cooperative, arguments);
    return sim_error(sim_program_error(cudaErrorInvalidDeviceFunction));
}
SIM_HOST cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments,
                                      size_t shared_bytes = 0, cudaStream_t stream = 0, SIM_CALLED) {
    return sim_launch_known(kernel, {grid, block, shared_bytes, stream}, false, arguments, sim_file,
                            sim_line);
}
SIM_HOST cudaError_t cudaLaunchCooperativeKernel(const void *kernel, dim3 grid, dim3 block, void **arguments,
                                                 size_t shared_bytes = 0, cudaStream_t stream = 0,
                                                 SIM_CALLED) {
    return sim_launch_known(kernel, {grid, block, shared_bytes, stream}, true, arguments, sim_file, sim_line);
}

/* ---- What can be asked of a kernel ---- */

enum cudaFuncAttribute {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
    cudaFuncAttributePreferredSharedMemoryCarveout = 9,
    cudaFuncAttributeNonPortableClusterSizeAllowed = 13
};
struct cudaFuncAttributes {
    size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
    int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion, cacheModeCA, maxDynamicSharedSizeBytes;
};
template <class Kernel> SIM_HOST cudaError_t cudaFuncSetAttribute(Kernel, cudaFuncAttribute, int) {
    return sim_error(sim_program_error(0));
}
template <class Kernel> SIM_HOST cudaError_t cudaFuncSetCacheConfig(Kernel, cudaFuncCache) {
    return sim_error(sim_program_error(0));
}
template <class Kernel> SIM_HOST cudaError_t cudaFuncSetSharedMemConfig(Kernel, cudaSharedMemConfig) {
    return sim_error(sim_program_error(0));
}
/* Registers are the compiler's, and not known here. */
template <class Kernel>
SIM_HOST cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, Kernel, int threads,
                                                                   size_t shared_bytes) {
    *blocks = sim_gpu_blocks(threads, shared_bytes);
    return sim_error(sim_program_error(0));
}
template <class Kernel>
SIM_HOST cudaError_t cudaOccupancyMaxPotentialBlockSize(int *blocks, int *threads, Kernel,
                                                        size_t shared_bytes = 0, int most = 0) {
    *threads = most > 0 && most < 1024 ? most : 1024;
    *blocks = sim_gpu_blocks(*threads, shared_bytes) * sim_gpu_now()->multiprocessors;
    return sim_error(sim_program_error(0));
}
