/* Graphs as wholes: made, asked, made ready, updated and run. */
#include "graphs.hpp"

/* ---- Graphs ---- */

static void release(const std::map<cudaUserObject_t, unsigned> &objects) {
    for (const auto &[object, count] : objects)
        cudaUserObjectRelease(object, count);
}
cudaError_t cudaGraphCreate(cudaGraph_t *graph, unsigned flags) {
    if (!graph || flags)
        return sim_says(cudaErrorInvalidValue);
    *graph = new CUgraph_st();
    return sim_says(cudaSuccess);
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    if (!graph)
        return sim_says(cudaErrorInvalidValue);
    release(graph->objects);
    delete graph;
    return sim_says(cudaSuccess);
}
static size_t place_of(const std::vector<cudaGraphNode_t> &nodes, cudaGraphNode_t node) {
    return (size_t)(std::find(nodes.begin(), nodes.end(), node) - nodes.begin());
}
cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node) {
    if (!node)
        return sim_says(cudaErrorInvalidValue);
    auto &nodes = node->graph->nodes;
    for (const auto &other : nodes) {
        size_t at = place_of(other->after, node);
        if (at < other->after.size())
            other->after.erase(other->after.begin() + (long)at);
    }
    for (size_t i = 0; i < nodes.size(); i++)
        if (nodes[i].get() == node)
            return nodes.erase(nodes.begin() + (long)i), sim_says(cudaSuccess);
    return sim_says(cudaErrorInvalidValue);
}
cudaError_t sim_clone_graph(cudaGraph_t from, std::shared_ptr<CUgraph_st> *to) {
    std::map<cudaGraphNode_t, cudaGraphNode_t> copy_of;
    *to = std::make_shared<CUgraph_st>();
    (*to)->conditions = from->conditions;
    for (const auto &node : from->nodes) {
        auto made = std::make_shared<CUgraphNode_st>(*node);
        made->graph = to->get(), made->original = node.get();
        for (auto &body : made->bodies)
            sim_clone_graph(body.get(), &body);
        (*to)->nodes.push_back(made);
        copy_of[node.get()] = made.get();
    }
    for (const auto &node : (*to)->nodes)
        for (cudaGraphNode_t &before : node->after)
            before = copy_of[before];
    return cudaSuccess;
}
cudaError_t cudaGraphClone(cudaGraph_t *to, cudaGraph_t graph) {
    if (!to || !graph)
        return sim_says(cudaErrorInvalidValue);
    std::shared_ptr<CUgraph_st> made;
    sim_clone_graph(graph, &made);
    *to = new CUgraph_st(*made);
    for (const auto &node : (*to)->nodes)
        node->graph = *to;
    (*to)->objects = graph->objects;
    for (const auto &[object, count] : graph->objects)
        object->count += count;
    return sim_says(cudaSuccess);
}
cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t *to, cudaGraphNode_t original, cudaGraph_t graph) {
    if (to && original && graph)
        for (const auto &node : graph->nodes)
            if (node->original == original)
                return *to = node.get(), sim_says(cudaSuccess);
    return sim_says(cudaErrorInvalidValue);
}
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType *type) {
    if (!node || !type)
        return sim_says(cudaErrorInvalidValue);
    *type = node->type;
    return sim_says(cudaSuccess);
}

/* Where there is more room than found, the rest is NULL, and the count is what was found. */
static cudaError_t give(const std::vector<cudaGraphNode_t> &found, cudaGraphNode_t *to, size_t *count) {
    if (!count)
        return sim_says(cudaErrorInvalidValue);
    for (size_t i = 0; to && i < *count; i++)
        to[i] = i < found.size() ? found[i] : 0;
    *count = to && *count < found.size() ? *count : found.size();
    return sim_says(cudaSuccess);
}
static cudaError_t give_nodes(cudaGraph_t graph, cudaGraphNode_t *to, size_t *count, bool only_roots) {
    std::vector<cudaGraphNode_t> found;
    if (!graph)
        return sim_says(cudaErrorInvalidValue);
    for (const auto &node : graph->nodes)
        if (!only_roots || node->after.empty())
            found.push_back(node.get());
    return give(found, to, count);
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count) {
    return give_nodes(graph, nodes, count, false);
}
cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count) {
    return give_nodes(graph, nodes, count, true);
}
static void clear(cudaGraphEdgeData *edges, size_t count) {
    if (edges)
        memset(edges, 0, count * sizeof *edges);
}
cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to,
                              cudaGraphEdgeData *edges, size_t *count) {
    std::vector<cudaGraphNode_t> froms, tos;
    if (!graph || !count || !from != !to)
        return sim_says(cudaErrorInvalidValue);
    for (const auto &node : graph->nodes)
        for (cudaGraphNode_t before : node->after)
            froms.push_back(before), tos.push_back(node.get());
    size_t room = *count;
    clear(edges, from ? room : 0);
    cudaError_t error = give(froms, from, count);
    return error ? error : give(tos, to, &room);
}
cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *to, cudaGraphEdgeData *edges,
                                         size_t *count) {
    if (!node || !count)
        return sim_says(cudaErrorInvalidValue);
    clear(edges, to ? *count : 0);
    return give(node->after, to, count);
}
cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t *to,
                                           cudaGraphEdgeData *edges, size_t *count) {
    std::vector<cudaGraphNode_t> found;
    if (!node || !count)
        return sim_says(cudaErrorInvalidValue);
    for (const auto &other : node->graph->nodes)
        if (place_of(other->after, node) < other->after.size())
            found.push_back(other.get());
    clear(edges, to ? *count : 0);
    return give(found, to, count);
}
/* An edge that is there already, or one to remove that is not, is an error, and nothing changes. */
static cudaError_t change_edges(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
                                size_t count, bool adds) {
    if (!graph || (count && (!from || !to)))
        return sim_says(cudaErrorInvalidValue);
    for (size_t i = 0; i < count; i++) {
        bool is_there = to[i] && place_of(to[i]->after, from[i]) < to[i]->after.size();
        if (!to[i] || !from[i] || to[i]->graph != graph || from[i]->graph != graph || to[i] == from[i] ||
            is_there == adds)
            return sim_says(cudaErrorInvalidValue);
    }
    for (size_t i = 0; i < count; i++) {
        auto &after = to[i]->after;
        if (adds)
            after.push_back(from[i]);
        else
            after.erase(after.begin() + (long)place_of(after, from[i]));
    }
    return sim_says(cudaSuccess);
}
cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
                                     const cudaGraphNode_t *to, const cudaGraphEdgeData *, size_t count) {
    return change_edges(graph, from, to, count, true);
}
cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
                                        const cudaGraphNode_t *to, const cudaGraphEdgeData *, size_t count) {
    return change_edges(graph, from, to, count, false);
}
cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char *path, unsigned) {
    static const char *const names[] = {"kernel",    "memcpy",   "memset", "host",       "graph",
                                        "empty",     "wait",     "record", "signal",     "wait",
                                        "mem alloc", "mem free", "",       "conditional"};
    FILE *file = graph && path ? fopen(path, "w") : 0;
    if (!file)
        return sim_says(graph && path ? cudaErrorOperatingSystem : cudaErrorInvalidValue);
    fprintf(file, "digraph dot {\n");
    for (const auto &node : graph->nodes) {
        const auto *launch = std::any_cast<sim_kept_launch>(&node->of);
        fprintf(file, "\"node_%p\" [label=\"%s\"];\n", (void *)node.get(),
                launch ? launch->name : names[node->type]);
        for (cudaGraphNode_t before : node->after)
            fprintf(file, "\"node_%p\" -> \"node_%p\";\n", (void *)before, (void *)node.get());
    }
    fprintf(file, "}\n");
    return sim_says(fclose(file) ? cudaErrorOperatingSystem : cudaSuccess);
}

/* ---- What a graph has besides ---- */

cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle *handle, cudaGraph_t graph,
                                             unsigned value, unsigned flags) {
    if (!handle || !graph || flags > cudaGraphCondAssignDefault || (value && !flags))
        return sim_says(cudaErrorInvalidValue);
    graph->conditions.push_back(std::make_shared<sim_condition>(sim_condition{value, value, flags != 0}));
    *handle = (cudaGraphConditionalHandle)graph->conditions.back().get();
    return sim_says(cudaSuccess);
}
cudaError_t cudaUserObjectCreate(cudaUserObject_t *object, void *data, cudaHostFn_t destroy, unsigned count,
                                 unsigned flags) {
    if (!object || !destroy || !count || flags != cudaUserObjectNoDestructorSync)
        return sim_says(cudaErrorInvalidValue);
    *object = new CUuserObject_st{data, destroy, count};
    return sim_says(cudaSuccess);
}
cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned count) {
    if (!object || !count)
        return sim_says(cudaErrorInvalidValue);
    object->count += count;
    return sim_says(cudaSuccess);
}
cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned count) {
    if (!object || !count || count > object->count)
        return sim_says(cudaErrorInvalidValue);
    if (object->count -= count)
        return sim_says(cudaSuccess);
    object->destroy(object->data);
    delete object;
    return sim_says(cudaSuccess);
}
cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count,
                                      unsigned flags) {
    if (!graph || !object || !count || flags > cudaGraphUserObjectMove)
        return sim_says(cudaErrorInvalidValue);
    graph->objects[object] += count;
    object->count += flags ? 0 : count;
    return sim_says(cudaSuccess);
}
cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count) {
    if (!graph || !count || !graph->objects.count(object) || graph->objects[object] < count)
        return sim_says(cudaErrorInvalidValue);
    if (!(graph->objects[object] -= count))
        graph->objects.erase(object);
    return cudaUserObjectRelease(object, count);
}
cudaError_t cudaDeviceGetGraphMemAttribute(int device, cudaGraphMemAttributeType which, void *value) {
    if (cudaError_t error = sim_error(sim_device_exists(device)))
        return error;
    const CUmemPoolHandle_st &pool = sim_pools(device).of_graphs;
    *(uint64_t *)value = which % 2 ? pool.most : pool.used();
    return cudaSuccess;
}
cudaError_t cudaDeviceSetGraphMemAttribute(int device, cudaGraphMemAttributeType which, void *value) {
    cudaError_t error = sim_error(sim_device_exists(device));
    if (error || which % 2 == 0 || *(uint64_t *)value)
        return error ? error : sim_says(cudaErrorInvalidValue);
    sim_pools(device).of_graphs.most = sim_pools(device).of_graphs.used();
    return error;
}
cudaError_t cudaDeviceGraphMemTrim(int device) {
    return sim_error(sim_device_exists(device));
}

/* ---- Running ---- */

/* Each node after those that it depends on, and else in the order in which they were added. */
bool sim_make_steps(cudaGraph_t graph, std::vector<sim_step> *steps) {
    std::map<cudaGraphNode_t, size_t> place;
    while (steps->size() < graph->nodes.size()) {
        size_t before = steps->size();
        for (const auto &node : graph->nodes) {
            bool can_run = !place.count(node.get());
            for (cudaGraphNode_t other : node->after)
                can_run = can_run && place.count(other);
            if (!can_run)
                continue;
            sim_step made = {node.get(), node->type, node->of, node->run, node->memory, {}, {}, true};
            for (cudaGraphNode_t other : node->after)
                made.after.insert(place[other]);
            for (const auto &body : node->bodies) {
                made.bodies.push_back({});
                if (!sim_make_steps(body.get(), &made.bodies.back()))
                    return false;
            }
            place[node.get()] = steps->size();
            steps->push_back(made);
        }
        if (steps->size() == before)
            return false;
    }
    return true;
}
static cudaError_t run(const std::vector<sim_step> &steps, cudaStream_t stream);
static cudaError_t run_conditional(const sim_step &of, cudaStream_t stream) {
    const auto &how = *std::any_cast<cudaConditionalNodeParams>(&of.of);
    const volatile unsigned &value = ((sim_condition *)how.handle)->value;
    cudaError_t error = cudaSuccess;
    if (how.type == cudaGraphCondTypeWhile) {
        while (value && !error && !sim_program_has_failed())
            error = run(of.bodies[0], stream);
        return error;
    }
    size_t chosen = how.type == cudaGraphCondTypeSwitch ? value : value ? 0 : 1;
    return chosen < of.bodies.size() ? run(of.bodies[chosen], stream) : error;
}
static cudaError_t run(const std::vector<sim_step> &steps, cudaStream_t stream) {
    for (const sim_step &of : steps) {
        if (!of.is_enabled)
            continue;
        cudaError_t error = of.type == cudaGraphNodeTypeConditional ? run_conditional(of, stream)
                            : of.bodies.empty()                     ? of.run(stream)
                                                                    : run(of.bodies[0], stream);
        if (error)
            return error;
    }
    return cudaSuccess;
}
static void collect(cudaGraph_t graph, std::vector<std::shared_ptr<sim_condition>> *to) {
    to->insert(to->end(), graph->conditions.begin(), graph->conditions.end());
    for (const auto &node : graph->nodes)
        for (const auto &body : node->bodies)
            collect(body.get(), to);
}
cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t *made, cudaGraph_t graph,
                                           cudaGraphInstantiateParams *with) {
    if (!made || !graph || !with || with->flags > 15)
        return sim_says(cudaErrorInvalidValue);
    with->errNode_out = 0;
    with->result_out = cudaGraphInstantiateError;
    if (with->flags & cudaGraphInstantiateFlagDeviceLaunch) {
        with->result_out = cudaGraphInstantiateNodeOperationNotSupported;
        return sim_says(cudaErrorNotSupported);
    }
    auto ready = std::make_unique<CUgraphExec_st>();
    if (!sim_make_steps(graph, &ready->steps)) {
        with->result_out = cudaGraphInstantiateInvalidStructure;
        return sim_says(cudaErrorInvalidValue);
    }
    ready->flags = with->flags;
    ready->objects = graph->objects;
    for (const auto &[object, count] : ready->objects)
        object->count += count;
    collect(graph, &ready->conditions);
    *made = ready.release();
    with->result_out = cudaGraphInstantiateSuccess;
    return sim_says(cudaSuccess);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *made, cudaGraph_t graph, unsigned long long flags) {
    cudaGraphInstantiateParams with = {flags, 0, 0, cudaGraphInstantiateSuccess};
    return cudaGraphInstantiateWithParams(made, graph, &with);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *made, cudaGraph_t graph, cudaGraphNode_t *wrong, char *log,
                                 size_t bytes) {
    if (wrong)
        *wrong = 0;
    if (log && bytes)
        *log = 0;
    return cudaGraphInstantiate(made, graph, 0ull);
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
    if (!graph)
        return sim_says(cudaErrorInvalidValue);
    release(graph->objects);
    delete graph;
    return sim_says(cudaSuccess);
}
cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t graph, unsigned long long *flags) {
    if (!graph || !flags)
        return sim_says(cudaErrorInvalidValue);
    *flags = graph->flags;
    return sim_says(cudaSuccess);
}
cudaError_t cudaGraphUpload(cudaGraphExec_t graph, cudaStream_t) {
    return sim_says(graph ? cudaSuccess : cudaErrorInvalidValue);
}
static cudaError_t free_again(const std::vector<sim_step> &steps, bool may) {
    for (const sim_step &of : steps) {
        if (of.memory && sim_allocation_at(of.memory)) {
            if (!may)
                return sim_says(cudaErrorInvalidValue);
            cudaFree(of.memory);
        }
        for (const auto &body : of.bodies)
            if (cudaError_t error = free_again(body, may))
                return error;
    }
    return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
    if (!graph)
        return sim_says(cudaErrorInvalidValue);
    if (sim_is_captured(stream))
        return sim_capture(stream, [steps = graph->steps](cudaStream_t on) { return run(steps, on); });
    bool frees = graph->flags & cudaGraphInstantiateFlagAutoFreeOnLaunch;
    if (cudaError_t error = free_again(graph->steps, frees))
        return error;
    for (const auto &of : graph->conditions)
        if (of->is_assigned)
            of->value = of->at_launch;
    return run(graph->steps, stream);
}
static bool may_be_disabled(const sim_step *of) {
    return of && (of->type == cudaGraphNodeTypeKernel || of->type == cudaGraphNodeTypeMemset ||
                  of->type == cudaGraphNodeTypeMemcpy);
}
cudaError_t cudaGraphNodeGetEnabled(cudaGraphExec_t graph, cudaGraphNode_t node, unsigned *is_enabled) {
    sim_step *of = graph ? sim_find_step(graph->steps, node) : 0;
    if (!may_be_disabled(of) || !is_enabled)
        return sim_says(cudaErrorInvalidValue);
    *is_enabled = of->is_enabled;
    return sim_says(cudaSuccess);
}
cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t graph, cudaGraphNode_t node, unsigned is_enabled) {
    sim_step *of = graph ? sim_find_step(graph->steps, node) : 0;
    if (!may_be_disabled(of))
        return sim_says(cudaErrorInvalidValue);
    of->is_enabled = is_enabled;
    return sim_says(cudaSuccess);
}

/* Whether the one can become the other: info tells why not. */
bool sim_are_alike(const std::vector<sim_step> &ready, const std::vector<sim_step> &other,
                   cudaGraphExecUpdateResultInfo *info) {
    *info = {cudaGraphExecUpdateErrorTopologyChanged, 0, 0};
    if (ready.size() != other.size())
        return false;
    for (size_t i = 0; i < ready.size(); i++) {
        info->errorNode = other[i].node;
        if (ready[i].after != other[i].after || ready[i].bodies.size() != other[i].bodies.size())
            return false;
        for (size_t j = 0; j < ready[i].bodies.size(); j++)
            if (!sim_are_alike(ready[i].bodies[j], other[i].bodies[j], info))
                return false;
    }
    info->result = cudaGraphExecUpdateErrorNodeTypeChanged;
    for (size_t i = 0; i < ready.size(); i++) {
        info->errorNode = other[i].node;
        if (ready[i].type != other[i].type)
            return false;
    }
    *info = {cudaGraphExecUpdateSuccess, 0, 0};
    return true;
}
static void become(std::vector<sim_step> *ready, const std::vector<sim_step> &other) {
    for (size_t i = 0; i < other.size(); i++) {
        sim_step &of = (*ready)[i]; /* the nodes are still those of the first graph */
        if (of.memory)
            continue; /* and so is their memory */
        of.run = other[i].run;
        for (size_t j = 0; j < of.bodies.size(); j++)
            become(&of.bodies[j], other[i].bodies[j]);
    }
}
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t graph, cudaGraph_t from,
                                cudaGraphExecUpdateResultInfo *info) {
    std::vector<sim_step> steps;
    if (!graph || !from || !info || !sim_make_steps(from, &steps))
        return sim_says(cudaErrorInvalidValue);
    if (!sim_are_alike(graph->steps, steps, info))
        return sim_says(cudaErrorGraphExecUpdateFailure);
    become(&graph->steps, steps);
    return sim_says(cudaSuccess);
}
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t graph, cudaGraph_t from, cudaGraphNode_t *wrong,
                                cudaGraphExecUpdateResult *result) {
    cudaGraphExecUpdateResultInfo info = {cudaGraphExecUpdateError, 0, 0};
    cudaError_t error = cudaGraphExecUpdate(graph, from, &info);
    if (wrong)
        *wrong = info.errorNode;
    if (result)
        *result = info.result;
    return error;
}
