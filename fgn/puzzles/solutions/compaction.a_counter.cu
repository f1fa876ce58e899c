__global__ void keep_positive(float *y, int *count, const float *x, int n) {
    __shared__ int kept;
    if (threadIdx.x == 0)
        kept = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += 256)
        if (x[i] > 0.0f)
            y[atomicAdd(&kept, 1)] = x[i];
    __syncthreads();
    if (threadIdx.x == 0)
        *count = kept;
}
