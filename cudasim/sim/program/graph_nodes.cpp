/* The nodes of graphs: added, asked and changed, each kind by its parameters. */
#include "graphs.hpp"

/* ---- What each kind of node does ---- */

template <class P> static void keep(CUgraphNode_st &node, cudaGraphNodeType type, const P &of) {
    node.type = type, node.of = of;
}
static void follow_attributes(CUgraphNode_st &node, sim_kept_launch launch) {
    auto cooperative = node.attributes.find(cudaLaunchAttributeCooperative);
    auto cluster = node.attributes.find(cudaLaunchAttributeClusterDimension);
    if (cooperative != node.attributes.end())
        launch.is_cooperative = cooperative->second.cooperative;
    if (cluster != node.attributes.end())
        launch.with.cluster = std::max(cluster->second.clusterDim.x, 1u);
    keep(node, cudaGraphNodeTypeKernel, launch);
    node.run = launch;
}
static cudaError_t prepare(CUgraphNode_st &node, const sim_kept_launch &launch) {
    follow_attributes(node, launch);
    return cudaSuccess;
}
static cudaError_t prepare(CUgraphNode_st &node, const cudaKernelNodeParams &of) {
    sim_kept_launch launch =
        sim_known_launch(of.func, {of.host_gridDim, of.host_blockDim, of.sharedMemBytes, 0}, false,
                         of.kernelParams, node.called.file, node.called.line);
    return launch.type ? prepare(node, launch) : cudaErrorInvalidDeviceFunction;
}
static cudaError_t prepare(CUgraphNode_st &node, const cudaMemcpy3DParms &of) {
    keep(node, cudaGraphNodeTypeMemcpy, of);
    node.run = [=, called = node.called](cudaStream_t stream) {
        return sim_copy_3d(&of, stream, false, called);
    };
    return cudaSuccess;
}
static cudaError_t prepare(CUgraphNode_st &node, const cudaMemcpyNodeParams &of) {
    return prepare(node, of.copyParams);
}
static cudaError_t prepare(CUgraphNode_st &node, const cudaMemsetParams &of) {
    if (of.elementSize != 1 && of.elementSize != 2 && of.elementSize != 4)
        return cudaErrorInvalidValue;
    keep(node, cudaGraphNodeTypeMemset, of);
    size_t width = of.width * of.elementSize, pitch = of.height > 1 ? of.pitch : width;
    std::vector<unsigned char> row(width);
    bool is_one_byte = true;
    for (size_t i = 0; i < width; i++) {
        row[i] = ((const unsigned char *)&of.value)[i % of.elementSize];
        is_one_byte = is_one_byte && row[i] == row[0];
    }
    node.run = [=, called = node.called](cudaStream_t stream) {
        if (is_one_byte)
            return sim_error(sim_memory_set(of.dst, pitch, (int)(of.value & 0xff), width, of.height,
                                            sim_stream_of(stream), called));
        cudaError_t error = cudaSuccess;
        for (size_t y = 0; y < of.height && !error; y++)
            error = sim_error(sim_memory_copy((char *)of.dst + y * pitch, width, row.data(), width, width, 1,
                                              cudaMemcpyHostToDevice, sim_stream_of(stream), false, called));
        return error;
    };
    return cudaSuccess;
}
static cudaError_t prepare(CUgraphNode_st &node, const cudaHostNodeParams &of) {
    keep(node, cudaGraphNodeTypeHost, of);
    node.run = [=](cudaStream_t stream) { return cudaLaunchHostFunc(stream, of.fn, of.userData); };
    return of.fn ? cudaSuccess : cudaErrorInvalidValue;
}
static cudaError_t prepare(CUgraphNode_st &node, const cudaEventRecordNodeParams &of) {
    keep(node, cudaGraphNodeTypeEventRecord, of);
    node.run = [=](cudaStream_t stream) { return cudaEventRecord(of.event, stream); };
    return of.event ? cudaSuccess : cudaErrorInvalidValue;
}
static cudaError_t prepare(CUgraphNode_st &node, const cudaEventWaitNodeParams &of) {
    keep(node, cudaGraphNodeTypeWaitEvent, of);
    node.run = [=](cudaStream_t stream) { return cudaStreamWaitEvent(stream, of.event); };
    return of.event ? cudaSuccess : cudaErrorInvalidValue;
}
/* The memory is there from the node on, always at the same place. */
static cudaError_t prepare(CUgraphNode_st &node, cudaMemAllocNodeParams &of) {
    int device = of.poolProps.location.id;
    if (cudaError_t error = sim_error(sim_device_exists(device)))
        return error;
    cudaMemPool_t pool = &sim_pools(device).of_graphs;
    if (of.accessDescCount) { /* others may access it than the graphs' other memory */
        pool = new CUmemPoolHandle_st(*pool);
        if (cudaError_t error = cudaMemPoolSetAccess(pool, of.accessDescs, of.accessDescCount))
            return error;
    }
    void *place = of.bytesize ? sim_memory_reserve(of.bytesize) : 0;
    if (!place)
        return of.bytesize ? cudaErrorMemoryAllocation : cudaErrorInvalidValue;
    node.memory = of.dptr = place;
    keep(node, cudaGraphNodeTypeMemAlloc, of);
    node.run = [=, bytes = of.bytesize, called = node.called](cudaStream_t) {
        void *taken;
        return sim_take(&taken, place, bytes, pool, called);
    };
    return cudaSuccess;
}
static cudaError_t prepare(CUgraphNode_st &node, const cudaMemFreeNodeParams &of) {
    keep(node, cudaGraphNodeTypeMemFree, of);
    node.run = [=, called = node.called](cudaStream_t) {
        return sim_error(sim_memory_give_back(of.dptr, SIM_DEVICE_MEMORY, called));
    };
    return of.dptr ? cudaSuccess : cudaErrorInvalidValue;
}
static cudaError_t prepare(CUgraphNode_st &node, const cudaChildGraphNodeParams &of) {
    if (!of.graph)
        return cudaErrorInvalidValue;
    node.bodies.assign(1, nullptr);
    keep(node, cudaGraphNodeTypeGraph, of);
    if (of.ownership == cudaGraphChildGraphOwnershipMove)
        return node.bodies[0].reset(of.graph), cudaSuccess;
    return sim_clone_graph(of.graph, &node.bodies[0]);
}
static cudaError_t prepare(CUgraphNode_st &node, cudaConditionalNodeParams &of) {
    bool is_right = of.handle && (of.size == 1 || (of.size == 2 && of.type == cudaGraphCondTypeIf) ||
                                  (of.size > 0 && of.type == cudaGraphCondTypeSwitch));
    if (!is_right)
        return cudaErrorInvalidValue;
    for (unsigned i = 0; i < of.size; i++)
        node.bodies.push_back(std::make_shared<CUgraph_st>());
    auto *handles = new std::vector<cudaGraph_t>; /* the program may read them as long as the node is there */
    for (const auto &body : node.bodies)
        handles->push_back(body.get());
    of.phGraph_out = handles->data();
    keep(node, cudaGraphNodeTypeConditional, of);
    return cudaSuccess;
}
static cudaError_t prepare(CUgraphNode_st &node, const sim_work &of) {
    keep(node, of.type, 0);
    node.run = of.run;
    return cudaSuccess;
}

/* ---- Nodes ---- */

template <class P>
cudaError_t sim_add_node(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count,
                         P &of, sim_called called) {
    if (!graph || (count && !after))
        return cudaErrorInvalidValue;
    auto made = std::make_shared<CUgraphNode_st>();
    made->called = called, made->graph = graph;
    for (size_t i = 0; i < count; i++) {
        if (!after[i] || after[i]->graph != graph)
            return cudaErrorInvalidValue;
        made->after.push_back(after[i]);
    }
    if (cudaError_t error = prepare(*made, of))
        return error;
    graph->nodes.push_back(made);
    if (node)
        *node = made.get();
    return cudaSuccess;
}
template <class P> static cudaError_t set(cudaGraphNode_t node, P &of, sim_called called) {
    if (!node)
        return cudaErrorInvalidValue;
    CUgraphNode_st changed = *node;
    changed.called = called;
    cudaError_t error = prepare(changed, of);
    if (!error && changed.type != node->type)
        error = cudaErrorInvalidValue;
    if (!error)
        *node = changed;
    return error;
}
sim_step *sim_find_step(std::vector<sim_step> &steps, cudaGraphNode_t node) {
    for (sim_step &of : steps) {
        if (of.node == node)
            return &of;
        for (auto &body : of.bodies)
            if (sim_step *found = sim_find_step(body, node))
                return found;
    }
    return 0;
}
template <class P>
static cudaError_t set_ready(cudaGraphExec_t graph, cudaGraphNode_t node, P &of, sim_called called) {
    sim_step *found = graph ? sim_find_step(graph->steps, node) : 0;
    if (!found)
        return cudaErrorInvalidValue;
    CUgraphNode_st changed = *node;
    changed.called = called;
    if (cudaError_t error = prepare(changed, of))
        return error;
    std::vector<std::vector<sim_step>> bodies(changed.bodies.size());
    cudaGraphExecUpdateResultInfo info;
    for (size_t i = 0; i < bodies.size(); i++)
        if (!sim_make_steps(changed.bodies[i].get(), &bodies[i]) ||
            !sim_are_alike(found->bodies[i], bodies[i], &info))
            return cudaErrorGraphExecUpdateFailure;
    if (changed.type != found->type)
        return cudaErrorInvalidValue;
    found->run = changed.run, found->of = changed.of;
    for (size_t i = 0; i < bodies.size(); i++)
        for (size_t j = 0; j < bodies[i].size(); j++)
            found->bodies[i][j].run = bodies[i][j].run;
    return cudaSuccess;
}

template <class P> static bool tell(const CUgraphNode_st &node, P *to) {
    const P *of = std::any_cast<P>(&node.of);
    if (of)
        *to = *of;
    return of;
}
static bool tell(const CUgraphNode_st &node, cudaKernelNodeParams *to) {
    const auto *of = std::any_cast<sim_kept_launch>(&node.of);
    if (of)
        *to = {(void *)of->address,
               of->with.grid,
               of->with.block,
               (unsigned)of->with.shared_bytes,
               (void **)(void *)of->call.get(),
               0};
    return of;
}
static bool tell(const CUgraphNode_st &node, cudaChildGraphNodeParams *to) {
    *to = {node.bodies.empty() ? 0 : node.bodies[0].get(), cudaGraphChildGraphOwnershipClone};
    return node.type == cudaGraphNodeTypeGraph && to->graph;
}

#define CALLED (sim_called{"a node of a graph", sim_file, sim_line, 0})
template <class P>
cudaError_t sim_adds_node<P>::operator()(cudaGraphNode_t *node, cudaGraph_t graph,
                                         const cudaGraphNode_t *after, size_t count, P *of,
                                         const char *sim_file, int sim_line) const {
    return sim_says(of ? sim_add_node(node, graph, after, count, *of, CALLED) : cudaErrorInvalidValue);
}
template <class P> cudaError_t sim_asks_node<P>::operator()(cudaGraphNode_t node, P *of) const {
    return sim_says(node && of && tell(*node, of) ? cudaSuccess : cudaErrorInvalidValue);
}
template <class P>
cudaError_t sim_sets_node<P>::operator()(cudaGraphNode_t node, P *of, const char *sim_file,
                                         int sim_line) const {
    return sim_says(of ? set(node, *of, CALLED) : cudaErrorInvalidValue);
}
template <class P>
cudaError_t sim_sets_ready_node<P>::operator()(cudaGraphExec_t graph, cudaGraphNode_t node, P *of,
                                               const char *sim_file, int sim_line) const {
    return sim_says(of ? set_ready(graph, node, *of, CALLED) : cudaErrorInvalidValue);
}
template cudaError_t sim_add_node(cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t,
                                  const sim_kept_launch &, sim_called);
template cudaError_t sim_add_node(cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t,
                                  const sim_work &, sim_called);
template cudaError_t sim_add_node(cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t,
                                  const cudaMemcpy3DParms &, sim_called);
template cudaError_t sim_add_node(cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t,
                                  const cudaMemsetParams &, sim_called);
template cudaError_t sim_add_node(cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t,
                                  const cudaHostNodeParams &, sim_called);
template cudaError_t sim_add_node(cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t,
                                  const cudaEventRecordNodeParams &, sim_called);
template cudaError_t sim_add_node(cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t,
                                  const cudaEventWaitNodeParams &, sim_called);
template cudaError_t sim_add_node(cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t,
                                  cudaMemAllocNodeParams &, sim_called);
template cudaError_t sim_add_node(cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t,
                                  const cudaMemFreeNodeParams &, sim_called);
template struct sim_adds_node<const cudaKernelNodeParams>;
template struct sim_adds_node<const cudaMemcpy3DParms>;
template struct sim_adds_node<const cudaMemsetParams>;
template struct sim_adds_node<const cudaHostNodeParams>;
template struct sim_adds_node<const cudaChildGraphNodeParams>;
template struct sim_adds_node<const cudaEventRecordNodeParams>;
template struct sim_adds_node<const cudaEventWaitNodeParams>;
template struct sim_adds_node<const cudaMemFreeNodeParams>;
template struct sim_adds_node<cudaMemAllocNodeParams>;
template struct sim_asks_node<cudaKernelNodeParams>;
template struct sim_asks_node<cudaMemcpy3DParms>;
template struct sim_asks_node<cudaMemsetParams>;
template struct sim_asks_node<cudaHostNodeParams>;
template struct sim_asks_node<cudaChildGraphNodeParams>;
template struct sim_asks_node<cudaEventRecordNodeParams>;
template struct sim_asks_node<cudaEventWaitNodeParams>;
template struct sim_asks_node<cudaMemFreeNodeParams>;
template struct sim_asks_node<cudaMemAllocNodeParams>;
template struct sim_sets_node<const cudaKernelNodeParams>;
template struct sim_sets_node<const cudaMemcpy3DParms>;
template struct sim_sets_node<const cudaMemsetParams>;
template struct sim_sets_node<const cudaHostNodeParams>;
template struct sim_sets_node<const cudaEventRecordNodeParams>;
template struct sim_sets_node<const cudaEventWaitNodeParams>;
template struct sim_sets_ready_node<const cudaKernelNodeParams>;
template struct sim_sets_ready_node<const cudaMemcpy3DParms>;
template struct sim_sets_ready_node<const cudaMemsetParams>;
template struct sim_sets_ready_node<const cudaHostNodeParams>;
template struct sim_sets_ready_node<const cudaChildGraphNodeParams>;
template struct sim_sets_ready_node<const cudaEventRecordNodeParams>;
template struct sim_sets_ready_node<const cudaEventWaitNodeParams>;

/* Hands the parameters of the kind that `of` names to the function. */
template <class F> static cudaError_t with_parameters(cudaGraphNodeParams *of, F function) {
    if (!of)
        return sim_says(cudaErrorInvalidValue);
    static sim_work empty = {cudaGraphNodeTypeEmpty, [](cudaStream_t) { return cudaSuccess; }};
    switch (of->type) {
    case cudaGraphNodeTypeKernel:
        return sim_says(function(of->kernel));
    case cudaGraphNodeTypeMemcpy:
        return sim_says(function(of->memcpy));
    case cudaGraphNodeTypeMemset:
        return sim_says(function(of->memset));
    case cudaGraphNodeTypeHost:
        return sim_says(function(of->host));
    case cudaGraphNodeTypeGraph:
        return sim_says(function(of->graph));
    case cudaGraphNodeTypeEmpty:
        return sim_says(function(empty));
    case cudaGraphNodeTypeWaitEvent:
        return sim_says(function(of->eventWait));
    case cudaGraphNodeTypeEventRecord:
        return sim_says(function(of->eventRecord));
    case cudaGraphNodeTypeMemAlloc:
        return sim_says(function(of->alloc));
    case cudaGraphNodeTypeMemFree:
        return sim_says(function(of->free));
    case cudaGraphNodeTypeConditional:
        return sim_says(function(of->conditional));
    default:
        return sim_says(cudaErrorNotSupported); /* semaphores of other programs */
    }
}
cudaError_t cudaGraphAddNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                             const cudaGraphEdgeData *, size_t count, cudaGraphNodeParams *of,
                             const char *sim_file, int sim_line) {
    return with_parameters(of,
                           [=](auto &own) { return sim_add_node(node, graph, after, count, own, CALLED); });
}
static bool may_change(cudaGraphNodeType type) {
    return type != cudaGraphNodeTypeMemAlloc && type != cudaGraphNodeTypeMemFree &&
           type != cudaGraphNodeTypeConditional;
}
cudaError_t cudaGraphNodeSetParams(cudaGraphNode_t node, cudaGraphNodeParams *of, const char *sim_file,
                                   int sim_line) {
    if (of && !may_change(of->type))
        return sim_says(cudaErrorNotSupported);
    return with_parameters(of, [=](auto &own) { return set(node, own, CALLED); });
}
cudaError_t cudaGraphExecNodeSetParams(cudaGraphExec_t graph, cudaGraphNode_t node, cudaGraphNodeParams *of,
                                       const char *sim_file, int sim_line) {
    if (of && !may_change(of->type))
        return sim_says(cudaErrorNotSupported);
    return with_parameters(of, [=](auto &own) { return set_ready(graph, node, own, CALLED); });
}
cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                  size_t count) {
    cudaGraphNodeParams empty(cudaGraphNodeTypeEmpty);
    return cudaGraphAddNode(node, graph, after, 0, count, &empty);
}

cudaError_t cudaGraphKernelNodeGetAttribute(cudaGraphNode_t node, cudaKernelNodeAttrID which,
                                            cudaKernelNodeAttrValue *value) {
    const auto *launch = node ? std::any_cast<sim_kept_launch>(&node->of) : 0;
    if (!launch || !value)
        return sim_says(cudaErrorInvalidValue);
    *value = node->attributes[which];
    if (which == cudaLaunchAttributeCooperative)
        value->cooperative = launch->is_cooperative;
    if (which == cudaLaunchAttributeClusterDimension)
        value->clusterDim = {launch->with.cluster, 1, 1};
    return sim_says(cudaSuccess);
}
cudaError_t cudaGraphKernelNodeSetAttribute(cudaGraphNode_t node, cudaKernelNodeAttrID which,
                                            const cudaKernelNodeAttrValue *value) {
    const auto *launch = node ? std::any_cast<sim_kept_launch>(&node->of) : 0;
    if (!launch || !value)
        return sim_says(cudaErrorInvalidValue);
    if (which == cudaLaunchAttributeClusterDimension && (value->clusterDim.y > 1 || value->clusterDim.z > 1))
        return sim_says(cudaErrorNotSupported); /* clusters are along x here */
    node->attributes[which] = *value;
    follow_attributes(*node, sim_kept_launch(*launch));
    return sim_says(cudaSuccess);
}
cudaError_t cudaGraphKernelNodeCopyAttributes(cudaGraphNode_t to, cudaGraphNode_t from) {
    const auto *of = from ? std::any_cast<sim_kept_launch>(&from->of) : 0;
    const auto *own = to ? std::any_cast<sim_kept_launch>(&to->of) : 0;
    if (!of || !own)
        return sim_says(cudaErrorInvalidValue);
    sim_kept_launch launch = *own;
    launch.is_cooperative = of->is_cooperative, launch.with.cluster = of->with.cluster;
    to->attributes = from->attributes;
    follow_attributes(*to, launch);
    return sim_says(cudaSuccess);
}
