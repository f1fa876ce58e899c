__global__ void exclusive_scan(float *y, const float *x, int columns) {
    __shared__ float s[256];
    int thread = threadIdx.x;
    for (int i = thread; i < 256; i += 128)
        s[i] = i < columns ? x[blockIdx.x * columns + i] : 0.0f;
    // BEGIN SOLUTION: up the tree with sums, a zero at its root, and down again.
    for (int d = 1; d < 256; d *= 2) {
        __syncthreads();
        int right = 2 * d * (thread + 1) - 1;
        if (right < 256)
            s[right] += s[right - d];
    }
    if (thread == 0)
        s[255] = 0.0f;
    for (int d = 128; d > 0; d /= 2) {
        __syncthreads();
        int right = 2 * d * (thread + 1) - 1;
        if (right < 256) {
            float left = s[right - d];
            s[right - d] = s[right];
            s[right] += left;
        }
    }
    // END SOLUTION
    __syncthreads();
    for (int i = thread; i < columns; i += 128)
        y[blockIdx.x * columns + i] = s[i];
}
