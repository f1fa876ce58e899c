/* The sum of squares is divided by n - 1.
 *
 * Why people make it: torch.var(x) and the statistics course do so. Normalisation layers divide by n.
 *
 * What one sees: All values are too small by the factor sqrt((n - 1) / n): 2 % for a group of 24 channels,
 * and nothing that a loose tolerance sees for one of 512.
 *
 * Found by: comparison with float64; the report names the divisor. */
#define MOST_THREADS 256

/* The sum over the block, in every thread. The block may have any number of threads up to MOST_THREADS. */
static __device__ float block_sum(float share, float *partial) {
    int thread = threadIdx.x;
    partial[thread] = share;
    __syncthreads();
    for (int left = blockDim.x; left > 1; left = (left + 1) / 2) {
        int half = (left + 1) / 2;
        if (thread + half < left)
            partial[thread] += partial[thread + half];
        __syncthreads();
    }
    float sum = partial[0];
    __syncthreads(); /* everyone has it: partial may be used again */
    return sum;
}

__global__ void norm_tree(const float *v, const float *weight, const float *bias, float *y, int channels,
                          int groups, float eps) {
    extern __shared__ float value[];
    __shared__ float partial[MOST_THREADS];
    int size = channels / groups;
    int first_channel = blockIdx.y * size;
    int64_t first = (int64_t)blockIdx.x * channels + first_channel;

    float sum = 0.0f;
    for (int i = threadIdx.x; i < size; i += blockDim.x) {
        value[i] = v[first + i];
        sum += value[i];
    }
    float mean = block_sum(sum, partial) / size;

    float squares = 0.0f;
    for (int i = threadIdx.x; i < size; i += blockDim.x)
        squares += (value[i] - mean) * (value[i] - mean);
    float variance = block_sum(squares, partial) / (size - 1);

    float scale = 1.0f / sqrtf(variance + eps);
    for (int i = threadIdx.x; i < size; i += blockDim.x) {
        int channel = first_channel + i;
        y[first + i] = (value[i] - mean) * scale * weight[channel] + bias[channel];
    }
}
