/* What a program's host code does for every launch, and for a stream that is captured, with whichever types.
 * Linked into each program, so that no program has to compile it. */
#include "../cpp/program.hpp"
#include <memory>
#include <mutex>
#include <new>

/* ---- Capture ---- */

struct capturing {
    cudaGraph_t graph;
    cudaStream_t origin; /* the stream that the capture began with; others join it by events */
    std::shared_ptr<bool> is_spoilt;
};
static std::map<cudaStream_t, capturing> &captured() {
    static std::map<cudaStream_t, capturing> known;
    return known;
}
/* Events that were recorded in a captured stream. */
static std::map<cudaEvent_t, capturing> &recorded() {
    static std::map<cudaEvent_t, capturing> known;
    return known;
}

bool sim_is_captured(cudaStream_t stream) {
    return captured().count(stream);
}
bool sim_joins_capture(cudaStream_t stream, cudaEvent_t event) {
    auto found = recorded().find(event);
    if (found == recorded().end())
        return false;
    captured()[stream] = found->second;
    return true;
}
bool sim_is_recorded_in_capture(cudaEvent_t event, cudaStream_t stream) {
    recorded().erase(event);
    if (sim_is_captured(stream))
        recorded()[event] = captured()[stream];
    return sim_is_captured(stream);
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
    if (stream == 0 || sim_is_captured(stream))
        return sim_says(stream ? cudaErrorIllegalState : cudaErrorStreamCaptureUnsupported);
    captured()[stream] = {new CUgraph_st(), stream, std::make_shared<bool>(false)};
    return sim_says(cudaSuccess);
}
cudaError_t sim_spoils_capture(cudaStream_t stream) {
    *captured()[stream].is_spoilt = true;
    return sim_says(cudaErrorStreamCaptureUnsupported);
}
bool sim_spoils_capture_of(cudaEvent_t event) {
    auto found = recorded().find(event);
    if (found != recorded().end())
        *found->second.is_spoilt = true;
    return found != recorded().end();
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status) {
    auto found = captured().find(stream);
    *status = found == captured().end()  ? cudaStreamCaptureStatusNone
              : *found->second.is_spoilt ? cudaStreamCaptureStatusInvalidated
                                         : cudaStreamCaptureStatusActive;
    return sim_says(cudaSuccess);
}
/* Streams that have joined by an event are captured no longer either. */
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    auto found = captured().find(stream);
    if (found == captured().end() || found->second.origin != stream)
        return sim_says(found == captured().end() ? cudaErrorIllegalState : cudaErrorStreamCaptureUnmatched);
    capturing ended = found->second;
    for (auto each = captured().begin(); each != captured().end();)
        each = each->second.origin == stream ? captured().erase(each) : std::next(each);
    *graph = ended.graph;
    if (*ended.is_spoilt) {
        *graph = 0;
        delete ended.graph;
    }
    return sim_says(*graph ? cudaSuccess : cudaErrorStreamCaptureInvalidated);
}
static cudaGraphNode_t last_node(cudaGraph_t graph) {
    return graph->nodes.empty() ? 0 : graph->nodes.back().get();
}
cudaError_t sim_take_in_graph(void **memory, cudaStream_t stream, size_t bytes, sim_called called) {
    cudaGraph_t graph = captured()[stream].graph;
    cudaGraphNode_t before = last_node(graph);
    cudaMemPool_t pool = &sim_pools(sim_stream_device(sim_stream_of(stream))).of_graphs;
    return sim_add_memory_node(0, graph, &before, before != 0, memory, bytes, pool, called);
}
/* All that was captured before comes first. */
cudaError_t sim_capture(cudaStream_t stream, sim_operation run) {
    cudaGraph_t graph = captured()[stream].graph;
    cudaGraphNode_t before = last_node(graph);
    return sim_add_node(0, graph, &before, before != 0, cudaGraphNodeTypeKernel, run);
}

/* ---- Launches ---- */

enum { SHARED = 48 << 10 }; /* bytes, without a call of cudaFuncSetAttribute() */
static std::map<const void *, size_t> &asked() {
    static std::map<const void *, size_t> known;
    return known;
}
static std::mutex of_asked; /* the program may have several OS threads */

size_t sim_static_shared(const void *kernel) {
    static std::map<const void *, size_t> known;
    if (sim_program_is_in_kernel()) /* where memory is the device's */
        return 0;
    std::lock_guard<std::mutex> locked(of_asked);
    auto found = known.find(kernel);
    if (kernel && found == known.end())
        found = known.insert({kernel, sim_program_static_shared(kernel)}).first;
    return kernel ? found->second : 0;
}

size_t sim_most_dynamic_shared(const void *kernel) {
    size_t own = sim_static_shared(kernel), most = own < SHARED ? SHARED - own : 0;
    std::lock_guard<std::mutex> locked(of_asked);
    for (const auto &[of, bytes] : asked())
        if (of == kernel || (!kernel && bytes > most))
            most = bytes;
    return most;
}

cudaError_t sim_set_attribute(const void *kernel, cudaFuncAttribute attribute, int value) {
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize)
        return sim_says(cudaSuccess);
    if (value < 0 || (size_t)value + sim_static_shared(kernel) > sim_gpu_now()->shared_bytes_of_block)
        return sim_says(cudaErrorInvalidValue);
    std::lock_guard<std::mutex> locked(of_asked);
    asked()[kernel] = (size_t)value;
    return sim_says(cudaSuccess);
}

/* Along x; 0 where it is along y or z too, which the simulator has not. */
static unsigned cluster_of(const void *kernel, unsigned asked) {
    for (auto *known = sim_clustered_kernel::first(); kernel && known; known = known->next)
        if (known->address == kernel)
            return known->size.y * known->size.z == 1 ? known->size.x : 0;
    return asked;
}

/* A call with copies of the arguments, which are at `values`. */
static std::shared_ptr<const void> kept(const sim_kernel_type *type, const void *call, void *const *values) {
    size_t bytes = type->call_bytes, alignment = alignof(void *);
    std::vector<size_t> places;
    for (unsigned i = 0; i < type->count; i++) {
        const sim_parameter &of = type->parameters[i];
        places.push_back((bytes + of.alignment - 1) / of.alignment * of.alignment);
        bytes = places.back() + of.bytes;
        alignment = std::max(alignment, of.alignment);
    }
    unsigned char *memory = (unsigned char *)::operator new(bytes, std::align_val_t(alignment));
    memcpy(memory, call, type->call_bytes);
    void **copies = (void **)memory;
    for (unsigned i = 0; i < type->count; i++) {
        const sim_parameter &of = type->parameters[i];
        copies[i] = memory + places[i];
        if (of.copy)
            of.copy(copies[i], values[i]);
        else
            memcpy(copies[i], values[i], of.bytes);
    }
    return std::shared_ptr<const void>(memory, [=](const void *) {
        for (unsigned i = 0; i < type->count; i++)
            if (type->parameters[i].end)
                type->parameters[i].end(copies[i]);
        ::operator delete(memory, std::align_val_t(alignment));
    });
}

/* The launch as something to do in a stream. */
static sim_operation operation_of(const sim_kernel_type *type, const void *address,
                                  std::shared_ptr<const void> call, const sim_site *site, const char *name,
                                  sim_configured with, bool is_cooperative) {
    return [=](cudaStream_t on) {
        sim_configured there = with;
        there.stream = on;
        return sim_launch(type, address, call.get(), site, name, there, is_cooperative);
    };
}

cudaError_t sim_launch(const sim_kernel_type *type, const void *address, const void *call,
                       const sim_site *site, const char *name, sim_configured with, bool is_cooperative) {
    with.cluster = cluster_of(address, with.cluster);
    if (!with.cluster)
        return sim_says(cudaErrorNotSupported);
    void *const *values = (void *const *)call;
    bool is_in_kernel = sim_program_is_in_kernel();
    size_t own = sim_static_shared(address);
    size_t most = is_in_kernel ? with.shared_bytes : sim_most_dynamic_shared(address);
    if (own > SHARED || with.shared_bytes > most) {
        const sim_called called = {name, site->file, site->line, 0};
        char besides[80] = "";
        if (own)
            snprintf(besides, sizeof besides, " besides the %zu of its __shared__ arrays", own);
        if (own > SHARED)
            sim_program_say(&called, "%zu bytes of __shared__ arrays are more than %d, which nvcc refuses",
                            own, SHARED);
        else
            sim_program_say(
                &called,
                "%zu bytes of dynamic shared memory are more than %zu, which are what a launch may have%s; "
                "cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) asks for "
                "up to %zu on this GPU",
                with.shared_bytes, most, besides, sim_gpu_now()->shared_bytes_of_block - own);
        return sim_says(cudaErrorInvalidValue);
    }
    if (!is_in_kernel && sim_is_captured(with.stream))
        return sim_capture(with.stream, operation_of(type, address, kept(type, call, values), site, name,
                                                     with, is_cooperative));
    /* On the stack: in a kernel, memory is the device's. */
    sim_argument pointers[type->count + 1];
    size_t bytes[type->count + 1];
    for (unsigned i = 0; i < type->count; i++) {
        const sim_parameter &of = type->parameters[i];
        pointers[i] = {of.is_pointer ? *(const void **)values[i] : 0, of.is_constant};
        bytes[i] = of.bytes;
    }
    const sim_program_launch launch = {name,
                                       site->file,
                                       site->line,
                                       type->enter,
                                       call,
                                       type->call_bytes,
                                       pointers,
                                       type->count,
                                       {with.grid.x, with.grid.y, with.grid.z},
                                       {with.block.x, with.block.y, with.block.z},
                                       with.shared_bytes,
                                       sim_stream_of(with.stream),
                                       with.cluster,
                                       is_cooperative,
                                       own};
    if (is_in_kernel)
        return (cudaError_t)sim_program_launches_later(&launch, values, bytes);
    return sim_error(sim_program_launches(&launch));
}

/* ---- Launches of a kernel whose type is lost ---- */

sim_operation sim_known_operation(const void *kernel, sim_configured with, bool is_cooperative,
                                  void **arguments, const char *file, int line) {
    for (const sim_known_kernel *known = sim_known_kernel::first(); known; known = known->next)
        if (known->address == kernel) {
            std::vector<const void *> call(known->type->count + 1); /* as sim_call has it */
            call.push_back(kernel);
            return operation_of(known->type, kernel, kept(known->type, call.data(), arguments),
                                sim_site_at(file, line), "kernel", with, is_cooperative);
        }
    return {};
}
cudaError_t sim_launch_known(const void *kernel, sim_configured with, bool is_cooperative, void **arguments,
                             const char *file, int line) {
    sim_operation run = sim_known_operation(kernel, with, is_cooperative, arguments, file, line);
    return run ? run(with.stream) : sim_says(cudaErrorInvalidDeviceFunction);
}
