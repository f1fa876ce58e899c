/* The tree for the mean adds up in the memory of the values, which the variance still needs.
 *
 * Why people make it: The reduction is written for one sum, in place, and saves the second array. Then the
 * second sum comes.
 *
 * What one sees: The mean is right. The variance and the results are made of partial sums instead of
 * values.
 *
 * Found by: comparison with float64. */
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
    float mean = block_sum(sum, value) / size;

    float squares = 0.0f;
    for (int i = threadIdx.x; i < size; i += blockDim.x)
        squares += (value[i] - mean) * (value[i] - mean);
    float variance = block_sum(squares, partial) / size;

    float scale = 1.0f / sqrtf(variance + eps);
    for (int i = threadIdx.x; i < size; i += blockDim.x) {
        int channel = first_channel + i;
        y[first + i] = (value[i] - mean) * scale * weight[channel] + bias[channel];
    }
}
