/* The mask of the shuffle names 16 lanes, and all 32 call it.
 *
 * Why people make it: The group has 16 channels, so 16 lanes take part in the sum. But the mask is about
 * who makes the call.
 *
 * What one sees: Undefined: a GPU may return anything or hang.
 *
 * Found by: the check of warp operations: a lane that reads from one which the mask leaves out. */
#define LANES 32
#define ALL_LANES 0x0000ffffu

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
    for (int i = lane; i < size; i += LANES)
        sum += v[first + i];
    float mean = warp_sum(sum) / size;

    float squares = 0.0f;
    for (int i = lane; i < size; i += LANES)
        squares += (v[first + i] - mean) * (v[first + i] - mean);
    float variance = warp_sum(squares) / size;

    float scale = 1.0f / sqrtf(variance + eps);
    for (int i = lane; i < size; i += LANES) {
        int channel = first_channel + i;
        float value = (v[first + i] - mean) * scale * weight[channel] + bias[channel];
        value = value > 0.0f ? value : slope * value;
        y[first + i] = value + value;
    }
}
