__global__ void histogram(int *counts, const int *x, int n) {
    // BEGIN SOLUTION: zero own[], count in own[], add own[] to counts[].
    __shared__ int own[64];
    int thread = threadIdx.x;
    if (thread < 64)
        own[thread] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + thread; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&own[x[i]], 1);
    __syncthreads();
    if (thread < 64)
        atomicAdd(&counts[thread], own[thread]);
    // END SOLUTION
}
