// Where the key of this thread goes, when those with a 0 in the bit come before those with a 1. All 256
// threads call it.
__device__ int place_after_split(int key, int bit) {
    __shared__ int zeros_of_warp[8];
    int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    bool is_zero = (key >> bit & 1) == 0;
    unsigned zeros = __ballot_sync(0xffffffff, is_zero);
    if (lane == 0)
        zeros_of_warp[warp] = __popc(zeros);
    __syncthreads();
    int before = __popc(zeros & ((1u << lane) - 1));
    int all = 0;
    for (int w = 0; w < 8; w++) {
        int of_w = zeros_of_warp[w];
        before += w < warp ? of_w : 0;
        all += of_w;
    }
    return is_zero ? before : all + thread - before;
}

__global__ void radix_sort(int *order, const int *x, int n) {
    // BEGIN SOLUTION: sort the keys, and take with each the number of the place that it came from.
    int thread = threadIdx.x;
    __shared__ int keys[256], from[256];
    int key = thread < n ? x[blockIdx.x * n + thread] : 255;
    int origin = thread;
    for (int bit = 0; bit < 8; bit++) {
        int place = place_after_split(key, bit);
        keys[place] = key;
        from[place] = origin;
        __syncthreads();
        key = keys[thread];
        origin = from[thread];
    }
    if (thread < n)
        order[blockIdx.x * n + thread] = origin;
    // END SOLUTION
}
