__global__ void keep_positive(float *y, int *count, const float *x, int n) {
    // BEGIN SOLUTION: where each kept element goes: behind those of earlier rounds, warps and lanes.
    __shared__ int of_warp[8];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int kept = 0;
    for (int first = 0; first < n; first += 256) {
        int i = first + threadIdx.x;
        float v = i < n ? x[i] : 0.0f;
        unsigned positive = __ballot_sync(0xffffffff, v > 0.0f);
        if (lane == 0)
            of_warp[warp] = __popc(positive);
        __syncthreads();
        int place = kept + __popc(positive & ((1u << lane) - 1));
        for (int w = 0; w < 8; w++) {
            int of_w = of_warp[w];
            place += w < warp ? of_w : 0;
            kept += of_w;
        }
        if (v > 0.0f)
            y[place] = v;
        __syncthreads();
    }
    if (threadIdx.x == 0)
        *count = kept;
    // END SOLUTION
}
