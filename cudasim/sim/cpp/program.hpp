/* The CUDA runtime for the host code of a whole program: C++ functions with CUDA's names around ../program/.
 * CUDA Runtime API; the folder's files tell where they do less.
 *
 * A program that needs a missing function does not compile, and the message names the function. */
#pragma once
#include "cuda.hpp"
#include "../program/program.h"
#include <atomic>

#undef SIM_CALLED
#define SIM_CALLED const char *sim_file = __builtin_FILE(), int sim_line = __builtin_LINE()
#define SIM_CALLED_AS(name) (sim_called{__func__, sim_file, sim_line, name})
#define SIM_HOST inline __attribute__((always_inline)) /* so that what is told has the line of the call */
#include "program_capture.hpp"

/* Sources such as helper_cuda.h test these for CUDA's own headers. */
#define __DRIVER_TYPES_H__
#define __CUDA_RUNTIME_H__
#define __CUDA_RUNTIME_API_H__

/* ---- Errors ---- */

/* One call at a time, whichever OS thread makes it. */
#define sim_error(call) (sim_program_begins(), (cudaError_t)sim_program_ends(call))
SIM_HOST cudaError_t sim_says(int error) {
    return sim_error(sim_program_error(error));
}
SIM_HOST cudaError_t cudaGetLastError() {
    if (sim_program_is_in_kernel())
        return cudaSuccess; /* of a launch by the kernel: a wrong one is told when it runs */
    return sim_error(sim_program_last_error(true));
}
SIM_HOST cudaError_t cudaPeekAtLastError() {
    if (sim_program_is_in_kernel())
        return cudaSuccess;
    return sim_error(sim_program_last_error(false));
}
/* Its callers are many, and hundreds of copies of it took a third of a program's compilation. */
inline const char *cudaGetErrorName(cudaError_t error) {
    switch (error) {
#define SIM_NAMED(name, number, words)                                                                       \
    case name:                                                                                               \
        return #name;
        SIM_ERRORS(SIM_NAMED)
#undef SIM_NAMED
    }
    return "unrecognized error code";
}
inline const char *cudaGetErrorString(cudaError_t error) {
    switch (error) {
#define SIM_NAMED(name, number, words)                                                                       \
    case name:                                                                                               \
        return words;
        SIM_ERRORS(SIM_NAMED)
#undef SIM_NAMED
    }
    return "unrecognized error code";
}

#include "program_device.hpp"

/* ---- Memory; the translation adds `name`, the variable that gets the memory ---- */

enum {
    cudaHostAllocDefault = 0,
    cudaHostAllocPortable = 1,
    cudaHostAllocMapped = 2,
    cudaHostAllocWriteCombined = 4,
    cudaMemAttachGlobal = 1,
    cudaMemAttachHost = 2,
    cudaMemAttachSingle = 4
};
enum { cudaHostRegisterDefault = 0, cudaHostRegisterPortable = 1, cudaHostRegisterMapped = 2 };
enum cudaMemoryAdvise {
    cudaMemAdviseSetReadMostly = 1,
    cudaMemAdviseUnsetReadMostly,
    cudaMemAdviseSetPreferredLocation,
    cudaMemAdviseUnsetPreferredLocation,
    cudaMemAdviseSetAccessedBy,
    cudaMemAdviseUnsetAccessedBy
};
enum { cudaCpuDeviceId = -1, cudaInvalidDeviceId = -2 };

SIM_HOST sim_stream *sim_stream_of(cudaStream_t stream) {
    return (sim_stream *)stream;
}
template <class T>
SIM_HOST cudaError_t cudaMalloc(T **memory, size_t bytes, const char *name = 0, SIM_CALLED) {
    if (sim_program_is_in_kernel()) { /* of the device's heap, as malloc() there */
        *memory = (T *)malloc(bytes);
        return *memory ? cudaSuccess : cudaErrorMemoryAllocation;
    }
    if (cudaError_t error = sim_capture_forbids(false))
        return error;
    return sim_error(sim_memory_take((void **)memory, bytes, SIM_DEVICE_MEMORY, SIM_CALLED_AS(name)));
}
template <class T>
SIM_HOST cudaError_t cudaMallocManaged(T **memory, size_t bytes, unsigned = cudaMemAttachGlobal,
                                       const char *name = 0, SIM_CALLED) {
    if (cudaError_t error = sim_capture_forbids(false))
        return error;
    return sim_error(sim_memory_take((void **)memory, bytes, SIM_MANAGED_MEMORY, SIM_CALLED_AS(name)));
}
void sim_keep_flags(const void *memory, unsigned flags); /* ../program/hints.cpp */
cudaError_t cudaHostGetFlags(unsigned *flags, void *memory);
template <class T>
SIM_HOST cudaError_t cudaHostAlloc(T **memory, size_t bytes, unsigned flags = 0, SIM_CALLED) {
    if (cudaError_t error = sim_capture_forbids(false))
        return error;
    cudaError_t error =
        sim_error(sim_memory_take((void **)memory, bytes, SIM_PINNED_MEMORY, SIM_CALLED_AS(0)));
    if (!error)
        sim_keep_flags(*memory, flags);
    return error;
}
template <class T>
SIM_HOST cudaError_t cudaMallocHost(T **memory, size_t bytes, unsigned flags = 0, SIM_CALLED) {
    return cudaHostAlloc(memory, bytes, flags, sim_file, sim_line);
}
SIM_HOST cudaError_t cudaFree(void *memory, SIM_CALLED) {
    if (sim_program_is_in_kernel())
        return free(memory), cudaSuccess;
    if (cudaError_t error = sim_capture_forbids(false))
        return error;
    return sim_error(sim_memory_give_back(memory, SIM_DEVICE_MEMORY, SIM_CALLED_AS(0)));
}
SIM_WHERE_CALLED SIM_HOST cudaError_t cudaFreeAsync(void *memory, cudaStream_t stream, SIM_CALLED) {
    if (sim_is_captured(stream))
        return sim_capture_free(stream, memory, SIM_CALLED_AS(0));
    return cudaFree(memory, sim_file, sim_line);
}
SIM_HOST cudaError_t cudaFreeHost(void *memory, SIM_CALLED) {
    return sim_error(sim_memory_give_back(memory, SIM_PINNED_MEMORY, SIM_CALLED_AS(0)));
}
SIM_HOST cudaError_t cudaHostRegister(void *, size_t, unsigned) {
    return sim_says(0);
}
SIM_HOST cudaError_t cudaHostUnregister(void *) {
    return sim_says(0);
}
template <class T> SIM_HOST cudaError_t cudaHostGetDevicePointer(T **device, void *host, unsigned) {
    *device = (T *)host;
    return sim_says(0);
}
SIM_HOST cudaError_t cudaMemGetInfo(size_t *unused, size_t *total) {
    *total = sim_gpu_now()->memory_bytes;
    *unused = *total - sim_memory_used(sim_device_now());
    return sim_says(0);
}
SIM_HOST cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, SIM_CALLED) {
    if (cudaError_t error = sim_capture_forbids(true))
        return error;
    return sim_error(sim_memory_copy(to, bytes, from, bytes, bytes, 1, kind, 0, true, SIM_CALLED_AS(0)));
}
SIM_WHERE_CALLED SIM_HOST cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                                                      cudaMemcpyKind kind, cudaStream_t stream = 0,
                                                      SIM_CALLED) {
    if (sim_is_captured(stream))
        return sim_capture_copy(stream, to, bytes, from, bytes, bytes, 1, kind, SIM_CALLED_AS(0));
    return sim_error(sim_memory_copy(to, bytes, from, bytes, bytes, 1, kind, sim_stream_of(stream), false,
                                     SIM_CALLED_AS(0)));
}
/* Between devices, with or without access to each other's memory. */
SIM_HOST bool sim_is_on(const void *memory, int device) {
    const sim_allocation *found = sim_allocation_at(memory);
    return found && found->kind == SIM_DEVICE_MEMORY && found->device == device;
}
SIM_WHERE_CALLED SIM_HOST cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from,
                                                          int from_device, size_t bytes,
                                                          cudaStream_t stream = 0, SIM_CALLED) {
    if (!sim_is_on(to, to_device) || !sim_is_on(from, from_device))
        return sim_says(cudaErrorInvalidValue);
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream, sim_file, sim_line);
}
SIM_HOST cudaError_t cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t bytes,
                                    SIM_CALLED) {
    if (!sim_is_on(to, to_device) || !sim_is_on(from, from_device))
        return sim_says(cudaErrorInvalidValue);
    return cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToDevice, sim_file, sim_line);
}
SIM_HOST cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                                  size_t width, size_t rows, cudaMemcpyKind kind, SIM_CALLED) {
    return sim_error(
        sim_memory_copy(to, to_pitch, from, from_pitch, width, rows, kind, 0, true, SIM_CALLED_AS(0)));
}
SIM_WHERE_CALLED SIM_HOST cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from,
                                                        size_t from_pitch, size_t width, size_t rows,
                                                        cudaMemcpyKind kind, cudaStream_t stream = 0,
                                                        SIM_CALLED) {
    if (sim_is_captured(stream))
        return sim_capture_copy(stream, to, to_pitch, from, from_pitch, width, rows, kind, SIM_CALLED_AS(0));
    return sim_error(sim_memory_copy(to, to_pitch, from, from_pitch, width, rows, kind, sim_stream_of(stream),
                                     false, SIM_CALLED_AS(0)));
}
SIM_HOST cudaError_t cudaMemset(void *to, int value, size_t bytes, SIM_CALLED) {
    if (cudaError_t error = sim_capture_forbids(true))
        return error;
    return sim_error(sim_memory_set(to, bytes, value, bytes, 1, 0, SIM_CALLED_AS(0)));
}
SIM_WHERE_CALLED SIM_HOST cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes,
                                                      cudaStream_t stream = 0, SIM_CALLED) {
    if (sim_is_captured(stream))
        return sim_capture_fill(stream, to, bytes, value, bytes, 1, SIM_CALLED_AS(0));
    return sim_error(sim_memory_set(to, bytes, value, bytes, 1, sim_stream_of(stream), SIM_CALLED_AS(0)));
}
SIM_HOST cudaError_t cudaMemset2D(void *to, size_t pitch, int value, size_t width, size_t rows, SIM_CALLED) {
    return sim_error(sim_memory_set(to, pitch, value, width, rows, 0, SIM_CALLED_AS(0)));
}
SIM_WHERE_CALLED SIM_HOST cudaError_t cudaMemset2DAsync(void *to, size_t pitch, int value, size_t width,
                                                        size_t rows, cudaStream_t stream = 0, SIM_CALLED) {
    if (sim_is_captured(stream))
        return sim_capture_fill(stream, to, pitch, value, width, rows, SIM_CALLED_AS(0));
    return sim_error(sim_memory_set(to, pitch, value, width, rows, sim_stream_of(stream), SIM_CALLED_AS(0)));
}
template <class T>
SIM_HOST cudaError_t cudaMallocPitch(T **memory, size_t *pitch, size_t width, size_t rows,
                                     const char *name = 0, SIM_CALLED) {
    *pitch = (width + 511) / 512 * 512;
    return sim_error(sim_memory_take((void **)memory, *pitch * rows, SIM_DEVICE_MEMORY, SIM_CALLED_AS(name)));
}
struct cudaPitchedPtr {
    void *ptr;
    size_t pitch, xsize, ysize;
};
struct cudaPos {
    size_t x, y, z;
};
struct cudaMemcpy3DParms {
    cudaArray_t srcArray;
    cudaPos srcPos;
    cudaPitchedPtr srcPtr;
    cudaArray_t dstArray;
    cudaPos dstPos;
    cudaPitchedPtr dstPtr;
    cudaExtent extent;
    cudaMemcpyKind kind;
};
SIM_HOST cudaPitchedPtr make_cudaPitchedPtr(void *memory, size_t pitch, size_t width, size_t rows) {
    return {memory, pitch, width, rows};
}
SIM_HOST cudaExtent make_cudaExtent(size_t width, size_t rows, size_t depth) {
    return {width, rows, depth};
}
SIM_HOST cudaPos make_cudaPos(size_t x, size_t y, size_t z) {
    return {x, y, z};
}
SIM_HOST cudaError_t cudaMalloc3D(cudaPitchedPtr *memory, cudaExtent size, const char *name = 0, SIM_CALLED) {
    size_t pitch = (size.width + 511) / 512 * 512;
    *memory = {0, pitch, size.width, size.height};
    return sim_error(sim_memory_take(&memory->ptr, pitch * size.height * size.depth, SIM_DEVICE_MEMORY,
                                     SIM_CALLED_AS(name)));
}

enum cudaMemoryType {
    cudaMemoryTypeUnregistered,
    cudaMemoryTypeHost,
    cudaMemoryTypeDevice,
    cudaMemoryTypeManaged
};
struct cudaPointerAttributes {
    cudaMemoryType type;
    int device;
    void *devicePointer, *hostPointer;
};
SIM_HOST cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *memory) {
    const sim_allocation *found = sim_allocation_at(memory);
    cudaMemoryType type = !found                              ? cudaMemoryTypeUnregistered
                          : found->kind == SIM_PINNED_MEMORY  ? cudaMemoryTypeHost
                          : found->kind == SIM_MANAGED_MEMORY ? cudaMemoryTypeManaged
                                                              : cudaMemoryTypeDevice;
    *attributes = {type, found ? found->device : -2, found ? (void *)memory : 0,
                   type == cudaMemoryTypeDevice ? 0 : (void *)memory};
    return sim_says(0);
}

/* ---- Variables in device memory ---- */

/* A variable with a value on each device, which is registered when the program begins
   (cudasim/live/host.py). */
struct sim_known_variable {
    template <class T> sim_known_variable(T &variable, const char *name) {
        if constexpr (!std::is_const<std::remove_all_extents_t<T>>::value)
            sim_symbol_is_known((void *)&variable, sizeof variable, name);
    }
};
template <class T> SIM_HOST void *sim_symbol(const T &symbol) {
    sim_symbols_become(sim_device_now());
    sim_memory_add_symbol((void *)&symbol, sizeof symbol);
    return (void *)&symbol;
}
template <class T>
SIM_HOST cudaError_t cudaMemcpyToSymbol(const T &symbol, const void *from, size_t bytes, size_t offset = 0,
                                        cudaMemcpyKind kind = cudaMemcpyHostToDevice, SIM_CALLED) {
    return sim_error(sim_memory_copy((char *)sim_symbol(symbol) + offset, bytes, from, bytes, bytes, 1, kind,
                                     0, true, SIM_CALLED_AS(0)));
}
template <class T>
SIM_HOST cudaError_t cudaMemcpyToSymbolAsync(const T &symbol, const void *from, size_t bytes, size_t offset,
                                             cudaMemcpyKind kind, cudaStream_t stream = 0, SIM_CALLED) {
    return cudaMemcpyAsync((char *)sim_symbol(symbol) + offset, from, bytes, kind, stream, sim_file,
                           sim_line);
}
template <class T>
SIM_HOST cudaError_t cudaMemcpyFromSymbol(void *to, const T &symbol, size_t bytes, size_t offset = 0,
                                          cudaMemcpyKind kind = cudaMemcpyDeviceToHost, SIM_CALLED) {
    return sim_error(sim_memory_copy(to, bytes, (char *)sim_symbol(symbol) + offset, bytes, bytes, 1, kind, 0,
                                     true, SIM_CALLED_AS(0)));
}
template <class T>
SIM_HOST cudaError_t cudaMemcpyFromSymbolAsync(void *to, const T &symbol, size_t bytes, size_t offset,
                                               cudaMemcpyKind kind, cudaStream_t stream = 0, SIM_CALLED) {
    return cudaMemcpyAsync(to, (char *)sim_symbol(symbol) + offset, bytes, kind, stream, sim_file, sim_line);
}
template <class To, class T> SIM_HOST cudaError_t cudaGetSymbolAddress(To **address, const T &symbol) {
    *address = (To *)sim_symbol(symbol);
    return sim_says(0);
}
template <class T> SIM_HOST cudaError_t cudaGetSymbolSize(size_t *bytes, const T &) {
    *bytes = sizeof(T);
    return sim_says(0);
}

#include "program_streams.hpp"
#include "program_pools.hpp"
#include "program_arrays.hpp"
#include "program_launch.hpp"
#include "program_graphs.hpp"
