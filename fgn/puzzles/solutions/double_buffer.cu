/* Loads the tiles that begin at k: one element of x and one of w by each thread. */
__device__ static void load(float (*x_tile)[32], float (*w_tile)[33], const float *x, const float *w,
                            int rows, int columns, int inner, int k) {
    int across = threadIdx.x;
    int down = threadIdx.y;
    int row = blockIdx.y * 32 + down;
    int w_row = blockIdx.x * 32 + down;
    x_tile[down][across] = row < rows && k + across < inner ? x[row * inner + k + across] : 0.0f;
    w_tile[down][across] = w_row < columns && k + across < inner ? w[w_row * inner + k + across] : 0.0f;
}

__global__ void gemm_buffered(float *y, const float *x, const float *w, int rows, int columns, int inner) {
    __shared__ float x_tile[2][32][32];
    __shared__ float w_tile[2][32][33];
    int row = blockIdx.y * 32 + threadIdx.y;
    int column = blockIdx.x * 32 + threadIdx.x;
    int steps = (inner + 31) / 32;
    float sum = 0.0f;
    load(x_tile[0], w_tile[0], x, w, rows, columns, inner, 0);
    __syncthreads();
    for (int step = 0; step < steps; step++) {
        int stage = step % 2;
        if (step + 1 < steps)
            load(x_tile[1 - stage], w_tile[1 - stage], x, w, rows, columns, inner, 32 * (step + 1));
        for (int i = 0; i < 32; i++)
            sum += x_tile[stage][threadIdx.y][i] * w_tile[stage][threadIdx.x][i];
        __syncthreads(); // all have used this stage
    }
    if (row < rows && column < columns)
        y[row * columns + column] = sum;
}
