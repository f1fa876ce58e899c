/* A ring buffer between TMA and wgmma, right and with one mistake at a time, for
 * tests/cudasim/test_hopper_faults.py: y = x w^T for 64 rows of x and of w and any multiple of 64 k. Threads
 * 0 to 127 multiply, thread 128 copies.
 */
#include "sim/ptx/bar.h"
#include "sim/ptx/mbarrier.h"
#include "sim/ptx/tma.h"
#include "sim/ptx/wgmma.h"
#include "sim/launchers.h"

/* How wgmma finds a tile: rows of 128 bytes along k, swizzled by 128 bytes, in atoms of 8 rows. */
static uint64_t wgmma_descriptor(uint32_t address) {
    uint64_t distance = 1024 / 16, swizzle_128_bytes = 1;
    return (address & 0x3ffff) >> 4 | (uint64_t)1 << 16 | distance << 32 | swizzle_128_bytes << 62;
}

/* The descriptor of the same rows, `bytes` further along k. */
static uint64_t descriptor_plus(uint64_t descriptor, int bytes) {
    return (descriptor & 0xffffffff00000000) | ((uint32_t)descriptor + bytes / 16);
}

enum mistake {
    NONE,
    NOT_WAITED_UNTIL_EMPTY,
    TOLD_TOO_EARLY,
    WRONG_PARITY,
    NOT_WAITED_UNTIL_FULL,
    NO_PROXY_FENCE,
    NO_BARRIER_AFTER_STORES,
    SUMS_TOO_EARLY,
    WRONG_SWIZZLE,
    WRONG_ATOM_DISTANCE,
    TOO_MANY_BYTES,
    PARITY_NEVER_FLIPS,
    NEVER_TOLD,
    BARRIER_OVERWRITTEN,
    NOT_INITIALISED,
    EXITS_EARLY,
    READ_BY_THREADS_TOO_EARLY,
};

enum { ROWS = 64, STEP_K = 64, ROW_BYTES = 128, TILE_BYTES = ROWS * ROW_BYTES, STAGES = 2, SUMS = 32 };

struct faulty_ring {
    unsigned char x[STAGES][TILE_BYTES];
    unsigned char w[STAGES][TILE_BYTES];
    uint64_t full[STAGES];
    uint64_t empty[STAGES];
};

struct ring_args {
    CUtensorMap x;
    CUtensorMap w;
    const unsigned char *w_rows; /* for threads that copy w themselves */
    float *y;                    /* (64, 64) */
    int steps;
    enum mistake mistake;
};

static void produce(const struct ring_args *args, struct faulty_ring *ring, bool copies_w) {
    uint32_t bytes = copies_w ? 2 * TILE_BYTES : TILE_BYTES;
    for (int step = 0; step < args->steps; step++) {
        int stage = step % STAGES, turn = step / STAGES;
        uint32_t full = shared_address(&ring->full[stage]);
        if (args->mistake != NOT_WAITED_UNTIL_EMPTY)
            mbarrier_wait(shared_address(&ring->empty[stage]), (turn + 1) % 2);
        mbarrier_arrive_expect_tx(full, bytes + (args->mistake == TOO_MANY_BYTES ? 16 : 0));
        cp_async_bulk_tensor(shared_address(ring->x[stage]), &args->x, step * STEP_K, 0, full);
        if (copies_w)
            cp_async_bulk_tensor(shared_address(ring->w[stage]), &args->w, step * STEP_K, 0, full);
    }
}

/* What TMA would do: 16 bytes number c of row r go to place c XOR r % 8. */
static void store_w(const struct ring_args *args, unsigned char *tile, int step) {
    for (int i = threadIdx.x; i < TILE_BYTES / 16; i += 128) {
        int row = i / 8, place = (i % 8) ^ (row % 8);
        const unsigned char *from =
            args->w_rows + ((int64_t)row * args->steps + step) * ROW_BYTES + i % 8 * 16;
        *(uint4 *)(tile + row * ROW_BYTES + place * 16) = *(const uint4 *)from;
    }
}

static uint64_t descriptor_of(const struct ring_args *args, uint32_t address) {
    uint64_t descriptor = wgmma_descriptor(address);
    if (args->mistake == WRONG_SWIZZLE)
        descriptor ^= (uint64_t)3 << 62; /* 64 bytes */
    if (args->mistake == WRONG_ATOM_DISTANCE)
        descriptor ^= (uint64_t)(1024 / 16 ^ 512 / 16) << 32;
    return descriptor;
}

static void consume(const struct ring_args *args, struct faulty_ring *ring, bool stores_w) {
    enum mistake mistake = args->mistake;
    float sum[SUMS];
    for (int i = 0; i < SUMS; i++)
        sum[i] = 0.0f;
    for (int step = 0; step < args->steps; step++) {
        int stage = step % STAGES, turn = step / STAGES;
        uint32_t empty = shared_address(&ring->empty[stage]);
        int parity = mistake == WRONG_PARITY ? (turn + 1) % 2 : mistake == PARITY_NEVER_FLIPS ? 0 : turn % 2;
        if (mistake != NOT_WAITED_UNTIL_FULL)
            mbarrier_wait(shared_address(&ring->full[stage]), parity);
        if (stores_w) {
            store_w(args, ring->w[stage], step);
            if (mistake != NO_PROXY_FENCE)
                fence_proxy_async();
            if (mistake != NO_BARRIER_AFTER_STORES)
                bar_sync(1, 128);
        }
        if (mistake == READ_BY_THREADS_TOO_EARLY && step + 1 < args->steps)
            sum[0] += ring->x[1 - stage][threadIdx.x]; /* the stage that is still to come */
        wgmma_fence();
        uint64_t x = descriptor_of(args, shared_address(ring->x[stage]));
        uint64_t w = descriptor_of(args, shared_address(ring->w[stage]));
        for (int along = 0; along < ROW_BYTES; along += 32)
            wgmma_m64n64k16_bf16(sum, descriptor_plus(x, along), descriptor_plus(w, along), true);
        wgmma_commit_group();
        if (mistake == TOLD_TOO_EARLY && threadIdx.x == 0)
            mbarrier_arrive(empty);
        if (mistake == SUMS_TOO_EARLY)
            sum[1] *= 0.5f;
        wgmma_wait_group(0);
        if (mistake == BARRIER_OVERWRITTEN && threadIdx.x == 0)
            ring->empty[stage] = 0;
        if (threadIdx.x == 0 && mistake != TOLD_TOO_EARLY && mistake != NEVER_TOLD)
            mbarrier_arrive(empty);
    }
    int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
    for (int i = 0; i < SUMS; i++)
        args->y[(row + i / 2 % 2 * 8) * ROWS + column + i / 4 * 8 + i % 2] = sum[i];
}

__global__ void ring_kernel(struct ring_args args) {
    struct faulty_ring *ring = (struct faulty_ring *)dynamic_shared;
    bool stores_w = args.mistake == NO_PROXY_FENCE || args.mistake == NO_BARRIER_AFTER_STORES;
    if (threadIdx.x == 0 && args.mistake != NOT_INITIALISED) {
        for (int stage = 0; stage < STAGES; stage++) {
            mbarrier_init(shared_address(&ring->full[stage]), 1);
            mbarrier_init(shared_address(&ring->empty[stage]), 1);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x == 128)
        produce(&args, ring, !stores_w);
    else if (threadIdx.x < 128)
        consume(&args, ring, stores_w);
}

LAUNCHER(ring_kernel, struct ring_args)

/* Each block of a cluster writes its rank, and reads that of the other. */
__global__ void exchange_kernel(struct ring_args args) {
    float *own = (float *)dynamic_shared;
    if (threadIdx.x < 4)
        own[threadIdx.x] = cluster_ctarank();
    barrier_cluster();
    if (args.mistake == EXITS_EARLY && cluster_ctarank() == 1)
        return;
    if (threadIdx.x == 0)
        args.y[cluster_ctarank()] = ld_shared_cluster_v4(own, 1 - cluster_ctarank()).x;
    if (args.mistake != EXITS_EARLY)
        barrier_cluster(); /* nobody leaves before the other one has read */
}

CLUSTER_LAUNCHER(exchange_kernel, struct ring_args)

static bool describe(CUtensorMap *map, const void *matrix, int steps) {
    cuuint64_t sizes[2] = {(cuuint64_t)steps * STEP_K, ROWS}, pitch = (cuuint64_t)steps * ROW_BYTES;
    cuuint32_t box[2] = {STEP_K, ROWS};
    const cuuint32_t every_element[2] = {1, 1};
    return cuTensorMapEncodeTiled(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, (void *)matrix, sizes, &pitch,
                                  box, every_element, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                  CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

/* x and w: (64, 64 steps) of bfloat16. y: (64, 64). */
int launch_ring(int mistake, const void *x, const void *w, float *y, int steps);
int launch_ring(int mistake, const void *x, const void *w, float *y, int steps) {
    struct ring_args args = {.w_rows = w, .y = y, .steps = steps, .mistake = (enum mistake)mistake};
    dim3 grid = {1, 1, 1}, block = {160, 1, 1};
    if (!describe(&args.x, x, steps) || !describe(&args.w, w, steps))
        return cudaErrorInvalidValue;
    return launch_ring_kernel(grid, block, sizeof(struct faulty_ring), NULL, args);
}

int launch_exchange(int mistake, float *y);
int launch_exchange(int mistake, float *y) {
    struct ring_args args = {.y = y, .mistake = (enum mistake)mistake};
    dim3 grid = {2, 1, 1}, block = {32, 1, 1};
    return launch_exchange_kernel(grid, block, 1024, NULL, 2, args);
}
