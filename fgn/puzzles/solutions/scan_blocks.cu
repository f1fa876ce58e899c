// The sum over the block of each thread's value; every thread gets it.
__device__ float block_sum(float value) {
    __shared__ float of_warp[8];
    for (int d = 16; d > 0; d /= 2)
        value += __shfl_xor_sync(0xffffffff, value, d);
    if (threadIdx.x % 32 == 0)
        of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    float sum = 0.0f;
    for (int w = 0; w < blockDim.x / 32; w++)
        sum += of_warp[w];
    return sum;
}

// The sum of the values of this thread and of those before it in the block.
__device__ float block_scan(float value) {
    __shared__ float of_warp[8];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int d = 1; d < 32; d *= 2) {
        float before = __shfl_up_sync(0xffffffff, value, d);
        if (lane >= d)
            value += before;
    }
    if (lane == 31)
        of_warp[warp] = value;
    __syncthreads();
    for (int w = 0; w < warp; w++)
        value += of_warp[w];
    return value;
}

__global__ void sums_of_blocks(float *sums, const float *x, int n) {
    // BEGIN SOLUTION: sums[block] of the block's 64 elements.
    int i = blockIdx.x * 64 + threadIdx.x;
    float sum = block_sum(i < n ? x[i] : 0.0f);
    if (threadIdx.x == 0)
        sums[blockIdx.x] = sum;
    // END SOLUTION
}

__global__ void scan_of_sums(float *before, const float *sums, int blocks) {
    // BEGIN SOLUTION: before[b], the sum of sums[0] to sums[b - 1]. One block.
    int b = threadIdx.x;
    float sum = b < blocks ? sums[b] : 0.0f;
    float inclusive = block_scan(sum);
    if (b < blocks)
        before[b] = inclusive - sum;
    // END SOLUTION
}

__global__ void scan_of_blocks(float *y, const float *before, const float *x, int n) {
    // BEGIN SOLUTION: the block's own scan, and what comes before the block.
    int i = blockIdx.x * 64 + threadIdx.x;
    float sum = block_scan(i < n ? x[i] : 0.0f);
    if (i < n)
        y[i] = before[blockIdx.x] + sum;
    // END SOLUTION
}
