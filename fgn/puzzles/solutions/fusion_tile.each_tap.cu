// PAYS: ?
enum { RADIUS = 8, THREADS = 256 };

__device__ float mish(float x) {
    return x * tanhf(log1pf(expf(x)));
}

__global__ void blurred_mish(float *y, const float *x, int n) {
    int i = blockIdx.x * THREADS + threadIdx.x;
    float sum = 0.0f;
    for (int at = i - RADIUS; at <= i + RADIUS; at++)
        if (0 <= at && at < n)
            sum += mish(x[at]);
    if (i < n)
        y[i] = sum / (2 * RADIUS + 1);
}
