__global__ void warp_maxima(float *largest, const float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = i < n ? x[i] : -INFINITY;
    for (int distance = 16; distance > 0; distance /= 2)
        v = fmaxf(v, __shfl_down_sync(0xffffffff, v, distance));
    if (threadIdx.x % 32 == 0 && i < n)
        largest[i / 32] = v;
}
