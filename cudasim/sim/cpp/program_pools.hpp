/* Memory pools, which allocate memory in the order of a stream: CUDA Runtime API, "Stream Ordered Memory
 * Allocator". A pool does not keep freed memory. Not supported: pools that processes share. */
#pragma once
#include "program.hpp"

enum cudaMemLocationType {
    cudaMemLocationTypeInvalid,
    cudaMemLocationTypeDevice,
    cudaMemLocationTypeHost,
    cudaMemLocationTypeHostNuma,
    cudaMemLocationTypeHostNumaCurrent
};
struct cudaMemLocation {
    cudaMemLocationType type;
    int id;
};
enum cudaMemAllocationType {
    cudaMemAllocationTypeInvalid,
    cudaMemAllocationTypePinned,
    cudaMemAllocationTypeManaged
};
enum cudaMemAllocationHandleType {
    cudaMemHandleTypeNone = 0,
    cudaMemHandleTypePosixFileDescriptor = 1,
    cudaMemHandleTypeWin32 = 2,
    cudaMemHandleTypeWin32Kmt = 4,
    cudaMemHandleTypeFabric = 8
};
struct cudaMemPoolProps {
    cudaMemAllocationType allocType;
    cudaMemAllocationHandleType handleTypes;
    cudaMemLocation location;
    void *win32SecurityAttributes;
    size_t maxSize;
    unsigned short usage;
    unsigned char reserved[54];
};
enum cudaMemAccessFlags {
    cudaMemAccessFlagsProtNone = 0,
    cudaMemAccessFlagsProtRead = 1,
    cudaMemAccessFlagsProtReadWrite = 3
};
struct cudaMemAccessDesc {
    cudaMemLocation location;
    cudaMemAccessFlags flags;
};
enum cudaMemPoolAttr {
    cudaMemPoolReuseFollowEventDependencies = 1,
    cudaMemPoolReuseAllowOpportunistic,
    cudaMemPoolReuseAllowInternalDependencies,
    cudaMemPoolAttrReleaseThreshold,
    cudaMemPoolAttrReservedMemCurrent,
    cudaMemPoolAttrReservedMemHigh,
    cudaMemPoolAttrUsedMemCurrent,
    cudaMemPoolAttrUsedMemHigh
};

struct CUmemPoolHandle_st {
    int device;
    bool is_default;
    uint64_t peers; /* the other devices that may access it, a bit for each */
    uint64_t threshold;
    int reuses[3];
    size_t most; /* that was used at a time */
    size_t used() const {
        return sim_memory_of(&peers);
    }
};
typedef CUmemPoolHandle_st *cudaMemPool_t;

/* For each device: its first pool, the one from which it allocates, and that of its graphs. */
struct sim_pools_of_device {
    CUmemPoolHandle_st begins_with, of_graphs;
    cudaMemPool_t chosen;
};
inline sim_pools_of_device &sim_pools(int device) {
    static sim_pools_of_device all[SIM_MOST_GPUS];
    sim_pools_of_device &of = all[device];
    if (!of.chosen)
        of = {{device, true, 0, 0, {1, 1, 1}, 0}, {device, true, 0, 0, {1, 1, 1}, 0}, &of.begins_with};
    return of;
}

SIM_HOST cudaError_t sim_take(void **memory, void *place, size_t bytes, cudaMemPool_t pool,
                              sim_called called) {
    cudaError_t error =
        sim_error(sim_memory_take_from(memory, place, bytes, pool->device, &pool->peers, called));
    pool->most = std::max(pool->most, pool->used());
    return error;
}
cudaError_t sim_take_in_graph(void **memory, cudaStream_t stream, size_t bytes, sim_called called);
template <class T>
SIM_HOST cudaError_t cudaMallocFromPoolAsync(T **memory, size_t bytes, cudaMemPool_t pool,
                                             cudaStream_t stream, const char *name = 0, SIM_CALLED) {
    if (sim_is_captured(stream))
        return sim_take_in_graph((void **)memory, stream, bytes, SIM_CALLED_AS(name));
    return sim_take((void **)memory, 0, bytes, pool, SIM_CALLED_AS(name));
}
template <class T>
SIM_HOST cudaError_t cudaMallocAsync(T **memory, size_t bytes, cudaMemPool_t pool, cudaStream_t stream,
                                     SIM_CALLED) {
    return cudaMallocFromPoolAsync(memory, bytes, pool, stream, 0, sim_file, sim_line);
}
template <class T>
SIM_HOST cudaError_t cudaMallocAsync(T **memory, size_t bytes, cudaStream_t stream, const char *name = 0,
                                     SIM_CALLED) {
    return cudaMallocFromPoolAsync(memory, bytes, sim_pools(sim_stream_device(sim_stream_of(stream))).chosen,
                                   stream, name, sim_file, sim_line);
}

SIM_HOST cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const cudaMemPoolProps *of) {
    bool is_of_device = of->location.type == cudaMemLocationTypeDevice &&
                        of->allocType == cudaMemAllocationTypePinned &&
                        of->handleTypes == cudaMemHandleTypeNone;
    if (!is_of_device)
        return sim_says(cudaErrorNotSupported);
    cudaError_t error = sim_error(sim_device_exists(of->location.id));
    if (!error)
        *pool = new CUmemPoolHandle_st{of->location.id, false, 0, 0, {1, 1, 1}, 0};
    return error;
}
SIM_HOST cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) { /* its memory may still be in use */
    return sim_says(pool->is_default ? cudaErrorInvalidValue : cudaSuccess);
}
SIM_HOST cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device) {
    cudaError_t error = sim_error(sim_device_exists(device));
    *pool = error ? 0 : &sim_pools(device).begins_with;
    return error;
}
SIM_HOST cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *pool, int device) {
    cudaError_t error = sim_error(sim_device_exists(device));
    *pool = error ? 0 : sim_pools(device).chosen;
    return error;
}
SIM_HOST cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
    cudaError_t error = sim_error(sim_device_exists(device));
    if (!error && pool->device != device)
        return sim_says(cudaErrorInvalidValue);
    if (!error)
        sim_pools(device).chosen = pool;
    return error;
}
SIM_HOST cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) {
    return sim_says(0);
}
SIM_HOST cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void *value) {
    if (attribute < 1 || attribute > cudaMemPoolAttrUsedMemHigh)
        return sim_says(cudaErrorInvalidValue);
    if (attribute < cudaMemPoolAttrReleaseThreshold)
        *(int *)value = pool->reuses[attribute - 1];
    else if (attribute == cudaMemPoolAttrReleaseThreshold)
        *(uint64_t *)value = pool->threshold;
    else
        *(uint64_t *)value = (attribute - cudaMemPoolAttrReservedMemCurrent) % 2 ? pool->most : pool->used();
    return sim_says(0);
}
SIM_HOST cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void *value) {
    bool resets = attribute == cudaMemPoolAttrReservedMemHigh || attribute == cudaMemPoolAttrUsedMemHigh;
    if (attribute >= 1 && attribute < cudaMemPoolAttrReleaseThreshold)
        pool->reuses[attribute - 1] = *(int *)value;
    else if (attribute == cudaMemPoolAttrReleaseThreshold)
        pool->threshold = *(uint64_t *)value;
    else if (resets && *(uint64_t *)value == 0)
        pool->most = pool->used();
    else
        return sim_says(cudaErrorInvalidValue);
    return sim_says(0);
}
SIM_HOST cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc *of, size_t count) {
    for (size_t i = 0; i < count; i++) {
        int device = of[i].location.id;
        bool is_all = of[i].flags == cudaMemAccessFlagsProtReadWrite;
        bool is_some = of[i].flags == cudaMemAccessFlagsProtRead;
        if (of[i].location.type != cudaMemLocationTypeDevice || is_some ||
            (device == pool->device && !is_all))
            return sim_says(cudaErrorInvalidValue);
        if (cudaError_t error = sim_error(sim_device_exists(device)))
            return error;
        uint64_t bit = (uint64_t)1 << device;
        pool->peers = is_all ? pool->peers | bit : pool->peers & ~bit;
    }
    return sim_says(0);
}
SIM_HOST cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags *flags, cudaMemPool_t pool,
                                          cudaMemLocation *of) {
    bool may = of->id == pool->device || pool->peers >> of->id & 1;
    *flags = may ? cudaMemAccessFlagsProtReadWrite : cudaMemAccessFlagsProtNone;
    return sim_error(sim_device_exists(of->id));
}

/* The pool of a place: only devices have pools here. */
SIM_HOST cudaError_t sim_has_pools(const cudaMemLocation *of, cudaMemAllocationType type) {
    if (!of || (type != cudaMemAllocationTypePinned && type != cudaMemAllocationTypeManaged))
        return sim_says(cudaErrorInvalidValue);
    bool is_there = of->type == cudaMemLocationTypeDevice && type == cudaMemAllocationTypePinned;
    return is_there ? sim_error(sim_device_exists(of->id)) : sim_says(cudaErrorNotSupported);
}
SIM_HOST cudaError_t cudaMemGetDefaultMemPool(cudaMemPool_t *pool, cudaMemLocation *of,
                                              cudaMemAllocationType type) {
    cudaError_t error = sim_has_pools(of, type);
    return error ? error : cudaDeviceGetDefaultMemPool(pool, of->id);
}
SIM_HOST cudaError_t cudaMemGetMemPool(cudaMemPool_t *pool, cudaMemLocation *of, cudaMemAllocationType type) {
    cudaError_t error = sim_has_pools(of, type);
    return error ? error : cudaDeviceGetMemPool(pool, of->id);
}
SIM_HOST cudaError_t cudaMemSetMemPool(cudaMemLocation *of, cudaMemAllocationType type, cudaMemPool_t pool) {
    cudaError_t error = sim_has_pools(of, type);
    return error ? error : cudaDeviceSetMemPool(of->id, pool);
}

/* ---- Hints where managed memory should be: it is everywhere, and what was said last can be asked ---- */

enum cudaMemRangeAttribute {
    cudaMemRangeAttributeReadMostly = 1,
    cudaMemRangeAttributePreferredLocation,
    cudaMemRangeAttributeAccessedBy,
    cudaMemRangeAttributeLastPrefetchLocation,
    cudaMemRangeAttributePreferredLocationType,
    cudaMemRangeAttributePreferredLocationId,
    cudaMemRangeAttributeLastPrefetchLocationType,
    cudaMemRangeAttributeLastPrefetchLocationId
};
cudaError_t cudaMemAdvise(const void *memory, size_t bytes, cudaMemoryAdvise what, cudaMemLocation where);
cudaError_t cudaMemPrefetchAsync(const void *memory, size_t bytes, cudaMemLocation where, unsigned flags,
                                 cudaStream_t stream = 0);
cudaError_t cudaMemRangeGetAttribute(void *to, size_t room, cudaMemRangeAttribute which, const void *memory,
                                     size_t bytes);
cudaError_t cudaMemRangeGetAttributes(void **to, size_t *rooms, cudaMemRangeAttribute *which, size_t count,
                                      const void *memory, size_t bytes);
SIM_HOST cudaMemLocation sim_location(int device) {
    return {device == cudaCpuDeviceId ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice,
            device == cudaCpuDeviceId ? 0 : device};
}
SIM_HOST cudaError_t cudaMemAdvise(const void *memory, size_t bytes, cudaMemoryAdvise what, int device) {
    return cudaMemAdvise(memory, bytes, what, sim_location(device));
}
SIM_HOST cudaError_t cudaMemPrefetchAsync(const void *memory, size_t bytes, int device,
                                          cudaStream_t stream = 0) {
    return cudaMemPrefetchAsync(memory, bytes, sim_location(device), 0, stream);
}
cudaError_t cudaMemPrefetchBatchAsync(void **memory, size_t *bytes, size_t count, cudaMemLocation *where,
                                      size_t *begins, size_t where_count, unsigned long long flags,
                                      cudaStream_t stream);
/* What is discarded may be anything until it is written; here it stays as it was. */
cudaError_t cudaMemDiscardBatchAsync(void **memory, size_t *bytes, size_t count, unsigned long long flags,
                                     cudaStream_t stream);
SIM_HOST cudaError_t cudaMemDiscardAndPrefetchBatchAsync(void **memory, size_t *bytes, size_t count,
                                                         cudaMemLocation *where, size_t *begins,
                                                         size_t where_count, unsigned long long flags,
                                                         cudaStream_t stream) {
    return cudaMemPrefetchBatchAsync(memory, bytes, count, where, begins, where_count, flags, stream);
}

/* ---- Many copies in one call: one after the other ---- */

enum cudaMemcpyFlags { cudaMemcpyFlagDefault, cudaMemcpyFlagPreferOverlapWithCompute };
enum cudaMemcpySrcAccessOrder {
    cudaMemcpySrcAccessOrderInvalid,
    cudaMemcpySrcAccessOrderStream,
    cudaMemcpySrcAccessOrderDuringApiCall,
    cudaMemcpySrcAccessOrderAny
};
struct cudaMemcpyAttributes {
    cudaMemcpySrcAccessOrder srcAccessOrder;
    cudaMemLocation srcLocHint, dstLocHint;
    unsigned flags;
};
SIM_HOST cudaError_t cudaMemcpyBatchAsync(void *const *to, const void *const *from, const size_t *bytes,
                                          size_t count, cudaMemcpyAttributes *of, size_t *begins,
                                          size_t of_count, cudaStream_t stream, SIM_CALLED) {
    bool is_right = to && from && bytes && of && begins && count && of_count && of_count <= count &&
                    begins[0] == 0 && stream;
    for (size_t i = 0; is_right && i < of_count; i++)
        is_right = of[i].srcAccessOrder != cudaMemcpySrcAccessOrderInvalid && begins[i] < count &&
                   (i == 0 || begins[i] > begins[i - 1]);
    cudaError_t error = is_right ? cudaSuccess : sim_says(cudaErrorInvalidValue);
    for (size_t i = 0; is_right && !error && i < count; i++)
        error = cudaMemcpyAsync(to[i], from[i], bytes[i], cudaMemcpyDefault, stream, sim_file, sim_line);
    return error;
}
SIM_HOST cudaError_t cudaMemcpyBatchAsync(void *const *to, const void *const *from, const size_t *bytes,
                                          size_t count, cudaMemcpyAttributes *of, size_t *begins,
                                          size_t of_count, size_t *failed, cudaStream_t stream,
                                          SIM_CALLED) { /* until CUDA 12 */
    if (failed)
        *failed = (size_t)-1;
    return cudaMemcpyBatchAsync(to, from, bytes, count, of, begins, of_count, stream, sim_file, sim_line);
}
/* One attribute for all of them, since CUDA 13. */
SIM_HOST cudaError_t cudaMemcpyBatchAsync(void *const *to, const void *const *from, const size_t *bytes,
                                          size_t count, cudaMemcpyAttributes of, cudaStream_t stream,
                                          SIM_CALLED) {
    size_t begin = 0;
    return cudaMemcpyBatchAsync(to, from, bytes, count, &of, &begin, 1, stream, sim_file, sim_line);
}
/* If only this stream's kernels use managed memory, host code need not wait for other streams. This is
 * ignored: host code is refused no more than before. */
SIM_HOST cudaError_t cudaStreamAttachMemAsync(cudaStream_t, void *, size_t = 0,
                                              unsigned = cudaMemAttachSingle) {
    return sim_says(0);
}
