/* __syncthreads() inside a branch that only some threads of the block take.
 *
 * Why people make it: Rows beyond the batch have nothing to compute, so the whole loop is put under the
 * condition.
 *
 * What one sees: Where the last tile is partial, it lacks the values that the threads outside the branch
 * should have loaded. They exit, so the barrier does not wait for them.
 *
 * Found by: the check of shared memory: who reads what nobody has written. */
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
    for (int first_k = 0; row < batch && first_k < in_features; first_k += TILE) {
        int k = first_k + across;
        bool inside = row < batch && k < in_features;
        bool weight_inside = weight_row < out_features && k < in_features;
        x_tile[down][across] = inside ? x[row * x_stride + k] : 0.0f;
        weight_tile[down][across] = weight_inside ? weight[weight_row * in_features + k] : 0.0f;
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
