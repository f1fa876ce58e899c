__global__ void moments(float *mean, float *variance, const float *x, int columns) {
    // BEGIN SOLUTION: Welford over the columns of this lane, Chan over the lanes; lane 0 writes.
    int row = blockIdx.x;
    float n = 0.0f, m = 0.0f, squares = 0.0f;
    for (int i = threadIdx.x; i < columns; i += 32) {
        float v = x[row * columns + i];
        float difference = v - m;
        n += 1.0f;
        m += difference / n;
        squares += difference * (v - m);
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        float other_n = __shfl_xor_sync(0xffffffff, n, distance);
        float other_m = __shfl_xor_sync(0xffffffff, m, distance);
        float other_squares = __shfl_xor_sync(0xffffffff, squares, distance);
        float both = n + other_n;
        float d = other_m - m;
        m += d * other_n / fmaxf(both, 1.0f);
        squares += other_squares + d * d * n * other_n / fmaxf(both, 1.0f);
        n = both;
    }
    if (threadIdx.x == 0) {
        mean[row] = m;
        variance[row] = squares / columns;
    }
    // END SOLUTION
}
