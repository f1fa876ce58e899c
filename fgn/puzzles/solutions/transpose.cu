__global__ void transpose(float *y, const float *x, int rows, int columns) {
    __shared__ float tile[32][32];
    int row = blockIdx.y * 32 + threadIdx.y;
    int column = blockIdx.x * 32 + threadIdx.x;
    if (row < rows && column < columns)
        tile[threadIdx.y][threadIdx.x] = x[row * columns + column];
    __syncthreads();
    int across = blockIdx.y * 32 + threadIdx.x;
    int down = blockIdx.x * 32 + threadIdx.y;
    if (across < rows && down < columns)
        y[down * rows + across] = tile[threadIdx.x][threadIdx.y];
}
