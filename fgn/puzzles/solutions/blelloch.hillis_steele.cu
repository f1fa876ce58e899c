__global__ void exclusive_scan(float *y, const float *x, int columns) {
    __shared__ float s[2][256];
    int thread = threadIdx.x, now = 0;
    for (int i = thread; i < 256; i += 128)
        s[0][i] = i > 0 && i < columns ? x[blockIdx.x * columns + i - 1] : 0.0f;
    for (int d = 1; d < 256; d *= 2) {
        __syncthreads();
        for (int i = thread; i < 256; i += 128)
            s[1 - now][i] = s[now][i] + (i >= d ? s[now][i - d] : 0.0f);
        now = 1 - now;
    }
    __syncthreads();
    for (int i = thread; i < columns; i += 128)
        y[blockIdx.x * columns + i] = s[now][i];
}
