__global__ void radix_sort(int *order, const int *x, int n) {
    __shared__ int keys[256];
    int thread = threadIdx.x;
    if (thread < n)
        keys[thread] = x[blockIdx.x * n + thread];
    __syncthreads();
    if (thread >= n)
        return;
    int rank = 0;
    for (int i = 0; i < n; i++)
        rank += keys[i] < keys[thread] || (keys[i] == keys[thread] && i < thread);
    order[blockIdx.x * n + rank] = thread;
}
