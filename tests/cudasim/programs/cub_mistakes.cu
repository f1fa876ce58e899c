// Prefix sums of many tiles, whose blocks wait for those before them, and a mistake that the argument names.
#include <cub/cub.cuh>
#include <cstdio>
#include <cstring>
#include <vector>

int main(int, char **arguments) {
    auto is = [&](const char *mistake) { return !strcmp(arguments[1], mistake); };
    const int n = 100000;
    std::vector<int> host(n, 3);
    int *in, *sums, *last;
    cudaMalloc(&in, n * sizeof(int)), cudaMalloc(&sums, n * sizeof(int)), cudaMalloc(&last, sizeof(int));
    cudaMemcpy(in, host.data(), n * sizeof(int), cudaMemcpyHostToDevice);
    void *temporary = nullptr;
    size_t bytes = 0;
    cub::DeviceScan::InclusiveSum(temporary, bytes, in, sums, n);
    if (is("temporary"))
        bytes /= 2;
    cudaMalloc(&temporary, bytes);
    if (is("freed"))
        cudaFree(in);
    cub::DeviceScan::InclusiveSum(temporary, bytes, in, sums, is("count") ? n + 1 : n); // here
    cub::DeviceReduce::Max(sums, last, n);
    int result = 0;
    cudaMemcpy(&result, last, sizeof(int), cudaMemcpyDeviceToHost);
    printf("%d\n", result);
    cudaFree(sums), cudaFree(last), cudaFree(temporary);
    if (!is("freed"))
        cudaFree(in);
}
