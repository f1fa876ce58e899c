/* Several devices: memory, variables, streams and copies of each, and access to each other's memory. */
#include <cstdio>
#include <cuda_runtime.h>

#define EXPECT(what)                                                                                         \
    if (!(what))                                                                                             \
    printf("line %d: not %s\n", __LINE__, #what)

__device__ int counter = 3;
__constant__ int factor = 1;

__global__ void fill(int *x, int value) {
    x[threadIdx.x] = value * factor + (int)threadIdx.x;
}
__global__ void add(int *y, const int *x) {
    y[threadIdx.x] += x[threadIdx.x];
    if (threadIdx.x == 0) {
        int device;
        cudaGetDevice(&device);
        counter += device == 0 ? 1 : 100;
    }
}

enum { N = 32, BYTES = N * sizeof(int) };

int main(int argc, char **argv) {
    int count, device, *of[2], can;
    EXPECT(cudaGetDeviceCount(&count) == cudaSuccess && count == 2);
    EXPECT(cudaSetDevice(2) == cudaErrorInvalidDevice);
    for (int i = 0; i < 2; i++) {
        int two = i + 1;
        cudaSetDevice(i);
        cudaMalloc(&of[i], BYTES);
        cudaMemcpyToSymbol(factor, &two, sizeof two);
    }
    EXPECT(cudaGetDevice(&device) == cudaSuccess && device == 1);

    /* Each device has its own values of the variables. */
    int y[N], counted;
    for (int i = 0; i < 2; i++) {
        cudaSetDevice(i);
        fill<<<1, N>>>(of[i], 10);
    }
    cudaMemcpy(y, of[0], BYTES, cudaMemcpyDeviceToHost);
    EXPECT(y[0] == 10 && y[5] == 15);
    cudaMemcpy(y, of[1], BYTES, cudaMemcpyDeviceToHost);
    EXPECT(y[0] == 20 && y[5] == 25);
    cudaSetDevice(0);
    add<<<1, N>>>(of[0], of[0]);
    cudaMemcpyFromSymbol(&counted, counter, sizeof counted);
    EXPECT(counted == 4);
    cudaSetDevice(1);
    cudaMemcpyFromSymbol(&counted, counter, sizeof counted);
    EXPECT(counted == 3);

    /* Copies need no access to the other's memory, kernels do. */
    EXPECT(cudaMemcpyPeer(of[0], 1, of[1], 0, BYTES) == cudaErrorInvalidValue); /* the devices are swapped */
    EXPECT(cudaMemcpyPeer(of[0], 0, of[1], 1, BYTES) == cudaSuccess);
    cudaMemcpy(y, of[0], BYTES, cudaMemcpyDefault);
    EXPECT(y[5] == 25);
    cudaDeviceCanAccessPeer(&can, 1, 0);
    EXPECT(can == 1);
    cudaDeviceCanAccessPeer(&can, 1, 1);
    EXPECT(can == 0);
    EXPECT(cudaDeviceDisablePeerAccess(0) == cudaErrorPeerAccessNotEnabled);
    EXPECT(cudaDeviceEnablePeerAccess(1, 0) == cudaErrorInvalidDevice);
    EXPECT(cudaDeviceEnablePeerAccess(0, 0) == cudaSuccess);
    EXPECT(cudaDeviceEnablePeerAccess(0, 0) == cudaErrorPeerAccessAlreadyEnabled);
    add<<<1, N>>>(of[1], of[0]);
    EXPECT(cudaDeviceSynchronize() == cudaSuccess);
    cudaMemcpy(y, of[1], BYTES, cudaMemcpyDeviceToHost);
    EXPECT(y[5] == 50);
    cudaMemcpyFromSymbol(&counted, counter, sizeof counted);
    EXPECT(counted == 103);

    /* A stream and an event are of the device that was the current one. */
    cudaStream_t stream;
    cudaEvent_t event;
    cudaStreamCreate(&stream);
    cudaEventCreate(&event);
    cudaSetDevice(0);
    fill<<<1, N, 0, stream>>>(of[0], 1);
    EXPECT(cudaGetLastError() == cudaErrorInvalidResourceHandle);
    EXPECT(cudaEventRecord(event, 0) == cudaErrorInvalidResourceHandle);
    EXPECT(cudaEventRecord(event, stream) == cudaSuccess);
    cudaPointerAttributes attributes;
    cudaPointerGetAttributes(&attributes, of[1]);
    EXPECT(attributes.device == 1);

    if (argc > 1) /* device 0 may not, whatever device 1 may */
        add<<<1, N>>>(of[0], of[1]);
    EXPECT(cudaDeviceSynchronize() == (argc > 1 ? cudaErrorIllegalAddress : cudaSuccess));
    cudaStreamDestroy(stream);
    cudaEventDestroy(event);
    for (int *memory : of)
        cudaFree(memory);
    puts("ok");
}
