#include "ptx/mbarrier.h"
#include "ptx/tma.h"

enum { TILE = 1024, STAGES = 3, CONSUMERS = 128 };

__global__ void tma_ring(float *y, const float *x, float a, int count) {
    __shared__ __align__(128) float ring[STAGES][TILE];
    __shared__ uint64_t barriers[2][STAGES];
    uint32_t to[STAGES], full[STAGES], empty[STAGES]; // the stages and the mbarriers, as PTX names them
    for (int stage = 0; stage < STAGES; stage++) {
        to[stage] = shared_address(ring[stage]);
        full[stage] = shared_address(&barriers[0][stage]);
        empty[stage] = shared_address(&barriers[1][stage]);
        if (threadIdx.x == 0) {
            mbarrier_init(full[stage], 1);          // the producer arrives, and the bytes come
            mbarrier_init(empty[stage], CONSUMERS); // every consumer arrives
        }
    }
    fence_mbarrier_init();
    __syncthreads();
    // The block's tiles: tile number `turn` goes through stage turn % STAGES.
    for (int turn = 0, tile = blockIdx.x; tile < count; turn++, tile += gridDim.x) {
        if (threadIdx.x == CONSUMERS) { // the producer
            // BEGIN SOLUTION: wait until the stage is empty, announce the bytes, ask for the copy.
            int stage = turn % STAGES, round = turn / STAGES;
            mbarrier_wait(empty[stage], (round + 1) % 2);
            mbarrier_arrive_expect_tx(full[stage], sizeof ring[stage]);
            cp_async_bulk(to[stage], x + tile * TILE, sizeof ring[stage], full[stage]);
            // END SOLUTION
        } else if (threadIdx.x < CONSUMERS) { // a consumer
            // BEGIN SOLUTION: wait until the stage is full, write this part of y, tell the producer.
            int stage = turn % STAGES, round = turn / STAGES;
            mbarrier_wait(full[stage], round % 2);
            for (int i = threadIdx.x; i < TILE; i += CONSUMERS)
                y[tile * TILE + i] = a * ring[stage][i];
            mbarrier_arrive(empty[stage]);
            // END SOLUTION
        }
    }
}
