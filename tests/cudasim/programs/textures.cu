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
int main() {
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
