/* Graphs: captured from two streams, made node by node, updated: right if it says ok. */
#include <cstdio>
#include <cuda_runtime.h>

__global__ void scale(float *x, float by, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] *= by;
}
__global__ void add(float *x, const float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] += y[i];
}
static void count(void *data) {
    ++*(int *)data;
}
#define TRY(call)                                                                                            \
    if (cudaError_t error = call) {                                                                          \
        printf("%s: %s\n", #call, cudaGetErrorString(error));                                                \
        return 1;                                                                                            \
    }

int main() {
    const int n = 100;
    float host[n], back[n], *x, *y;
    int called = 0;
    for (int i = 0; i < n; i++)
        host[i] = i;
    TRY(cudaMalloc(&x, sizeof host));
    TRY(cudaMalloc(&y, sizeof host));
    cudaStream_t first, second;
    cudaEvent_t forked, joined;
    TRY(cudaStreamCreate(&first));
    TRY(cudaStreamCreate(&second));
    TRY(cudaEventCreate(&forked));
    TRY(cudaEventCreate(&joined));

    cudaGraph_t graph;
    cudaGraphExec_t ready;
    TRY(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal));
    TRY(cudaMemcpyAsync(x, host, sizeof host, cudaMemcpyHostToDevice, first));
    TRY(cudaEventRecord(forked, first));
    TRY(cudaStreamWaitEvent(second, forked, 0));
    TRY(cudaMemsetAsync(y, 0, sizeof host, second));
    add<<<4, 32, 0, second>>>(y, x, n);
    scale<<<4, 32, 0, second>>>(y, 10.0f, n);
    TRY(cudaEventRecord(joined, second));
    TRY(cudaStreamWaitEvent(first, joined, 0));
    add<<<4, 32, 0, first>>>(x, y, n);
    TRY(cudaLaunchHostFunc(first, count, &called));
    TRY(cudaMemcpyAsync(back, x, sizeof back, cudaMemcpyDeviceToHost, first));
    TRY(cudaStreamEndCapture(first, &graph));
    if (cudaEventQuery(joined) != cudaErrorCapturedEvent || cudaGetLastError() != cudaErrorCapturedEvent)
        return 3; // an event of a capture is never recorded itself
    if (called != 0)
        return 2;
    TRY(cudaGraphInstantiate(&ready, graph, NULL, NULL, 0));
    size_t nodes = 0;
    TRY(cudaGraphGetNodes(graph, NULL, &nodes));
    for (int times = 1; times <= 3; times++) {
        host[5] = times;
        TRY(cudaGraphLaunch(ready, first));
        TRY(cudaStreamSynchronize(first));
        if (called != times || back[5] != 11.0f * times || back[7] != 77.0f)
            return 3;
    }
    TRY(cudaGraphExecDestroy(ready));
    TRY(cudaGraphDestroy(graph));
    if (nodes != 7)
        return 4;

    cudaGraphNode_t copied, scaled, returned;
    float by = 3.0f;
    int size = n;
    void *arguments[] = {&x, &by, &size};
    cudaKernelNodeParams kernel = {};
    kernel.func = (void *)scale;
    kernel.gridDim = dim3(4), kernel.blockDim = dim3(32);
    kernel.kernelParams = arguments;
    TRY(cudaGraphCreate(&graph, 0));
    TRY(cudaGraphAddMemcpyNode1D(&returned, graph, NULL, 0, back, x, sizeof back, cudaMemcpyDeviceToHost));
    TRY(cudaGraphAddMemcpyNode1D(&copied, graph, NULL, 0, x, host, sizeof host, cudaMemcpyHostToDevice));
    TRY(cudaGraphAddKernelNode(&scaled, graph, &copied, 1, &kernel));
    TRY(cudaGraphAddDependencies(graph, &scaled, &returned, 1)); /* it was added first, and runs last */
    TRY(cudaGraphInstantiate(&ready, graph, 0));
    by = 1e9f; /* the arguments were those when the node was added */
    TRY(cudaGraphLaunch(ready, first));
    TRY(cudaStreamSynchronize(first));
    if (back[7] != 21.0f)
        return 5;
    by = 5.0f;
    TRY(cudaGraphExecKernelNodeSetParams(ready, scaled, &kernel));
    TRY(cudaGraphLaunch(ready, first));
    TRY(cudaStreamSynchronize(first));
    if (back[7] != 35.0f)
        return 6;
    TRY(cudaGraphExecDestroy(ready));
    TRY(cudaGraphDestroy(graph));
    TRY(cudaEventDestroy(forked));
    TRY(cudaEventDestroy(joined));
    TRY(cudaStreamDestroy(first));
    TRY(cudaStreamDestroy(second));
    TRY(cudaFree(x));
    TRY(cudaFree(y));
    printf("ok\n");
}
