__global__ void row_sum(float *sum, const float *x, int columns) {
    // BEGIN SOLUTION: the share of this thread, then the tree; thread 0 writes sum[blockIdx.x].
    __shared__ float partial[128];
    int thread = threadIdx.x;
    float share = 0.0f;
    for (int i = thread; i < columns; i += 128)
        share += x[blockIdx.x * columns + i];
    partial[thread] = share;
    __syncthreads();
    for (int half = 64; half > 0; half /= 2) {
        if (thread < half)
            partial[thread] += partial[thread + half];
        __syncthreads();
    }
    if (thread == 0)
        sum[blockIdx.x] = partial[0];
    // END SOLUTION
}
