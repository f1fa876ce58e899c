/* Graphs of a program: operations that are gathered, by their own functions or while a stream is captured,
 * and run as one. CUDA Runtime API, "Graph Management". ../program/graphs.cpp has them: it is compiled once.
 *
 * Each kind of node is added, asked, changed, and changed in a graph that is ready to run by functions of one
 * form. So the form is a template over the node's parameters, and CUDA's function is an object of it. */
#pragma once
#include "program_launch.hpp"

typedef struct CUgraphNode_st *cudaGraphNode_t;
typedef struct CUgraphExec_st *cudaGraphExec_t;
typedef struct CUuserObject_st *cudaUserObject_t;
typedef unsigned long long cudaGraphConditionalHandle;

/* ---- What nodes are made with ---- */

struct cudaKernelNodeParams {
    void *func;
    dim3 host_gridDim, host_blockDim; /* see cudasim/live/host.py */
    unsigned sharedMemBytes;
    void **kernelParams;
    void **extra;
};
struct cudaMemcpyNodeParams {
    int flags, reserved[3];
    cudaMemcpy3DParms copyParams;
};
struct cudaMemsetParams {
    void *dst;
    size_t pitch;
    unsigned value, elementSize;
    size_t width, height;
};
struct cudaHostNodeParams {
    cudaHostFn_t fn;
    void *userData;
};
enum cudaGraphChildGraphNodeOwnership { cudaGraphChildGraphOwnershipClone, cudaGraphChildGraphOwnershipMove };
struct cudaChildGraphNodeParams {
    cudaGraph_t graph;
    cudaGraphChildGraphNodeOwnership ownership;
};
struct cudaEventRecordNodeParams {
    cudaEvent_t event;
};
struct cudaEventWaitNodeParams {
    cudaEvent_t event;
};
struct cudaMemAllocNodeParams {
    cudaMemPoolProps poolProps;
    const cudaMemAccessDesc *accessDescs;
    size_t accessDescCount;
    size_t bytesize;
    void *dptr; /* the node says it */
};
struct cudaMemFreeNodeParams {
    void *dptr;
};
enum cudaGraphConditionalNodeType { cudaGraphCondTypeIf, cudaGraphCondTypeWhile, cudaGraphCondTypeSwitch };
enum { cudaGraphCondAssignDefault = 1 };
struct cudaConditionalNodeParams {
    cudaGraphConditionalHandle handle;
    cudaGraphConditionalNodeType type;
    unsigned size;
    cudaGraph_t *phGraph_out; /* the node's own graphs: it says them */
};
typedef cudaKernelNodeParams cudaKernelNodeParamsV2;
typedef cudaMemsetParams cudaMemsetParamsV2;
typedef cudaHostNodeParams cudaHostNodeParamsV2;
typedef cudaMemAllocNodeParams cudaMemAllocNodeParamsV2;
struct cudaGraphNodeParams {
    cudaGraphNodeType type;
    int reserved0[3];
    union {
        long long reserved1[29];
        cudaKernelNodeParams kernel;
        cudaMemcpyNodeParams memcpy;
        cudaMemsetParams memset;
        cudaHostNodeParams host;
        cudaChildGraphNodeParams graph;
        cudaEventWaitNodeParams eventWait;
        cudaEventRecordNodeParams eventRecord;
        cudaMemAllocNodeParams alloc;
        cudaMemFreeNodeParams free;
        cudaConditionalNodeParams conditional;
    };
    long long reserved2;
    cudaGraphNodeParams(cudaGraphNodeType type = cudaGraphNodeTypeKernel) : type(type), reserved1{} {}
};
struct cudaGraphEdgeData {
    unsigned char from_port, to_port, type, reserved[5];
};

/* ---- Nodes: added, asked, changed ---- */

template <class P> struct sim_adds_node {
    cudaError_t operator()(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                           size_t count, P *of, SIM_CALLED) const;
};
template <class P> struct sim_asks_node {
    cudaError_t operator()(cudaGraphNode_t node, P *of) const;
};
template <class P> struct sim_sets_node {
    cudaError_t operator()(cudaGraphNode_t node, P *of, SIM_CALLED) const;
};
/* Of a graph that is ready to run, and not of the graph that it was made from. */
template <class P> struct sim_sets_ready_node {
    cudaError_t operator()(cudaGraphExec_t graph, cudaGraphNode_t node, P *of, SIM_CALLED) const;
};
constexpr sim_adds_node<const cudaKernelNodeParams> cudaGraphAddKernelNode;
constexpr sim_asks_node<cudaKernelNodeParams> cudaGraphKernelNodeGetParams;
constexpr sim_sets_node<const cudaKernelNodeParams> cudaGraphKernelNodeSetParams;
constexpr sim_sets_ready_node<const cudaKernelNodeParams> cudaGraphExecKernelNodeSetParams;
constexpr sim_adds_node<const cudaMemcpy3DParms> cudaGraphAddMemcpyNode;
constexpr sim_asks_node<cudaMemcpy3DParms> cudaGraphMemcpyNodeGetParams;
constexpr sim_sets_node<const cudaMemcpy3DParms> cudaGraphMemcpyNodeSetParams;
constexpr sim_sets_ready_node<const cudaMemcpy3DParms> cudaGraphExecMemcpyNodeSetParams;
constexpr sim_adds_node<const cudaMemsetParams> cudaGraphAddMemsetNode;
constexpr sim_asks_node<cudaMemsetParams> cudaGraphMemsetNodeGetParams;
constexpr sim_sets_node<const cudaMemsetParams> cudaGraphMemsetNodeSetParams;
constexpr sim_sets_ready_node<const cudaMemsetParams> cudaGraphExecMemsetNodeSetParams;
constexpr sim_adds_node<const cudaHostNodeParams> cudaGraphAddHostNode;
constexpr sim_asks_node<cudaHostNodeParams> cudaGraphHostNodeGetParams;
constexpr sim_sets_node<const cudaHostNodeParams> cudaGraphHostNodeSetParams;
constexpr sim_sets_ready_node<const cudaHostNodeParams> cudaGraphExecHostNodeSetParams;
constexpr sim_adds_node<cudaMemAllocNodeParams> cudaGraphAddMemAllocNode;
constexpr sim_asks_node<cudaMemAllocNodeParams> cudaGraphMemAllocNodeGetParams;

/* The same where the only parameter, of type V, is handed over by its value. */
template <class P, class V> struct sim_adds_node_with {
    SIM_INLINE_MEMBER cudaError_t operator()(cudaGraphNode_t *node, cudaGraph_t graph,
                                             const cudaGraphNode_t *after, size_t count, V value,
                                             SIM_CALLED) const {
        P of = {value};
        return sim_adds_node<const P>()(node, graph, after, count, &of, sim_file, sim_line);
    }
};
template <class P, class V> struct sim_asks_node_with {
    SIM_INLINE_MEMBER cudaError_t operator()(cudaGraphNode_t node, V *value) const {
        P of;
        cudaError_t error = sim_asks_node<P>()(node, &of);
        if (!error)
            memcpy(value, &of, sizeof *value); /* the first member */
        return error;
    }
};
template <class P, class V> struct sim_sets_node_with {
    SIM_INLINE_MEMBER cudaError_t operator()(cudaGraphNode_t node, V value, SIM_CALLED) const {
        P of = {value};
        return sim_sets_node<const P>()(node, &of, sim_file, sim_line);
    }
};
template <class P, class V> struct sim_sets_ready_node_with {
    SIM_INLINE_MEMBER cudaError_t operator()(cudaGraphExec_t graph, cudaGraphNode_t node, V value,
                                             SIM_CALLED) const {
        P of = {value};
        return sim_sets_ready_node<const P>()(graph, node, &of, sim_file, sim_line);
    }
};
constexpr sim_adds_node_with<cudaChildGraphNodeParams, cudaGraph_t> cudaGraphAddChildGraphNode;
constexpr sim_asks_node_with<cudaChildGraphNodeParams, cudaGraph_t> cudaGraphChildGraphNodeGetGraph;
constexpr sim_sets_ready_node_with<cudaChildGraphNodeParams, cudaGraph_t>
    cudaGraphExecChildGraphNodeSetParams;
constexpr sim_adds_node_with<cudaEventRecordNodeParams, cudaEvent_t> cudaGraphAddEventRecordNode;
constexpr sim_asks_node_with<cudaEventRecordNodeParams, cudaEvent_t> cudaGraphEventRecordNodeGetEvent;
constexpr sim_sets_node_with<cudaEventRecordNodeParams, cudaEvent_t> cudaGraphEventRecordNodeSetEvent;
constexpr sim_sets_ready_node_with<cudaEventRecordNodeParams, cudaEvent_t>
    cudaGraphExecEventRecordNodeSetEvent;
constexpr sim_adds_node_with<cudaEventWaitNodeParams, cudaEvent_t> cudaGraphAddEventWaitNode;
constexpr sim_asks_node_with<cudaEventWaitNodeParams, cudaEvent_t> cudaGraphEventWaitNodeGetEvent;
constexpr sim_sets_node_with<cudaEventWaitNodeParams, cudaEvent_t> cudaGraphEventWaitNodeSetEvent;
constexpr sim_sets_ready_node_with<cudaEventWaitNodeParams, cudaEvent_t> cudaGraphExecEventWaitNodeSetEvent;
constexpr sim_adds_node_with<cudaMemFreeNodeParams, void *> cudaGraphAddMemFreeNode;
constexpr sim_asks_node_with<cudaMemFreeNodeParams, void *> sim_asks_freed;
SIM_HOST cudaError_t cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node, void *memory) {
    return sim_asks_freed(node, (void **)memory);
}
cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                  size_t count);

/* Copies of plain memory, and of variables. */
SIM_HOST cudaMemcpy3DParms sim_flat_copy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
    return {0, {}, {(void *)from, bytes, bytes, 1}, 0, {}, {to, bytes, bytes, 1}, {bytes, 1, 1}, kind};
}
SIM_HOST cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *node, cudaGraph_t graph,
                                              const cudaGraphNode_t *after, size_t count, void *to,
                                              const void *from, size_t bytes, cudaMemcpyKind kind,
                                              SIM_CALLED) {
    cudaMemcpy3DParms of = sim_flat_copy(to, from, bytes, kind);
    return cudaGraphAddMemcpyNode(node, graph, after, count, &of, sim_file, sim_line);
}
SIM_HOST cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void *to, const void *from,
                                                    size_t bytes, cudaMemcpyKind kind, SIM_CALLED) {
    cudaMemcpy3DParms of = sim_flat_copy(to, from, bytes, kind);
    return cudaGraphMemcpyNodeSetParams(node, &of, sim_file, sim_line);
}
SIM_HOST cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t graph, cudaGraphNode_t node, void *to,
                                                        const void *from, size_t bytes, cudaMemcpyKind kind,
                                                        SIM_CALLED) {
    cudaMemcpy3DParms of = sim_flat_copy(to, from, bytes, kind);
    return cudaGraphExecMemcpyNodeSetParams(graph, node, &of, sim_file, sim_line);
}
template <class T>
SIM_HOST cudaError_t cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t *node, cudaGraph_t graph,
                                                    const cudaGraphNode_t *after, size_t count,
                                                    const T &symbol, const void *from, size_t bytes,
                                                    size_t offset, cudaMemcpyKind kind, SIM_CALLED) {
    return cudaGraphAddMemcpyNode1D(node, graph, after, count, (char *)sim_symbol(symbol) + offset, from,
                                    bytes, kind, sim_file, sim_line);
}
template <class T>
SIM_HOST cudaError_t cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t *node, cudaGraph_t graph,
                                                      const cudaGraphNode_t *after, size_t count, void *to,
                                                      const T &symbol, size_t bytes, size_t offset,
                                                      cudaMemcpyKind kind, SIM_CALLED) {
    return cudaGraphAddMemcpyNode1D(node, graph, after, count, to, (char *)sim_symbol(symbol) + offset, bytes,
                                    kind, sim_file, sim_line);
}
template <class T>
SIM_HOST cudaError_t cudaGraphMemcpyNodeSetParamsToSymbol(cudaGraphNode_t node, const T &symbol,
                                                          const void *from, size_t bytes, size_t offset,
                                                          cudaMemcpyKind kind, SIM_CALLED) {
    return cudaGraphMemcpyNodeSetParams1D(node, (char *)sim_symbol(symbol) + offset, from, bytes, kind,
                                          sim_file, sim_line);
}
template <class T>
SIM_HOST cudaError_t cudaGraphMemcpyNodeSetParamsFromSymbol(cudaGraphNode_t node, void *to, const T &symbol,
                                                            size_t bytes, size_t offset, cudaMemcpyKind kind,
                                                            SIM_CALLED) {
    return cudaGraphMemcpyNodeSetParams1D(node, to, (char *)sim_symbol(symbol) + offset, bytes, kind,
                                          sim_file, sim_line);
}
template <class T>
SIM_HOST cudaError_t cudaGraphExecMemcpyNodeSetParamsToSymbol(cudaGraphExec_t graph, cudaGraphNode_t node,
                                                              const T &symbol, const void *from, size_t bytes,
                                                              size_t offset, cudaMemcpyKind kind,
                                                              SIM_CALLED) {
    return cudaGraphExecMemcpyNodeSetParams1D(graph, node, (char *)sim_symbol(symbol) + offset, from, bytes,
                                              kind, sim_file, sim_line);
}
template <class T>
SIM_HOST cudaError_t cudaGraphExecMemcpyNodeSetParamsFromSymbol(cudaGraphExec_t graph, cudaGraphNode_t node,
                                                                void *to, const T &symbol, size_t bytes,
                                                                size_t offset, cudaMemcpyKind kind,
                                                                SIM_CALLED) {
    return cudaGraphExecMemcpyNodeSetParams1D(graph, node, to, (char *)sim_symbol(symbol) + offset, bytes,
                                              kind, sim_file, sim_line);
}

/* A node of any kind. */
cudaError_t cudaGraphAddNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                             const cudaGraphEdgeData *edges, size_t count, cudaGraphNodeParams *of,
                             SIM_CALLED);
SIM_HOST cudaError_t cudaGraphAddNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                      size_t count, cudaGraphNodeParams *of, SIM_CALLED) { /* until 12 */
    return cudaGraphAddNode(node, graph, after, 0, count, of, sim_file, sim_line);
}
cudaError_t cudaGraphNodeSetParams(cudaGraphNode_t node, cudaGraphNodeParams *of, SIM_CALLED);
cudaError_t cudaGraphExecNodeSetParams(cudaGraphExec_t graph, cudaGraphNode_t node, cudaGraphNodeParams *of,
                                       SIM_CALLED);

typedef cudaLaunchAttributeID cudaKernelNodeAttrID;
typedef cudaLaunchAttributeValue cudaKernelNodeAttrValue;
#define cudaKernelNodeAttributeAccessPolicyWindow cudaLaunchAttributeAccessPolicyWindow
#define cudaKernelNodeAttributeCooperative cudaLaunchAttributeCooperative
#define cudaKernelNodeAttributePriority cudaLaunchAttributePriority
#define cudaKernelNodeAttributeClusterDimension cudaLaunchAttributeClusterDimension
cudaError_t cudaGraphKernelNodeGetAttribute(cudaGraphNode_t node, cudaKernelNodeAttrID which,
                                            cudaKernelNodeAttrValue *value);
cudaError_t cudaGraphKernelNodeSetAttribute(cudaGraphNode_t node, cudaKernelNodeAttrID which,
                                            const cudaKernelNodeAttrValue *value);
cudaError_t cudaGraphKernelNodeCopyAttributes(cudaGraphNode_t to, cudaGraphNode_t from);

/* ---- Graphs ---- */

cudaError_t cudaGraphCreate(cudaGraph_t *graph, unsigned flags);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node);
cudaError_t cudaGraphClone(cudaGraph_t *clone, cudaGraph_t graph);
cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t *node, cudaGraphNode_t original, cudaGraph_t clone);
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType *type);
/* Without a place for them, how many there are. */
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count);
cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count);
/* With data of edges, since CUDA 13, and without. Here all edges are alike. */
cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to,
                              cudaGraphEdgeData *edges, size_t *count);
cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *to, cudaGraphEdgeData *edges,
                                         size_t *count);
cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t *to,
                                           cudaGraphEdgeData *edges, size_t *count);
cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
                                     const cudaGraphNode_t *to, const cudaGraphEdgeData *edges, size_t count);
cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
                                        const cudaGraphNode_t *to, const cudaGraphEdgeData *edges,
                                        size_t count);
SIM_HOST cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to,
                                       size_t *count) {
    return cudaGraphGetEdges(graph, from, to, 0, count);
}
SIM_HOST cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *to, size_t *count) {
    return cudaGraphNodeGetDependencies(node, to, 0, count);
}
SIM_HOST cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t *to,
                                                    size_t *count) {
    return cudaGraphNodeGetDependentNodes(node, to, 0, count);
}
SIM_HOST cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
                                              const cudaGraphNode_t *to, size_t count) {
    return cudaGraphAddDependencies(graph, from, to, 0, count);
}
SIM_HOST cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
                                                 const cudaGraphNode_t *to, size_t count) {
    return cudaGraphRemoveDependencies(graph, from, to, 0, count);
}
enum cudaGraphDebugDotFlags { cudaGraphDebugDotFlagsVerbose = 1 };
cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char *path, unsigned flags);

/* A condition of nodes, which a kernel sets. */
cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle *handle, cudaGraph_t graph,
                                             unsigned value = 0, unsigned flags = 0);
__attribute__((noinline, no_sanitize("thread"))) inline void
cudaGraphSetConditional(cudaGraphConditionalHandle handle, unsigned value) {
    *(volatile unsigned *)handle = value;
}

/* What a graph keeps alive. */
enum { cudaUserObjectNoDestructorSync = 1, cudaGraphUserObjectMove = 1 };
cudaError_t cudaUserObjectCreate(cudaUserObject_t *object, void *data, cudaHostFn_t destroy, unsigned count,
                                 unsigned flags);
cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned count = 1);
cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned count = 1);
cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count = 1,
                                      unsigned flags = 0);
cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count = 1);

enum cudaGraphMemAttributeType {
    cudaGraphMemAttrUsedMemCurrent,
    cudaGraphMemAttrUsedMemHigh,
    cudaGraphMemAttrReservedMemCurrent,
    cudaGraphMemAttrReservedMemHigh
};
cudaError_t cudaDeviceGetGraphMemAttribute(int device, cudaGraphMemAttributeType which, void *value);
cudaError_t cudaDeviceSetGraphMemAttribute(int device, cudaGraphMemAttributeType which, void *value);
cudaError_t cudaDeviceGraphMemTrim(int device);

/* ---- Running ---- */

enum {
    cudaGraphInstantiateFlagAutoFreeOnLaunch = 1,
    cudaGraphInstantiateFlagUpload = 2,
    cudaGraphInstantiateFlagDeviceLaunch = 4,
    cudaGraphInstantiateFlagUseNodePriority = 8
};
enum cudaGraphInstantiateResult {
    cudaGraphInstantiateSuccess,
    cudaGraphInstantiateError,
    cudaGraphInstantiateInvalidStructure,
    cudaGraphInstantiateNodeOperationNotSupported,
    cudaGraphInstantiateMultipleDevicesNotSupported,
    cudaGraphInstantiateConditionalHandleUnused
};
struct cudaGraphInstantiateParams {
    unsigned long long flags;
    cudaStream_t uploadStream;
    cudaGraphNode_t errNode_out;
    cudaGraphInstantiateResult result_out;
};
enum cudaGraphExecUpdateResult {
    cudaGraphExecUpdateSuccess,
    cudaGraphExecUpdateError,
    cudaGraphExecUpdateErrorTopologyChanged,
    cudaGraphExecUpdateErrorNodeTypeChanged,
    cudaGraphExecUpdateErrorFunctionChanged,
    cudaGraphExecUpdateErrorParametersChanged,
    cudaGraphExecUpdateErrorNotSupported,
    cudaGraphExecUpdateErrorUnsupportedFunctionChange,
    cudaGraphExecUpdateErrorAttributesChanged
};
struct cudaGraphExecUpdateResultInfo {
    cudaGraphExecUpdateResult result;
    cudaGraphNode_t errorNode, errorFromNode;
};
cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t *made, cudaGraph_t graph,
                                           cudaGraphInstantiateParams *with);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *made, cudaGraph_t graph, unsigned long long flags = 0);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *made, cudaGraph_t graph, cudaGraphNode_t *wrong, char *log,
                                 size_t bytes); /* until CUDA 11 */
SIM_HOST cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *made, cudaGraph_t graph,
                                                   unsigned long long flags = 0) {
    return cudaGraphInstantiate(made, graph, flags);
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph);
cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t graph, unsigned long long *flags);
cudaError_t cudaGraphUpload(cudaGraphExec_t graph, cudaStream_t stream);
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream);
cudaError_t cudaGraphNodeGetEnabled(cudaGraphExec_t graph, cudaGraphNode_t node, unsigned *is_enabled);
cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t graph, cudaGraphNode_t node, unsigned is_enabled);
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t graph, cudaGraph_t from, cudaGraphExecUpdateResultInfo *info);
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t graph, cudaGraph_t from, cudaGraphNode_t *wrong,
                                cudaGraphExecUpdateResult *result); /* until CUDA 11 */

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
enum { cudaStreamAddCaptureDependencies, cudaStreamSetCaptureDependencies };
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode = cudaStreamCaptureModeGlobal);
cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
                                          const cudaGraphNode_t *after, const cudaGraphEdgeData *edges,
                                          size_t count, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status);
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus *status,
                                     unsigned long long *id = 0, cudaGraph_t *graph = 0,
                                     const cudaGraphNode_t **after = 0, const cudaGraphEdgeData **edges = 0,
                                     size_t *count = 0);
SIM_HOST cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus *status,
                                              unsigned long long *id, cudaGraph_t *graph,
                                              const cudaGraphNode_t **after,
                                              size_t *count) { /* until CUDA 12 */
    return cudaStreamGetCaptureInfo(stream, status, id, graph, after, 0, count);
}
#define cudaStreamGetCaptureInfo_v2 cudaStreamGetCaptureInfo
#define cudaStreamGetCaptureInfo_v3 cudaStreamGetCaptureInfo
cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *after,
                                                const cudaGraphEdgeData *edges, size_t count,
                                                unsigned flags = 0);
SIM_HOST cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *after,
                                                         size_t count, unsigned flags = 0) {
    return cudaStreamUpdateCaptureDependencies(stream, after, 0, count, flags);
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *mode);
