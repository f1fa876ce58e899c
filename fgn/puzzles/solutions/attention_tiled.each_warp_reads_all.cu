__device__ float warp_sum_of(float v) {
    for (int d = 16; d > 0; d /= 2)
        v += __shfl_xor_sync(0xffffffff, v, d);
    return v;
}

__device__ float warp_largest_of(float v) {
    for (int d = 16; d > 0; d /= 2)
        v = fmaxf(v, __shfl_xor_sync(0xffffffff, v, d));
    return v;
}

__global__ void attend_tiles(float *y, const float *q, const float *k, const float *v, int queries,
                             int keys) {
    int lane = threadIdx.x, query = blockIdx.x * 8 + threadIdx.y;
    if (query >= queries)
        return;
    float own = q[query * 32 + lane] / sqrtf(32.0f);
    float largest = -INFINITY, sum = 0.0f, out = 0.0f;
    for (int j = 0; j < keys; j++) {
        float score = warp_sum_of(own * k[j * 32 + lane]);
        float now = fmaxf(largest, score);
        float keep = expf(largest - now), weight = expf(score - now);
        sum = sum * keep + weight;
        out = out * keep + weight * v[j * 32 + lane];
        largest = now;
    }
    y[query * 32 + lane] = out / sum;
}
