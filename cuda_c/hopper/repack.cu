/* Copies a matrix so that its rows begin at multiples of 16 bytes.
 *
 * Idea: a thread gathers 16 bytes of the copy, adjacent to its neighbours', and stores them at once. It fills
 * zeros beyond the end of a row.
 *
 * Bytes: the matrix read once and written once. Limit: memory bandwidth, or the launch. */
#include "hopper/repack.h"

#define THREADS 256
#define PACK_BYTES 16

struct repack_args {
    const void *matrix;
    void *repacked;
    int64_t columns;
    int64_t packs;     /* of a row of the copy */
    int64_t all_packs; /* of the copy */
    int element_bytes;
};

union pack {
    uint4 all;
    uint32_t words[PACK_BYTES / 4];
    uint16_t halves[PACK_BYTES / 2];
};

__global__ void __launch_bounds__(THREADS) repack_kernel(struct repack_args args) {
    int64_t number = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (number >= args.all_packs)
        return;
    int values = PACK_BYTES / args.element_bytes;
    int64_t row = number / args.packs, first = number % args.packs * values;
    union pack pack;
    for (int i = 0; i < values; i++) {
        bool present = first + i < args.columns;
        int64_t at = row * args.columns + first + i;
        if (args.element_bytes == 4)
            pack.words[i % 4] = present ? ((const uint32_t *)args.matrix)[at] : 0;
        else
            pack.halves[i] = present ? ((const uint16_t *)args.matrix)[at] : 0;
    }
    ((uint4 *)args.repacked)[number] = pack.all;
}

LAUNCHER(repack_kernel, struct repack_args)

unsigned long long repacked_bytes(int64_t rows, int64_t columns, int element_bytes) {
    unsigned long long bytes = rows * aligned_pitch(columns, element_bytes) * element_bytes;
    return (bytes + 255) / 256 * 256;
}

cudaError_t repack(const void *matrix, int64_t rows, int64_t columns, int element_bytes, void *repacked,
                   cudaStream_t stream) {
    int64_t packs = aligned_pitch(columns, element_bytes) * element_bytes / PACK_BYTES;
    struct repack_args args = {matrix, repacked, columns, packs, rows * packs, element_bytes};
    dim3 grid = {(unsigned)tiles(args.all_packs, THREADS), 1, 1};
    dim3 block = {THREADS, 1, 1};
    return launch_repack_kernel(grid, block, 0, stream, args);
}

void plan_repacking(int64_t rows, int64_t columns, int element_bytes, fgn_plan *plan) {
    int64_t pitch = aligned_pitch(columns, element_bytes);
    int64_t packs = rows * pitch * element_bytes / PACK_BYTES;
    fgn_launch *launch = add_launch(plan, "repack_kernel", tiles(packs, THREADS), THREADS);
    add_read(launch, rows * columns * element_bytes, 0);
    add_written(launch, rows * pitch * element_bytes, FGN_WRITES_WORKSPACE);
    launch->computes = FGN_REPACKED;
    plan->workspace_bytes += repacked_bytes(rows, columns, element_bytes);
}
