__global__ void product_by_rows(float *y, const int *start, const int *column, const float *value,
                                const float *x, int rows) {
    // BEGIN SOLUTION: the entries start[row] to start[row + 1] - 1 are this thread's.
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) {
        float sum = 0.0f;
        int end = start[row + 1];
        for (int i = start[row]; i < end; i++)
            sum += value[i] * x[column[i]];
        y[row] = sum;
    }
    // END SOLUTION
}
