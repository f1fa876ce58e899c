#include "ptx/mma.h"

__global__ void mma_tile(float *y, const float *x, const float *w, int columns, int inner) {
    // BEGIN SOLUTION: the tile of this warp, the lane's g and t; a loop over k in steps of 8; the tile of y.
    int row = 16 * blockIdx.y;
    int column = 8 * blockIdx.x;
    int g = threadIdx.x / 4;
    int t = threadIdx.x % 4;
    float sum[4] = {0.0f};
    for (int k = 0; k < inner; k += 8) {
        uint32_t a[4], b[2];
        a[0] = __float_as_uint(x[(row + g) * inner + k + t]);
        a[1] = __float_as_uint(x[(row + g + 8) * inner + k + t]);
        a[2] = __float_as_uint(x[(row + g) * inner + k + t + 4]);
        a[3] = __float_as_uint(x[(row + g + 8) * inner + k + t + 4]);
        b[0] = __float_as_uint(w[(column + g) * inner + k + t]);
        b[1] = __float_as_uint(w[(column + g) * inner + k + t + 4]);
        mma_m16n8k8_tf32(sum, a, b);
    }
    float *to = y + (row + g) * columns + column + 2 * t;
    to[0] = sum[0];
    to[1] = sum[1];
    to[8 * columns] = sum[2];
    to[8 * columns + 1] = sum[3];
    // END SOLUTION
}
