/* The mean and the variance of a group are taken over all samples, not for each sample.
 *
 * Why people make it: BatchNorm does it so, and "normalise the group" does not say over what.
 *
 * What one sees: Numbers that look well normalised, and are wrong in every element. With one sample, and
 * with samples that are all alike, they are right.
 *
 * Found by: comparison with float64 on a batch whose rows differ; the report names the statistics. */
#define LANES 32
#define ALL_LANES 0xffffffffu

/* The sum over the warp, in every lane. */
static __device__ float warp_sum(float share) {
    for (int distance = LANES / 2; distance > 0; distance /= 2)
        share += __shfl_xor_sync(ALL_LANES, share, distance);
    return share;
}

__global__ void norm_warp(const float *v, const float *weight, const float *bias, float slope, float *y,
                          int batch, int channels, int groups, float eps) {
    int64_t number = (int64_t)blockIdx.x * blockDim.y + threadIdx.y; /* of the group, among all samples' */
    if (number >= (int64_t)batch * groups)
        return;
    int lane = threadIdx.x;
    int size = channels / groups;
    int first_channel = number % groups * size;
    int64_t first = number * size;

    float sum = 0.0f;
    for (int row = 0; row < batch; row++)
        for (int i = lane; i < size; i += LANES)
            sum += v[(int64_t)row * channels + first_channel + i];
    float mean = warp_sum(sum) / (size * batch);

    float squares = 0.0f;
    for (int row = 0; row < batch; row++)
        for (int i = lane; i < size; i += LANES) {
            float difference = v[(int64_t)row * channels + first_channel + i] - mean;
            squares += difference * difference;
        }
    float variance = warp_sum(squares) / (size * batch);

    float scale = 1.0f / sqrtf(variance + eps);
    for (int i = lane; i < size; i += LANES) {
        int channel = first_channel + i;
        float value = (v[first + i] - mean) * scale * weight[channel] + bias[channel];
        value = value > 0.0f ? value : slope * value;
        y[first + i] = value + value;
    }
}
