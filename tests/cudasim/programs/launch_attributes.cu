// Launches with attributes: a cluster, a cooperative grid, and a launch that may begin early.
#include "check.h"
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__global__ void __cluster_dims__(4) in_fours(int *y); // which its definition need not say again
__global__ void in_fours(int *y) {
    if (threadIdx.x == 0)
        y[blockIdx.x] = cg::this_cluster().num_blocks();
}

__global__ void __cluster_dims__(2, 1, 1) in_pairs(int *y) {
    if (threadIdx.x == 0)
        y[blockIdx.x] = 10 * cg::this_cluster().num_blocks() + cg::this_cluster().block_rank();
}

__global__ void ranks(int *y, float) {
    cg::cluster_group cluster = cg::this_cluster();
    if (threadIdx.x == 0)
        y[blockIdx.x] = 10 * cluster.num_blocks() + cluster.block_rank();
}

__global__ void sums(int *y) {
    atomicAdd(&y[0], 1);
    cg::this_grid().sync();
    y[1 + blockIdx.x] = y[0];
}

template <int by> __global__ void second(int *y) {
    cudaGridDependencySynchronize();
    if (threadIdx.x == 0)
        y[blockIdx.x] *= by;
    cudaTriggerProgrammaticLaunchCompletion();
}

int main() {
    int *y, wrong = 0;
    CHECK(cudaMallocManaged(&y, 8 * sizeof(int)));
    cudaLaunchAttribute attribute;
    cudaLaunchConfig_t config = {};
    config.gridDim = 4;
    config.blockDim = 32;
    config.attrs = &attribute;
    config.numAttrs = 1;
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = 2;
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    CHECK(cudaLaunchKernelEx(&config, ranks, y, 1));
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    CHECK(cudaLaunchKernelEx(&config, second<3>, y));
    CHECK(cudaDeviceSynchronize());
    for (int block = 0; block < 4; block++)
        wrong += y[block] != 3 * (20 + (int)block % 2);
    for (int i = 0; i < 8; i++)
        y[i] = 0;
    config.blockDim = 1;
    attribute.id = cudaLaunchAttributeCooperative;
    attribute.val.cooperative = 1;
    CHECK(cudaLaunchKernelEx(&config, sums, y));
    CHECK(cudaDeviceSynchronize());
    for (int block = 0; block < 4; block++)
        wrong += y[1 + block] != 4;
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = 1;
    attribute.val.clusterDim.y = 2;
    wrong += cudaLaunchKernelEx(&config, sums, y) != cudaErrorNotSupported; // of the simulator
    cudaGetLastError();
    in_pairs<<<4, 32>>>(y);
    CHECK(cudaDeviceSynchronize());
    for (int block = 0; block < 4; block++)
        wrong += y[block] != 20 + block % 2;
    in_fours<<<4, 32>>>(y);
    CHECK(cudaDeviceSynchronize());
    for (int block = 0; block < 4; block++)
        wrong += y[block] != 4;
    CHECK(cudaFree(y));
    printf(wrong ? "%d wrong\n" : "ok\n", wrong);
    return wrong;
}
