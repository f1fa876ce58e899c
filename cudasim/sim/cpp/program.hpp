/* The CUDA runtime for the host code of a whole program: functions by CUDA's names, in C++, for what
 * ../program/ does. CUDA Runtime API; where a function says more there, the folder's files say what is done.
 *
 * What is not here is not there: a program that needs it does not compile, and the message has its name. */
#pragma once
#include "cuda.hpp"
#include "../program/program.h"
#include <atomic>

#undef SIM_CALLED
#define SIM_CALLED const char *sim_file = __builtin_FILE(), int sim_line = __builtin_LINE()
#define SIM_CALLED_AS(name) (sim_called{__func__, sim_file, sim_line, name})
#define SIM_HOST inline __attribute__((always_inline)) /* so that what is told has the line of the call */
#include "program_capture.hpp"

/* ---- Errors ---- */

/* One call at a time, whichever OS thread makes it. */
#define sim_error(call) (sim_program_begins(), (cudaError_t)sim_program_ends(call))
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
SIM_HOST const char *cudaGetErrorName(cudaError_t error) {
    switch (error) {
#define SIM_NAMED(name, number, words)                                                                       \
    case name:                                                                                               \
        return #name;
        SIM_ERRORS(SIM_NAMED)
#undef SIM_NAMED
    }
    return "unrecognized error code";
}
SIM_HOST const char *cudaGetErrorString(cudaError_t error) {
    switch (error) {
#define SIM_NAMED(name, number, words)                                                                       \
    case name:                                                                                               \
        return words;
        SIM_ERRORS(SIM_NAMED)
#undef SIM_NAMED
    }
    return "unrecognized error code";
}

/* ---- Devices: one GPU, by default an H100; CUDASIM_GPU names another ---- */

struct cudaUUID_t {
    char bytes[16];
};
struct cudaDeviceProp {
    char name[256];
    cudaUUID_t uuid;
    size_t totalGlobalMem, sharedMemPerBlock;
    int regsPerBlock, host_warpSize; /* warpSize: see cudasim/live/host.py */
    size_t memPitch;
    int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], clockRate;
    size_t totalConstMem;
    int major, minor;
    size_t textureAlignment, texturePitchAlignment;
    int deviceOverlap, multiProcessorCount, kernelExecTimeoutEnabled, integrated, canMapHostMemory,
        computeMode;
    int maxTexture1D, maxTexture2D[2], maxTexture3D[3];
    size_t surfaceAlignment;
    int concurrentKernels, ECCEnabled, pciBusID, pciDeviceID, pciDomainID, tccDriver, asyncEngineCount;
    int unifiedAddressing, memoryClockRate, memoryBusWidth, l2CacheSize, persistingL2CacheMaxSize;
    int maxThreadsPerMultiProcessor, streamPrioritiesSupported, globalL1CacheSupported, localL1CacheSupported;
    size_t sharedMemPerMultiprocessor;
    int regsPerMultiprocessor, managedMemory, isMultiGpuBoard, multiGpuBoardGroupID;
    int hostNativeAtomicSupported, singleToDoublePrecisionPerfRatio, pageableMemoryAccess;
    int concurrentManagedAccess, computePreemptionSupported, canUseHostPointerForRegisteredMem;
    int cooperativeLaunch, cooperativeMultiDeviceLaunch;
    size_t sharedMemPerBlockOptin;
    int pageableMemoryAccessUsesHostPageTables, directManagedMemAccessFromHost, maxBlocksPerMultiProcessor;
    int accessPolicyMaxWindowSize;
    size_t reservedSharedMemPerBlock;
};
enum cudaDeviceAttr {
    cudaDevAttrMaxThreadsPerBlock = 1,
    cudaDevAttrMaxBlockDimX = 2,
    cudaDevAttrMaxBlockDimY = 3,
    cudaDevAttrMaxBlockDimZ = 4,
    cudaDevAttrMaxGridDimX = 5,
    cudaDevAttrMaxGridDimY = 6,
    cudaDevAttrMaxGridDimZ = 7,
    cudaDevAttrMaxSharedMemoryPerBlock = 8,
    cudaDevAttrTotalConstantMemory = 9,
    cudaDevAttrWarpSize = 10,
    cudaDevAttrMaxRegistersPerBlock = 12,
    cudaDevAttrClockRate = 13,
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrMemoryClockRate = 36,
    cudaDevAttrGlobalMemoryBusWidth = 37,
    cudaDevAttrL2CacheSize = 38,
    cudaDevAttrMaxThreadsPerMultiProcessor = 39,
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76,
    cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81,
    cudaDevAttrMaxRegistersPerMultiprocessor = 82,
    cudaDevAttrManagedMemory = 83,
    cudaDevAttrConcurrentManagedAccess = 89,
    cudaDevAttrCooperativeLaunch = 95,
    cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
    cudaDevAttrMaxBlocksPerMultiprocessor = 106
};
enum {
    cudaDeviceScheduleAuto = 0,
    cudaDeviceScheduleSpin = 1,
    cudaDeviceScheduleYield = 2,
    cudaDeviceScheduleBlockingSync = 4,
    cudaDeviceMapHost = 8
};
enum cudaLimit {
    cudaLimitStackSize,
    cudaLimitPrintfFifoSize,
    cudaLimitMallocHeapSize,
    cudaLimitDevRuntimeSyncDepth,
    cudaLimitDevRuntimePendingLaunchCount
};
enum cudaFuncCache {
    cudaFuncCachePreferNone,
    cudaFuncCachePreferShared,
    cudaFuncCachePreferL1,
    cudaFuncCachePreferEqual
};
enum cudaSharedMemConfig {
    cudaSharedMemBankSizeDefault,
    cudaSharedMemBankSizeFourByte,
    cudaSharedMemBankSizeEightByte
};

SIM_HOST cudaError_t cudaGetDeviceCount(int *count) {
    *count = 1;
    return sim_error(sim_program_error(0));
}
SIM_HOST cudaError_t sim_of_device(int device) {
    return sim_error(sim_program_error(device == 0 ? 0 : cudaErrorInvalidDevice));
}
SIM_HOST cudaError_t cudaSetDevice(int device) {
    return sim_of_device(device);
}
SIM_HOST cudaError_t cudaGetDevice(int *device) {
    *device = 0;
    return sim_error(sim_program_error(0));
}
SIM_HOST cudaError_t cudaGetDeviceProperties(cudaDeviceProp *to, int device) {
    const sim_gpu *gpu = sim_gpu_now();
    cudaDeviceProp p = {};
    snprintf(p.name, sizeof p.name, "%s", gpu->name);
    p.totalGlobalMem = gpu->memory_bytes;
    p.sharedMemPerBlock = 48 << 10;
    p.regsPerBlock = p.regsPerMultiprocessor = 65536;
    p.host_warpSize = 32;
    p.memPitch = 0x7fffffff;
    p.maxThreadsPerBlock = 1024;
    p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024, p.maxThreadsDim[2] = 64;
    p.maxGridSize[0] = 0x7fffffff, p.maxGridSize[1] = p.maxGridSize[2] = 65535;
    p.clockRate = gpu->clock_khz;
    p.totalConstMem = 65536;
    p.major = gpu->major, p.minor = gpu->minor;
    p.textureAlignment = p.surfaceAlignment = 512, p.texturePitchAlignment = 32;
    p.deviceOverlap = p.canMapHostMemory = p.concurrentKernels = p.unifiedAddressing = 1;
    p.multiProcessorCount = gpu->multiprocessors;
    p.asyncEngineCount = 3;
    p.memoryClockRate = gpu->memory_clock_khz, p.memoryBusWidth = gpu->memory_bus_bits;
    p.l2CacheSize = (int)gpu->l2_bytes;
    p.maxThreadsPerMultiProcessor = gpu->threads, p.maxBlocksPerMultiProcessor = gpu->blocks;
    p.streamPrioritiesSupported = p.globalL1CacheSupported = p.localL1CacheSupported = 1;
    p.sharedMemPerMultiprocessor = gpu->shared_bytes, p.sharedMemPerBlockOptin = gpu->shared_bytes_of_block;
    p.managedMemory = p.concurrentManagedAccess = p.computePreemptionSupported = p.cooperativeLaunch = 1;
    p.reservedSharedMemPerBlock = 1024;
    if (device == 0)
        *to = p;
    return sim_of_device(device);
}
SIM_HOST cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device) {
    cudaDeviceProp p;
    if (cudaGetDeviceProperties(&p, device))
        return cudaErrorInvalidDevice;
    switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
        *value = p.maxThreadsPerBlock;
        break;
    case cudaDevAttrMaxBlockDimX:
        *value = p.maxThreadsDim[0];
        break;
    case cudaDevAttrMaxBlockDimY:
        *value = p.maxThreadsDim[1];
        break;
    case cudaDevAttrMaxBlockDimZ:
        *value = p.maxThreadsDim[2];
        break;
    case cudaDevAttrMaxGridDimX:
        *value = p.maxGridSize[0];
        break;
    case cudaDevAttrMaxGridDimY:
        *value = p.maxGridSize[1];
        break;
    case cudaDevAttrMaxGridDimZ:
        *value = p.maxGridSize[2];
        break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
        *value = (int)p.sharedMemPerBlock;
        break;
    case cudaDevAttrTotalConstantMemory:
        *value = (int)p.totalConstMem;
        break;
    case cudaDevAttrWarpSize:
        *value = p.host_warpSize;
        break;
    case cudaDevAttrMaxRegistersPerBlock:
        *value = p.regsPerBlock;
        break;
    case cudaDevAttrClockRate:
        *value = p.clockRate;
        break;
    case cudaDevAttrMultiProcessorCount:
        *value = p.multiProcessorCount;
        break;
    case cudaDevAttrMemoryClockRate:
        *value = p.memoryClockRate;
        break;
    case cudaDevAttrGlobalMemoryBusWidth:
        *value = p.memoryBusWidth;
        break;
    case cudaDevAttrL2CacheSize:
        *value = p.l2CacheSize;
        break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
        *value = p.maxThreadsPerMultiProcessor;
        break;
    case cudaDevAttrComputeCapabilityMajor:
        *value = p.major;
        break;
    case cudaDevAttrComputeCapabilityMinor:
        *value = p.minor;
        break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
        *value = (int)p.sharedMemPerMultiprocessor;
        break;
    case cudaDevAttrMaxRegistersPerMultiprocessor:
        *value = p.regsPerMultiprocessor;
        break;
    case cudaDevAttrManagedMemory:
        *value = 1;
        break;
    case cudaDevAttrConcurrentManagedAccess:
        *value = 1;
        break;
    case cudaDevAttrCooperativeLaunch:
        *value = 1;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = (int)p.sharedMemPerBlockOptin;
        break;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
        *value = p.maxBlocksPerMultiProcessor;
        break;
    default:
        return sim_error(sim_program_error(cudaErrorInvalidValue));
    }
    return sim_error(sim_program_error(0));
}
SIM_HOST cudaError_t cudaChooseDevice(int *device, const cudaDeviceProp *) {
    return cudaGetDevice(device);
}
SIM_HOST cudaError_t cudaDeviceSynchronize() {
    return sim_error(sim_device_waits());
}
SIM_HOST cudaError_t cudaThreadSynchronize() {
    return cudaDeviceSynchronize();
}
SIM_HOST cudaError_t cudaDeviceReset() {
    return cudaDeviceSynchronize();
}
SIM_HOST cudaError_t cudaSetDeviceFlags(unsigned) {
    return sim_error(sim_program_error(0));
}
/* Limits are kept and not obeyed; they begin as CUDA's do. */
inline size_t &sim_limit(cudaLimit limit) {
    static size_t limits[] = {1024, 1 << 20, 8 << 20, 2, 2048};
    return limits[limit];
}
SIM_HOST cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) {
    sim_limit(limit) = value;
    return sim_error(sim_program_error(0));
}
SIM_HOST cudaError_t cudaDeviceGetLimit(size_t *value, cudaLimit limit) {
    *value = sim_limit(limit);
    return sim_error(sim_program_error(0));
}
SIM_HOST cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) {
    return sim_error(sim_program_error(0));
}
SIM_HOST cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig) {
    return sim_error(sim_program_error(0));
}
SIM_HOST cudaError_t cudaDriverGetVersion(int *version) {
    *version = CUDART_VERSION;
    return sim_error(sim_program_error(0));
}
SIM_HOST cudaError_t cudaRuntimeGetVersion(int *version) {
    return cudaDriverGetVersion(version);
}
SIM_HOST cudaError_t cudaDeviceCanAccessPeer(int *can, int, int) {
    *can = 0;
    return sim_error(sim_program_error(0));
}
SIM_HOST cudaError_t cudaProfilerStart() {
    return sim_error(sim_program_error(0));
}
SIM_HOST cudaError_t cudaProfilerStop() {
    return sim_error(sim_program_error(0));
}

/* ---- Memory; `name` is what the translation adds, the variable that the memory goes to ---- */

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
    return sim_error(sim_memory_take((void **)memory, bytes, SIM_DEVICE_MEMORY, SIM_CALLED_AS(name)));
}
template <class T>
SIM_HOST cudaError_t cudaMallocAsync(T **memory, size_t bytes, cudaStream_t, const char *name = 0,
                                     SIM_CALLED) {
    return sim_error(sim_memory_take((void **)memory, bytes, SIM_DEVICE_MEMORY, SIM_CALLED_AS(name)));
}
template <class T>
SIM_HOST cudaError_t cudaMallocManaged(T **memory, size_t bytes, unsigned = cudaMemAttachGlobal,
                                       const char *name = 0, SIM_CALLED) {
    return sim_error(sim_memory_take((void **)memory, bytes, SIM_MANAGED_MEMORY, SIM_CALLED_AS(name)));
}
template <class T> SIM_HOST cudaError_t cudaMallocHost(T **memory, size_t bytes, unsigned = 0, SIM_CALLED) {
    return sim_error(sim_memory_take((void **)memory, bytes, SIM_PINNED_MEMORY, SIM_CALLED_AS(0)));
}
template <class T> SIM_HOST cudaError_t cudaHostAlloc(T **memory, size_t bytes, unsigned = 0, SIM_CALLED) {
    return sim_error(sim_memory_take((void **)memory, bytes, SIM_PINNED_MEMORY, SIM_CALLED_AS(0)));
}
SIM_HOST cudaError_t cudaFree(void *memory, SIM_CALLED) {
    return sim_error(sim_memory_give_back(memory, SIM_DEVICE_MEMORY, SIM_CALLED_AS(0)));
}
SIM_HOST cudaError_t cudaFreeAsync(void *memory, cudaStream_t, SIM_CALLED) {
    return sim_error(sim_memory_give_back(memory, SIM_DEVICE_MEMORY, SIM_CALLED_AS(0)));
}
SIM_HOST cudaError_t cudaFreeHost(void *memory, SIM_CALLED) {
    return sim_error(sim_memory_give_back(memory, SIM_PINNED_MEMORY, SIM_CALLED_AS(0)));
}
SIM_HOST cudaError_t cudaHostRegister(void *, size_t, unsigned) {
    return sim_error(sim_program_error(0));
}
SIM_HOST cudaError_t cudaHostUnregister(void *) {
    return sim_error(sim_program_error(0));
}
template <class T> SIM_HOST cudaError_t cudaHostGetDevicePointer(T **device, void *host, unsigned) {
    *device = (T *)host;
    return sim_error(sim_program_error(0));
}
SIM_HOST cudaError_t cudaMemGetInfo(size_t *unused, size_t *total) {
    *total = sim_gpu_now()->memory_bytes;
    *unused = *total - sim_memory_used();
    return sim_error(sim_program_error(0));
}
SIM_HOST cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, SIM_CALLED) {
    return sim_error(sim_memory_copy(to, bytes, from, bytes, bytes, 1, kind, 0, true, SIM_CALLED_AS(0)));
}
SIM_HOST cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                                     cudaStream_t stream = 0, SIM_CALLED) {
    if (sim_is_captured(stream))
        return sim_capture(stream, [=](cudaStream_t on) {
            return cudaMemcpyAsync(to, from, bytes, kind, on, sim_file, sim_line);
        });
    return sim_error(sim_memory_copy(to, bytes, from, bytes, bytes, 1, kind, sim_stream_of(stream), false,
                                     SIM_CALLED_AS(0)));
}
SIM_HOST cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                                  size_t width, size_t rows, cudaMemcpyKind kind, SIM_CALLED) {
    return sim_error(
        sim_memory_copy(to, to_pitch, from, from_pitch, width, rows, kind, 0, true, SIM_CALLED_AS(0)));
}
SIM_HOST cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                                       size_t width, size_t rows, cudaMemcpyKind kind,
                                       cudaStream_t stream = 0, SIM_CALLED) {
    if (sim_is_captured(stream))
        return sim_capture(stream, [=](cudaStream_t on) {
            return cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, rows, kind, on, sim_file,
                                     sim_line);
        });
    return sim_error(sim_memory_copy(to, to_pitch, from, from_pitch, width, rows, kind, sim_stream_of(stream),
                                     false, SIM_CALLED_AS(0)));
}
SIM_HOST cudaError_t cudaMemset(void *to, int value, size_t bytes, SIM_CALLED) {
    return sim_error(sim_memory_set(to, bytes, value, bytes, 1, 0, SIM_CALLED_AS(0)));
}
SIM_HOST cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream = 0, SIM_CALLED) {
    if (sim_is_captured(stream))
        return sim_capture(stream, [=](cudaStream_t on) {
            return cudaMemsetAsync(to, value, bytes, on, sim_file, sim_line);
        });
    return sim_error(sim_memory_set(to, bytes, value, bytes, 1, sim_stream_of(stream), SIM_CALLED_AS(0)));
}
SIM_HOST cudaError_t cudaMemset2D(void *to, size_t pitch, int value, size_t width, size_t rows, SIM_CALLED) {
    return sim_error(sim_memory_set(to, pitch, value, width, rows, 0, SIM_CALLED_AS(0)));
}
template <class T>
SIM_HOST cudaError_t cudaMallocPitch(T **memory, size_t *pitch, size_t width, size_t rows,
                                     const char *name = 0, SIM_CALLED) {
    *pitch = (width + 511) / 512 * 512;
    return sim_error(sim_memory_take((void **)memory, *pitch * rows, SIM_DEVICE_MEMORY, SIM_CALLED_AS(name)));
}
SIM_HOST cudaError_t cudaMemPrefetchAsync(const void *, size_t, int, cudaStream_t = 0) {
    return sim_error(sim_program_error(0));
}
SIM_HOST cudaError_t cudaMemAdvise(const void *, size_t, cudaMemoryAdvise, int) {
    return sim_error(sim_program_error(0));
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
    *attributes = {type, found ? 0 : -2, found ? (void *)memory : 0,
                   type == cudaMemoryTypeDevice ? 0 : (void *)memory};
    return sim_error(sim_program_error(0));
}

/* ---- Variables in device memory ---- */

template <class T> SIM_HOST void *sim_symbol(const T &symbol) {
    sim_memory_add_symbol((void *)&symbol, sizeof symbol, 0);
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
    return sim_error(sim_program_error(0));
}
template <class T> SIM_HOST cudaError_t cudaGetSymbolSize(size_t *bytes, const T &) {
    *bytes = sizeof(T);
    return sim_error(sim_program_error(0));
}

/* ---- Streams and events ---- */

enum {
    cudaStreamDefault = 0,
    cudaStreamNonBlocking = 1,
    cudaEventDefault = 0,
    cudaEventBlockingSync = 1,
    cudaEventDisableTiming = 2,
    cudaEventInterprocess = 4
};
#define cudaStreamLegacy ((cudaStream_t)1)
#define cudaStreamPerThread ((cudaStream_t)2)
#define cudaStreamTailLaunch ((cudaStream_t)0) /* of kernels */
#define cudaStreamFireAndForget ((cudaStream_t)0)

SIM_HOST cudaError_t cudaStreamCreate(cudaStream_t *stream) {
    return sim_error(sim_stream_create((sim_stream **)stream, true));
}
SIM_HOST cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    if (sim_program_is_in_kernel()) /* launches by kernels run one after another in any stream */
        return *stream = 0, cudaSuccess;
    return sim_error(sim_stream_create((sim_stream **)stream, !(flags & cudaStreamNonBlocking)));
}
SIM_HOST cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int) {
    return cudaStreamCreateWithFlags(stream, flags);
}
SIM_HOST cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    *least = 0, *greatest = -5;
    return sim_error(sim_program_error(0));
}
SIM_HOST cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    if (sim_program_is_in_kernel())
        return cudaSuccess;
    return sim_error(sim_stream_destroy(sim_stream_of(stream)));
}
SIM_HOST cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    if (sim_is_captured(stream))
        return sim_error(sim_program_error(cudaErrorStreamCaptureUnsupported));
    return sim_error(sim_stream_wait(sim_stream_of(stream)));
}
SIM_HOST cudaError_t cudaStreamQuery(cudaStream_t stream) {
    return cudaStreamSynchronize(stream);
}
struct sim_event;
SIM_HOST cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned = 0) {
    auto recorded = sim_recorded_in().find(event);
    if (recorded != sim_recorded_in().end()) {
        sim_captured_by()[stream] = recorded->second;
        return sim_error(sim_program_error(0));
    }
    return sim_error(sim_stream_wait_for_event(sim_stream_of(stream), (sim_event *)event));
}
typedef void (*cudaHostFn_t)(void *);
typedef void (*cudaStreamCallback_t)(cudaStream_t, cudaError_t, void *);
SIM_HOST cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data) {
    if (sim_is_captured(stream))
        return sim_capture(stream, [=](cudaStream_t on) { return cudaLaunchHostFunc(on, function, data); });
    function(data);
    return sim_error(sim_program_error(0));
}
SIM_HOST cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t function, void *data,
                                           unsigned) {
    function(stream, cudaSuccess, data);
    return sim_error(sim_program_error(0));
}
SIM_HOST cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    return sim_error(sim_event_create((sim_event **)event, !(flags & cudaEventDisableTiming)));
}
SIM_HOST cudaError_t cudaEventCreate(cudaEvent_t *event, unsigned flags = cudaEventDefault) {
    return cudaEventCreateWithFlags(event, flags);
}
SIM_HOST cudaError_t cudaEventDestroy(cudaEvent_t event) {
    return sim_error(sim_event_destroy((sim_event *)event));
}
SIM_HOST cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = 0) {
    sim_recorded_in().erase(event);
    if (sim_is_captured(stream)) {
        sim_recorded_in()[event] = sim_captured_by()[stream];
        return sim_error(sim_program_error(0));
    }
    return sim_error(sim_event_record((sim_event *)event, sim_stream_of(stream)));
}
SIM_HOST cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    return sim_error(sim_event_wait((sim_event *)event));
}
SIM_HOST cudaError_t cudaEventQuery(cudaEvent_t event) {
    return cudaEventSynchronize(event);
}
SIM_HOST cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t begin, cudaEvent_t end) {
    return sim_error(sim_event_elapsed(milliseconds, (sim_event *)begin, (sim_event *)end));
}
#include "program_arrays.hpp"
#include "program_launch.hpp"
#include "program_graphs.hpp"
