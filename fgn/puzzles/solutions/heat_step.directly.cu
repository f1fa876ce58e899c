__device__ float at(const float *x, int row, int column, int rows, int columns) {
    bool inside = row >= 0 && row < rows && column >= 0 && column < columns;
    return inside ? x[row * columns + column] : 0.0f;
}

__global__ void heat_step(float *y, const float *x, int rows, int columns) {
    int row = blockIdx.y * 8 + threadIdx.y, column = blockIdx.x * 32 + threadIdx.x;
    float own = at(x, row, column, rows, columns);
    float around = at(x, row - 1, column, rows, columns) + at(x, row + 1, column, rows, columns) +
                   at(x, row, column - 1, rows, columns) + at(x, row, column + 1, rows, columns);
    if (row < rows && column < columns)
        y[row * columns + column] = own + 0.2f * (around - 4.0f * own);
}
