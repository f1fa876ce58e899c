/* Calls and names that few programs use: a capture that is spoilt, what a stream was made with, copies
 * between arrays, a gathering read, shared memory and parameters by the name that the simulator's own header
 * has. */
#include "check.h"
#include <cuda_runtime.h>

#define EXPECT(what)                                                                                         \
    if (!(what))                                                                                             \
    printf("line %d: not %s\n", __LINE__, #what)

__global__ void fill(int *dynamic_shared, int n) {
    dynamic_shared[threadIdx.x] = n;
}
__global__ void reverse(double *y) {
    extern __shared__ double dynamic_shared[];
    dynamic_shared[threadIdx.x] = threadIdx.x;
    __syncthreads();
    y[threadIdx.x] = dynamic_shared[blockDim.x - 1 - threadIdx.x];
}
__global__ void gather(cudaTextureObject_t texture, float *y) {
    float4 four = tex2Dgather<float4>(texture, 1.0f, 1.0f);
    y[0] = four.x, y[1] = four.y, y[2] = four.z, y[3] = four.w;
}

static void shared_memory() {
    int *x;
    double *y;
    CHECK(cudaMallocManaged(&x, 32 * sizeof *x));
    CHECK(cudaMallocManaged(&y, 32 * sizeof *y));
    fill<<<1, 32>>>(x, 7);
    reverse<<<1, 32, 32 * sizeof(double)>>>(y);
    CHECK(cudaDeviceSynchronize());
    EXPECT(x[31] == 7 && y[0] == 31 && y[31] == 0);
    CHECK(cudaFree(x));
    CHECK(cudaFree(y));
}

static void streams() {
    int *x, priority;
    unsigned flags;
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaStreamCaptureStatus status;
    CHECK(cudaMalloc(&x, 32 * sizeof *x));
    CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, -100));
    CHECK(cudaStreamGetFlags(stream, &flags));
    CHECK(cudaStreamGetPriority(stream, &priority));
    EXPECT(flags == cudaStreamNonBlocking && priority == -5);
    CHECK(cudaStreamGetPriority(0, &priority));
    EXPECT(priority == 0);
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    fill<<<1, 32, 0, stream>>>(x, 1);
    EXPECT(cudaStreamSynchronize(stream) == cudaErrorStreamCaptureUnsupported);
    CHECK(cudaStreamIsCapturing(stream, &status));
    EXPECT(status == cudaStreamCaptureStatusInvalidated);
    EXPECT(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated && graph == NULL);
    cudaGetLastError();
    fill<<<1, 32, 0, stream>>>(x, 2);
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(x));
}

static void arrays() {
    float x[8] = {0, 1, 2, 3, 4, 5, 6, 7}, back[8], *y;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    cudaArray_t first, second;
    CHECK(cudaMallocArray(&first, &format, 4, 2, cudaArrayTextureGather));
    CHECK(cudaMallocArray(&second, &format, 4, 2, cudaArrayTextureGather));
    CHECK(cudaMemcpy2DToArray(first, 0, 0, x, 16, 16, 2, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy2DArrayToArray(second, 0, 0, first, 0, 0, 16, 2));
    CHECK(cudaMemcpy2DFromArray(back, 16, second, 0, 0, 16, 2, cudaMemcpyDeviceToHost));
    EXPECT(back[0] == 0 && back[7] == 7);
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = second;
    cudaTextureDesc how = {};
    cudaTextureObject_t texture;
    CHECK(cudaCreateTextureObject(&texture, &resource, &how, NULL));
    CHECK(cudaMallocManaged(&y, 4 * sizeof *y));
    gather<<<1, 1>>>(texture, y);
    CHECK(cudaDeviceSynchronize());
    EXPECT(y[0] == 4 && y[1] == 5 && y[2] == 1 && y[3] == 0); /* from below left, anticlockwise */
    CHECK(cudaDestroyTextureObject(texture));
    CHECK(cudaFree(y));
    CHECK(cudaFreeArray(first));
    CHECK(cudaFreeArray(second));

    unsigned char planes[32];
    cudaExtent extent = make_cudaExtent(8, 2, 2);
    cudaPitchedPtr pitched;
    cudaMemcpy3DParms copy = {};
    CHECK(cudaMalloc3D(&pitched, extent));
    CHECK(cudaMemset3D(pitched, 9, extent));
    copy.srcPtr = pitched;
    copy.dstPtr = make_cudaPitchedPtr(planes, 8, 8, 2);
    copy.extent = extent;
    copy.kind = cudaMemcpyDeviceToHost;
    CHECK(cudaMemcpy3D(&copy));
    EXPECT(planes[0] == 9 && planes[31] == 9);
    CHECK(cudaFree(pitched.ptr));
}

int main() {
    shared_memory();
    streams();
    arrays();
    printf("ok\n");
}
