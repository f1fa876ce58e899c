__global__ void softmax(float *y, const float *x, int columns) {
    // BEGIN SOLUTION: row blockIdx.x, lane threadIdx.x; the largest value, the sum, the results.
    int row = blockIdx.x;
    int lane = threadIdx.x;
    float largest = -INFINITY;
    for (int i = lane; i < columns; i += 32)
        largest = fmaxf(largest, x[row * columns + i]);
    for (int distance = 16; distance > 0; distance /= 2)
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, distance));
    float sum = 0.0f;
    for (int i = lane; i < columns; i += 32)
        sum += expf(x[row * columns + i] - largest);
    for (int distance = 16; distance > 0; distance /= 2)
        sum += __shfl_xor_sync(0xffffffff, sum, distance);
    for (int i = lane; i < columns; i += 32)
        y[row * columns + i] = expf(x[row * columns + i] - largest) / sum;
    // END SOLUTION
}
