__global__ void grid_sum(float *total, const float *x, int n) {
    __shared__ float partial[256];
    int thread = threadIdx.x;
    float share = 0.0f;
    for (int i = blockIdx.x * blockDim.x + thread; i < n; i += gridDim.x * blockDim.x)
        share += x[i];
    partial[thread] = share;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (thread < half)
            partial[thread] += partial[thread + half];
        __syncthreads();
    }
    if (thread == 0)
        atomicAdd(total, partial[0]);
}
