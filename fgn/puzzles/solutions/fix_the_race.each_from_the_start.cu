__global__ void prefix_sums(float *y, const float *x) {
    int i = threadIdx.x;
    int columns = blockDim.x;
    float sum = 0.0f;
    for (int column = 0; column <= i; column++)
        sum += x[blockIdx.x * columns + column];
    y[blockIdx.x * columns + i] = sum;
}
