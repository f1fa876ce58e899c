__global__ void online_softmax(float *y, const float *x, int columns) {
    int row = blockIdx.x, lane = threadIdx.x;
    // BEGIN SOLUTION: the largest value and the sum in one loop; the lanes' pairs become one; the results.
    float largest = -3e38f, sum = 0.0f;
    for (int i = lane; i < columns; i += 32) {
        float v = x[row * columns + i];
        float now = fmaxf(largest, v);
        sum = sum * expf(largest - now) + expf(v - now);
        largest = now;
    }
    for (int d = 16; d > 0; d /= 2) {
        float other_largest = __shfl_xor_sync(0xffffffff, largest, d);
        float other_sum = __shfl_xor_sync(0xffffffff, sum, d);
        float now = fmaxf(largest, other_largest);
        sum = sum * expf(largest - now) + other_sum * expf(other_largest - now);
        largest = now;
    }
    for (int i = lane; i < columns; i += 32)
        y[row * columns + i] = expf(x[row * columns + i] - largest) / sum;
    // END SOLUTION
}
