__global__ void heat_step(float *y, const float *x, int rows, int columns) {
    __shared__ float tile[10][34];
    int row = blockIdx.y * 8 + threadIdx.y, column = blockIdx.x * 32 + threadIdx.x;
    int r = threadIdx.y + 1, c = threadIdx.x + 1;
    bool inside = row < rows && column < columns;
    tile[r][c] = inside ? x[row * columns + column] : 0.0f;
    if (r == 1)
        tile[0][c] = row > 0 && row - 1 < rows && column < columns ? x[(row - 1) * columns + column] : 0.0f;
    if (r == 8)
        tile[9][c] = row + 1 < rows && column < columns ? x[(row + 1) * columns + column] : 0.0f;
    if (c == 1)
        tile[r][0] = column > 0 && row < rows ? x[row * columns + column - 1] : 0.0f;
    if (c == 32)
        tile[r][33] = column + 1 < columns && row < rows ? x[row * columns + column + 1] : 0.0f;
    __syncthreads();
    float around = tile[r - 1][c] + tile[r + 1][c] + tile[r][c - 1] + tile[r][c + 1];
    if (inside)
        y[row * columns + column] = tile[r][c] + 0.2f * (around - 4.0f * tile[r][c]);
}
