/* Graphs of a program: operations that are gathered, by their own functions or while a stream is captured,
 * and run as one. CUDA Runtime API, "Graph Management". A captured operation comes after all that were
 * captured before it, which is one of the orders that its streams and events allow. */
#pragma once
#include "program_launch.hpp"
#include <map>
#include <memory>

enum cudaGraphNodeType {
    cudaGraphNodeTypeKernel,
    cudaGraphNodeTypeMemcpy,
    cudaGraphNodeTypeMemset,
    cudaGraphNodeTypeHost,
    cudaGraphNodeTypeGraph,
    cudaGraphNodeTypeEmpty,
    cudaGraphNodeTypeMemAlloc = 10,
    cudaGraphNodeTypeMemFree
};
struct CUgraphNode_st {
    cudaGraphNodeType type;
    sim_operation run;
    std::vector<CUgraphNode_st *> after;
    void *memory = 0; /* that it allocates */
};
typedef CUgraphNode_st *cudaGraphNode_t;
struct CUgraph_st {
    std::vector<std::shared_ptr<CUgraphNode_st>> nodes; /* in the order in which they were added */
};

/* A graph that can run: its nodes at that time, each after those that it depends on. */
struct sim_step {
    cudaGraphNode_t node;
    cudaGraphNodeType type;
    sim_operation run;
    void *memory;
};
struct CUgraphExec_st {
    std::vector<sim_step> steps;
    bool frees; /* what the last launch has allocated, and nobody has freed since */
};
typedef CUgraphExec_st *cudaGraphExec_t;

SIM_WHERE_CALLED SIM_HOST cudaError_t cudaGraphCreate(cudaGraph_t *graph, unsigned) {
    *graph = new CUgraph_st();
    return sim_says(cudaSuccess);
}
SIM_WHERE_CALLED SIM_HOST cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    delete graph;
    return sim_says(cudaSuccess);
}
SIM_WHERE_CALLED SIM_HOST cudaError_t cudaGraphClone(cudaGraph_t *clone, cudaGraph_t graph) {
    std::map<cudaGraphNode_t, cudaGraphNode_t> copy_of;
    *clone = new CUgraph_st();
    for (const auto &node : graph->nodes) {
        (*clone)->nodes.push_back(std::make_shared<CUgraphNode_st>(*node));
        copy_of[node.get()] = (*clone)->nodes.back().get();
    }
    for (const auto &node : (*clone)->nodes)
        for (cudaGraphNode_t &before : node->after)
            before = copy_of[before];
    return sim_says(cudaSuccess);
}

/* ---- Nodes ---- */

SIM_WHERE_CALLED inline cudaError_t sim_add_node(cudaGraphNode_t *node, cudaGraph_t graph,
                                                 const cudaGraphNode_t *after, size_t count,
                                                 cudaGraphNodeType type, sim_operation run) {
    if (!graph || !run || (count && !after))
        return sim_says(cudaErrorInvalidValue);
    graph->nodes.push_back(std::make_shared<CUgraphNode_st>(
        CUgraphNode_st{type, run, std::vector<cudaGraphNode_t>(after, after + count)}));
    if (node)
        *node = graph->nodes.back().get();
    return sim_says(cudaSuccess);
}
struct cudaKernelNodeParams {
    void *func;
    dim3 host_gridDim, host_blockDim; /* see cudasim/live/host.py */
    unsigned sharedMemBytes;
    void **kernelParams;
    void **extra;
};
SIM_WHERE_CALLED SIM_HOST sim_operation sim_kernel_operation(const cudaKernelNodeParams *of, const char *file,
                                                             int line) {
    return sim_known_operation(of->func, {of->host_gridDim, of->host_blockDim, of->sharedMemBytes, 0}, false,
                               of->kernelParams, file, line);
}
SIM_WHERE_CALLED SIM_HOST cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                                             const cudaGraphNode_t *after, size_t count,
                                                             const cudaKernelNodeParams *of, SIM_CALLED) {
    sim_operation run = sim_kernel_operation(of, sim_file, sim_line);
    if (!run)
        return sim_says(cudaErrorInvalidDeviceFunction);
    return sim_add_node(node, graph, after, count, cudaGraphNodeTypeKernel, run);
}
SIM_WHERE_CALLED SIM_HOST cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node,
                                                                   const cudaKernelNodeParams *of,
                                                                   SIM_CALLED) {
    sim_operation run = sim_kernel_operation(of, sim_file, sim_line);
    if (run)
        node->run = run;
    return sim_says(run ? cudaSuccess : cudaErrorInvalidDeviceFunction);
}
SIM_WHERE_CALLED SIM_HOST cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                                             const cudaGraphNode_t *after, size_t count,
                                                             const cudaMemcpy3DParms *of, SIM_CALLED) {
    cudaMemcpy3DParms copy = *of;
    return sim_add_node(node, graph, after, count, cudaGraphNodeTypeMemcpy, [=](cudaStream_t stream) {
        return cudaMemcpy3DAsync(&copy, stream, sim_file, sim_line);
    });
}
SIM_WHERE_CALLED SIM_HOST sim_operation sim_copy_operation(void *to, const void *from, size_t bytes,
                                                           cudaMemcpyKind kind, const char *file, int line) {
    return [=](cudaStream_t stream) { return cudaMemcpyAsync(to, from, bytes, kind, stream, file, line); };
}
SIM_WHERE_CALLED SIM_HOST cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *node, cudaGraph_t graph,
                                                               const cudaGraphNode_t *after, size_t count,
                                                               void *to, const void *from, size_t bytes,
                                                               cudaMemcpyKind kind, SIM_CALLED) {
    return sim_add_node(node, graph, after, count, cudaGraphNodeTypeMemcpy,
                        sim_copy_operation(to, from, bytes, kind, sim_file, sim_line));
}
struct cudaMemsetParams {
    void *dst;
    size_t pitch;
    unsigned value, elementSize;
    size_t width, height;
};
SIM_WHERE_CALLED SIM_HOST cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                                             const cudaGraphNode_t *after, size_t count,
                                                             const cudaMemsetParams *of, SIM_CALLED) {
    cudaMemsetParams set = *of;
    bool has_equal_bytes =
        set.elementSize == 1 || set.value == 0 || set.value == (set.value & 0xff) * 0x01010101u;
    if (!has_equal_bytes)
        return sim_says(cudaErrorNotSupported);
    return sim_add_node(node, graph, after, count, cudaGraphNodeTypeMemset, [=](cudaStream_t stream) {
        size_t width = set.width * set.elementSize, pitch = set.height > 1 ? set.pitch : width;
        return sim_error(sim_memory_set(set.dst, pitch, (int)(set.value & 0xff), width, set.height,
                                        sim_stream_of(stream), {"a memset node", sim_file, sim_line, 0}));
    });
}
struct cudaHostNodeParams {
    cudaHostFn_t fn;
    void *userData;
};
SIM_WHERE_CALLED SIM_HOST cudaError_t cudaGraphAddHostNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                                           const cudaGraphNode_t *after, size_t count,
                                                           const cudaHostNodeParams *of) {
    cudaHostNodeParams host = *of;
    return sim_add_node(node, graph, after, count, cudaGraphNodeTypeHost, [=](cudaStream_t stream) {
        return cudaLaunchHostFunc(stream, host.fn, host.userData);
    });
}
SIM_WHERE_CALLED SIM_HOST cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                                            const cudaGraphNode_t *after, size_t count) {
    return sim_add_node(node, graph, after, count, cudaGraphNodeTypeEmpty,
                        [](cudaStream_t) { return cudaSuccess; });
}

/* ---- Nodes that allocate and free ---- */

struct cudaMemAllocNodeParams {
    cudaMemPoolProps poolProps;
    const cudaMemAccessDesc *accessDescs;
    size_t accessDescCount;
    size_t bytesize;
    void *dptr; /* the node says it */
};
/* The memory is there from the node on, always at the same place. */
SIM_WHERE_CALLED inline cudaError_t sim_add_memory_node(cudaGraphNode_t *node, cudaGraph_t graph,
                                                        const cudaGraphNode_t *after, size_t count,
                                                        void **memory, size_t bytes, cudaMemPool_t pool,
                                                        sim_called called) {
    void *place = bytes ? sim_memory_reserve(bytes) : 0;
    if (!place)
        return sim_says(bytes ? cudaErrorMemoryAllocation : cudaErrorInvalidValue);
    cudaGraphNode_t added;
    cudaError_t error =
        sim_add_node(&added, graph, after, count, cudaGraphNodeTypeMemAlloc, [=](cudaStream_t) {
            void *taken;
            return sim_take(&taken, place, bytes, pool, called);
        });
    if (error)
        return error;
    added->memory = *memory = place;
    if (node)
        *node = added;
    return error;
}
SIM_WHERE_CALLED SIM_HOST cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                                               const cudaGraphNode_t *after, size_t count,
                                                               cudaMemAllocNodeParams *of, SIM_CALLED) {
    int device = of->poolProps.location.id;
    if (cudaError_t error = sim_error(sim_device_exists(device)))
        return error;
    cudaMemPool_t pool = &sim_pools(device).of_graphs;
    if (of->accessDescCount) { /* others may access it than the graphs' other memory */
        pool = new CUmemPoolHandle_st(*pool);
        if (cudaError_t error = cudaMemPoolSetAccess(pool, of->accessDescs, of->accessDescCount))
            return error;
    }
    return sim_add_memory_node(node, graph, after, count, &of->dptr, of->bytesize, pool, SIM_CALLED_AS(0));
}
SIM_WHERE_CALLED SIM_HOST cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                                              const cudaGraphNode_t *after, size_t count,
                                                              void *memory, SIM_CALLED) {
    return sim_add_node(node, graph, after, count, cudaGraphNodeTypeMemFree,
                        [=](cudaStream_t) { return cudaFree(memory, sim_file, sim_line); });
}
enum cudaGraphMemAttributeType {
    cudaGraphMemAttrUsedMemCurrent,
    cudaGraphMemAttrUsedMemHigh,
    cudaGraphMemAttrReservedMemCurrent,
    cudaGraphMemAttrReservedMemHigh
};
SIM_WHERE_CALLED SIM_HOST cudaError_t cudaDeviceGetGraphMemAttribute(int device,
                                                                     cudaGraphMemAttributeType attribute,
                                                                     void *value) {
    cudaError_t error = sim_error(sim_device_exists(device));
    if (error)
        return error;
    const CUmemPoolHandle_st &pool = sim_pools(device).of_graphs;
    *(uint64_t *)value = attribute % 2 ? pool.most : pool.used();
    return error;
}
SIM_WHERE_CALLED SIM_HOST cudaError_t cudaDeviceSetGraphMemAttribute(int device,
                                                                     cudaGraphMemAttributeType attribute,
                                                                     void *value) {
    cudaError_t error = sim_error(sim_device_exists(device));
    if (error || attribute % 2 == 0 || *(uint64_t *)value)
        return error ? error : sim_says(cudaErrorInvalidValue);
    sim_pools(device).of_graphs.most = sim_pools(device).of_graphs.used();
    return error;
}
SIM_WHERE_CALLED SIM_HOST cudaError_t cudaDeviceGraphMemTrim(int device) {
    return sim_error(sim_device_exists(device));
}

/* Each node after those that it depends on, and else in the order in which they were added; false: a circle.
 */
SIM_WHERE_CALLED inline bool sim_ordered_steps(cudaGraph_t graph, std::vector<sim_step> *steps) {
    std::map<cudaGraphNode_t, bool> is_done;
    while (steps->size() < graph->nodes.size()) {
        size_t before = steps->size();
        for (const auto &node : graph->nodes) {
            bool can_run = !is_done[node.get()];
            for (cudaGraphNode_t other : node->after)
                can_run = can_run && is_done[other];
            if (can_run) {
                steps->push_back({node.get(), node->type, node->run, node->memory});
                is_done[node.get()] = true;
            }
        }
        if (steps->size() == before)
            return false;
    }
    return true;
}
SIM_WHERE_CALLED inline cudaError_t sim_run_steps(const std::vector<sim_step> &steps, cudaStream_t stream) {
    for (const sim_step &step : steps)
        if (cudaError_t error = step.run(stream))
            return error;
    return cudaSuccess;
}
SIM_WHERE_CALLED SIM_HOST cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                                                 const cudaGraphNode_t *after, size_t count,
                                                                 cudaGraph_t child) {
    std::vector<sim_step> steps;
    if (!sim_ordered_steps(child, &steps))
        return sim_says(cudaErrorInvalidValue);
    return sim_add_node(node, graph, after, count, cudaGraphNodeTypeGraph,
                        [=](cudaStream_t stream) { return sim_run_steps(steps, stream); });
}
SIM_WHERE_CALLED SIM_HOST cudaError_t cudaGraphAddDependencies(cudaGraph_t, const cudaGraphNode_t *from,
                                                               const cudaGraphNode_t *to, size_t count) {
    for (size_t i = 0; i < count; i++)
        to[i]->after.push_back(from[i]);
    return sim_says(cudaSuccess);
}
SIM_WHERE_CALLED SIM_HOST cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType *type) {
    *type = node->type;
    return sim_says(cudaSuccess);
}
/* Without a place for them, how many there are. */
SIM_WHERE_CALLED inline cudaError_t sim_give_nodes(cudaGraph_t graph, cudaGraphNode_t *to, size_t *count,
                                                   bool only_roots) {
    std::vector<cudaGraphNode_t> found;
    for (const auto &node : graph->nodes)
        if (!only_roots || node->after.empty())
            found.push_back(node.get());
    for (size_t i = 0; to && i < *count; i++)
        to[i] = i < found.size() ? found[i] : 0;
    *count = to && *count < found.size() ? *count : found.size();
    return sim_says(cudaSuccess);
}
SIM_WHERE_CALLED SIM_HOST cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes,
                                                        size_t *count) {
    return sim_give_nodes(graph, nodes, count, false);
}
SIM_WHERE_CALLED SIM_HOST cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t *nodes,
                                                            size_t *count) {
    return sim_give_nodes(graph, nodes, count, true);
}

/* ---- Running ---- */

enum {
    cudaGraphInstantiateFlagAutoFreeOnLaunch = 1,
    cudaGraphInstantiateFlagUpload = 2,
    cudaGraphInstantiateFlagDeviceLaunch = 4,
    cudaGraphInstantiateFlagUseNodePriority = 8
};
SIM_WHERE_CALLED inline cudaError_t sim_instantiate(cudaGraphExec_t *made, cudaGraph_t graph,
                                                    unsigned long long flags) {
    if (flags & cudaGraphInstantiateFlagDeviceLaunch)
        return sim_says(cudaErrorNotSupported);
    std::vector<sim_step> steps;
    if (!graph || !sim_ordered_steps(graph, &steps))
        return sim_says(cudaErrorInvalidValue);
    *made = new CUgraphExec_st{steps, (flags & cudaGraphInstantiateFlagAutoFreeOnLaunch) != 0};
    return sim_says(cudaSuccess);
}
SIM_WHERE_CALLED SIM_HOST cudaError_t cudaGraphInstantiate(cudaGraphExec_t *made, cudaGraph_t graph,
                                                           unsigned long long flags = 0) {
    return sim_instantiate(made, graph, flags);
}
SIM_WHERE_CALLED SIM_HOST cudaError_t cudaGraphInstantiate(cudaGraphExec_t *made, cudaGraph_t graph,
                                                           cudaGraphNode_t *wrong, char *log,
                                                           size_t bytes) { /* until CUDA 11 */
    if (wrong)
        *wrong = 0;
    if (log && bytes)
        *log = 0;
    return sim_instantiate(made, graph, 0);
}
SIM_WHERE_CALLED SIM_HOST cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *made, cudaGraph_t graph,
                                                                    unsigned long long flags) {
    return sim_instantiate(made, graph, flags);
}
SIM_WHERE_CALLED SIM_HOST cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
    delete graph;
    return sim_says(cudaSuccess);
}
SIM_WHERE_CALLED SIM_HOST cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) {
    return sim_says(cudaSuccess);
}
SIM_WHERE_CALLED SIM_HOST cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
    for (const sim_step &step : graph->steps)
        if (step.memory && sim_allocation_at(step.memory)) {
            if (!graph->frees)
                return sim_says(cudaErrorInvalidValue);
            cudaFree(step.memory);
        }
    std::vector<sim_step> steps = graph->steps;
    if (sim_is_captured(stream))
        return sim_capture(stream, [=](cudaStream_t on) { return sim_run_steps(steps, on); });
    return sim_run_steps(steps, stream);
}
SIM_WHERE_CALLED inline cudaError_t sim_change_step(cudaGraphExec_t graph, cudaGraphNode_t node,
                                                    sim_operation run) {
    for (sim_step &step : graph->steps)
        if (step.node == node && run) {
            step.run = run;
            return sim_says(cudaSuccess);
        }
    return sim_says(cudaErrorInvalidValue);
}
SIM_WHERE_CALLED SIM_HOST cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t graph,
                                                                       cudaGraphNode_t node,
                                                                       const cudaKernelNodeParams *of,
                                                                       SIM_CALLED) {
    return sim_change_step(graph, node, sim_kernel_operation(of, sim_file, sim_line));
}
SIM_WHERE_CALLED SIM_HOST cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t graph,
                                                                         cudaGraphNode_t node, void *to,
                                                                         const void *from, size_t bytes,
                                                                         cudaMemcpyKind kind, SIM_CALLED) {
    return sim_change_step(graph, node, sim_copy_operation(to, from, bytes, kind, sim_file, sim_line));
}
enum cudaGraphExecUpdateResult { cudaGraphExecUpdateSuccess, cudaGraphExecUpdateError };
struct cudaGraphExecUpdateResultInfo {
    cudaGraphExecUpdateResult result;
    cudaGraphNode_t errorNode, errorFromNode;
};
SIM_WHERE_CALLED inline bool sim_update(cudaGraphExec_t graph, cudaGraph_t from) {
    std::vector<sim_step> steps;
    bool is_alike = sim_ordered_steps(from, &steps) && steps.size() == graph->steps.size();
    for (size_t i = 0; is_alike && i < steps.size(); i++)
        is_alike = steps[i].type == graph->steps[i].type;
    for (size_t i = 0; is_alike && i < steps.size(); i++)
        graph->steps[i].run = steps[i].run; /* the nodes are still those of the first graph */
    return is_alike;
}
SIM_WHERE_CALLED SIM_HOST cudaError_t cudaGraphExecUpdate(cudaGraphExec_t graph, cudaGraph_t from,
                                                          cudaGraphExecUpdateResultInfo *info) {
    bool is_alike = sim_update(graph, from);
    *info = {is_alike ? cudaGraphExecUpdateSuccess : cudaGraphExecUpdateError, 0, 0};
    return sim_says(is_alike ? cudaSuccess : cudaErrorGraphExecUpdateFailure);
}
SIM_WHERE_CALLED SIM_HOST cudaError_t
cudaGraphExecUpdate(cudaGraphExec_t graph, cudaGraph_t from, cudaGraphNode_t *wrong,
                    cudaGraphExecUpdateResult *result) { /* until CUDA 11 */
    bool is_alike = sim_update(graph, from);
    *wrong = 0;
    *result = is_alike ? cudaGraphExecUpdateSuccess : cudaGraphExecUpdateError;
    return sim_says(is_alike ? cudaSuccess : cudaErrorGraphExecUpdateFailure);
}

/* ---- Capture ---- */

enum cudaStreamCaptureMode {
    cudaStreamCaptureModeGlobal,
    cudaStreamCaptureModeThreadLocal,
    cudaStreamCaptureModeRelaxed
};
enum cudaStreamCaptureStatus {
    cudaStreamCaptureStatusNone,
    cudaStreamCaptureStatusActive,
    cudaStreamCaptureStatusInvalidated
};
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode = cudaStreamCaptureModeGlobal);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status);
