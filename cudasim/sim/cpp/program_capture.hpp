/* Which streams of a program are captured, so that what is asked of them goes to a graph
 * (program_graphs.hpp). */
#pragma once
#include <functional>
#include <vector>

typedef struct CUgraph_st *cudaGraph_t;
enum cudaGraphNodeType {
    cudaGraphNodeTypeKernel,
    cudaGraphNodeTypeMemcpy,
    cudaGraphNodeTypeMemset,
    cudaGraphNodeTypeHost,
    cudaGraphNodeTypeGraph,
    cudaGraphNodeTypeEmpty,
    cudaGraphNodeTypeWaitEvent,
    cudaGraphNodeTypeEventRecord,
    cudaGraphNodeTypeExtSemaphoreSignal,
    cudaGraphNodeTypeExtSemaphoreWait,
    cudaGraphNodeTypeMemAlloc,
    cudaGraphNodeTypeMemFree,
    cudaGraphNodeTypeConditional = 13
};
/* Something to do in a stream, again and again. */
typedef std::function<cudaError_t(cudaStream_t)> sim_operation;

/* ../program/graphs.cpp: each adds a node to the graph that the stream is captured for. */
bool sim_is_captured(cudaStream_t stream);
cudaError_t sim_capture(cudaStream_t stream, sim_operation run);
cudaError_t sim_capture_copy(cudaStream_t stream, void *to, size_t to_pitch, const void *from,
                             size_t from_pitch, size_t width, size_t rows, cudaMemcpyKind kind,
                             sim_called called);
cudaError_t sim_capture_fill(cudaStream_t stream, void *to, size_t pitch, int value, size_t width,
                             size_t rows, sim_called called);
cudaError_t sim_capture_call(cudaStream_t stream, void (*function)(void *), void *data);
cudaError_t sim_capture_free(cudaStream_t stream, void *memory, sim_called called);
/* A call that no graph can do ends in an error, and so does the capture. */
cudaError_t sim_spoils_capture(cudaStream_t stream);
/* The error of a call that is not allowed while streams are captured, which it spoils, or 0. waits: for the
 * legacy default stream. */
cudaError_t sim_capture_forbids(bool waits);
/* A stream that waits for an event of a captured stream joins the capture; no other work can be waited for.
 * False: neither is captured. The same of an event that is recorded. */
bool sim_waits_in_capture(cudaStream_t stream, cudaEvent_t event, unsigned flags, int *error);
bool sim_is_recorded_in_capture(cudaEvent_t event, cudaStream_t stream, unsigned flags, int *error);
/* Whether the event was last recorded in a capture: then nobody can wait for it, which spoils a capture that
 * goes on. */
bool sim_spoils_capture_of(cudaEvent_t event);
