// CUB's device-wide functions, one of each kind, each called twice.
#include <cub/cub.cuh>
#include <cub/device/device_reduce.cuh>
#include <algorithm>
#include <cstdio>
#include <vector>

template <class T> T *on_device(const std::vector<T> &host) {
    T *device;
    cudaMalloc(&device, host.size() * sizeof(T));
    cudaMemcpy(device, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice);
    return device;
}
template <class T> std::vector<T> on_host(const T *device, size_t count) {
    std::vector<T> host(count);
    cudaMemcpy(host.data(), device, count * sizeof(T), cudaMemcpyDeviceToHost);
    return host;
}
template <class T> void show(const char *what, const T *device, size_t count) {
    printf("%s:", what);
    for (T v : on_host(device, count))
        printf(" %g", (double)v);
    printf("\n");
}
cub::CachingDeviceAllocator allocator(true);

/* A function of CUB's, called twice as it wants it. */
template <class Call> void twice(Call call) {
    void *temporary = nullptr;
    size_t bytes = 0;
    call(temporary, bytes);
    CubDebugExit(allocator.DeviceAllocate(&temporary, bytes));
    call(temporary, bytes);
    CubDebugExit(allocator.DeviceFree(temporary));
}
struct is_even {
    __host__ __device__ bool operator()(int v) const {
        return v % 2 == 0;
    }
};
struct square {
    __host__ __device__ float operator()(int v) const {
        return (float)v * v;
    }
};
__global__ void plus_one(int *x, int n) {
    if (threadIdx.x < n)
        x[threadIdx.x]++;
}

int main() {
    std::vector<int> host = {8, 6, 7, 5, 3, 0, 9, 9, 9, 2};
    const int n = host.size();
    int *in = on_device(host), *out, *out2, *number;
    float *sum;
    cudaMalloc(&out, n * sizeof(int)), cudaMalloc(&out2, n * sizeof(int)), cudaMalloc(&number, sizeof(int));
    cudaMalloc(&sum, sizeof(float));
    cub::KeyValuePair<int, int> *pair;
    cudaMalloc(&pair, sizeof *pair);
    using namespace cub;
#define TWICE(function, ...)                                                                                 \
    twice([&](void *t, size_t &b) {                                                                          \
        if (function(t, b, __VA_ARGS__))                                                                     \
            printf("fails\n");                                                                               \
    })
    TWICE(DeviceReduce::ArgMin, in, pair, n);
    printf("argmin: %d %d\n", on_host(pair, 1)[0].key, on_host(pair, 1)[0].value);
    TransformInputIterator<float, square, int *> squares(in, square());
    TWICE(DeviceReduce::Sum, squares, sum, n);
    show("squares", sum, 1);
    TWICE(DeviceScan::ExclusiveSum, in, out, n);
    plus_one<<<1, 32>>>(out, n);
    show("exclusive", out, n);
    DoubleBuffer<int> keys(in, out);
    TWICE(DeviceRadixSort::SortKeys, keys, n, 0, 2);
    show("bits", keys.Current(), n);
    cudaMemcpy(in, host.data(), n * sizeof(int), cudaMemcpyHostToDevice);
    TWICE(DeviceSelect::If, in, out, number, n, is_even());
    show("even", out, on_host(number, 1)[0]);
    TWICE(DeviceRunLengthEncode::Encode, in, out, out2, number, n);
    show("lengths", out2, on_host(number, 1)[0]);
    int *offsets = on_device(std::vector<int>{0, 3, 3, 10});
    TWICE(DeviceSegmentedReduce::Sum, in, out, 3, offsets, offsets + 1);
    show("segments", out, 3);
    TWICE(DeviceSegmentedSort::SortKeys, in, out, n, 3, offsets, offsets + 1);
    show("sorted segments", out, n);
    TWICE(DeviceHistogram::HistogramEven, in, out, 6, 0, 10, n);
    show("histogram", out, 5);
    TWICE(DeviceReduce::ReduceByKey, in, out, in, out2, number, cub::Sum(), n);
    show("by key", out2, on_host(number, 1)[0]);
    TWICE(DeviceMergeSort::SortKeys, in, n, [] __device__(int a, int b) { return a > b; });
    show("merge", in, n);
    float *many = on_device(std::vector<float>((1 << 24) + (1 << 20), 1.0f));
    TWICE(DeviceReduce::Sum, many, sum, (1 << 24) + (1 << 20));
    printf("many: %.0f\n", on_host(sum, 1)[0]);
    for (void *p : {(void *)in, (void *)out, (void *)out2, (void *)number, (void *)sum, (void *)pair,
                    (void *)offsets, (void *)many})
        cudaFree(p);
}
