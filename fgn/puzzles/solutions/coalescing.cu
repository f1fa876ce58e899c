__global__ void scale_rows(float *y, const float *x, const float *scale, int rows, int columns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int row = i / columns;
    int column = i % columns;
    if (i < rows * columns)
        y[row * columns + column] = scale[row] * x[row * columns + column];
}
