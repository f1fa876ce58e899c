// Three kernels with CUB's collectives, each right or without one barrier: the first argument names the
// kernel, the second leaves the barrier out.
#include <cub/cub.cuh>
#include <cstdio>
#include <cstring>
#include <algorithm>
#include <vector>

enum { THREADS = 64, ITEMS = 4, TILE = THREADS * ITEMS, BINS = 16 };

/* Sorts a tile, and counts the runs of equal numbers in it. */
__global__ void runs(const int *in, int *out, int *number, bool is_right) {
    typedef cub::BlockRadixSort<int, THREADS, ITEMS> Sort;
    typedef cub::BlockDiscontinuity<int, THREADS> Tails;
    typedef cub::BlockReduce<int, THREADS> Reduce;
    __shared__ union {
        typename Sort::TempStorage sort;
        typename Tails::TempStorage tails;
        typename Reduce::TempStorage reduce;
    } shared;
    int keys[ITEMS], tails[ITEMS];
    cub::LoadDirectBlocked(threadIdx.x, in, keys);
    Sort(shared.sort).Sort(keys);
    __syncthreads();
    Tails(shared.tails).FlagTails(tails, keys, cub::Inequality());
    if (is_right)
        __syncthreads();
    int sum = Reduce(shared.reduce).Sum(tails);
    if (threadIdx.x == 0)
        *number = sum;
    cub::StoreDirectBlocked(threadIdx.x, out, keys);
}

/* Leaves the even numbers, in their order. */
__global__ void compacted(const int *in, int *out, int *number, bool is_right) {
    typedef cub::BlockScan<int, THREADS> Scan;
    typedef cub::BlockLoad<int, THREADS, ITEMS, cub::BLOCK_LOAD_TRANSPOSE> Load;
    __shared__ typename Scan::TempStorage scan;
    __shared__ typename Load::TempStorage load;
    __shared__ int kept[TILE];
    int items[ITEMS], flags[ITEMS], places[ITEMS], total;
    Load(load).Load(in, items);
    for (int i = 0; i < ITEMS; i++)
        flags[i] = items[i] % 2 == 0;
    Scan(scan).ExclusiveSum(flags, places, total);
    for (int i = 0; i < ITEMS; i++)
        if (flags[i])
            kept[places[i]] = items[i];
    if (is_right)
        __syncthreads();
    for (int i = threadIdx.x; i < total; i += THREADS)
        out[i] = kept[i];
    if (threadIdx.x == 0)
        *number = total;
}

/* A histogram, and the numbers reordered so that each warp's stores are together. */
__global__ void exchanged(const int *in, int *out, int *number, bool is_right) {
    typedef cub::BlockHistogram<unsigned char, THREADS, ITEMS, BINS, cub::BLOCK_HISTO_ATOMIC> Histogram;
    typedef cub::BlockExchange<int, THREADS, ITEMS> Exchange;
    typedef cub::WarpReduce<int> Warp;
    __shared__ typename Histogram::TempStorage histogram;
    __shared__ typename Exchange::TempStorage exchange;
    __shared__ typename Warp::TempStorage warp;
    __shared__ int bins[BINS];
    int items[ITEMS];
    unsigned char digits[ITEMS];
    cub::LoadDirectBlocked(threadIdx.x, in, items);
    for (int i = 0; i < ITEMS; i++)
        digits[i] = items[i] % BINS;
    Histogram(histogram).Histogram(digits, bins);
    if (is_right)
        __syncthreads();
    if (threadIdx.x < 32) {
        int most = Warp(warp).Reduce(threadIdx.x < BINS ? bins[threadIdx.x] : 0, cub::Max());
        if (threadIdx.x == 0)
            *number = most;
    }
    Exchange(exchange).BlockedToStriped(items);
    cub::StoreDirectStriped<THREADS>(threadIdx.x, out, items);
}

int main(int, char **arguments) {
    std::vector<int> x(TILE), y(TILE), right(TILE);
    for (int i = 0; i < TILE; i++)
        right[i] = x[i] = i * 7919 % 101;
    int *in, *out, *number, n, expected = 0;
    cudaMalloc(&in, TILE * sizeof(int));
    cudaMalloc(&out, TILE * sizeof(int));
    cudaMalloc(&number, sizeof(int));
    cudaMemcpy(in, x.data(), TILE * sizeof(int), cudaMemcpyHostToDevice);
    bool is_right = !arguments[2];
    if (!strcmp(arguments[1], "runs")) {
        std::sort(right.begin(), right.end());
        expected = 101;
        runs<<<1, THREADS>>>(in, out, number, is_right);
    } else if (!strcmp(arguments[1], "compacted")) {
        right.erase(std::remove_if(right.begin(), right.end(), [](int of) { return of % 2; }), right.end());
        expected = (int)right.size();
        compacted<<<1, THREADS>>>(in, out, number, is_right);
    } else {
        for (int bin = 0; bin < BINS; bin++)
            expected = std::max(
                expected, (int)std::count_if(x.begin(), x.end(), [=](int of) { return of % BINS == bin; }));
        exchanged<<<1, THREADS>>>(in, out, number, is_right);
    }
    cudaMemcpy(y.data(), out, right.size() * sizeof(int), cudaMemcpyDeviceToHost);
    cudaMemcpy(&n, number, sizeof(int), cudaMemcpyDeviceToHost);
    y.resize(right.size());
    printf("%s\n", n == expected && y == right ? "right" : "wrong");
    cudaFree(in);
    cudaFree(out);
    cudaFree(number);
}
