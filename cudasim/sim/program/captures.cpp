/* Streams that are captured into graphs. CUDA C++ Programming Guide, "Creating a Graph Using Stream Capture".
 * A captured operation comes after those that its stream has, or has waited for by events. */
#include "graphs.hpp"

namespace { /* the program may have types by these names */
struct capture {
    cudaGraph_t graph;
    cudaStream_t origin; /* the stream that it began with; others join it by events */
    bool is_given;       /* the graph was there before */
    unsigned long long id;
    bool is_spoilt;
    cudaStreamCaptureMode mode;
    pthread_t began_by;
};
struct place { /* of a stream or an event in a capture: what comes before the next operation */
    std::shared_ptr<capture> of;
    std::vector<cudaGraphNode_t> after;
};
} // namespace
static std::map<cudaStream_t, place> &captured() {
    static std::map<cudaStream_t, place> known;
    return known;
}
/* Events that were recorded in a captured stream. */
static std::map<cudaEvent_t, place> &recorded() {
    static std::map<cudaEvent_t, place> known;
    return known;
}
static thread_local cudaStreamCaptureMode mode_now = cudaStreamCaptureModeGlobal;

bool sim_is_captured(cudaStream_t stream) {
    return !captured().empty() && captured().count(stream);
}

/* ---- Operations ---- */

template <class P> static cudaError_t add(cudaStream_t stream, P &of, sim_called called) {
    place &at = captured()[stream];
    cudaGraphNode_t node;
    cudaError_t error = sim_add_node(&node, at.of->graph, at.after.data(), at.after.size(), of, called);
    if (!error)
        at.after = {node};
    return sim_says(error);
}
cudaError_t sim_capture(cudaStream_t stream, sim_operation run) {
    const sim_work of = {cudaGraphNodeTypeKernel, run};
    return add(stream, of, {});
}
cudaError_t sim_capture_launch(const sim_kept_launch &launch) {
    return add(launch.with.stream, launch, {launch.name, launch.site->file, launch.site->line, 0});
}
cudaError_t sim_capture_copy(cudaStream_t stream, void *to, size_t to_pitch, const void *from,
                             size_t from_pitch, size_t width, size_t rows, cudaMemcpyKind kind,
                             sim_called called) {
    const cudaMemcpy3DParms of = {0,
                                  {},
                                  {(void *)from, from_pitch, width, rows},
                                  0,
                                  {},
                                  {to, to_pitch, width, rows},
                                  {width, rows, 1},
                                  kind};
    return add(stream, of, called);
}
cudaError_t sim_capture_copy_3d(cudaStream_t stream, const cudaMemcpy3DParms *of, sim_called called) {
    return add(stream, *of, called);
}
cudaError_t sim_capture_fill(cudaStream_t stream, void *to, size_t pitch, int value, size_t width,
                             size_t rows, sim_called called) {
    const cudaMemsetParams of = {to, pitch, (unsigned)value & 0xff, 1, width, rows};
    return add(stream, of, called);
}
cudaError_t sim_capture_call(cudaStream_t stream, void (*function)(void *), void *data) {
    const cudaHostNodeParams of = {function, data};
    return add(stream, of, {});
}
cudaError_t sim_take_in_graph(void **memory, cudaStream_t stream, size_t bytes, sim_called called) {
    cudaMemAllocNodeParams of = {};
    of.poolProps.allocType = cudaMemAllocationTypePinned;
    of.poolProps.location = {cudaMemLocationTypeDevice, sim_stream_device(sim_stream_of(stream))};
    of.bytesize = bytes;
    cudaError_t error = add(stream, of, called);
    *memory = error ? 0 : of.dptr;
    return error;
}
cudaError_t sim_capture_free(cudaStream_t stream, void *memory, sim_called called) {
    const cudaMemFreeNodeParams of = {memory};
    return add(stream, of, called);
}

/* ---- Events ---- */

static void merge(std::vector<cudaGraphNode_t> *to, const std::vector<cudaGraphNode_t> &from) {
    for (cudaGraphNode_t node : from)
        if (std::find(to->begin(), to->end(), node) == to->end())
            to->push_back(node);
}
bool sim_waits_in_capture(cudaStream_t stream, cudaEvent_t event, unsigned flags, int *error) {
    auto found = recorded().find(event);
    auto own = captured().find(stream);
    *error = cudaSuccess;
    if (own != captured().end() && flags == cudaEventWaitExternal) {
        const cudaEventWaitNodeParams of = {event};
        *error = add(stream, of, {});
        return true;
    }
    if (found == recorded().end()) {
        bool is_isolated = own != captured().end() && event && sim_event_is_recorded((sim_event *)event);
        if (is_isolated)
            own->second.of->is_spoilt = true, *error = cudaErrorStreamCaptureIsolation;
        return own != captured().end();
    }
    if (own == captured().end())
        own = captured().insert({stream, {found->second.of, {}}}).first;
    if (own->second.of != found->second.of) {
        own->second.of->is_spoilt = found->second.of->is_spoilt = true;
        *error = cudaErrorStreamCaptureMerge;
        return true;
    }
    merge(&own->second.after, found->second.after);
    return true;
}
bool sim_is_recorded_in_capture(cudaEvent_t event, cudaStream_t stream, unsigned flags, int *error) {
    *error = cudaSuccess;
    if (captured().empty() && recorded().empty())
        return false;
    if (sim_is_captured(stream) && flags == cudaEventRecordExternal) {
        const cudaEventRecordNodeParams of = {event};
        *error = add(stream, of, {});
        return true;
    }
    recorded().erase(event);
    if (sim_is_captured(stream))
        recorded()[event] = captured()[stream];
    return sim_is_captured(stream);
}
bool sim_spoils_capture_of(cudaEvent_t event) {
    auto found = recorded().find(event);
    if (found != recorded().end())
        found->second.of->is_spoilt = true;
    return found != recorded().end();
}

/* ---- Captures ---- */

static cudaError_t begin(cudaStream_t stream, cudaGraph_t graph, std::vector<cudaGraphNode_t> after,
                         cudaStreamCaptureMode mode) {
    static unsigned long long count;
    if (stream == 0 || sim_is_captured(stream))
        return sim_says(stream ? cudaErrorIllegalState : cudaErrorStreamCaptureUnsupported);
    bool is_given = graph;
    captured()[stream] = {std::make_shared<capture>(capture{is_given ? graph : new CUgraph_st(), stream,
                                                            is_given, ++count, false, mode, pthread_self()}),
                          after};
    return sim_says(cudaSuccess);
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
    return begin(stream, 0, {}, mode);
}
cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
                                          const cudaGraphNode_t *after, const cudaGraphEdgeData *,
                                          size_t count, cudaStreamCaptureMode mode) {
    if (!graph || (count && !after))
        return sim_says(cudaErrorInvalidValue);
    return begin(stream, graph, std::vector<cudaGraphNode_t>(after, after + count), mode);
}
cudaError_t sim_spoils_capture(cudaStream_t stream) {
    captured()[stream].of->is_spoilt = true;
    return sim_says(cudaErrorStreamCaptureUnsupported);
}
/* CUDA Runtime API, "cudaThreadExchangeStreamCaptureMode": unsafe calls. */
cudaError_t sim_capture_forbids(bool waits) {
    cudaError_t error = cudaSuccess;
    for (auto &[stream, place] : captured()) {
        capture &of = *place.of;
        bool is_own = pthread_equal(of.began_by, pthread_self());
        bool by_own = is_own && of.mode != cudaStreamCaptureModeRelaxed;
        bool by_any = mode_now == cudaStreamCaptureModeGlobal && of.mode == cudaStreamCaptureModeGlobal;
        if (mode_now == cudaStreamCaptureModeRelaxed || !(by_own || by_any))
            continue;
        bool is_blocking = true;
        int priority;
        sim_stream_made_with(sim_stream_of(stream), &is_blocking, &priority);
        of.is_spoilt = true;
        error = waits && is_blocking ? cudaErrorStreamCaptureImplicit : cudaErrorStreamCaptureUnsupported;
    }
    return error ? sim_says(error) : error;
}
/* Those nodes, and all that come before them. */
static std::set<cudaGraphNode_t> up_to(std::vector<cudaGraphNode_t> nodes) {
    std::set<cudaGraphNode_t> found;
    while (!nodes.empty()) {
        cudaGraphNode_t node = nodes.back();
        nodes.pop_back();
        if (found.insert(node).second)
            nodes.insert(nodes.end(), node->after.begin(), node->after.end());
    }
    return found;
}
/* Streams that have joined by an event are captured no longer either. */
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    auto found = captured().find(stream);
    if (found == captured().end() || found->second.of->origin != stream)
        return sim_says(found == captured().end() ? cudaErrorIllegalState : cudaErrorStreamCaptureUnmatched);
    place ended = found->second;
    std::set<cudaGraphNode_t> joined = up_to(ended.after);
    cudaError_t error = ended.of->is_spoilt ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
    for (auto each = captured().begin(); each != captured().end();) {
        if (each->second.of != ended.of) {
            each++;
            continue;
        }
        for (cudaGraphNode_t node : each->second.after)
            if (!error && !joined.count(node))
                error = cudaErrorStreamCaptureUnjoined;
        each = captured().erase(each);
    }
    *graph = error ? 0 : ended.of->graph;
    if (error && !ended.of->is_given)
        delete ended.of->graph;
    return sim_says(error);
}
static cudaStreamCaptureStatus status_of(cudaStream_t stream) {
    auto found = captured().find(stream);
    return found == captured().end()     ? cudaStreamCaptureStatusNone
           : found->second.of->is_spoilt ? cudaStreamCaptureStatusInvalidated
                                         : cudaStreamCaptureStatusActive;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status) {
    *status = status_of(stream);
    return sim_says(cudaSuccess);
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus *status,
                                     unsigned long long *id, cudaGraph_t *graph,
                                     const cudaGraphNode_t **after, const cudaGraphEdgeData **edges,
                                     size_t *count) {
    *status = status_of(stream);
    if (*status != cudaStreamCaptureStatusActive)
        return sim_says(cudaSuccess); /* which leaves the rest as it was */
    const place &at = captured()[stream];
    if (id)
        *id = at.of->id;
    if (graph)
        *graph = at.of->graph;
    if (after)
        *after = at.after.data();
    if (edges)
        *edges = 0;
    if (count)
        *count = at.after.size();
    return sim_says(cudaSuccess);
}
cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *after,
                                                const cudaGraphEdgeData *, size_t count, unsigned flags) {
    if (status_of(stream) != cudaStreamCaptureStatusActive)
        return sim_says(cudaErrorIllegalState);
    if (flags > cudaStreamSetCaptureDependencies || (count && !after))
        return sim_says(cudaErrorInvalidValue);
    place &at = captured()[stream];
    if (flags == cudaStreamSetCaptureDependencies)
        at.after.clear();
    merge(&at.after, std::vector<cudaGraphNode_t>(after, after + count));
    return sim_says(cudaSuccess);
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *mode) {
    if (!mode || *mode > cudaStreamCaptureModeRelaxed)
        return sim_says(cudaErrorInvalidValue);
    std::swap(*mode, mode_now);
    return sim_says(cudaSuccess);
}
