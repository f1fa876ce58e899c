/* The few functions of the CUDA runtime that host code around the kernels calls. */
#include "machine.h"

static _Thread_local cudaError_t last_error;

cudaError_t sim_set_last_error(cudaError_t error) {
    if (error != cudaSuccess)
        last_error = error;
    return error;
}

const char *cudaGetErrorString(cudaError_t error) {
    const sim_report *report = sim_last_report();
    bool has_report = report->kind != SIM_NO_REPORT;
    switch (error) {
    case cudaSuccess:
        return "no error";
    case cudaErrorInvalidValue:
        return has_report ? report->message : "invalid argument";
    case cudaErrorMemoryAllocation:
        return has_report ? report->message : "out of memory";
    case cudaErrorInvalidConfiguration:
        return has_report ? report->message : "invalid configuration argument";
    case cudaErrorMisalignedAddress:
        return "misaligned address";
    case cudaErrorLaunchFailure:
        return has_report ? report->message : "unspecified launch failure";
    }
    return "unrecognized error code";
}

cudaError_t cudaGetLastError(void) {
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void) {
    return last_error;
}

cudaError_t cudaGetDevice(int *device) {
    *device = 0;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device) {
    (void)device;
    switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
        *value = SIM_MAX_BLOCK_THREADS;
        return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlock:
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = SIM_MAX_SHARED_BYTES;
        return cudaSuccess;
    case cudaDevAttrWarpSize:
        *value = SIM_WARP_THREADS;
        return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
        *value = sim_get_threads();
        return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
    case cudaDevAttrComputeCapabilityMinor:
        *value = 0;
        return cudaSuccess;
    }
    return sim_set_last_error(cudaErrorInvalidValue);
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream) {
    (void)stream;
    memset(memory, value, bytes);
    return cudaSuccess;
}
