__global__ void gemm_registers(float *y, const float *x, const float *w, int rows, int columns, int inner) {
    __shared__ float x_tile[16][65];
    __shared__ float w_tile[16][65];
    int across = threadIdx.x;
    int down = threadIdx.y;
    int first_row = blockIdx.y * 64;
    int first_column = blockIdx.x * 64;
    float sum[4][4] = {{0.0f}};
    for (int k = 0; k < inner; k += 16) {
        for (int i = down; i < 64; i += 16) {
            int row = first_row + i;
            int w_row = first_column + i;
            bool inside = k + across < inner;
            x_tile[across][i] = inside && row < rows ? x[row * inner + k + across] : 0.0f;
            w_tile[across][i] = inside && w_row < columns ? w[w_row * inner + k + across] : 0.0f;
        }
        __syncthreads();
        for (int i = 0; i < 16; i++) {
            float x_value[4], w_value[4];
            for (int r = 0; r < 4; r++) {
                x_value[r] = x_tile[i][down + 16 * r];
                w_value[r] = w_tile[i][across + 16 * r];
            }
            for (int r = 0; r < 4; r++)
                for (int c = 0; c < 4; c++)
                    sum[r][c] += x_value[r] * w_value[c];
        }
        __syncthreads();
    }
    for (int r = 0; r < 4; r++)
        for (int c = 0; c < 4; c++) {
            // The rows and columns that you took:
            int row = first_row + down + 16 * r;
            int column = first_column + across + 16 * c;
            if (row < rows && column < columns)
                y[row * columns + column] = sum[r][c];
        }
}
