// CAUSE: ?
__global__ void total_of_squares(float *y, const float *x, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(y, x[i] * x[i]);
}
