__global__ void convolve(float *y, const float *x, const float *weight, int radius, int n) {
    int i = blockIdx.x * 128 + threadIdx.x;
    float sum = 0.0f;
    for (int k = -radius; k <= radius; k++)
        if (i < n && i + k >= 0 && i + k < n)
            sum += weight[k + radius] * x[i + k];
    if (i < n)
        y[i] = sum;
}
