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
    int lane = threadIdx.x, warp = threadIdx.y;
    int query = blockIdx.x * 8 + warp;
    // BEGIN SOLUTION: for each tile of 32 keys: load it, a score for each lane, correct, add up.
    __shared__ float tile_q[8][32], tile_k[32][33], tile_v[32][32];
    tile_q[warp][lane] = query < queries ? q[query * 32 + lane] / sqrtf(32.0f) : 0.0f;
    float largest = -INFINITY, sum = 0.0f, out = 0.0f;
    for (int first = 0; first < keys; first += 32) {
        for (int j = warp; j < 32; j += 8) {
            bool is_key = first + j < keys;
            tile_k[j][lane] = is_key ? k[(first + j) * 32 + lane] : 0.0f;
            tile_v[j][lane] = is_key ? v[(first + j) * 32 + lane] : 0.0f;
        }
        __syncthreads();
        float score = 0.0f;
        for (int c = 0; c < 32; c++)
            score += tile_q[warp][c] * tile_k[lane][c];
        if (first + lane >= keys)
            score = -INFINITY;
        float now = fmaxf(largest, warp_largest_of(score));
        float keep = expf(largest - now), weight = expf(score - now);
        sum = sum * keep + warp_sum_of(weight);
        out = out * keep;
        for (int j = 0; j < 32; j++)
            out += __shfl_sync(0xffffffff, weight, j) * tile_v[j][lane];
        largest = now;
        __syncthreads();
    }
    if (query < queries)
        y[query * 32 + lane] = out / sum;
    // END SOLUTION
}
