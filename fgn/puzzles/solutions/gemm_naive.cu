__global__ void gemm(float *y, const float *x, const float *w, int rows, int columns, int inner) {
    // BEGIN SOLUTION: the row and column of this thread, its sum over k, its output.
    int row = blockIdx.y * 16 + threadIdx.y;
    int column = blockIdx.x * 16 + threadIdx.x;
    if (row >= rows || column >= columns)
        return;
    float sum = 0.0f;
    for (int k = 0; k < inner; k++)
        sum += x[row * inner + k] * w[column * inner + k];
    y[row * columns + column] = sum;
    // END SOLUTION
}
