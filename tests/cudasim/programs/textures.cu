/* Textures and surfaces on arrays, objects and references: right if it says ok. */
#include <cstdio>
#include <cmath>
#include <cuda_runtime.h>
texture<unsigned char, 2, cudaReadModeNormalizedFloat> old;
texture<float, 1> line;
__global__ void turn(float *y, cudaTextureObject_t t, int w, int h, float theta) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || r >= h)
        return;
    float u = (x + 0.5f) / w - 0.5f, v = (r + 0.5f) / h - 0.5f;
    y[r * w + x] =
        tex2D<float>(t, u * cosf(theta) - v * sinf(theta) + 0.5f, v * cosf(theta) + u * sinf(theta) + 0.5f);
}
__global__ void write(cudaSurfaceObject_t s, int w, int h) {
    int x = threadIdx.x, y = blockIdx.x;
    surf2Dwrite((float)(x + y * w), s, x * sizeof(float), y);
}
__global__ void olds(float *y, int w) {
    y[threadIdx.x + w * blockIdx.x] = tex2D(old, threadIdx.x, blockIdx.x) + tex1Dfetch(line, threadIdx.x);
}
/* A direction through the middle of texel (s, t) of a face, by the table in CUDA's guide. */
__device__ float3 direction(int face, float s, float t) {
    switch (face) {
    case 0:
        return make_float3(1, -t, -s);
    case 1:
        return make_float3(-1, -t, s);
    case 2:
        return make_float3(s, 1, t);
    case 3:
        return make_float3(s, -1, -t);
    case 4:
        return make_float3(s, -t, 1);
    default:
        return make_float3(-s, -t, -1);
    }
}
__global__ void faces(float *y, cudaTextureObject_t t, cudaTextureObject_t layered, int w) {
    int x = threadIdx.x, r = threadIdx.y, face = threadIdx.z;
    float3 d = direction(face, (x + 0.5f) / w * 2 - 1, (r + 0.5f) / w * 2 - 1);
    int i = (face * w + r) * w + x;
    y[i] = texCubemap<float>(t, d.x, d.y, d.z) + 1000 * texCubemapLayered<float>(layered, d.x, d.y, d.z, 1);
}
static bool cubes_are_wrong() {
    const int w = 4, n = w * w * 6;
    float host[2 * n], *y;
    for (int i = 0; i < 2 * n; i++)
        host[i] = i;
    cudaTextureObject_t t[2];
    cudaArray_t a[2];
    cudaChannelFormatDesc d = cudaCreateChannelDesc<float>();
    if (cudaMalloc3DArray(a, &d, make_cudaExtent(w, w, 5), cudaArrayCubemap) != cudaErrorInvalidValue)
        return true;
    for (int i = 0; i < 2; i++) {
        unsigned flags = i ? cudaArrayCubemap | cudaArrayLayered : cudaArrayCubemap;
        cudaMalloc3DArray(&a[i], &d, make_cudaExtent(w, w, i ? 12 : 6), flags);
        cudaMemcpy3DParms copy = {};
        copy.srcPtr = make_cudaPitchedPtr(host, w * sizeof(float), w, w);
        copy.dstArray = a[i];
        copy.extent = make_cudaExtent(w, w, i ? 12 : 6);
        copy.kind = cudaMemcpyHostToDevice;
        cudaMemcpy3D(&copy);
        cudaResourceDesc r = {};
        r.resType = cudaResourceTypeArray;
        r.res.array.array = a[i];
        cudaTextureDesc td = {};
        td.normalizedCoords = 1;
        td.filterMode = cudaFilterModeLinear;
        cudaCreateTextureObject(&t[i], &r, &td, NULL);
    }
    cudaMalloc(&y, n * sizeof(float));
    faces<<<1, dim3(w, w, 6)>>>(y, t[0], t[1], w);
    cudaMemcpy(host, y, n * sizeof(float), cudaMemcpyDeviceToHost);
    bool are_wrong = false;
    for (int i = 0; i < n; i++)
        are_wrong |= fabsf(host[i] - (i + 1000.0f * (n + i))) > 1;
    for (int i = 0; i < 2; i++)
        cudaDestroyTextureObject(t[i]), cudaFreeArray(a[i]);
    cudaFree(y);
    return are_wrong || cudaGetLastError() != cudaErrorInvalidValue;
}
int main() {
    if (cubes_are_wrong())
        return 4;
    const int w = 32, h = 8;
    cudaChannelFormatDesc d = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
    cudaArray_t a;
    cudaMallocArray(&a, &d, w, h, cudaArraySurfaceLoadStore);
    cudaResourceDesc r;
    memset(&r, 0, sizeof r);
    r.resType = cudaResourceTypeArray;
    r.res.array.array = a;
    cudaSurfaceObject_t s;
    cudaCreateSurfaceObject(&s, &r);
    write<<<h, w>>>(s, w, h);
    float host[w * h];
    cudaMemcpy2DFromArray(host, w * 4, a, 0, 0, w * 4, h, cudaMemcpyDeviceToHost);
    for (int i = 0; i < w * h; i++)
        if (host[i] != i)
            return 1;
    cudaTextureDesc td;
    memset(&td, 0, sizeof td);
    td.addressMode[0] = td.addressMode[1] = cudaAddressModeWrap;
    td.filterMode = cudaFilterModeLinear;
    td.normalizedCoords = 1;
    cudaTextureObject_t t;
    cudaCreateTextureObject(&t, &r, &td, NULL);
    float *y;
    cudaMalloc(&y, sizeof host);
    turn<<<dim3(4, 1), dim3(8, 8)>>>(y, t, w, h, 0.0f);
    cudaMemcpy(host, y, sizeof host, cudaMemcpyDeviceToHost);
    for (int i = 0; i < w * h; i++)
        if (fabsf(host[i] - i) > 1e-3) {
            printf("%d %f\n", i, host[i]);
            return 2;
        }
    unsigned char b[w * h];
    for (int i = 0; i < w * h; i++)
        b[i] = i;
    float l[w];
    for (int i = 0; i < w; i++)
        l[i] = i;
    cudaArray *ba;
    cudaChannelFormatDesc bd = cudaCreateChannelDesc<unsigned char>();
    cudaMallocArray(&ba, &bd, w, h);
    cudaMemcpyToArray(ba, 0, 0, b, sizeof b, cudaMemcpyHostToDevice);
    float *dl;
    cudaMalloc(&dl, sizeof l);
    cudaMemcpy(dl, l, sizeof l, cudaMemcpyHostToDevice);
    cudaBindTextureToArray(old, ba, bd);
    cudaBindTexture(0, line, dl, sizeof l);
    olds<<<h, w>>>(y, w);
    cudaMemcpy(host, y, sizeof host, cudaMemcpyDeviceToHost);
    for (int i = 0; i < w * h; i++)
        if (fabsf(host[i] - ((i % 256) / 255.0f + i % w)) > 1e-5) {
            printf("%d %f\n", i, host[i]);
            return 3;
        }
    cudaUnbindTexture(old);
    cudaUnbindTexture(line);
    cudaDestroyTextureObject(t);
    cudaDestroySurfaceObject(s);
    cudaFreeArray(a);
    cudaFreeArray(ba);
    cudaFree(y);
    cudaFree(dl);
    if (cudaDeviceSynchronize() == cudaSuccess)
        printf("ok\n");
}
