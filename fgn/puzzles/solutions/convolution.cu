__global__ void convolve(float *y, const float *x, const float *weight, int radius, int n) {
    // BEGIN SOLUTION: the block's elements, radius more on both sides, and the weights; then the sums.
    __shared__ float tile[128 + 2 * 8], w[2 * 8 + 1];
    int thread = threadIdx.x, width = 2 * radius + 1;
    int first = blockIdx.x * 128 - radius;
    for (int i = thread; i < 128 + 2 * radius; i += 128)
        tile[i] = first + i >= 0 && first + i < n ? x[first + i] : 0.0f;
    if (thread < width)
        w[thread] = weight[thread];
    __syncthreads();
    int i = blockIdx.x * 128 + thread;
    float sum = 0.0f;
    for (int k = 0; k < width; k++)
        sum += w[k] * tile[thread + k];
    if (i < n)
        y[i] = sum;
    // END SOLUTION
}
