/* Types and constants of the CUDA runtime that device code and its headers mention. A kernel from a cell has
 * no host code: Python does that part. A whole program also has the functions of program.hpp. */
#pragma once
#include "language.hpp"

typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
typedef struct cudaArray *cudaArray_t;
struct cudaExtent {
    size_t width, height, depth;
};

/* CUDA Runtime API, "Data types used by CUDA Runtime", cudaError. */
#define SIM_ERRORS(ERROR)                                                                                    \
    ERROR(cudaSuccess, 0, "no error")                                                                        \
    ERROR(cudaErrorInvalidValue, 1, "invalid argument")                                                      \
    ERROR(cudaErrorMemoryAllocation, 2, "out of memory")                                                     \
    ERROR(cudaErrorInitializationError, 3, "initialization error")                                           \
    ERROR(cudaErrorInvalidConfiguration, 9, "invalid configuration argument")                                \
    ERROR(cudaErrorInvalidPitchValue, 12, "invalid pitch argument")                                          \
    ERROR(cudaErrorInvalidSymbol, 13, "invalid device symbol")                                               \
    ERROR(cudaErrorInvalidDevicePointer, 17, "invalid device pointer")                                       \
    ERROR(cudaErrorInvalidMemcpyDirection, 21, "invalid copy direction for memcpy")                          \
    ERROR(cudaErrorInvalidDeviceFunction, 98, "invalid device function")                                     \
    ERROR(cudaErrorNoDevice, 100, "no CUDA-capable device is detected")                                      \
    ERROR(cudaErrorInvalidDevice, 101, "invalid device ordinal")                                             \
    ERROR(cudaErrorInvalidResourceHandle, 400, "invalid resource handle")                                    \
    ERROR(cudaErrorNotReady, 600, "device not ready")                                                        \
    ERROR(cudaErrorIllegalState, 401, "the operation cannot be performed in the present state")              \
    ERROR(cudaErrorStreamCaptureUnsupported, 900, "operation not permitted when stream is capturing")        \
    ERROR(cudaErrorStreamCaptureUnmatched, 903,                                                              \
          "attempt to terminate a thread-local capture sequence from another thread")                        \
    ERROR(cudaErrorGraphExecUpdateFailure, 910,                                                              \
          "the graph update was not performed because it included changes which violated constraints "       \
          "specific to instantiated graph update")                                                           \
    ERROR(cudaErrorIllegalAddress, 700, "an illegal memory access was encountered")                          \
    ERROR(cudaErrorLaunchOutOfResources, 701, "too many resources requested for launch")                     \
    ERROR(cudaErrorLaunchTimeout, 702, "the launch timed out and was terminated")                            \
    ERROR(cudaErrorAssert, 710, "device-side assert triggered")                                              \
    ERROR(cudaErrorPeerAccessAlreadyEnabled, 704, "peer access is already enabled")                          \
    ERROR(cudaErrorPeerAccessNotEnabled, 705, "peer access has not been enabled")                            \
    ERROR(cudaErrorHostMemoryAlreadyRegistered, 712,                                                         \
          "part or all of the requested memory range is already mapped")                                     \
    ERROR(cudaErrorMisalignedAddress, 716, "misaligned address")                                             \
    ERROR(cudaErrorLaunchFailure, 719, "unspecified launch failure")                                         \
    ERROR(cudaErrorCooperativeLaunchTooLarge, 720, "too many blocks in cooperative launch")                  \
    ERROR(cudaErrorNotSupported, 801, "operation not supported")                                             \
    ERROR(cudaErrorUnknown, 999, "unknown error")

enum cudaError_t {
#define SIM_NAMED(name, number, words) name = number,
    SIM_ERRORS(SIM_NAMED)
#undef SIM_NAMED
};
typedef enum cudaError_t cudaError;

enum cudaMemcpyKind {
    cudaMemcpyHostToHost,
    cudaMemcpyHostToDevice,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice,
    cudaMemcpyDefault
};
