__global__ void relu(float *y, const float *x, int n) {
    // BEGIN SOLUTION: the number of this thread, and its element if there is one.
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = x[i] > 0.0f ? x[i] : 0.0f;
    // END SOLUTION
}
