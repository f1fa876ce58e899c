#include "ptx/shared_address.h"
#include "ptx/wgmma.h"
#include "ptx/wgmma_narrow.h"

enum { SIDE = 64, STEP = 32, CHUNKS = STEP / 4, THREADS = 128 };

__global__ void wgmma_tile(float *y, const float *x, const float *w, int columns, int inner) {
    __shared__ __align__(1024) float x_rows[SIDE * STEP]; // rows of 128 bytes, swizzled
    __shared__ __align__(1024) float w_rows[SIDE * STEP];
    int row = SIDE * blockIdx.y;
    int column = SIDE * blockIdx.x;
    float sum[32] = {0.0f};
    for (int k = 0; k < inner; k += STEP) {
        for (int i = threadIdx.x; i < SIDE * CHUNKS; i += THREADS) {
            int r = i / CHUNKS, c = i % CHUNKS; // chunk c, 4 floats, of row r
            int place = c;
            // BEGIN SOLUTION: the place in the row where wgmma looks for chunk c.
            place = c ^ r % 8;
            // END SOLUTION
            *(float4 *)&x_rows[r * STEP + 4 * place] = *(const float4 *)&x[(row + r) * inner + k + 4 * c];
            *(float4 *)&w_rows[r * STEP + 4 * place] = *(const float4 *)&w[(column + r) * inner + k + 4 * c];
        }
        // BEGIN SOLUTION: four wgmmas of 8 k each, what has to come before them, and what after.
        fence_proxy_async();
        __syncthreads();
        uint64_t of_x = wgmma_descriptor(shared_address(x_rows));
        uint64_t of_w = wgmma_descriptor(shared_address(w_rows));
        wgmma_fence();
        for (int bytes = 0; bytes < 4 * STEP; bytes += 32)
            wgmma_m64n64k8_tf32(sum, descriptor_plus(of_x, bytes), descriptor_plus(of_w, bytes), 1);
        wgmma_commit_group();
        wgmma_wait_group(0);
        __syncthreads();
        // END SOLUTION
    }
    for (int i = 0; i < 32; i++) {
        int r = threadIdx.x / 2, c = threadIdx.x % 2 * 32 + i; // not where wgmma's sums belong
        // BEGIN SOLUTION: the row and the column of the tile that sum[i] belongs to.
        int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        r = 16 * warp + lane / 4 + i / 2 % 2 * 8;
        c = i / 4 * 8 + lane % 4 * 2 + i % 2;
        // END SOLUTION
        y[(row + r) * columns + column + c] = sum[i];
    }
}
