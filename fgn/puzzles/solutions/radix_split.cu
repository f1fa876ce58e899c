__global__ void split_by_bit(int *y, const int *x, int bit, int n) {
    // BEGIN SOLUTION: zeros keep their order and come first, then the ones in theirs.
    __shared__ int zeros_of_warp[8];
    int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    int key = thread < n ? x[blockIdx.x * n + thread] : -1;
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
    if (thread < n)
        y[blockIdx.x * n + (is_zero ? before : all + thread - before)] = key;
    // END SOLUTION
}
