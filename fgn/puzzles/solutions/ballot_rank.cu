__global__ void ranks(int *rank, const float *x, int n) {
    // BEGIN SOLUTION: one vote of the whole warp; a lane counts the bits of the lanes before it.
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned positive = __ballot_sync(0xffffffff, i < n && x[i] > 0.0f);
    unsigned before = (1u << (threadIdx.x % 32)) - 1;
    if (i < n)
        rank[i] = __popc(positive & before);
    // END SOLUTION
}
