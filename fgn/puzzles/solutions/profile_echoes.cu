// CAUSE: conflicts
__global__ void echoes(float *y, const float *x, const float *table, int rows) {
    __shared__ float tile[32][65];
    int lane = threadIdx.x;
    int shift = threadIdx.y;
    int row = 32 * blockIdx.x;
    for (int r = shift; r < 32; r += 8)
        for (int i = lane; i < 64; i += 32)
            tile[r][i] = x[(row + r) * 64 + i];
    __syncthreads();
    float scale = table[16 * (row + lane)];
    float sum = 0.0f;
    for (int i = 0; i + shift < 64; i++)
        sum += tile[lane][i] * tile[lane][i + shift];
    y[shift * rows + row + lane] = scale * sum;
}
