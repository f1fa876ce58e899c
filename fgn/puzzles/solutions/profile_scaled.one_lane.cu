// CAUSE: ?
__global__ void scaled_rows(float *y, const float *x, int columns) {
    extern __shared__ float row[];
    __shared__ float of_row;
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        row[i] = x[blockIdx.x * columns + i];
    __syncthreads();
    if (threadIdx.x == 0) {
        float largest = 0.0f;
        for (int i = 0; i < columns; i++)
            largest = fmaxf(largest, fabsf(row[i]));
        of_row = largest;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        y[blockIdx.x * columns + i] = row[i] / of_row;
}
