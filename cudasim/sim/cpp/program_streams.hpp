/* Streams and events of a program: CUDA Runtime API, "Stream Management" and "Event Management". What is
 * asked of a stream is done before the call returns; which operations may overlap is kept beside
 * (../program/streams.c). */
#pragma once
#include "program.hpp"

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
    return sim_error(sim_stream_create((sim_stream **)stream, true, 0));
}
enum { SIM_GREATEST_PRIORITY = -5 };
SIM_HOST cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority) {
    if (sim_program_is_in_kernel()) /* launches by kernels run one after another in any stream */
        return *stream = 0, cudaSuccess;
    int nearest = priority > 0 ? 0 : priority < SIM_GREATEST_PRIORITY ? SIM_GREATEST_PRIORITY : priority;
    bool is_blocking = !(flags & cudaStreamNonBlocking);
    return sim_error(sim_stream_create((sim_stream **)stream, is_blocking, nearest));
}
SIM_HOST cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    return cudaStreamCreateWithPriority(stream, flags, 0);
}
SIM_HOST cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    *least = 0, *greatest = SIM_GREATEST_PRIORITY;
    return sim_says(0);
}
SIM_HOST cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned *flags) {
    bool is_blocking = true;
    int priority = 0, error = sim_stream_made_with(sim_stream_of(stream), &is_blocking, &priority);
    *flags = is_blocking ? cudaStreamDefault : cudaStreamNonBlocking;
    return sim_error(error);
}
SIM_HOST cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority) {
    bool is_blocking;
    return sim_error(sim_stream_made_with(sim_stream_of(stream), &is_blocking, priority));
}
/* No two streams that are there have the same. */
SIM_HOST cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long *id) {
    if (!id || !sim_stream_exists(sim_stream_of(stream)))
        return sim_says(cudaErrorInvalidValue);
    *id = (unsigned long long)stream;
    return sim_says(0);
}
SIM_HOST cudaError_t cudaStreamGetDevice(cudaStream_t stream, int *device) {
    *device = sim_stream_device(sim_stream_of(stream));
    return sim_says(0);
}
SIM_HOST cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    if (sim_program_is_in_kernel())
        return cudaSuccess;
    return sim_error(sim_stream_destroy(sim_stream_of(stream)));
}
SIM_HOST cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    if (sim_is_captured(stream))
        return sim_spoils_capture(stream);
    return sim_error(sim_stream_wait(sim_stream_of(stream)));
}
SIM_HOST cudaError_t cudaStreamQuery(cudaStream_t stream) {
    return cudaStreamSynchronize(stream);
}
struct sim_event;
enum { cudaEventWaitDefault = 0, cudaEventWaitExternal = 1 };
enum { cudaEventRecordDefault = 0, cudaEventRecordExternal = 1 };
SIM_HOST cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0) {
    int error;
    if (sim_waits_in_capture(stream, event, flags, &error))
        return sim_says(error);
    return sim_error(sim_stream_wait_for_event(sim_stream_of(stream), (sim_event *)event));
}
typedef void (*cudaHostFn_t)(void *);
typedef void (*cudaStreamCallback_t)(cudaStream_t, cudaError_t, void *);
/* When the stream calls a function, the stream's earlier work is done. */
SIM_WHERE_CALLED SIM_HOST cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function,
                                                         void *data) {
    if (sim_is_captured(stream))
        return sim_capture_call(stream, function, data);
    cudaError_t error = cudaStreamSynchronize(stream);
    if (!error)
        function(data);
    return error;
}
SIM_WHERE_CALLED SIM_HOST cudaError_t cudaStreamAddCallback(cudaStream_t stream,
                                                            cudaStreamCallback_t function, void *data,
                                                            unsigned) {
    cudaError_t error = cudaStreamSynchronize(stream);
    function(stream, error, data);
    return error;
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
SIM_HOST cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream = 0,
                                              unsigned flags = 0) {
    int error;
    if (sim_is_recorded_in_capture(event, stream, flags, &error))
        return sim_says(error);
    return sim_error(sim_event_record((sim_event *)event, sim_stream_of(stream)));
}
SIM_HOST cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = 0) {
    return cudaEventRecordWithFlags(event, stream);
}
SIM_HOST cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    if (sim_spoils_capture_of(event))
        return sim_says(cudaErrorCapturedEvent);
    return sim_error(sim_event_wait((sim_event *)event));
}
SIM_HOST cudaError_t cudaEventQuery(cudaEvent_t event) {
    return cudaEventSynchronize(event);
}
SIM_HOST cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t begin, cudaEvent_t end) {
    if (sim_spoils_capture_of(begin) || sim_spoils_capture_of(end))
        return sim_says(cudaErrorCapturedEvent);
    return sim_error(sim_event_elapsed(milliseconds, (sim_event *)begin, (sim_event *)end));
}
