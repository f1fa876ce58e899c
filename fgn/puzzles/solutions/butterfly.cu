__global__ void butterfly(float *y, const float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float sign = i % 2 == 0 ? 1.0f : -1.0f;
    y[i] = x[i ^ 1] + sign * x[i];
}
