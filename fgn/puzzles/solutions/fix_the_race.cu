__global__ void prefix_sums(float *y, const float *x) {
    __shared__ float s[256];
    int i = threadIdx.x;
    int columns = blockDim.x;
    s[i] = x[blockIdx.x * columns + i];
    __syncthreads();
    for (int d = 1; d < columns; d *= 2) {
        float before = i >= d ? s[i - d] : 0.0f;
        __syncthreads();
        s[i] += before;
        __syncthreads();
    }
    y[blockIdx.x * columns + i] = s[i];
}
