/* Memory pools, and memory that graphs allocate and free. */
#include <cstdint>
#include <cstdio>
#include <cuda_runtime.h>

#define EXPECT(what)                                                                                         \
    if (!(what))                                                                                             \
    printf("line %d: not %s\n", __LINE__, #what)

__global__ void fill(int *x, int value) {
    x[threadIdx.x] = value;
}
__global__ void add(int *y, const int *x) {
    y[threadIdx.x] += x[threadIdx.x];
}

enum { N = 32, BYTES = N * sizeof(int) };

static uint64_t used_by_graphs() {
    uint64_t bytes;
    cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &bytes);
    return bytes;
}

int main(int argc, char **argv) {
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaMemPool_t first, made;
    uint64_t threshold = UINT64_MAX, used = 0;
    cudaDeviceGetDefaultMemPool(&first, 0);
    EXPECT(cudaMemPoolSetAttribute(first, cudaMemPoolAttrReleaseThreshold, &threshold) == cudaSuccess);
    cudaMemPoolProps props = {};
    props.allocType = cudaMemAllocationTypePinned;
    props.location = {cudaMemLocationTypeDevice, 0};
    EXPECT(cudaMemPoolCreate(&made, &props) == cudaSuccess);
    props.handleTypes = cudaMemHandleTypePosixFileDescriptor; /* another process could open it */
    cudaMemPool_t shared;
    EXPECT(cudaMemPoolCreate(&shared, &props) == cudaErrorNotSupported);
    EXPECT(cudaGetLastError() == cudaErrorNotSupported);

    int *x, *y, result[N];
    cudaMallocAsync(&x, BYTES, stream);
    EXPECT(cudaMallocFromPoolAsync(&y, BYTES, made, stream) == cudaSuccess);
    cudaMemPoolGetAttribute(made, cudaMemPoolAttrUsedMemCurrent, &used);
    EXPECT(used == BYTES);

    /* Access to a pool is the pool's, and not that of its device. */
    int devices;
    cudaGetDeviceCount(&devices);
    if (devices > 1) {
        cudaSetDevice(1);
        cudaDeviceEnablePeerAccess(0, 0);
        cudaMemAccessDesc access = {{cudaMemLocationTypeDevice, 1}, cudaMemAccessFlagsProtReadWrite};
        if (argc == 1)
            EXPECT(cudaMemPoolSetAccess(made, &access, 1) == cudaSuccess);
        fill<<<1, N>>>(y, 3);
        EXPECT(cudaDeviceSynchronize() == (argc > 1 ? cudaErrorIllegalAddress : cudaSuccess));
        if (argc > 1)
            return 0;
        cudaSetDevice(0);
    }
    cudaFreeAsync(x, stream);
    cudaFreeAsync(y, stream);
    cudaMemPoolGetAttribute(made, cudaMemPoolAttrUsedMemCurrent, &used);
    EXPECT(used == 0);
    cudaMemPoolDestroy(made);

    /* The graph has its memory from one node to another, at the same address in every launch. */
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    cudaGraphNode_t allocates, fills, copies, frees;
    cudaMemAllocNodeParams node = {};
    props.handleTypes = cudaMemHandleTypeNone;
    node.poolProps = props;
    node.bytesize = BYTES;
    cudaGraphCreate(&graph, 0);
    EXPECT(cudaGraphAddMemAllocNode(&allocates, graph, NULL, 0, &node) == cudaSuccess);
    int value = 7;
    void *arguments[] = {&node.dptr, &value};
    cudaKernelNodeParams kernel = {};
    kernel.func = (void *)fill, kernel.gridDim = dim3(1), kernel.blockDim = dim3(N);
    kernel.kernelParams = arguments;
    cudaGraphAddKernelNode(&fills, graph, &allocates, 1, &kernel);
    cudaGraphAddMemcpyNode1D(&copies, graph, &fills, 1, result, node.dptr, BYTES, cudaMemcpyDeviceToHost);
    cudaGraphAddMemFreeNode(&frees, graph, &copies, 1, node.dptr);
    cudaGraphInstantiate(&ready, graph, 0);
    for (int i = 0; i < 2; i++) {
        result[3] = 0;
        EXPECT(cudaGraphLaunch(ready, stream) == cudaSuccess);
        cudaStreamSynchronize(stream);
        EXPECT(result[3] == 7 && used_by_graphs() == 0);
    }
    cudaGraphExecDestroy(ready);
    cudaGraphDestroy(graph);

    /* What a captured stream allocates and does not free is the program's, to be freed before the next
     * launch. */
    int *kept;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    cudaMallocAsync(&kept, BYTES, stream);
    fill<<<1, N, 0, stream>>>(kept, 5);
    cudaStreamEndCapture(stream, &graph);
    cudaGraphInstantiate(&ready, graph, 0);
    EXPECT(used_by_graphs() == 0);
    EXPECT(cudaGraphLaunch(ready, stream) == cudaSuccess && used_by_graphs() == BYTES);
    add<<<1, N, 0, stream>>>(kept, kept);
    cudaMemcpyAsync(result, kept, BYTES, cudaMemcpyDeviceToHost, stream);
    cudaStreamSynchronize(stream);
    EXPECT(result[0] == 10);
    EXPECT(cudaGraphLaunch(ready, stream) == cudaErrorInvalidValue);
    cudaFreeAsync(kept, stream);
    EXPECT(cudaGraphLaunch(ready, stream) == cudaSuccess);
    cudaGraphExecDestroy(ready);
    cudaGraphInstantiate(&ready, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch);
    EXPECT(cudaGraphLaunch(ready, stream) == cudaSuccess && cudaGraphLaunch(ready, stream) == cudaSuccess);
    EXPECT(used_by_graphs() == BYTES);
    cudaFree(kept);
    cudaStreamDestroy(stream);
    puts("ok");
}
