__global__ void gemm_tiled(float *y, const float *x, const float *w, int rows, int columns, int inner) {
    // BEGIN SOLUTION: tiles of x and w in shared memory, a loop over k in steps of 32, the output.
    __shared__ float x_tile[32][32];
    __shared__ float w_tile[32][33];
    int across = threadIdx.x;
    int down = threadIdx.y;
    int row = blockIdx.y * 32 + down;
    int column = blockIdx.x * 32 + across;
    int w_row = blockIdx.x * 32 + down;
    float sum = 0.0f;
    for (int k = 0; k < inner; k += 32) {
        x_tile[down][across] = row < rows && k + across < inner ? x[row * inner + k + across] : 0.0f;
        w_tile[down][across] = w_row < columns && k + across < inner ? w[w_row * inner + k + across] : 0.0f;
        __syncthreads(); // the tiles are complete
        for (int i = 0; i < 32; i++)
            sum += x_tile[down][i] * w_tile[across][i];
        __syncthreads(); // the tiles were used
    }
    if (row < rows && column < columns)
        y[row * columns + column] = sum;
    // END SOLUTION
}
