__global__ void product_by_warps(float *y, const int *start, const int *column, const float *value,
                                 const float *x, int rows) {
    // BEGIN SOLUTION: lane l takes the entries l, l + 32, … of the row; then the warp adds up.
    int lane = threadIdx.x;
    int row = blockIdx.x * 4 + threadIdx.y;
    if (row >= rows)
        return;
    float sum = 0.0f;
    int end = start[row + 1];
    for (int i = start[row] + lane; i < end; i += 32)
        sum += value[i] * x[column[i]];
    for (int d = 16; d > 0; d /= 2)
        sum += __shfl_down_sync(0xffffffff, sum, d);
    if (lane == 0)
        y[row] = sum;
    // END SOLUTION
}
