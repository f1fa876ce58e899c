/* Where the matrix ends, the tile of x keeps what the k tile before has left there.
 *
 * Why people make it: One does not load what is not there. But the loop over the tile reads all of it.
 *
 * What one sees: Right for in_features that the tile divides, and otherwise too if the other tile has zeros
 * there, but for NaN and infinities, and for the first k tile. Here neither tile has zeros.
 *
 * Found by: the check for reads of uninitialised shared memory where a row was never loaded; else
 * comparison with float64. */
#define TILE 16

/* min(max(v, low), high), and NaN stays NaN. */
static __device__ float hardtanh(float v, float low, float high) {
    return v < low ? low : (v > high ? high : v);
}

/* v tanh(log(1 + e)) with e = exp(v); the tanh is n / (n + 2) with n = e (e + 2), and 1 from v = 20 on. */
static __device__ float mish(float v) {
    float e = expf(fminf(v, 20.0f));
    float n = e * (e + 2.0f);
    return v * (n / (n + 2.0f));
}

__global__ void gemm_tile(const float *x, int64_t x_stride, const float *weight, const float *bias,
                          const float *channel_bias, float low, float high, float *v, int batch,
                          int in_features, int out_features) {
    __shared__ float x_tile[TILE][TILE];
    __shared__ float weight_tile[TILE][TILE + 1];
    int across = threadIdx.x;
    int down = threadIdx.y;
    int64_t row = blockIdx.y * TILE + down;
    int64_t column = blockIdx.x * TILE + across;
    int64_t weight_row = blockIdx.x * TILE + down;
    float sum = 0.0f;
    for (int first_k = 0; first_k < in_features; first_k += TILE) {
        int k = first_k + across;
        bool inside = row < batch && k < in_features;
        bool weight_inside = weight_row < out_features && k < in_features;
        if (inside)
            x_tile[down][across] = x[row * x_stride + k];
        if (weight_inside)
            weight_tile[down][across] = weight[weight_row * in_features + k];
        __syncthreads(); /* the tiles are complete */
        for (int i = 0; i < TILE; i++)
            sum += x_tile[down][i] * weight_tile[across][i];
        __syncthreads(); /* everyone is done with them */
    }
    if (row < batch && column < out_features) {
        float value = sum + bias[column] + channel_bias[column];
        v[row * out_features + column] = mish(hardtanh(value, low, high));
    }
}
