/* Which streams of a program are captured, so that what is asked of them goes to a graph
 * (program_graphs.hpp). */
#pragma once
#include <functional>
#include <map>
#include <vector>

typedef struct CUgraph_st *cudaGraph_t;
/* Something to do in a stream, again and again. */
typedef std::function<cudaError_t(cudaStream_t)> sim_operation;

struct sim_capturing {
    cudaGraph_t graph;
    cudaStream_t origin; /* the stream that the capture began with; others join it by events */
};
inline std::map<cudaStream_t, sim_capturing> &sim_captured_by() {
    static std::map<cudaStream_t, sim_capturing> captured;
    return captured;
}
/* Events that were recorded in a captured stream. */
inline std::map<cudaEvent_t, sim_capturing> &sim_recorded_in() {
    static std::map<cudaEvent_t, sim_capturing> recorded;
    return recorded;
}
SIM_HOST bool sim_is_captured(cudaStream_t stream) {
    auto &captured = sim_captured_by();
    return !captured.empty() && captured.count(stream);
}
inline cudaError_t sim_capture(cudaStream_t stream, sim_operation run);
