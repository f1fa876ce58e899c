// PAYS: recompute
__device__ float h(float x) {
    float positive = fmaxf(x, 0.0f);
    return positive * positive;
}

// A block has 32 columns: each of its 32 warps takes every 32nd row.
__global__ void column_sums(float *sums, float *y, const float *x, int rows, int columns) {
    __shared__ float of_warps[32][32];
    int column = 32 * blockIdx.x + threadIdx.x;
    float sum = 0.0f;
    for (int row = threadIdx.y; row < rows; row += 32)
        sum += h(x[row * columns + column]);
    of_warps[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0) {
        for (int warp = 1; warp < 32; warp++)
            sum += of_warps[warp][threadIdx.x];
        sums[column] = sum;
    }
}

__global__ void divided(float *y, const float *sums, const float *x, int rows, int columns) {
    int column = 32 * blockIdx.x + threadIdx.x;
    float factor = 1.0f / sums[column];
    for (int row = 32 * blockIdx.y + threadIdx.y; row < min(32 * blockIdx.y + 32, rows); row += 8)
        y[row * columns + column] = factor * h(x[row * columns + column]);
}
