__global__ void grid_sum(float *total, const float *x, int n) {
    __shared__ float of_warp[8];
    int thread = threadIdx.x;
    float share = 0.0f;
    for (int i = blockIdx.x * blockDim.x + thread; i < n; i += gridDim.x * blockDim.x)
        share += x[i];
    for (int d = 16; d > 0; d /= 2)
        share += __shfl_down_sync(0xffffffff, share, d);
    if (thread % 32 == 0)
        of_warp[thread / 32] = share;
    __syncthreads();
    if (thread < 32) {
        share = thread < 8 ? of_warp[thread] : 0.0f;
        for (int d = 4; d > 0; d /= 2)
            share += __shfl_down_sync(0xffffffff, share, d);
        if (thread == 0)
            atomicAdd(total, share);
    }
}
