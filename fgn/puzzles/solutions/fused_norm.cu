__device__ static float warp_sum(float v) {
    for (int distance = 16; distance > 0; distance /= 2)
        v += __shfl_xor_sync(0xffffffff, v, distance);
    return v;
}

__global__ void gemm_group_norm(float *y, const float *x, const float *w, const float *weight,
                                const float *bias, int rows, int groups, int inner) {
    __shared__ float x_tile[8][32];
    __shared__ float w_tile[32][33];
    int lane = threadIdx.x;
    int down = threadIdx.y;
    int row = blockIdx.y * 8 + down;
    float sum = 0.0f;
    for (int k = 0; k < inner; k += 32) {
        bool inside = k + lane < inner;
        x_tile[down][lane] = inside && row < rows ? x[row * inner + k + lane] : 0.0f;
        for (int i = down; i < 32; i += 8)
            w_tile[i][lane] = inside ? w[(blockIdx.x * 32 + i) * inner + k + lane] : 0.0f;
        __syncthreads();
        for (int i = 0; i < 32; i++)
            sum += x_tile[down][i] * w_tile[lane][i];
        __syncthreads();
    }
    // BEGIN SOLUTION: mean and variance of the 32 sums of this warp; then y[row * groups * 32 + channel].
    int channel = blockIdx.x * 32 + lane;
    float mean = warp_sum(sum) / 32;
    float difference = sum - mean;
    float variance = warp_sum(difference * difference) / 32;
    float result = (sum - mean) * rsqrtf(variance + 1e-5f) * weight[channel] + bias[channel];
    if (row < rows)
        y[row * groups * 32 + channel] = result;
    // END SOLUTION
}
