/* The backward's products, rung 1: one thread per output, as in gemm_1_naive.cu.
 *
 * Idea: dX = G W and dW = G^T X by their definitions. G, W and X lie in memory as the forward left them. So k
 * is contiguous in G for dX, and in neither factor of dW. Neighbouring lanes read neighbouring columns of the
 * right factor, which is coalesced, and the same element of the left one.
 *
 * Operations: 2 rows inner columns. Bytes asked for: two elements for every multiply-add.
 *
 * Limit: the loads.
 *
 * Next (product_2_transposed.cu): the forward's product on transposed copies. */
#include "backward/backward.h"
#include "norm/channels.h"
#include "shared/checks.h"

#define RUN 32 /* products in a short sum, as in gemm_1_naive.cu */

__global__ void naive_backward_product_kernel(struct backward_product product) {
    int64_t index = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (index >= product.rows * product.columns)
        return;
    int64_t row = index / product.columns, column = index % product.columns;
    float sum = 0.0f;
    for (int64_t start = 0; start < product.inner; start += RUN) {
        int64_t end = start + RUN < product.inner ? start + RUN : product.inner;
        float run = 0.0f;
        for (int64_t k = start; k < end; k++) {
            int64_t left = product.left_is_transposed ? k * product.rows + row : row * product.inner + k;
            run += element_at(product.left, left, product.type) *
                   element_at(product.right, k * product.columns + column, product.type);
        }
        sum += run;
    }
    store_element(product.result, index, sum, product.type);
}

LAUNCHER(naive_backward_product_kernel, struct backward_product)

fgn_status product_1_naive_bytes(const struct backward_product *product, unsigned long long *bytes) {
    (void)product;
    *bytes = 0;
    return FGN_OK;
}

fgn_status product_1_naive(const struct backward_product *product, void *workspace, cudaStream_t stream) {
    (void)workspace;
    dim3 grid = {(unsigned)tiles(product->rows * product->columns, THREADS), 1, 1};
    dim3 block = {THREADS, 1, 1};
    return status_of(launch_naive_backward_product_kernel(grid, block, 0, stream, *product), "naive product");
}
