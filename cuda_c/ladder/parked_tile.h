/* An epilogue that sees whole rows: the tile's sums, parked in shared memory.
 *
 * In registers a row of the tile is spread over 16 threads, and code that indexes a register array must be
 * unrolled. In shared memory any thread can reach any value, and loops need not be unrolled. The main loop's
 * memory is free by then. */
#pragma once

#include "ladder/pipelined_tile.h"

struct parked_tile {
    float value[TILE][TILE];
};

static inline size_t parked_tile_bytes(bool finished_runs) {
    size_t bytes = tile_memory_bytes(finished_runs);
    return bytes > sizeof(struct parked_tile) ? bytes : sizeof(struct parked_tile);
}

/* All threads of the block call this together, and find the whole tile there afterwards. A warp stores
 * float4s of four rows, eight side by side: 128 bytes of each row, one wavefront each, so no padding is
 * needed. */
static __forceinline__ __device__ void park(struct parked_tile *parked,
                                            float sum[THREAD_ROWS][THREAD_COLUMNS]) {
    struct thread_place place = place_of_thread();
    __syncthreads(); /* the last k tile has been read */
#pragma unroll
    for (int i = 0; i < THREAD_ROWS; i++) {
#pragma unroll
        for (int j = 0; j < THREAD_COLUMNS; j += 4) {
            float4 four = {sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]};
            *(float4 *)&parked->value[row_in_tile(place, i)][column_in_tile(place, j)] = four;
        }
    }
    __syncthreads();
}
