/* CUB's allocator. CUB keeps freed memory for the next allocation; here it is freed at once, because
 * cudaFree() costs nothing, and a later read is reported. */
#pragma once
#include "program.hpp"

namespace cub {

struct CachingDeviceAllocator {
    explicit CachingDeviceAllocator(bool = false, bool = false) {}
    CachingDeviceAllocator(unsigned growth, unsigned smallest = 1, unsigned largest = -1u,
                           size_t most = (size_t)-1, bool = false, bool = false) {
        (void)growth, (void)smallest, (void)largest, (void)most;
    }
    template <class T> cudaError_t DeviceAllocate(T **to, size_t bytes, cudaStream_t stream = 0) {
        return cudaMallocAsync((void **)to, bytes, stream);
    }
    cudaError_t DeviceFree(void *memory) {
        return cudaFree(memory);
    }
    template <class T> cudaError_t DeviceAllocate(int device, T **to, size_t bytes, cudaStream_t stream = 0) {
        return on(device, [&] { return DeviceAllocate(to, bytes, stream); });
    }
    cudaError_t DeviceFree(int device, void *memory) {
        return on(device, [&] { return cudaFree(memory); });
    }
    cudaError_t FreeAllCached() {
        return cudaSuccess;
    }
    cudaError_t SetMaxCachedBytes(size_t) {
        return cudaSuccess;
    }

  private:
    template <class Call> cudaError_t on(int device, Call call) {
        int before;
        cudaError_t error = cudaGetDevice(&before);
        if (!error)
            error = cudaSetDevice(device);
        if (!error)
            error = call();
        cudaError_t back = cudaSetDevice(before);
        return error ? error : back;
    }
};

} /* namespace cub */
