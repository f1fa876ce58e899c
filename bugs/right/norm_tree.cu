/* y = GroupNorm(v): the second kernel of gemm_biasadd_hardtanh_mish_groupnorm.
 *
 * A block normalises one group of one sample. It keeps the group's values in dynamic shared memory and adds
 * up by a tree: the upper half of what is left is added to the lower half, until one number is left. */
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
    float variance = block_sum(squares, partial) / size;

    float scale = 1.0f / sqrtf(variance + eps);
    for (int i = threadIdx.x; i < size; i += blockDim.x) {
        int channel = first_channel + i;
        y[first + i] = (value[i] - mean) * scale * weight[channel] + bias[channel];
    }
}
