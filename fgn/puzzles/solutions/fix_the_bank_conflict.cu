__global__ void transpose_swizzled(float *y, const float *x, int rows, int columns) {
    extern __shared__ float tile[];
    int row = blockIdx.y * 32 + threadIdx.y;
    int column = blockIdx.x * 32 + threadIdx.x;
    if (row < rows && column < columns)
        tile[32 * threadIdx.y + (threadIdx.x ^ threadIdx.y)] = x[row * columns + column];
    __syncthreads();
    int across = blockIdx.y * 32 + threadIdx.x;
    int down = blockIdx.x * 32 + threadIdx.y;
    if (across < rows && down < columns)
        y[down * rows + across] = tile[32 * threadIdx.x + (threadIdx.x ^ threadIdx.y)];
}
