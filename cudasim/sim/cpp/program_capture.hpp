/* Which streams of a program are captured, so that what is asked of them goes to a graph
 * (program_graphs.hpp). */
#pragma once
#include <functional>
#include <vector>

typedef struct CUgraph_st *cudaGraph_t;
/* Something to do in a stream, again and again. */
typedef std::function<cudaError_t(cudaStream_t)> sim_operation;

/* ../program/host.cpp */
bool sim_is_captured(cudaStream_t stream);
cudaError_t sim_capture(cudaStream_t stream, sim_operation run);
/* A call that no graph can do ends in an error, and so does the capture. */
cudaError_t sim_spoils_capture(cudaStream_t stream);
/* Whether the event is one of a captured stream, which the other stream joins; or becomes one of it. */
bool sim_joins_capture(cudaStream_t stream, cudaEvent_t event);
/* Whether the event was last recorded in one: then nobody can wait for it, which spoils a capture that goes
 * on. */
bool sim_spoils_capture_of(cudaEvent_t event);
bool sim_is_recorded_in_capture(cudaEvent_t event, cudaStream_t stream);
