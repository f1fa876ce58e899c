__global__ void online_softmax(float *y, const float *x, int columns) {
    int row = blockIdx.x, lane = threadIdx.x;
    float largest = -INFINITY;
    for (int i = lane; i < columns; i += 32)
        largest = fmaxf(largest, x[row * columns + i]);
    for (int d = 16; d > 0; d /= 2)
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, d));
    float sum = 0.0f;
    for (int i = lane; i < columns; i += 32)
        sum += expf(x[row * columns + i] - largest);
    for (int d = 16; d > 0; d /= 2)
        sum += __shfl_xor_sync(0xffffffff, sum, d);
    for (int i = lane; i < columns; i += 32)
        y[row * columns + i] = expf(x[row * columns + i] - largest) / sum;
}
