__global__ void split_by_bit(int *y, const int *x, int bit, int n) {
    __shared__ int s[256];
    int thread = threadIdx.x;
    if (thread < n)
        s[thread] = x[blockIdx.x * n + thread];
    __syncthreads();
    int before = 0, all = 0;
    for (int i = 0; i < n; i++) {
        int is_zero = (s[i] >> bit & 1) == 0;
        all += is_zero;
        before += is_zero && i < thread;
    }
    if (thread < n)
        y[blockIdx.x * n + ((s[thread] >> bit & 1) == 0 ? before : all + thread - before)] = s[thread];
}
