// CAUSE: one lane
__global__ void scaled_rows(float *y, const float *x, int columns) {
    extern __shared__ float row[];
    __shared__ float of_warps[8];
    float largest = 0.0f;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) {
        row[i] = x[blockIdx.x * columns + i];
        largest = fmaxf(largest, fabsf(row[i]));
    }
    for (int distance = 16; distance > 0; distance /= 2)
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, distance));
    if (threadIdx.x % 32 == 0)
        of_warps[threadIdx.x / 32] = largest;
    __syncthreads();
    largest = of_warps[threadIdx.x % 8];
    for (int distance = 4; distance > 0; distance /= 2)
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, distance));
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        y[blockIdx.x * columns + i] = row[i] / largest;
}
