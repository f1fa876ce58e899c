/* What a program's host code does for every launch, and for every function of the runtime that is no part of
 * the call's line. Linked into each program, so that no program has to compile it. */
#include "kept_launch.hpp"
#include <algorithm>
#include <cxxabi.h>
#include <dlfcn.h>
#include <mutex>
#include <new>
#include <string>

/* ---- Launches ---- */

enum { SHARED = 48 << 10 }; /* bytes, without a call of cudaFuncSetAttribute() */
static std::map<const void *, size_t> &asked() {
    static std::map<const void *, size_t> known;
    return known;
}
static std::mutex of_asked; /* the program may have several OS threads */

size_t sim_static_shared(const void *kernel) {
    static std::map<const void *, size_t> known;
    if (sim_program_is_in_kernel()) /* where memory is the device's */
        return 0;
    std::lock_guard<std::mutex> locked(of_asked);
    auto found = known.find(kernel);
    if (kernel && found == known.end())
        found = known.insert({kernel, sim_program_static_shared(kernel)}).first;
    return kernel ? found->second : 0;
}

size_t sim_most_dynamic_shared(const void *kernel) {
    size_t own = sim_static_shared(kernel), most = own < SHARED ? SHARED - own : 0;
    std::lock_guard<std::mutex> locked(of_asked);
    for (const auto &[of, bytes] : asked())
        if (of == kernel || (!kernel && bytes > most))
            most = bytes;
    return most;
}

/* Kernels that may have clusters of more blocks than every GPU of their kind has room for. */
static std::map<const void *, bool> &large_clusters() {
    static std::map<const void *, bool> known;
    return known;
}
cudaError_t sim_set_attribute(const void *kernel, cudaFuncAttribute attribute, int value) {
    if (attribute == cudaFuncAttributeNonPortableClusterSizeAllowed) {
        std::lock_guard<std::mutex> locked(of_asked);
        large_clusters()[kernel] = value;
    }
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize)
        return sim_says(cudaSuccess);
    if (value < 0 || (size_t)value + sim_static_shared(kernel) > sim_gpu_now()->shared_bytes_of_block)
        return sim_says(cudaErrorInvalidValue);
    std::lock_guard<std::mutex> locked(of_asked);
    asked()[kernel] = (size_t)value;
    return sim_says(cudaSuccess);
}

/* Along x; 0 where it is along y or z too, which the simulator has not. */
static unsigned cluster_of(const void *kernel, unsigned asked) {
    for (auto *known = sim_clustered_kernel::first(); kernel && known; known = known->next)
        if (known->address == kernel)
            return known->size.y * known->size.z == 1 ? known->size.x : 0;
    return asked;
}

/* A call with copies of the arguments, which are at `values`. */
static std::shared_ptr<const void> kept(const sim_kernel_type *type, const void *call, void *const *values) {
    size_t bytes = type->call_bytes, alignment = alignof(void *);
    std::vector<size_t> places;
    for (unsigned i = 0; i < type->count; i++) {
        const sim_parameter &of = type->parameters[i];
        places.push_back((bytes + of.alignment - 1) / of.alignment * of.alignment);
        bytes = places.back() + of.bytes;
        alignment = std::max(alignment, of.alignment);
    }
    unsigned char *memory = (unsigned char *)::operator new(bytes, std::align_val_t(alignment));
    memcpy(memory, call, type->call_bytes);
    void **copies = (void **)memory;
    for (unsigned i = 0; i < type->count; i++) {
        const sim_parameter &of = type->parameters[i];
        copies[i] = memory + places[i];
        if (of.copy)
            of.copy(copies[i], values[i]);
        else
            memcpy(copies[i], values[i], of.bytes);
    }
    return std::shared_ptr<const void>(memory, [=](const void *) {
        for (unsigned i = 0; i < type->count; i++)
            if (type->parameters[i].end)
                type->parameters[i].end(copies[i]);
        ::operator delete(memory, std::align_val_t(alignment));
    });
}

const char *sim_kernel_name(const void *kernel) {
    if (sim_program_is_in_kernel()) /* where memory is the device's */
        return "kernel";
    static auto &known = *new std::map<const void *, std::string>; /* a table of launches is made at exit */
    std::lock_guard<std::mutex> locked(of_asked);
    std::string &name = known[kernel];
    if (name.empty()) {
        Dl_info of;
        bool is_known = dladdr(kernel, &of) && of.dli_saddr == kernel;
        char *whole = is_known ? abi::__cxa_demangle(of.dli_sname, NULL, NULL, NULL) : NULL;
        name = whole ? whole : "kernel";
        free(whole);
        name.resize(std::min(name.find_first_of("<("), name.size()));
        name.erase(0, name.find_last_of(" :") + 1);
    }
    return name.c_str();
}

cudaError_t sim_launch_nothing(const sim_site *site, const char *name) {
    const sim_called called = {name, site->file, site->line, 0};
    sim_program_say(&called, "launches a null pointer, which is no kernel");
    return sim_says(cudaErrorInvalidDeviceFunction);
}
cudaError_t sim_launch(const sim_kernel_type *type, const void *address, const void *call,
                       const sim_site *site, const char *name, sim_configured with, bool is_cooperative) {
    with.cluster = cluster_of(address, with.cluster);
    if (!with.cluster)
        return sim_says(cudaErrorNotSupported);
    void *const *values = (void *const *)call;
    bool is_in_kernel = sim_program_is_in_kernel();
    size_t own = sim_static_shared(address);
    size_t most = is_in_kernel ? with.shared_bytes : sim_most_dynamic_shared(address);
    if (own > SHARED || with.shared_bytes > most) {
        const sim_called called = {name, site->file, site->line, 0};
        char besides[80] = "";
        if (own)
            snprintf(besides, sizeof besides, " besides the %zu of its __shared__ arrays", own);
        if (own > SHARED)
            sim_program_say(&called, "%zu bytes of __shared__ arrays are more than %d, which nvcc refuses",
                            own, SHARED);
        else
            sim_program_say(
                &called,
                "%zu bytes of dynamic shared memory are more than %zu, which are what a launch may have%s; "
                "cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) asks for "
                "up to %zu on this GPU",
                with.shared_bytes, most, besides, sim_gpu_now()->shared_bytes_of_block - own);
        return sim_says(cudaErrorInvalidValue);
    }
    if (!is_in_kernel && sim_is_captured(with.stream))
        return sim_capture_launch(
            {type, address, kept(type, call, values), site, name, with, is_cooperative});
    /* On the stack: in a kernel, memory is the device's. */
    sim_argument pointers[type->count + 1];
    size_t bytes[type->count + 1];
    for (unsigned i = 0; i < type->count; i++) {
        const sim_parameter &of = type->parameters[i];
        pointers[i] = {of.is_pointer ? *(const void **)values[i] : 0, of.is_constant};
        bytes[i] = of.bytes;
    }
    const sim_program_launch launch = {name,
                                       site->file,
                                       site->line,
                                       type->enter,
                                       call,
                                       type->call_bytes,
                                       pointers,
                                       type->count,
                                       {with.grid.x, with.grid.y, with.grid.z},
                                       {with.block.x, with.block.y, with.block.z},
                                       with.shared_bytes,
                                       sim_stream_of(with.stream),
                                       with.cluster,
                                       is_cooperative,
                                       own};
    if (is_in_kernel)
        return (cudaError_t)sim_program_launches_later(&launch, values, bytes);
    return sim_error(sim_program_launches(&launch));
}

/* ---- Launches of a kernel whose type is lost ---- */

const sim_kernel_type *sim_known_type(const void *kernel) {
    for (const sim_known_kernel *known = sim_known_kernel::first(); known; known = known->next)
        if (known->address == kernel)
            return known->type;
    return 0;
}
sim_kept_launch sim_known_launch(const void *kernel, sim_configured with, bool is_cooperative,
                                 void **arguments, const char *file, int line) {
    const sim_kernel_type *type = sim_known_type(kernel);
    if (!type)
        return {};
    std::vector<const void *> call(type->count + 1); /* as sim_call has it */
    call.push_back(kernel);
    return {type, kernel,        kept(type, call.data(), arguments), sim_site_at(file, line), "kernel",
            with, is_cooperative};
}
cudaError_t sim_launch_known(const void *kernel, sim_configured with, bool is_cooperative, void **arguments,
                             const char *file, int line) {
    sim_kept_launch launch = sim_known_launch(kernel, with, is_cooperative, arguments, file, line);
    return launch.type ? launch(with.stream) : sim_says(cudaErrorInvalidDeviceFunction);
}

cudaError_t sim_configure(const cudaLaunchConfig_t *config, sim_configured *with, bool *is_cooperative) {
    if (!config || (config->numAttrs && !config->attrs))
        return sim_says(cudaErrorInvalidValue);
    *with = {config->host_gridDim, config->host_blockDim, config->dynamicSmemBytes, config->stream};
    *is_cooperative = false;
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const cudaLaunchAttribute &of = config->attrs[i];
        if (of.id == cudaLaunchAttributeCooperative)
            *is_cooperative = of.val.cooperative;
        else if (of.id == cudaLaunchAttributeClusterDimension) {
            if (of.val.clusterDim.y > 1 || of.val.clusterDim.z > 1)
                return sim_says(cudaErrorNotSupported);
            with->cluster = of.val.clusterDim.x ? of.val.clusterDim.x : 1;
        }
    }
    return cudaSuccess;
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *kernel, void **arguments,
                                const char *file, int line) {
    sim_configured with;
    bool is_cooperative;
    cudaError_t error = sim_configure(config, &with, &is_cooperative);
    return error ? error : sim_launch_known(kernel, with, is_cooperative, arguments, file, line);
}

/* ---- What can be asked of a kernel ---- */

cudaError_t cudaFuncGetParamInfo(const void *kernel, size_t index, size_t *offset, size_t *bytes) {
    const sim_kernel_type *type = sim_known_type(kernel);
    if (!type)
        return sim_says(cudaErrorInvalidDeviceFunction);
    if (!offset || index >= type->count)
        return sim_says(cudaErrorInvalidValue);
    size_t at = 0;
    for (size_t i = 0;; at += type->parameters[i++].bytes) {
        size_t alignment = type->parameters[i].alignment;
        at = (at + alignment - 1) / alignment * alignment;
        if (i == index)
            break;
    }
    *offset = at;
    if (bytes)
        *bytes = type->parameters[index].bytes;
    return sim_says(cudaSuccess);
}
template <class T> static cudaError_t handle_of(T *to, const void *kernel) {
    if (!to || !sim_known_type(kernel))
        return sim_says(to ? cudaErrorInvalidDeviceFunction : cudaErrorInvalidValue);
    *to = (T)kernel;
    return sim_says(cudaSuccess);
}
cudaError_t cudaGetFuncBySymbol(cudaFunction_t *to, const void *kernel) {
    return handle_of(to, kernel);
}
cudaError_t cudaGetKernel(cudaKernel_t *to, const void *kernel) {
    return handle_of(to, kernel);
}
cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, cudaFuncAttribute which, int value,
                                            int device) {
    cudaError_t error = sim_error(sim_device_exists(device));
    return error ? error : sim_set_attribute((const void *)kernel, which, value);
}
/* What a block may have so that so many of them are on a multiprocessor. */
cudaError_t sim_dynamic_shared_of(size_t *bytes, const void *kernel, int blocks, int threads) {
    if (!bytes || blocks <= 0 || threads <= 0 || threads > 1024)
        return sim_says(cudaErrorInvalidValue);
    size_t own = sim_static_shared(kernel), low = 0, high = sim_gpu_now()->shared_bytes_of_block;
    if (sim_gpu_blocks(threads, own) < blocks)
        return sim_says(cudaErrorInvalidValue);
    while (low < high) { /* the most that still has as many blocks */
        size_t middle = (low + high + 1) / 2;
        if (own + middle <= sim_gpu_now()->shared_bytes_of_block &&
            sim_gpu_blocks(threads, own + middle) >= blocks)
            low = middle;
        else
            high = middle - 1;
    }
    *bytes = low;
    return sim_says(cudaSuccess);
}
/* CUDA C++ Programming Guide, "Thread Block Clusters": 8 blocks everywhere, 16 on an H100 that was asked. */
cudaError_t sim_most_cluster(int *blocks, const void *kernel) {
    if (!blocks || sim_gpu_now()->major < 9)
        return sim_says(blocks ? cudaErrorNotSupported : cudaErrorInvalidValue);
    std::lock_guard<std::mutex> locked(of_asked);
    *blocks = large_clusters()[kernel] ? 16 : 8;
    return sim_says(cudaSuccess);
}

/* ---- Copies in three dimensions ---- */

cudaError_t sim_capture_copy_3d(cudaStream_t stream, const cudaMemcpy3DParms *of, sim_called called);

/* An array's part in a 3D copy, in bytes. Positions in an array are in elements, in plain memory in bytes. */
static cudaPitchedPtr pitched(cudaArray_t array, cudaPitchedPtr plain, cudaPos *position) {
    if (!array)
        return plain;
    position->x *= sim_texel_bytes(array->format);
    return {array->data, array->row_bytes(), array->row_bytes(), array->rows()};
}
cudaError_t sim_copy_3d(const cudaMemcpy3DParms *copy, cudaStream_t stream, bool waits, sim_called called) {
    if (!copy || (copy->srcArray && copy->srcPtr.ptr) || (copy->dstArray && copy->dstPtr.ptr))
        return sim_says(cudaErrorInvalidValue); /* an array or plain memory, and not both */
    if (!waits && sim_is_captured(stream))
        return sim_capture_copy_3d(stream, copy, called);
    cudaPos from_at = copy->srcPos, to_at = copy->dstPos;
    cudaPitchedPtr from = pitched(copy->srcArray, copy->srcPtr, &from_at);
    cudaPitchedPtr to = pitched(copy->dstArray, copy->dstPtr, &to_at);
    cudaArray_t array = copy->srcArray ? copy->srcArray : copy->dstArray;
    size_t width = copy->extent.width * (array ? sim_texel_bytes(array->format) : 1);
    cudaError_t error = cudaSuccess;
    for (size_t z = 0; z < copy->extent.depth && !error; z++) {
        size_t from_row = (z + from_at.z) * from.ysize + from_at.y;
        size_t to_row = (z + to_at.z) * to.ysize + to_at.y;
        error =
            sim_error(sim_memory_copy((char *)to.ptr + to_row * to.pitch + to_at.x, to.pitch,
                                      (char *)from.ptr + from_row * from.pitch + from_at.x, from.pitch, width,
                                      copy->extent.height, copy->kind, sim_stream_of(stream), waits, called));
    }
    return error;
}
