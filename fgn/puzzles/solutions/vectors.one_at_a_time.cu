__global__ void scale_by_vectors(float *y, const float *x, int n) {
    int first = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    for (int j = first; j < first + 4 && j < n; j++)
        y[j] = 3.0f * x[j] - 1.0f;
}
