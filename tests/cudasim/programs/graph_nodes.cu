/* Nodes of graphs: added, asked, changed, disabled, with conditions; what a capture makes of forks. Right if
 * it says ok. */
#include "check.h"
#include <cuda_runtime.h>
#include <string.h>

#define EXPECT(what)                                                                                         \
    if (!(what))                                                                                             \
    printf("line %d: not %s\n", __LINE__, #what)

__constant__ int table[4];
__device__ int kept;

__global__ void scale(float *x, float by, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] *= by;
}
__global__ void add(float *x, float what, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] += what;
}
__global__ void keep_first() {
    kept = table[0];
}
__global__ void count_down(int *left, cudaGraphConditionalHandle handle) {
    cudaGraphSetConditional(handle, --*left > 0);
}
static void called(void *times) {
    ++*(int *)times;
}

static cudaKernelNodeParams launch_of(void *kernel, void **arguments) {
    cudaKernelNodeParams of = {};
    of.func = kernel;
    of.gridDim = dim3(2), of.blockDim = dim3(16);
    of.kernelParams = arguments;
    return of;
}

static void nodes() {
    int n = 20, times = 0;
    float by = 2.0f, *x, host[20], back[20];
    for (int i = 0; i < n; i++)
        host[i] = i;
    CHECK(cudaMalloc(&x, sizeof host));
    cudaGraph_t graph, same;
    cudaGraphExec_t ready;
    cudaGraphNode_t in, scaled, out, host_node, found[8];
    void *arguments[] = {&x, &by, &n};
    cudaKernelNodeParams launch = launch_of((void *)scale, arguments), asked;
    cudaHostNodeParams call = {called, &times}, asked_call;
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphAddMemcpyNode1D(&in, graph, NULL, 0, x, host, sizeof host, cudaMemcpyHostToDevice));
    CHECK(cudaGraphAddKernelNode(&scaled, graph, &in, 1, &launch));
    CHECK(cudaGraphAddMemcpyNode1D(&out, graph, &scaled, 1, back, x, sizeof back, cudaMemcpyDeviceToHost));
    CHECK(cudaGraphAddHostNode(&host_node, graph, &out, 1, &call));

    /* What nodes were made with: the arguments are the node's own copies. */
    CHECK(cudaGraphKernelNodeGetParams(scaled, &asked));
    by = 100.0f;
    EXPECT(asked.func == (void *)scale && asked.gridDim.x == 2 && asked.blockDim.x == 16);
    EXPECT(*(float *)asked.kernelParams[1] == 2.0f && *(int *)asked.kernelParams[2] == n);
    CHECK(cudaGraphHostNodeGetParams(host_node, &asked_call));
    EXPECT(asked_call.fn == called && asked_call.userData == &times);
    cudaMemcpy3DParms copy;
    CHECK(cudaGraphMemcpyNodeGetParams(out, &copy));
    EXPECT(copy.dstPtr.ptr == back && copy.srcPtr.ptr == x && copy.extent.width == sizeof back);
    EXPECT(cudaGraphKernelNodeGetParams(in, &asked) == cudaErrorInvalidValue);
    cudaGetLastError();

    /* Edges. */
    size_t count = 0, room = 8;
    cudaGraphNode_t from[8], to[8];
    CHECK(cudaGraphGetEdges(graph, NULL, NULL, NULL, &count));
    EXPECT(count == 3);
    CHECK(cudaGraphGetEdges(graph, from, to, NULL, &room));
    EXPECT(room == 3 && from[0] == in && to[0] == scaled && from[3] == NULL);
    count = 8;
    CHECK(cudaGraphNodeGetDependencies(out, found, NULL, &count));
    EXPECT(count == 1 && found[0] == scaled);
    count = 8;
    CHECK(cudaGraphNodeGetDependentNodes(out, found, NULL, &count));
    EXPECT(count == 1 && found[0] == host_node);
    EXPECT(cudaGraphAddDependencies(graph, &in, &scaled, NULL, 1) == cudaErrorInvalidValue);
    EXPECT(cudaGraphRemoveDependencies(graph, &in, &out, NULL, 1) == cudaErrorInvalidValue);
    cudaGetLastError();

    /* A clone has nodes of its own. */
    cudaGraphNode_t its;
    CHECK(cudaGraphClone(&same, graph));
    CHECK(cudaGraphNodeFindInClone(&its, scaled, same));
    EXPECT(its != scaled);
    EXPECT(cudaGraphNodeFindInClone(&its, its, graph) == cudaErrorInvalidValue);
    cudaGetLastError();
    CHECK(cudaGraphInstantiate(&ready, same, 0));
    CHECK(cudaGraphLaunch(ready, 0));
    CHECK(cudaDeviceSynchronize());
    EXPECT(back[3] == 6 && times == 1);

    /* A ready graph changes, and its graph does not. */
    CHECK(cudaGraphNodeFindInClone(&its, scaled, same));
    by = 5.0f;
    CHECK(cudaGraphExecKernelNodeSetParams(ready, its, &launch));
    CHECK(cudaGraphLaunch(ready, 0));
    CHECK(cudaDeviceSynchronize());
    EXPECT(back[3] == 15);
    CHECK(cudaGraphKernelNodeGetParams(its, &asked));
    EXPECT(*(float *)asked.kernelParams[1] == 2.0f);
    unsigned is_enabled = 7;
    CHECK(cudaGraphNodeSetEnabled(ready, its, 0));
    CHECK(cudaGraphNodeGetEnabled(ready, its, &is_enabled));
    CHECK(cudaGraphLaunch(ready, 0));
    CHECK(cudaDeviceSynchronize());
    EXPECT(is_enabled == 0 && back[3] == 3);
    CHECK(cudaGraphNodeFindInClone(&its, host_node, same));
    EXPECT(cudaGraphNodeSetEnabled(ready, its, 0) == cudaErrorInvalidValue);
    cudaGetLastError();

    /* An update takes a graph of the same form, and no other. */
    cudaGraphExecUpdateResultInfo info;
    CHECK(cudaGraphExecUpdate(ready, graph, &info));
    EXPECT(info.result == cudaGraphExecUpdateSuccess);
    CHECK(cudaGraphRemoveDependencies(graph, &out, &host_node, NULL, 1));
    EXPECT(cudaGraphExecUpdate(ready, graph, &info) == cudaErrorGraphExecUpdateFailure);
    EXPECT(info.result == cudaGraphExecUpdateErrorTopologyChanged);
    CHECK(cudaGraphDestroyNode(host_node));
    count = 0;
    CHECK(cudaGraphGetNodes(graph, NULL, &count));
    EXPECT(count == 3);
    cudaGetLastError();
    CHECK(cudaGraphExecDestroy(ready));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaGraphDestroy(same));
    CHECK(cudaFree(x));
}

static void variables_events_and_children() {
    int values[4] = {7, 8, 9, 10}, first = 0;
    unsigned short *shorts;
    CHECK(cudaMallocManaged(&shorts, 8 * sizeof *shorts));
    cudaEvent_t event, other;
    CHECK(cudaEventCreate(&event));
    CHECK(cudaEventCreate(&other));
    cudaGraph_t graph, child, asked;
    cudaGraphNode_t to, kernel, from, record, wait, set, nested;
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphCreate(&child, 0));
    cudaKernelNodeParams launch = launch_of((void *)keep_first, NULL);
    launch.gridDim = launch.blockDim = dim3(1);
    CHECK(cudaGraphAddKernelNode(&kernel, child, NULL, 0, &launch));
    CHECK(cudaGraphAddMemcpyNodeToSymbol(&to, graph, NULL, 0, table, values, sizeof values, 0,
                                         cudaMemcpyHostToDevice));
    CHECK(cudaGraphAddChildGraphNode(&nested, graph, &to, 1, child));
    CHECK(cudaGraphAddMemcpyNodeFromSymbol(&from, graph, &nested, 1, &first, kept, sizeof first, 0,
                                           cudaMemcpyDeviceToHost));
    CHECK(cudaGraphAddEventRecordNode(&record, graph, &from, 1, event));
    CHECK(cudaGraphAddEventWaitNode(&wait, graph, &record, 1, event));
    cudaMemsetParams fill = {shorts, 0, 0x1234, 2, 8, 1};
    CHECK(cudaGraphAddMemsetNode(&set, graph, &wait, 1, &fill));
    CHECK(cudaGraphChildGraphNodeGetGraph(nested, &asked));
    size_t count;
    CHECK(cudaGraphGetNodes(asked, NULL, &count));
    EXPECT(asked != child && count == 1);
    cudaEvent_t its;
    CHECK(cudaGraphEventRecordNodeSetEvent(record, other));
    CHECK(cudaGraphEventRecordNodeGetEvent(record, &its));
    EXPECT(its == other);
    CHECK(cudaGraphDebugDotPrint(graph, "/dev/null", cudaGraphDebugDotFlagsVerbose));
    cudaGraphExec_t ready;
    cudaGraphInstantiateParams with = {};
    CHECK(cudaGraphInstantiateWithParams(&ready, graph, &with));
    EXPECT(with.result_out == cudaGraphInstantiateSuccess);
    CHECK(cudaGraphLaunch(ready, 0));
    CHECK(cudaDeviceSynchronize());
    EXPECT(first == 7 && shorts[0] == 0x1234 && shorts[7] == 0x1234);
    CHECK(cudaEventQuery(other));
    CHECK(cudaGraphExecDestroy(ready));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaGraphDestroy(child));
    CHECK(cudaFree(shorts));
    CHECK(cudaEventDestroy(event));
    CHECK(cudaEventDestroy(other));
}

static void conditions() {
    int *left, n = 4;
    float *x, what = 1.0f;
    CHECK(cudaMallocManaged(&left, sizeof *left));
    CHECK(cudaMallocManaged(&x, n * sizeof *x));
    memset(x, 0, n * sizeof *x);
    *left = 5;
    cudaGraph_t graph;
    cudaGraphConditionalHandle handle;
    cudaGraphNode_t loop, added, counted;
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphConditionalHandleCreate(&handle, graph, 1, cudaGraphCondAssignDefault));
    cudaGraphNodeParams of = {cudaGraphNodeTypeConditional};
    of.conditional.handle = handle;
    of.conditional.type = cudaGraphCondTypeWhile;
    of.conditional.size = 1;
    CHECK(cudaGraphAddNode(&loop, graph, NULL, NULL, 0, &of));
    cudaGraph_t body = of.conditional.phGraph_out[0];
    void *arguments[] = {&x, &what, &n}, *counting[] = {&left, &handle};
    cudaGraphNodeParams kernel = {cudaGraphNodeTypeKernel};
    kernel.kernel = launch_of((void *)add, arguments);
    CHECK(cudaGraphAddNode(&added, body, NULL, NULL, 0, &kernel));
    kernel.kernel = launch_of((void *)count_down, counting);
    kernel.kernel.gridDim = kernel.kernel.blockDim = dim3(1);
    CHECK(cudaGraphAddNode(&counted, body, &added, NULL, 1, &kernel));
    cudaGraphExec_t ready;
    CHECK(cudaGraphInstantiate(&ready, graph, 0));
    CHECK(cudaGraphLaunch(ready, 0));
    CHECK(cudaDeviceSynchronize());
    EXPECT(*left == 0 && x[3] == 5);
    *left = 2; /* the condition is 1 again at a launch */
    CHECK(cudaGraphLaunch(ready, 0));
    CHECK(cudaDeviceSynchronize());
    EXPECT(*left == 0 && x[3] == 7);
    CHECK(cudaGraphExecDestroy(ready));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaFree(left));
    CHECK(cudaFree(x));
}

static void captures() {
    float *x, *y;
    CHECK(cudaMalloc(&x, 64));
    CHECK(cudaMalloc(&y, 64));
    cudaStream_t first, second;
    cudaEvent_t forked, joined, outside;
    CHECK(cudaStreamCreate(&first));
    CHECK(cudaStreamCreate(&second));
    CHECK(cudaEventCreate(&forked));
    CHECK(cudaEventCreate(&joined));
    CHECK(cudaEventCreate(&outside));
    CHECK(cudaEventRecord(outside, second));
    cudaGraph_t graph;
    for (int joins = 0; joins < 2; joins++) {
        CHECK(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal));
        CHECK(cudaMemsetAsync(x, 0, 64, first));
        CHECK(cudaEventRecord(forked, first));
        CHECK(cudaStreamWaitEvent(second, forked, 0));
        scale<<<1, 16, 0, first>>>(x, 2, 16);
        CHECK(cudaMemsetAsync(y, 0, 64, second));
        CHECK(cudaEventRecord(joined, second));
        if (joins)
            CHECK(cudaStreamWaitEvent(first, joined, 0));
        add<<<1, 16, 0, first>>>(x, 1, 16);
        cudaStreamCaptureStatus status;
        const cudaGraphNode_t *after;
        cudaGraph_t now;
        size_t count = 0;
        CHECK(cudaStreamGetCaptureInfo(first, &status, NULL, &now, &after, NULL, &count));
        EXPECT(status == cudaStreamCaptureStatusActive && count == 1);
        if (!joins) {
            EXPECT(cudaStreamEndCapture(first, &graph) == cudaErrorStreamCaptureUnjoined && !graph);
            cudaGetLastError();
            continue;
        }
        cudaGraphNodeType type;
        CHECK(cudaGraphNodeGetType(after[0], &type));
        EXPECT(type == cudaGraphNodeTypeKernel);
        CHECK(cudaGraphNodeGetDependencies(after[0], NULL, NULL, &count));
        EXPECT(count == 2); /* both branches */
        CHECK(cudaStreamEndCapture(first, &graph));
        cudaGraphNode_t roots[4];
        count = 4;
        CHECK(cudaGraphGetRootNodes(graph, roots, &count));
        CHECK(cudaGraphNodeGetType(roots[0], &type));
        cudaMemsetParams fill;
        CHECK(cudaGraphMemsetNodeGetParams(roots[0], &fill));
        EXPECT(count == 1 && type == cudaGraphNodeTypeMemset && fill.dst == x && fill.width == 64);
        CHECK(cudaGraphDestroy(graph));
    }
    /* Work outside of the capture cannot be waited for. */
    CHECK(cudaStreamBeginCapture(first, cudaStreamCaptureModeRelaxed));
    EXPECT(cudaStreamWaitEvent(first, outside, 0) == cudaErrorStreamCaptureIsolation);
    EXPECT(cudaStreamEndCapture(first, &graph) == cudaErrorStreamCaptureInvalidated);
    cudaGetLastError();
    /* Into a graph that is there. */
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaStreamBeginCaptureToGraph(first, graph, NULL, NULL, 0, cudaStreamCaptureModeGlobal));
    CHECK(cudaMemsetAsync(x, 0, 64, first));
    cudaGraph_t same;
    CHECK(cudaStreamEndCapture(first, &same));
    size_t count = 0;
    CHECK(cudaGraphGetNodes(graph, NULL, &count));
    EXPECT(same == graph && count == 1);
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(first));
    CHECK(cudaStreamDestroy(second));
    CHECK(cudaEventDestroy(forked));
    CHECK(cudaEventDestroy(joined));
    CHECK(cudaEventDestroy(outside));
    CHECK(cudaFree(x));
    CHECK(cudaFree(y));
}

static void objects() {
    int ended = 0;
    cudaUserObject_t object;
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaUserObjectCreate(&object, &ended, called, 1, cudaUserObjectNoDestructorSync));
    CHECK(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
    CHECK(cudaGraphInstantiate(&ready, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    EXPECT(ended == 0); /* the ready graph has it */
    CHECK(cudaGraphExecDestroy(ready));
    EXPECT(ended == 1);
}

int main() {
    nodes();
    variables_events_and_children();
    conditions();
    captures();
    objects();
    printf("ok\n");
}
