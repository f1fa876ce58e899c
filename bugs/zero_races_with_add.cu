/* Thread 0 sets the accumulators to 0, and nobody waits for that.
 *
 * Why people make it: The line stands before the additions, and within one warp it usually happens before
 * them as well.
 *
 * What one sees: Now and then the shares of a fast warp are lost: 0 is written over them.
 *
 * Found by: the race checker, with both threads and both lines. */
__global__ void norm_atomic(const float *v, const float *weight, const float *bias, float low, float high,
                            float *y, int channels, int groups, float eps) {
    __shared__ float total_sum, total_squares;
    int size = channels / groups;
    int first_channel = blockIdx.y * size;
    int64_t first = (int64_t)blockIdx.x * channels + first_channel;
    float pivot = v[first];
    if (threadIdx.x == 0) {
        total_sum = 0.0f;
        total_squares = 0.0f;
    }

    float sum = 0.0f;
    for (int i = threadIdx.x; i < size; i += blockDim.x)
        sum += v[first + i] - pivot;
    atomicAdd(&total_sum, sum);
    __syncthreads(); /* every thread has added its sum */
    float mean = pivot + total_sum / size;

    float squares = 0.0f;
    for (int i = threadIdx.x; i < size; i += blockDim.x)
        squares += (v[first + i] - mean) * (v[first + i] - mean);
    atomicAdd(&total_squares, squares);
    __syncthreads(); /* and its squares */
    float variance = total_squares / size;

    float scale = 1.0f / sqrtf(variance + eps);
    for (int i = threadIdx.x; i < size; i += blockDim.x) {
        int channel = first_channel + i;
        float value = (v[first + i] - mean) * scale * weight[channel] + bias[channel];
        y[first + i] = value < low ? low : (value > high ? high : value);
    }
}
