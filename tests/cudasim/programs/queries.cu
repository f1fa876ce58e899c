/* What programs ask the runtime about devices, kernels and streams; a kernel whose arguments may be left out.
 */
#include <builtin_types.h>
#include <cstdio>
#include <ctime>
#include <cuda_profiler_api.h>
#include <cuda_runtime.h>
#include <nvml.h>

#define EXPECT(what)                                                                                         \
    if (!(what))                                                                                             \
    printf("line %d: not %s\n", __LINE__, #what)

#if !defined(__DRIVER_TYPES_H__) || !defined(__CUDA_RUNTIME_H__)
#error "helper headers ask by these names whether the runtime is there"
#endif

__global__ void add(int *x, int value = 3, const int *more = NULL);
__global__ void add(int *x, int value, const int *more) {
    *x += value + (more ? *more : 0);
}

__global__ void put(int *x); /* nowhere defined */
__global__ void put(int *x, int value) {
    *x = value;
}
/* clock() is the GPU's, as clock64() is, and in host code the C library's. */
__global__ void ticks(int *ordered) {
    long long before = clock64(), between = clock(), after = clock64();
    *ordered = before <= between && between <= after;
}
static int attribute(cudaDeviceAttr which) {
    int value = -1;
    EXPECT(cudaDeviceGetAttribute(&value, which, 0) == cudaSuccess);
    return value;
}
static size_t bytes_of(int threads) {
    return threads * sizeof(double);
}

static void adds(void *pinned) {
    *(int *)pinned += 1; /* what the stream did before is done, although the host has not waited */
}

/* What NVML says of a card is what the runtime says. */
static void ask_nvml() {
    char bus[20], name[NVML_DEVICE_NAME_BUFFER_SIZE];
    cudaDeviceProp card;
    unsigned count = 0, clock = 0;
    nvmlDevice_t device;
    EXPECT(nvmlInit() == NVML_SUCCESS && nvmlDeviceGetCount(&count) == NVML_SUCCESS && count > 0);
    EXPECT(nvmlDeviceGetHandleByIndex(count, &device) == NVML_ERROR_INVALID_ARGUMENT);
    EXPECT(cudaGetDeviceProperties(&card, 0) == cudaSuccess);
    EXPECT(cudaDeviceGetPCIBusId(bus, sizeof bus, 0) == cudaSuccess);
    EXPECT(nvmlDeviceGetHandleByPciBusId(bus, &device) == NVML_SUCCESS);
    EXPECT(nvmlDeviceGetName(device, name, sizeof name) == NVML_SUCCESS && !strcmp(name, card.name));
    EXPECT(nvmlDeviceGetClockInfo(device, NVML_CLOCK_MEM, &clock) == NVML_SUCCESS);
    EXPECT(clock == (unsigned)attribute(cudaDevAttrMemoryClockRate) / 1000);
    EXPECT(nvmlDeviceGetClockInfo(device, NVML_CLOCK_VIDEO, &clock) == NVML_ERROR_NOT_SUPPORTED);
    EXPECT(nvmlShutdown() == NVML_SUCCESS);
}
int main() {
    ask_nvml();
    int *x, sum = 0, blocks, threads, device = -1;
    cudaMalloc(&x, sizeof *x);
    cudaMemset(x, 0, sizeof *x);
    add<<<1, 1>>>(x);
    add<<<1, 1>>>(x, 4);
    add<<<1, 1>>>(x, 4, x);
    cudaMemcpy(&sum, x, sizeof sum, cudaMemcpyDeviceToHost);
    EXPECT(sum == 18);

    put<<<1, 1>>>(x, 6);
    cudaMemcpy(&sum, x, sizeof sum, cudaMemcpyDeviceToHost);
    EXPECT(sum == 6);
    ticks<<<1, 1>>>(x);
    cudaMemcpy(&sum, x, sizeof sum, cudaMemcpyDeviceToHost);
    EXPECT(sum == 1);
    EXPECT(clock() / CLOCKS_PER_SEC < 3600);

    cudaDeviceProp properties;
    cudaGetDeviceProperties(&properties, 0);
    EXPECT(attribute(cudaDevAttrComputeMode) == cudaComputeModeDefault);
    EXPECT(attribute(cudaDevAttrMultiProcessorCount) == properties.multiProcessorCount);
    EXPECT(attribute(cudaDevAttrMaxBlockDimZ) == properties.maxThreadsDim[2]);
    EXPECT(attribute(cudaDevAttrWarpSize) == 32 && properties.warpSize == 32);
    EXPECT(attribute(cudaDevAttrMemoryPoolsSupported) == 1 && properties.maxTexture2DLayered[2] == 2048);
    EXPECT(cudaDeviceGetAttribute(&threads, (cudaDeviceAttr)3000, 0) == cudaErrorInvalidValue);
    char bus[32];
    cudaDeviceGetPCIBusId(bus, sizeof bus, 0);
    EXPECT(cudaDeviceGetByPCIBusId(&device, bus) == cudaSuccess && device == 0);

    cudaFuncAttributes of_kernel;
    EXPECT(cudaFuncGetAttributes(&of_kernel, add) == cudaSuccess && of_kernel.maxThreadsPerBlock == 1024);
    EXPECT(cudaOccupancyMaxPotentialBlockSizeVariableSMem(&blocks, &threads, add, bytes_of) == cudaSuccess);
    EXPECT(threads == 1024 && blocks == 2 * properties.multiProcessorCount);

    cudaStream_t stream;
    cudaStreamAttrValue window = {}, kept = {};
    cudaStreamCreate(&stream);
    window.accessPolicyWindow.num_bytes = 64;
    window.accessPolicyWindow.hitProp = cudaAccessPropertyPersisting;
    cudaStreamSetAttribute(stream, cudaStreamAttributeAccessPolicyWindow, &window);
    cudaStreamGetAttribute(stream, cudaStreamAttributeAccessPolicyWindow, &kept);
    EXPECT(kept.accessPolicyWindow.num_bytes == 64);
    int *pinned;
    cudaMallocHost(&pinned, sizeof *pinned);
    cudaMemcpyAsync(pinned, x, sizeof *x, cudaMemcpyDeviceToHost, stream);
    cudaLaunchHostFunc(stream, adds, pinned);
    cudaStreamSynchronize(stream);
    EXPECT(*pinned == 2);
    cudaFreeHost(pinned);
    cudaStreamDestroy(stream);
    cudaFree(x);
    EXPECT(cudaGetLastError() == cudaErrorInvalidValue); /* of the attribute that there is not */
    puts("ok");
}
