/* Prints the figures of a card of the GPU that is there: its properties, and what the microbenchmarks beside
 * this file measure. With the argument `brief` it only shows that everything runs. */
#include <cstring>

#include "measure.h"

static int attribute(cudaDeviceAttr of) {
    int value = 0;
    CHECK(cudaDeviceGetAttribute(&value, of, 0));
    return value;
}

int main(int count, char **arguments) {
    cudaDeviceProp of;
    CHECK(cudaGetDeviceProperties(&of, 0));
    printf("name %s\n", of.name);
    printf("capability %d.%d\n", of.major, of.minor);
    printf("multiprocessors %d\n", of.multiProcessorCount);
    printf("memory_bytes %zu\n", of.totalGlobalMem);
    printf("warps %d\n", of.maxThreadsPerMultiProcessor / of.warpSize);
    printf("threads %d\n", of.maxThreadsPerMultiProcessor);
    printf("blocks %d\n", of.maxBlocksPerMultiProcessor);
    printf("registers %d\n", of.regsPerMultiprocessor);
    printf("shared_bytes %zu\n", of.sharedMemPerMultiprocessor);
    printf("shared_per_block %zu\n", of.sharedMemPerBlockOptin);
    printf("shared_reserved %zu\n", of.reservedSharedMemPerBlock);
    printf("l2_bytes %d\n", of.l2CacheSize);
    /* Two transfers a clock. */
    double bytes =
        2e3 * attribute(cudaDevAttrMemoryClockRate) * attribute(cudaDevAttrGlobalMemoryBusWidth) / 8;
    printf("dram_bytes_per_second %.9g\n", bytes);
    bool is_brief = count > 1 && !strcmp(arguments[1], "brief");
    Machine machine = {
        of.multiProcessorCount, 10 * of.major + of.minor, (size_t)of.l2CacheSize, of.totalGlobalMem, is_brief,
        is_brief ? 1 : 15};
    measure_instructions(machine);
    measure_latencies(machine);
    measure_bandwidths(machine);
    return 0;
}
