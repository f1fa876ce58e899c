/* The total is read before all threads have added to it.
 *
 * Why people make it: An atomic is safe, so the total seems to be; atomicAdd() makes the addition whole and
 * waits for nobody.
 *
 * What one sees: Each thread gets the total of those that were faster, and normalises with a mean of its
 * own.
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
    __syncthreads(); /* both are zero */

    float sum = 0.0f;
    for (int i = threadIdx.x; i < size; i += blockDim.x)
        sum += v[first + i] - pivot;
    atomicAdd(&total_sum, sum);
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
