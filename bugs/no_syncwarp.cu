/* The lanes of a warp add up in shared memory with no __syncwarp() between the steps.
 *
 * Why people make it: Reductions were written so for years: before Volta a warp ran in step, and `volatile`
 * was enough.
 *
 * What one sees: Right on old GPUs, and mostly right on new ones.
 *
 * Found by: the race checker, which does not take lanes to run in step. */
#define LANES 32
#define MOST_WARPS 8

/* The sum over the warp, in every lane. */
static __device__ float warp_sum(float share) {
    __shared__ volatile float partial[MOST_WARPS][LANES];
    volatile float *mine = &partial[threadIdx.y][threadIdx.x];
    *mine = share;
    for (int distance = LANES / 2; distance > 0; distance /= 2)
        if (threadIdx.x < distance)
            mine[0] += mine[distance];
    return partial[threadIdx.y][0];
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
