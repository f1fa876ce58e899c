/* The devices of a program: CUDA Runtime API, "Device Management" and "Peer Device Memory Access". They are
 * all of a kind, by default an H100: CUDASIM_GPU names another one, and CUDASIM_GPUS says how many there are.
 */
#pragma once
#include "program.hpp"
#include <algorithm>
#include <initializer_list>

struct cudaUUID_t {
    char bytes[16];
};
struct cudaDeviceProp {
    char name[256];
    cudaUUID_t uuid;
    char luid[8];
    unsigned luidDeviceNodeMask;
    size_t totalGlobalMem, sharedMemPerBlock;
    int regsPerBlock, warpSize;
    size_t memPitch;
    int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], clockRate;
    size_t totalConstMem;
    int major, minor;
    size_t textureAlignment, texturePitchAlignment;
    int deviceOverlap, multiProcessorCount, kernelExecTimeoutEnabled, integrated, canMapHostMemory,
        computeMode;
    int maxTexture1D, maxTexture1DMipmap, maxTexture1DLinear, maxTexture2D[2], maxTexture2DMipmap[2];
    int maxTexture2DLinear[3], maxTexture2DGather[2], maxTexture3D[3], maxTexture3DAlt[3], maxTextureCubemap;
    int maxTexture1DLayered[2], maxTexture2DLayered[3], maxTextureCubemapLayered[2];
    int maxSurface1D, maxSurface2D[2], maxSurface3D[3], maxSurface1DLayered[2], maxSurface2DLayered[3];
    int maxSurfaceCubemap, maxSurfaceCubemapLayered[2];
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
    int hostRegisterSupported, memoryPoolsSupported, clusterLaunch, ipcEventSupported;
    int hostRegisterReadOnlySupported, timelineSemaphoreInteropSupported, sparseCudaArraySupported;
    int deferredMappingCudaArraySupported, unifiedFunctionPointers, gpuDirectRDMASupported;
    unsigned memoryPoolSupportedHandleTypes;
};
/* CUDA C++ Programming Guide, "Technical Specifications per Compute Capability". */
inline void sim_set_texture_limits(cudaDeviceProp &p) {
    auto set = [](int *to, std::initializer_list<int> values) {
        std::copy(values.begin(), values.end(), to);
    };
    p.maxTexture1D = 131072, p.maxTexture1DLinear = 1 << 28, p.maxTexture1DMipmap = 32768;
    p.maxTextureCubemap = p.maxSurface1D = p.maxSurfaceCubemap = 32768;
    set(p.maxTexture2D, {131072, 65536}), set(p.maxTexture2DMipmap, {32768, 32768});
    set(p.maxTexture2DLinear, {131072, 65000, 2097120}), set(p.maxTexture2DGather, {32768, 32768});
    set(p.maxTexture3D, {16384, 16384, 16384}), set(p.maxTexture3DAlt, {8192, 8192, 32768});
    set(p.maxTexture1DLayered, {32768, 2048}), set(p.maxTexture2DLayered, {32768, 32768, 2048});
    set(p.maxTextureCubemapLayered, {32768, 2046}), set(p.maxSurface2D, {131072, 65536});
    set(p.maxSurface3D, {16384, 16384, 16384}), set(p.maxSurface1DLayered, {32768, 2048});
    set(p.maxSurface2DLayered, {32768, 32768, 2048}), set(p.maxSurfaceCubemapLayered, {32768, 2046});
}
/* Attributes: the name, CUDA's number, and the value from the properties. */
#define SIM_ATTRIBUTES(OF)                                                                                   \
    OF(MaxThreadsPerBlock, 1, p.maxThreadsPerBlock)                                                          \
    OF(MaxBlockDimX, 2, p.maxThreadsDim[0])                                                                  \
    OF(MaxBlockDimY, 3, p.maxThreadsDim[1])                                                                  \
    OF(MaxBlockDimZ, 4, p.maxThreadsDim[2])                                                                  \
    OF(MaxGridDimX, 5, p.maxGridSize[0])                                                                     \
    OF(MaxGridDimY, 6, p.maxGridSize[1])                                                                     \
    OF(MaxGridDimZ, 7, p.maxGridSize[2])                                                                     \
    OF(MaxSharedMemoryPerBlock, 8, p.sharedMemPerBlock)                                                      \
    OF(TotalConstantMemory, 9, p.totalConstMem)                                                              \
    OF(WarpSize, 10, p.warpSize)                                                                             \
    OF(MaxPitch, 11, p.memPitch)                                                                             \
    OF(MaxRegistersPerBlock, 12, p.regsPerBlock)                                                             \
    OF(ClockRate, 13, p.clockRate)                                                                           \
    OF(TextureAlignment, 14, p.textureAlignment)                                                             \
    OF(GpuOverlap, 15, p.deviceOverlap)                                                                      \
    OF(MultiProcessorCount, 16, p.multiProcessorCount)                                                       \
    OF(KernelExecTimeout, 17, p.kernelExecTimeoutEnabled)                                                    \
    OF(Integrated, 18, p.integrated)                                                                         \
    OF(CanMapHostMemory, 19, p.canMapHostMemory)                                                             \
    OF(ComputeMode, 20, p.computeMode)                                                                       \
    OF(MaxTexture1DWidth, 21, p.maxTexture1D)                                                                \
    OF(MaxTexture2DWidth, 22, p.maxTexture2D[0])                                                             \
    OF(MaxTexture2DHeight, 23, p.maxTexture2D[1])                                                            \
    OF(MaxTexture3DWidth, 24, p.maxTexture3D[0])                                                             \
    OF(MaxTexture3DHeight, 25, p.maxTexture3D[1])                                                            \
    OF(MaxTexture3DDepth, 26, p.maxTexture3D[2])                                                             \
    OF(SurfaceAlignment, 30, p.surfaceAlignment)                                                             \
    OF(ConcurrentKernels, 31, p.concurrentKernels)                                                           \
    OF(EccEnabled, 32, p.ECCEnabled)                                                                         \
    OF(PciBusId, 33, p.pciBusID)                                                                             \
    OF(PciDeviceId, 34, p.pciDeviceID)                                                                       \
    OF(TccDriver, 35, p.tccDriver)                                                                           \
    OF(MemoryClockRate, 36, p.memoryClockRate)                                                               \
    OF(GlobalMemoryBusWidth, 37, p.memoryBusWidth)                                                           \
    OF(L2CacheSize, 38, p.l2CacheSize)                                                                       \
    OF(MaxThreadsPerMultiProcessor, 39, p.maxThreadsPerMultiProcessor)                                       \
    OF(AsyncEngineCount, 40, p.asyncEngineCount)                                                             \
    OF(UnifiedAddressing, 41, p.unifiedAddressing)                                                           \
    OF(PciDomainId, 50, p.pciDomainID)                                                                       \
    OF(TexturePitchAlignment, 51, p.texturePitchAlignment)                                                   \
    OF(ComputeCapabilityMajor, 75, p.major)                                                                  \
    OF(ComputeCapabilityMinor, 76, p.minor)                                                                  \
    OF(StreamPrioritiesSupported, 78, p.streamPrioritiesSupported)                                           \
    OF(GlobalL1CacheSupported, 79, p.globalL1CacheSupported)                                                 \
    OF(LocalL1CacheSupported, 80, p.localL1CacheSupported)                                                   \
    OF(MaxSharedMemoryPerMultiprocessor, 81, p.sharedMemPerMultiprocessor)                                   \
    OF(MaxRegistersPerMultiprocessor, 82, p.regsPerMultiprocessor)                                           \
    OF(ManagedMemory, 83, p.managedMemory)                                                                   \
    OF(IsMultiGpuBoard, 84, p.isMultiGpuBoard)                                                               \
    OF(MultiGpuBoardGroupID, 85, p.multiGpuBoardGroupID)                                                     \
    OF(HostNativeAtomicSupported, 86, p.hostNativeAtomicSupported)                                           \
    OF(SingleToDoublePrecisionPerfRatio, 87, p.singleToDoublePrecisionPerfRatio)                             \
    OF(PageableMemoryAccess, 88, p.pageableMemoryAccess)                                                     \
    OF(ConcurrentManagedAccess, 89, p.concurrentManagedAccess)                                               \
    OF(ComputePreemptionSupported, 90, p.computePreemptionSupported)                                         \
    OF(CanUseHostPointerForRegisteredMem, 91, p.canUseHostPointerForRegisteredMem)                           \
    OF(CooperativeLaunch, 95, p.cooperativeLaunch)                                                           \
    OF(CooperativeMultiDeviceLaunch, 96, p.cooperativeMultiDeviceLaunch)                                     \
    OF(MaxSharedMemoryPerBlockOptin, 97, p.sharedMemPerBlockOptin)                                           \
    OF(HostRegisterSupported, 99, p.hostRegisterSupported)                                                   \
    OF(PageableMemoryAccessUsesHostPageTables, 100, p.pageableMemoryAccessUsesHostPageTables)                \
    OF(DirectManagedMemAccessFromHost, 101, p.directManagedMemAccessFromHost)                                \
    OF(MaxBlocksPerMultiprocessor, 106, p.maxBlocksPerMultiProcessor)                                        \
    OF(MaxPersistingL2CacheSize, 108, p.persistingL2CacheMaxSize)                                            \
    OF(MaxAccessPolicyWindowSize, 109, p.accessPolicyMaxWindowSize)                                          \
    OF(ReservedSharedMemoryPerBlock, 111, p.reservedSharedMemPerBlock)                                       \
    OF(MemoryPoolsSupported, 115, p.memoryPoolsSupported)                                                    \
    OF(MemoryPoolSupportedHandleTypes, 119, p.memoryPoolSupportedHandleTypes)                                \
    OF(ClusterLaunch, 120, p.clusterLaunch)                                                                  \
    OF(IpcEventSupport, 125, p.ipcEventSupported)
enum cudaDeviceAttr {
#define SIM_NAMED(name, number, value) cudaDevAttr##name = number,
    SIM_ATTRIBUTES(SIM_NAMED)
#undef SIM_NAMED
};
enum {
    cudaDeviceScheduleAuto = 0,
    cudaDeviceScheduleSpin = 1,
    cudaDeviceScheduleYield = 2,
    cudaDeviceScheduleBlockingSync = 4,
    cudaDeviceBlockingSync = 4,
    cudaDeviceMapHost = 8
};
enum cudaLimit {
    cudaLimitStackSize,
    cudaLimitPrintfFifoSize,
    cudaLimitMallocHeapSize,
    cudaLimitDevRuntimeSyncDepth,
    cudaLimitDevRuntimePendingLaunchCount,
    cudaLimitMaxL2FetchGranularity,
    cudaLimitPersistingL2CacheSize
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

enum cudaComputeMode {
    cudaComputeModeDefault,
    cudaComputeModeExclusive,
    cudaComputeModeProhibited,
    cudaComputeModeExclusiveProcess
};

SIM_HOST cudaError_t cudaGetDeviceCount(int *count) {
    *count = sim_gpu_count();
    return sim_says(0);
}
SIM_HOST cudaError_t cudaSetDevice(int device) {
    return sim_error(sim_device_choose(device));
}
SIM_HOST cudaError_t cudaInitDevice(int device, unsigned, unsigned) {
    return cudaSetDevice(device);
}
SIM_HOST cudaError_t cudaGetDevice(int *device) {
    if (sim_program_is_in_kernel())
        return *device = sim_device_now(), cudaSuccess;
    *device = sim_device_now();
    return sim_says(0);
}
/* A function of its own, as each copy takes a fortieth of a second to compile. */
inline cudaDeviceProp sim_properties(int device) {
    const sim_gpu *gpu = sim_gpu_now();
    cudaDeviceProp p = {};
    snprintf(p.name, sizeof p.name, "%s", gpu->name);
    p.totalGlobalMem = gpu->memory_bytes;
    p.sharedMemPerBlock = 48 << 10;
    p.regsPerBlock = p.regsPerMultiprocessor = 65536;
    p.warpSize = 32;
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
    p.pciBusID = device + 1;
    snprintf(p.uuid.bytes, sizeof p.uuid.bytes, "cudasim %d", device);
    p.isMultiGpuBoard = 0, p.multiGpuBoardGroupID = device;
    sim_set_texture_limits(p);
    if (gpu->major >= 8) {
        p.persistingL2CacheMaxSize = (int)(gpu->l2_bytes / 4 * 3);
        p.accessPolicyMaxWindowSize = 128 << 20;
    }
    p.singleToDoublePrecisionPerfRatio = gpu->minor == 0 && gpu->major >= 6 ? 2 : 32;
    p.memoryPoolsSupported = p.canUseHostPointerForRegisteredMem = p.hostRegisterSupported = 1;
    p.clusterLaunch = gpu->major >= 9;
    return p;
}
SIM_HOST cudaError_t cudaGetDeviceProperties(cudaDeviceProp *to, int device) {
    cudaError_t error = sim_error(sim_device_exists(device));
    if (!error)
        *to = sim_properties(device);
    return error;
}
#define cudaGetDeviceProperties_v2 cudaGetDeviceProperties
inline bool sim_attribute(int *value, cudaDeviceAttr attribute, int device) {
    cudaDeviceProp p = sim_properties(device);
    switch (attribute) {
#define SIM_NAMED(name, number, of)                                                                          \
    case cudaDevAttr##name:                                                                                  \
        *value = (int)(of);                                                                                  \
        return true;
        SIM_ATTRIBUTES(SIM_NAMED)
#undef SIM_NAMED
    }
    return false;
}
SIM_HOST cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device) {
    if (sim_error(sim_device_exists(device)))
        return cudaErrorInvalidDevice;
    int found;
    if (!sim_attribute(&found, attribute, device))
        return sim_says(cudaErrorInvalidValue);
    *value = found;
    return sim_says(0);
}
/* Devices to try, in their order. All are always there to be had. */
SIM_HOST cudaError_t cudaSetValidDevices(int *devices, int count) {
    if (count < 0 || count > sim_gpu_count() || (count && !devices))
        return sim_says(cudaErrorInvalidValue);
    for (int i = 0; i < count; i++)
        if (cudaError_t error = sim_error(sim_device_exists(devices[i])))
            return error;
    return sim_says(0);
}
SIM_HOST cudaError_t cudaChooseDevice(int *device, const cudaDeviceProp *) {
    return cudaGetDevice(device);
}
SIM_HOST cudaError_t cudaDeviceSynchronize() {
    if (cudaError_t error = sim_capture_forbids(false))
        return error;
    return sim_error(sim_device_waits());
}
SIM_HOST cudaError_t cudaThreadSynchronize() {
    return cudaDeviceSynchronize();
}
SIM_HOST cudaError_t cudaDeviceReset() {
    return cudaDeviceSynchronize();
}
SIM_HOST cudaError_t cudaThreadExit() {
    return cudaDeviceReset();
}
inline unsigned sim_device_flags; /* stored, with no effect */
SIM_HOST cudaError_t cudaSetDeviceFlags(unsigned flags) {
    sim_device_flags = flags;
    return sim_says(0);
}
SIM_HOST cudaError_t cudaGetDeviceFlags(unsigned *flags) {
    *flags = sim_device_flags;
    return sim_says(0);
}
/* Limits are stored but have no effect; they start with CUDA's values. */
inline size_t &sim_limit(cudaLimit limit) {
    static size_t limits[] = {1024, 1 << 20, 8 << 20, 2, 2048, 128, 0};
    return limits[limit];
}
SIM_HOST cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) {
    sim_limit(limit) = value;
    return sim_says(0);
}
SIM_HOST cudaError_t cudaDeviceGetLimit(size_t *value, cudaLimit limit) {
    *value = sim_limit(limit);
    return sim_says(0);
}
SIM_HOST cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) {
    return sim_says(0);
}
SIM_HOST cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache *of) {
    *of = cudaFuncCachePreferNone;
    return sim_says(0);
}
SIM_HOST cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig) {
    return sim_says(0);
}
/* Banks have four bytes since Maxwell, whatever is set. */
SIM_HOST cudaError_t cudaDeviceGetSharedMemConfig(cudaSharedMemConfig *of) {
    *of = cudaSharedMemBankSizeFourByte;
    return sim_says(0);
}
SIM_HOST cudaError_t cudaDeviceGetPCIBusId(char *to, int room, int device) {
    snprintf(to, (size_t)room, "0000:%02x:00.0", device + 1);
    return sim_error(sim_device_exists(device));
}
SIM_HOST cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *id) {
    unsigned domain, bus;
    bool is_one = sscanf(id, "%x:%x", &domain, &bus) == 2 && bus >= 1;
    *device = is_one ? (int)bus - 1 : 0;
    return sim_error(is_one ? sim_device_exists(*device) : sim_program_error(cudaErrorInvalidDevice));
}
SIM_HOST cudaError_t cudaDriverGetVersion(int *version) {
    *version = CUDART_VERSION;
    return sim_says(0);
}
SIM_HOST cudaError_t cudaRuntimeGetVersion(int *version) {
    return cudaDriverGetVersion(version);
}

/* There is no driver to have an entry point: the answer is CUDA's for a name that a driver has not. */
enum cudaDriverEntryPointQueryResult {
    cudaDriverEntryPointSuccess,
    cudaDriverEntryPointSymbolNotFound,
    cudaDriverEntryPointVersionNotSufficent
};
enum { cudaEnableDefault, cudaEnableLegacyStream, cudaEnablePerThreadDefaultStream };
SIM_HOST cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned,
                                                      unsigned long long flags,
                                                      cudaDriverEntryPointQueryResult *found = 0) {
    if (!symbol || !function || flags > cudaEnablePerThreadDefaultStream)
        return sim_says(cudaErrorInvalidValue);
    *function = 0;
    if (found)
        *found = cudaDriverEntryPointSymbolNotFound;
    return sim_says(found ? cudaSuccess : cudaErrorSymbolNotFound);
}
SIM_HOST cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **function, unsigned long long flags,
                                             cudaDriverEntryPointQueryResult *found = 0) {
    return cudaGetDriverEntryPointByVersion(symbol, function, CUDART_VERSION, flags, found);
}

/* ---- One device and the memory of another ---- */

enum cudaDeviceP2PAttr {
    cudaDevP2PAttrPerformanceRank = 1,
    cudaDevP2PAttrAccessSupported,
    cudaDevP2PAttrNativeAtomicSupported,
    cudaDevP2PAttrCudaArrayAccessSupported
};
SIM_HOST cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) {
    cudaError_t error = sim_error(sim_device_exists(device) | sim_device_exists(peer));
    *can = !error && device != peer;
    return error;
}
SIM_HOST cudaError_t cudaDeviceGetP2PAttribute(int *value, cudaDeviceP2PAttr attribute, int device,
                                               int peer) {
    cudaError_t error = cudaDeviceCanAccessPeer(value, device, peer);
    if (error || device == peer)
        return error ? error : sim_says(cudaErrorInvalidDevice);
    *value = attribute != cudaDevP2PAttrPerformanceRank;
    return error;
}
SIM_HOST cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
    return sim_error(flags ? sim_program_error(cudaErrorInvalidValue) : sim_device_opens_to_peer(peer, true));
}
SIM_HOST cudaError_t cudaDeviceDisablePeerAccess(int peer) {
    return sim_error(sim_device_opens_to_peer(peer, false));
}

SIM_HOST cudaError_t cudaProfilerStart() {
    return sim_says(0);
}
SIM_HOST cudaError_t cudaProfilerStop() {
    return sim_says(0);
}
