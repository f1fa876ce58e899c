/* Launches by a program. `k<<<grid, block, bytes, stream>>>(x, n)` comes here as
 *
 *     (sim_launcher(SIM_HERE, "k", k)->*sim_configuration(grid, block, bytes, stream))(x, n)
 *
 * and where k is a template, whose arguments the compiler is to find, with sim_deduced() of two lambdas for
 * k, which call it and tell its address (cudasim/live/host.py). */
#pragma once
#include "program.hpp"
#include <map>
#include <new>

struct sim_configured {
    dim3 grid, block;
    size_t shared_bytes;
    cudaStream_t stream;
    unsigned cluster = 1; /* blocks, along x */
};
SIM_HOST sim_configured sim_configuration(dim3 grid, dim3 block, size_t shared_bytes = 0,
                                          cudaStream_t stream = 0) {
    return {grid, block, shared_bytes, stream};
}

/* What a launch has to know of the type of a parameter. */
struct sim_parameter {
    size_t bytes, alignment;
    bool is_pointer, is_constant; /* to what the kernel only reads, as its parameter says */
    void (*copy)(void *to, const void *from) = NULL; /* NULL: its bytes are all of it */
    void (*end)(void *value) = NULL;
};
template <class P> constexpr sim_parameter sim_parameter_of() {
    sim_parameter of = {sizeof(P), alignof(P), std::is_pointer<P>::value,
                        std::is_const<std::remove_pointer_t<P>>::value};
    if constexpr (!std::is_trivially_copyable<P>::value) {
        of.copy = [](void *to, const void *from) { new (to) P(*(const P *)from); };
        of.end = [](void *value) { ((P *)value)->~P(); };
    }
    return of;
}
/* All that is compiled for each kernel; what is done with it is the same for all (../program/host.cpp). */
struct sim_kernel_type {
    void (*enter)(const void *call);
    size_t call_bytes;
    unsigned count;
    const sim_parameter *parameters;
};
template <class Kernel, class... P> struct sim_call {
    void *values[sizeof...(P) + 1];
    Kernel kernel;

    __attribute__((no_sanitize("thread"))) static void enter(const void *self) {
        const sim_call *call = (const sim_call *)self;
        sim_run_threads<P...>(call->kernel, call->values, std::index_sequence_for<P...>());
    }
};
template <class Kernel, class... P> inline const sim_kernel_type *sim_kernel_type_of() {
    static_assert(std::is_trivially_copyable<Kernel>::value, "a launch keeps the bytes of its kernel");
    static_assert((sizeof(P) + ... + 0) <= 32764, "a kernel's parameters have 32764 bytes at most");
    static constexpr sim_parameter parameters[] = {sim_parameter_of<P>()..., {}};
    static constexpr sim_kernel_type type = {sim_call<Kernel, P...>::enter, sizeof(sim_call<Kernel, P...>),
                                             sizeof...(P), parameters};
    return &type;
}
/* address: NULL, or the kernel's, which tells the size of its clusters. call: begins with the addresses of
 * the arguments. */
cudaError_t sim_launch(const sim_kernel_type *type, const void *address, const void *call,
                       const sim_site *site, const char *name, sim_configured with, bool is_cooperative);

cudaError_t sim_launch_nothing(const sim_site *site, const char *name); /* by a null pointer */

/* A kernel with __cluster_dims__, which all its launches have. */
struct sim_clustered_kernel {
    const void *address;
    dim3 size;
    const sim_clustered_kernel *next;
    static const sim_clustered_kernel *&first() {
        static const sim_clustered_kernel *known;
        return known;
    }
    template <class... P>
    sim_clustered_kernel(void (*kernel)(P...), dim3 size)
        : address((const void *)kernel), size(size), next(first()) {
        first() = this;
    }
};
/* A kernel of which the compiler knows at its launch which one it is, so that it may become part of the loop
 * over the threads. */
template <class Body, class... P> struct sim_inlined {
    void (*address)(P...);
    Body body;
    SIM_INLINE_MEMBER void operator()(std::remove_cv_t<P> &...values) const {
        body(values...);
    }
};
#ifndef SIM_IS_WATCHED
template <class Body, class... P> struct sim_is_named<sim_inlined<Body, P...>> : std::is_empty<Body> {};
#endif
/* A kernel whose template's arguments are those of a call. Only an object with a destructor needs the
 * address, to be handed over by its own (threads.hpp), and no kernel has one that converts it. */
template <class Call, class Address> struct sim_deduced : Call, Address {
    sim_deduced(Call call, Address address) : Call(call), Address(address) {}
    template <class... V>
    __attribute__((no_sanitize("thread"))) SIM_INLINE_MEMBER void operator()(V &...values) const {
        if constexpr (std::conjunction<std::bool_constant<(sim_is_destroyed<V> || ...)>,
                                       std::is_invocable<const Address &, V &...>>::value)
            sim_call_thread(Address::operator()(values...), values...);
        else
            Call::operator()(values...);
    }
};
template <class... P> SIM_HOST const void *sim_address_of(void (*kernel)(P...)) {
    return (const void *)kernel;
}
template <class Body, class... P> SIM_HOST const void *sim_address_of(const sim_inlined<Body, P...> &kernel) {
    return (const void *)kernel.address;
}
template <class Kernel> SIM_HOST const void *sim_address_of(const Kernel &) {
    return 0;
}
/* Where a library launches a kernel of its own: the program's line is looked for if there is a fault. */
static constexpr sim_site sim_of_library = {"a library", 0};
/* A kernel's name without its template's arguments, of a program that exports it, or else "kernel". */
const char *sim_kernel_name(const void *kernel); /* ../program/host.cpp */
template <class Kernel, class... P>
SIM_HOST cudaError_t sim_launch_now(const sim_site *site, const char *name, Kernel kernel,
                                    sim_configured with, bool is_cooperative, const P &...values) {
    if constexpr (std::is_pointer<Kernel>::value)
        if (!kernel)
            return sim_launch_nothing(site, name);
    const sim_call<Kernel, P...> call = {{(void *)&values..., 0}, kernel};
    return sim_launch(sim_kernel_type_of<Kernel, P...>(), sim_address_of(kernel), &call, site, name, with,
                      is_cooperative);
}

/* A kernel with its parameters' types, to which arguments are converted by the host, once. */
template <class Kernel, class... P> struct sim_typed_launch {
    const sim_site *site;
    const char *name;
    Kernel kernel;
    sim_configured with;
    SIM_INLINE_MEMBER void operator()(sim_given<P>... values) const {
        sim_launch_now<Kernel, std::remove_cv_t<P>...>(site, name, kernel, with, false, values...);
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
/* body: calls the kernel by its name. It holds something where that is the name of a variable. A kernel that
 * is watched stays as it is, and so does one that is given an object with a destructor (threads.hpp). */
template <class Body, class... P>
SIM_HOST auto sim_launcher(const sim_site *site, const char *name, void (*kernel)(P...), Body body) {
    if constexpr (std::is_empty<Body>::value && !sim_is_watched && !(sim_is_destroyed<P> || ...))
        return sim_launched<sim_inlined<Body, P...>>{site, name, {kernel, body}};
    else
        return sim_launched<void (*)(P...)>{site, name, kernel};
}
template <class... P>
SIM_HOST sim_typed_launch<void (*)(P...), P...> operator->*(sim_launched<void (*)(P...)> kernel,
                                                            sim_configured with) {
    return {kernel.site, kernel.name, kernel.kernel, with};
}
template <class Body, class... P>
SIM_HOST sim_typed_launch<sim_inlined<Body, P...>, P...>
operator->*(sim_launched<sim_inlined<Body, P...>> kernel, sim_configured with) {
    return {kernel.site, kernel.name, kernel.kernel, with};
}
template <class Kernel>
SIM_HOST sim_any_launch<Kernel> operator->*(sim_launched<Kernel> kernel, sim_configured with) {
    return {kernel.site, kernel.name, kernel.kernel, with};
}

/* ---- Launches with arguments by their addresses ---- */

template <class... P, size_t... I>
inline cudaError_t sim_launch_by_address(const sim_site *site, void (*kernel)(P...), sim_configured with,
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
    const sim_kernel_type *type;
    const sim_known_kernel *next;
    static const sim_known_kernel *&first() {
        static const sim_known_kernel *known;
        return known;
    }
    template <class... P>
    sim_known_kernel(void (*kernel)(P...))
        : address((const void *)kernel), type(sim_kernel_type_of<void (*)(P...), std::remove_cv_t<P>...>()),
          next(first()) {
        first() = this;
    }
};
const sim_kernel_type *sim_known_type(const void *kernel); /* NULL: none is at that address */
cudaError_t sim_launch_known(const void *kernel, sim_configured with, bool is_cooperative, void **arguments,
                             const char *file, int line);
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
/* The bytes of the kernel's __shared__ arrays, and what a launch may have besides: the rest of 48 KiB, or
 * what cudaFuncSetAttribute() has asked for. kernel: NULL where a launch does not know its kernel's address;
 * then it may have what any kernel may. */
size_t sim_static_shared(const void *kernel);
size_t sim_most_dynamic_shared(const void *kernel);
cudaError_t sim_set_attribute(const void *kernel, cudaFuncAttribute attribute, int value);
template <class Kernel>
SIM_HOST cudaError_t cudaFuncSetAttribute(Kernel kernel, cudaFuncAttribute attribute, int value) {
    return sim_set_attribute((const void *)kernel, attribute, value);
}
template <class Kernel> SIM_HOST cudaError_t cudaFuncSetCacheConfig(Kernel, cudaFuncCache) {
    return sim_says(0);
}
template <class Kernel> SIM_HOST cudaError_t cudaFuncSetSharedMemConfig(Kernel, cudaSharedMemConfig) {
    return sim_says(0);
}
/* Registers and local memory are the compiler's, and not known here: 0. */
template <class Kernel> SIM_HOST cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *to, Kernel kernel) {
    const sim_gpu *gpu = sim_gpu_now();
    *to = {};
    to->sharedSizeBytes = sim_static_shared((const void *)kernel);
    to->maxThreadsPerBlock = 1024;
    to->ptxVersion = to->binaryVersion = gpu->major * 10 + gpu->minor;
    to->maxDynamicSharedSizeBytes = (int)sim_most_dynamic_shared((const void *)kernel);
    return sim_says(0);
}
template <class Kernel>
SIM_HOST cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, Kernel kernel, int threads,
                                                                   size_t shared_bytes) {
    *blocks = sim_gpu_blocks(threads, shared_bytes + sim_static_shared((const void *)kernel));
    return sim_says(0);
}
template <class Kernel>
SIM_HOST cudaError_t cudaOccupancyMaxPotentialBlockSize(int *blocks, int *threads, Kernel kernel,
                                                        size_t shared_bytes = 0, int most = 0) {
    shared_bytes += sim_static_shared((const void *)kernel);
    *threads = most > 0 && most < 1024 ? most : 1024;
    *blocks = sim_gpu_blocks(*threads, shared_bytes) * sim_gpu_now()->multiprocessors;
    return sim_says(0);
}
template <class Kernel>
SIM_HOST cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, Kernel kernel,
                                                                            int threads, size_t shared_bytes,
                                                                            unsigned) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, kernel, threads, shared_bytes);
}
/* The largest block, as registers are not known, whose shared memory a multiprocessor has. */
template <class Kernel, class Bytes>
SIM_HOST cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMem(int *blocks, int *threads, Kernel kernel,
                                                                    Bytes bytes_of, int most = 0) {
    size_t known = sim_static_shared((const void *)kernel);
    int best = 0;
    for (int size = most > 0 && most < 1024 ? most : 1024; size > 0; size -= size % 32 ? size % 32 : 32) {
        int each = sim_gpu_blocks(size, bytes_of(size) + known);
        if (each * size > best)
            best = each * size, *threads = size, *blocks = each * sim_gpu_now()->multiprocessors;
    }
    return sim_says(best ? cudaSuccess : cudaErrorInvalidConfiguration);
}

/* ---- Attributes of streams: a wish about the L2 cache is kept and changes nothing ---- */

enum cudaAccessProperty {
    cudaAccessPropertyNormal,
    cudaAccessPropertyStreaming,
    cudaAccessPropertyPersisting
};
struct cudaAccessPolicyWindow {
    void *base_ptr;
    size_t num_bytes;
    float hitRatio;
    cudaAccessProperty hitProp, missProp;
};
enum cudaSynchronizationPolicy {
    cudaSyncPolicyAuto = 1,
    cudaSyncPolicySpin,
    cudaSyncPolicyYield,
    cudaSyncPolicyBlockingSync
};
enum cudaLaunchAttributeID {
    cudaLaunchAttributeIgnore,
    cudaLaunchAttributeAccessPolicyWindow,
    cudaLaunchAttributeCooperative,
    cudaLaunchAttributeSynchronizationPolicy,
    cudaLaunchAttributeClusterDimension,
    cudaLaunchAttributeClusterSchedulingPolicyPreference,
    cudaLaunchAttributeProgrammaticStreamSerialization,
    cudaLaunchAttributePriority = 8
};
union cudaLaunchAttributeValue {
    char bytes[64];
    cudaAccessPolicyWindow accessPolicyWindow;
    int cooperative;
    cudaSynchronizationPolicy syncPolicy;
    struct {
        unsigned x, y, z;
    } clusterDim;
    int clusterSchedulingPolicyPreference, programmaticStreamSerializationAllowed, priority;
};
typedef cudaLaunchAttributeID cudaStreamAttrID;
typedef cudaLaunchAttributeValue cudaStreamAttrValue;
#define cudaStreamAttributeAccessPolicyWindow cudaLaunchAttributeAccessPolicyWindow
#define cudaStreamAttributeSynchronizationPolicy cudaLaunchAttributeSynchronizationPolicy
#define cudaStreamAttributePriority cudaLaunchAttributePriority
SIM_WHERE_CALLED inline std::map<std::pair<cudaStream_t, int>, cudaStreamAttrValue> &sim_stream_attributes() {
    static std::map<std::pair<cudaStream_t, int>, cudaStreamAttrValue> kept;
    return kept;
}
SIM_WHERE_CALLED SIM_HOST cudaError_t cudaStreamSetAttribute(cudaStream_t stream, cudaStreamAttrID attribute,
                                                             const cudaStreamAttrValue *value) {
    sim_stream_attributes()[{stream, attribute}] = *value;
    return sim_says(0);
}
SIM_WHERE_CALLED SIM_HOST cudaError_t cudaStreamGetAttribute(cudaStream_t stream, cudaStreamAttrID attribute,
                                                             cudaStreamAttrValue *value) {
    *value = sim_stream_attributes()[{stream, attribute}];
    return sim_says(0);
}
SIM_WHERE_CALLED SIM_HOST cudaError_t cudaStreamCopyAttributes(cudaStream_t to, cudaStream_t from) {
    auto kept = sim_stream_attributes();
    for (const auto &[of, value] : kept)
        if (of.first == from)
            sim_stream_attributes()[{to, of.second}] = value;
    return sim_says(0);
}
SIM_HOST cudaError_t cudaCtxResetPersistingL2Cache() {
    return sim_says(0);
}

/* ---- Launches with attributes ---- */

struct cudaLaunchAttribute {
    cudaLaunchAttributeID id;
    cudaLaunchAttributeValue val;
};
struct cudaLaunchConfig_t {
    dim3 host_gridDim, host_blockDim; /* see cudasim/live/host.py */
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute *attrs;
    unsigned numAttrs;
};
/* Clusters are along x here: cudaErrorNotSupported. A launch may always begin before the one before it has
 * ended, and does not. */
cudaError_t sim_configure(const cudaLaunchConfig_t *config, sim_configured *with, bool *is_cooperative);
template <class... P>
SIM_HOST cudaError_t sim_launch_with_attributes(const sim_site *site, const cudaLaunchConfig_t *config,
                                                void (*kernel)(P...), sim_given<P>... values) {
    sim_configured with;
    bool is_cooperative;
    if (cudaError_t error = sim_configure(config, &with, &is_cooperative))
        return error;
    return sim_launch_now<void (*)(P...), std::remove_cv_t<P>...>(site, "kernel", kernel, with,
                                                                  is_cooperative, values...);
}
/* A kernel's handle is its address. */
typedef struct CUfunc_st *cudaFunction_t;
typedef struct CUkern_st *cudaKernel_t;
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *kernel, void **arguments,
                                SIM_CALLED);
cudaError_t cudaFuncGetParamInfo(const void *kernel, size_t index, size_t *offset, size_t *bytes);
cudaError_t cudaGetFuncBySymbol(cudaFunction_t *to, const void *kernel);
cudaError_t cudaGetKernel(cudaKernel_t *to, const void *kernel);
cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, cudaFuncAttribute which, int value,
                                            int device);
cudaError_t sim_dynamic_shared_of(size_t *bytes, const void *kernel, int blocks, int threads);
template <class Kernel>
SIM_HOST cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, Kernel kernel, int blocks,
                                                               int threads) {
    return sim_dynamic_shared_of(bytes, (const void *)kernel, blocks, threads);
}
cudaError_t sim_most_cluster(int *blocks, const void *kernel);
template <class Kernel>
SIM_HOST cudaError_t cudaOccupancyMaxPotentialClusterSize(int *blocks, Kernel kernel,
                                                          const cudaLaunchConfig_t *) {
    return sim_most_cluster(blocks, (const void *)kernel);
}
#define cudaLaunchKernelEx(...) sim_launch_with_attributes(SIM_HERE, __VA_ARGS__)
