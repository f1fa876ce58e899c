/* Mipmaps, batches of copies, copies between devices, hints for managed memory, handles of kernels, entry
 * points, and what objects were made with: right if it says ok. */
#include "check.h"
#include <cuda_runtime.h>
#include <string.h>

#define EXPECT(what)                                                                                         \
    if (!(what))                                                                                             \
    printf("line %d: not %s\n", __LINE__, #what)
#define REFUSED(call, error) EXPECT((call) == error && cudaGetLastError() == error)

__managed__ int of_program[4];
__global__ void read_levels(cudaTextureObject_t texture, float *y) {
    y[0] = tex2D<float>(texture, 0.1f, 0.1f);
    y[1] = tex2DLod<float>(texture, 0.1f, 0.1f, 0.0f);
    y[2] = tex2DLod<float>(texture, 0.1f, 0.1f, 1.0f);
    y[3] = tex2DLod<float>(texture, 0.1f, 0.1f, 0.25f);
    y[4] = tex2DLod<float>(texture, 0.1f, 0.1f, 9.0f);
}
__global__ void store(char first, double *y, short third, double value) {
    *y = value + first + third;
}

static void mipmaps() {
    cudaMipmappedArray_t all;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    CHECK(cudaMallocMipmappedArray(&all, &format, make_cudaExtent(4, 2, 0), 9));
    cudaArray_t level;
    cudaExtent extent;
    for (unsigned i = 0; i < 3; i++) {
        CHECK(cudaGetMipmappedArrayLevel(&level, all, i));
        CHECK(cudaArrayGetInfo(NULL, &extent, NULL, level));
        EXPECT(extent.width == 4u >> i && extent.height == (i ? 1u : 2u));
        float values[8];
        for (int j = 0; j < 8; j++)
            values[j] = 10.0f * i;
        CHECK(cudaMemcpy2DToArray(level, 0, 0, values, extent.width * sizeof(float),
                                  extent.width * sizeof(float), extent.height, cudaMemcpyHostToDevice));
    }
    REFUSED(cudaGetMipmappedArrayLevel(&level, all, 3), cudaErrorInvalidValue);
    cudaResourceDesc resource = {}, asked;
    resource.resType = cudaResourceTypeMipmappedArray;
    resource.res.mipmap.mipmap = all;
    cudaTextureDesc how = {}, asked_how;
    cudaTextureObject_t texture;
    how.maxMipmapLevelClamp = 2;
    how.mipmapFilterMode = cudaFilterModeLinear;
    REFUSED(cudaCreateTextureObject(&texture, &resource, &how, NULL), cudaErrorInvalidValue);
    how.normalizedCoords = 1;
    CHECK(cudaCreateTextureObject(&texture, &resource, &how, NULL));
    CHECK(cudaGetTextureObjectResourceDesc(&asked, texture));
    CHECK(cudaGetTextureObjectTextureDesc(&asked_how, texture));
    EXPECT(asked.res.mipmap.mipmap == all && asked_how.maxMipmapLevelClamp == 2);
    float *y;
    CHECK(cudaMallocManaged(&y, 5 * sizeof *y));
    read_levels<<<1, 1>>>(texture, y);
    CHECK(cudaDeviceSynchronize());
    EXPECT(y[0] == 0 && y[1] == 0 && y[2] == 10 && y[3] == 2.5f && y[4] == 20);
    CHECK(cudaDestroyTextureObject(texture));
    REFUSED(cudaGetTextureObjectTextureDesc(&asked_how, texture), cudaErrorInvalidValue);
    CHECK(cudaFreeMipmappedArray(all));
    CHECK(cudaFree(y));
}

static void batches() {
    int a[4] = {1, 2, 3, 4}, b[4] = {5, 6, 7, 8}, back[8] = {0}, *x, *y;
    CHECK(cudaMalloc(&x, sizeof a));
    CHECK(cudaMalloc(&y, sizeof b));
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    void *to[] = {x, y}, *from[] = {a, b}, *backs[] = {back, back + 4};
    size_t bytes[] = {sizeof a, sizeof b}, begins[] = {0};
    cudaMemcpyAttributes of = {};
    of.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    CHECK(cudaMemcpyBatchAsync(to, from, bytes, 2, &of, begins, 1, stream));
    CHECK(cudaMemcpyBatchAsync(backs, to, bytes, 2, of, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(back[0] == 1 && back[7] == 8);
    REFUSED(cudaMemcpyBatchAsync(to, from, bytes, 2, of, (cudaStream_t)0), cudaErrorInvalidValue);
    cudaMemcpy3DBatchOp plane = {};
    plane.src.type = plane.dst.type = cudaMemcpyOperandTypePointer;
    plane.src.op.ptr.ptr = y, plane.dst.op.ptr.ptr = x;
    plane.extent = make_cudaExtent(8, 2, 1);
    CHECK(cudaMemcpy3DBatchAsync(1, &plane, 0, stream));
    CHECK(cudaMemcpy(back, x, sizeof a, cudaMemcpyDeviceToHost));
    EXPECT(back[0] == 5 && back[3] == 8);
    cudaMemcpy3DPeerParms peer = {};
    peer.srcPtr = make_cudaPitchedPtr(x, 8, 8, 2), peer.dstPtr = make_cudaPitchedPtr(y, 8, 8, 2);
    peer.extent = make_cudaExtent(8, 1, 1);
    CHECK(cudaMemcpy3DPeer(&peer));
    peer.srcDevice = 1;
    REFUSED(cudaMemcpy3DPeer(&peer), cudaErrorInvalidValue);
    unsigned long long first, second;
    CHECK(cudaStreamGetId(stream, &first));
    CHECK(cudaStreamGetId(0, &second));
    EXPECT(first != second);
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(x));
    CHECK(cudaFree(y));
}

static void hints() {
    char *x, *device;
    int place = 7, flag = 7, users[2];
    CHECK(cudaMallocManaged(&x, 3 << 12));
    CHECK(cudaMalloc(&device, 64));
    CHECK(cudaMemRangeGetAttribute(&place, sizeof place, cudaMemRangeAttributePreferredLocation, x, 3 << 12));
    EXPECT(place == cudaInvalidDeviceId);
    CHECK(cudaMemAdvise(x, 3 << 12, cudaMemAdviseSetPreferredLocation, cudaCpuDeviceId));
    CHECK(cudaMemAdvise(x, 1 << 12, cudaMemAdviseSetReadMostly, 0));
    CHECK(cudaMemAdvise(x, 3 << 12, cudaMemAdviseSetAccessedBy, 0));
    CHECK(cudaMemPrefetchAsync(x, 3 << 12, 0, 0));
    CHECK(cudaMemRangeGetAttribute(&place, sizeof place, cudaMemRangeAttributePreferredLocation, x, 3 << 12));
    EXPECT(place == cudaCpuDeviceId);
    CHECK(cudaMemRangeGetAttribute(&flag, sizeof flag, cudaMemRangeAttributeReadMostly, x, 3 << 12));
    EXPECT(flag == 0); /* of a part alone */
    CHECK(cudaMemRangeGetAttribute(&flag, sizeof flag, cudaMemRangeAttributeReadMostly, x, 100));
    EXPECT(flag == 1);
    void *to[] = {&place, users};
    size_t rooms[] = {sizeof place, sizeof users};
    cudaMemRangeAttribute which[] = {cudaMemRangeAttributeLastPrefetchLocation,
                                     cudaMemRangeAttributeAccessedBy};
    CHECK(cudaMemRangeGetAttributes(to, rooms, which, 2, x, 3 << 12));
    EXPECT(place == 0 && users[0] == 0 && users[1] == cudaInvalidDeviceId);
    CHECK(cudaMemPrefetchAsync(of_program, sizeof of_program, 0, 0));
    REFUSED(cudaMemPrefetchAsync(&place, sizeof place, 0, 0), cudaErrorInvalidValue);
    REFUSED(cudaMemAdvise(device, 64, cudaMemAdviseSetReadMostly, 0), cudaErrorInvalidValue);
    REFUSED(cudaMemPrefetchAsync(x, 64, 99, 0), cudaErrorInvalidDevice);
    int *pinned;
    unsigned flags;
    CHECK(cudaHostAlloc(&pinned, 64, cudaHostAllocMapped));
    CHECK(cudaHostGetFlags(&flags, pinned));
    EXPECT(flags == cudaHostAllocMapped);
    REFUSED(cudaHostGetFlags(&flags, &place), cudaErrorInvalidValue);
    cudaMemLocation here = {cudaMemLocationTypeDevice, 0};
    cudaMemPool_t pool, same;
    CHECK(cudaMemGetDefaultMemPool(&pool, &here, cudaMemAllocationTypePinned));
    CHECK(cudaDeviceGetDefaultMemPool(&same, 0));
    EXPECT(pool == same);
    CHECK(cudaFreeHost(pinned));
    CHECK(cudaFree(device));
    CHECK(cudaFree(x));
}

static void kernels() {
    double *y, value = 0.5;
    char first = 1;
    short third = 2;
    CHECK(cudaMallocManaged(&y, sizeof *y));
    size_t offset, bytes;
    CHECK(cudaFuncGetParamInfo((const void *)store, 2, &offset, &bytes));
    EXPECT(offset == 16 && bytes == 2);
    CHECK(cudaFuncGetParamInfo((const void *)store, 3, &offset, &bytes));
    EXPECT(offset == 24 && bytes == 8);
    REFUSED(cudaFuncGetParamInfo((const void *)store, 4, &offset, &bytes), cudaErrorInvalidValue);
    cudaKernel_t kernel;
    CHECK(cudaGetKernel(&kernel, (const void *)store));
    void *arguments[] = {&first, &y, &third, &value};
    cudaLaunchConfig_t config = {};
    config.gridDim = config.blockDim = dim3(1);
    CHECK(cudaLaunchKernelExC(&config, (const void *)kernel, arguments));
    CHECK(cudaDeviceSynchronize());
    EXPECT(*y == 3.5);
    int blocks;
    CHECK(cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, store, 2, 256));
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, store, 256, bytes));
    EXPECT(blocks == 2);
    void *entry = &blocks;
    cudaDriverEntryPointQueryResult found;
    CHECK(cudaGetDriverEntryPoint("cuMemAlloc", &entry, cudaEnableDefault, &found));
    EXPECT(!entry && found == cudaDriverEntryPointSymbolNotFound);
    CHECK(cudaFree(y));
}

int main() {
    mipmaps();
    batches();
    hints();
    kernels();
    printf("ok\n");
}
