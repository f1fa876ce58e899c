__global__ void residual_norm(float *y, const float *x, const float *residual, const float *weight,
                              const float *bias, int fours) {
    __shared__ float partial[128];
    int thread = threadIdx.x;
    int columns = 4 * fours;
    x += blockIdx.x * columns;
    residual += blockIdx.x * columns;
    y += blockIdx.x * columns;

    float sum = 0.0f;
    for (int i = thread; i < columns; i += 128)
        sum += x[i] + residual[i];
    partial[thread] = sum;
    __syncthreads();
    for (int half = 64; half > 0; half /= 2) {
        if (thread < half)
            partial[thread] += partial[thread + half];
        __syncthreads();
    }
    float mean = partial[0] / columns;
    __syncthreads();

    float squares = 0.0f;
    for (int i = thread; i < columns; i += 128) {
        float difference = x[i] + residual[i] - mean;
        squares += difference * difference;
    }
    partial[thread] = squares;
    __syncthreads();
    for (int half = 64; half > 0; half /= 2) {
        if (thread < half)
            partial[thread] += partial[thread + half];
        __syncthreads();
    }
    float scale = rsqrtf(partial[0] / columns + 1e-5f);

    for (int i = thread; i < columns; i += 128)
        y[i] = (x[i] + residual[i] - mean) * scale * weight[i] + bias[i];
}
