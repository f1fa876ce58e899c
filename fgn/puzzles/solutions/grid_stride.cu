__global__ void axpy(float *z, float a, const float *x, const float *y, int n) {
    // BEGIN SOLUTION: a loop over the elements of this thread.
    int first = blockIdx.x * blockDim.x + threadIdx.x;
    int threads = gridDim.x * blockDim.x;
    for (int i = first; i < n; i += threads)
        z[i] = a * x[i] + y[i];
    // END SOLUTION
}
