// CAUSE: conflicts
__global__ void scaled_dots(float *y, const float *x, const float *w, const float *table, int columns) {
    __shared__ float tile[32][33];
    int lane = threadIdx.x;
    int row = 32 * blockIdx.x;
    float scale = table[16 * (row + lane)];
    float sum = 0.0f;
    for (int k = 0; k < columns; k += 32) {
        for (int r = 0; r < 32; r++)
            tile[r][lane] = x[(row + r) * columns + k + lane];
        __syncwarp();
        for (int i = 0; i < 32; i++)
            sum += tile[lane][i] * w[k + i];
        __syncwarp();
    }
    y[row + lane] = scale * sum;
}
