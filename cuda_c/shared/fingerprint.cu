/* The fingerprint of a matrix (fingerprint.h says what it is).
 *
 * Idea: a thread takes tiles of 32 words, eight 16-byte loads in flight at once; a warp's loads are
 * contiguous. The words of a tile have the same keys in every thread, so the keys are constants in the
 * instructions. Blocks leave their sums in memory, and the block that finishes last adds them up.
 *
 * Bytes: 4 read for each word. Operations: four additions and two multiply-adds of 32 bits into 64 for a pair
 * of words, and about a hundred for a tile's keys and products: 6 instructions per word.
 *
 * Limit: memory bandwidth. */
#include "shared/fingerprint.h"
#include "shared/team.h"

#define THREADS 256
#define WARPS (THREADS / LANES)
#define TILE_LOADS 8
#define TILE_WORDS (4 * TILE_LOADS)

/* The second digest has the first one's keys, shifted by a pair. */
#define SHIFT 2

#define PRIME ((1ull << 61) - 1)

struct fingerprint_args {
    const uint32_t *words;
    int64_t count;
    int64_t tiles;   /* of whole warps */
    bool is_aligned; /* the first word is aligned to 16 bytes */
    struct upkeep *upkeep;
    int *cleared;
};

/* Number `index` of a sequence of 64-bit numbers that look random (Steele, Lea and Flood, "Fast splittable
 * pseudorandom number generators", 2014). */
static __forceinline__ __device__ uint64_t random_number(uint64_t index) {
    uint64_t z = (index + 1) * 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

/* The key of a word of every tile. The compiler computes it. */
static __forceinline__ __device__ uint32_t word_key(int index) {
    return (uint32_t)(random_number(0x666770726e74ull + index) >> 32);
}

/* v mod 2^61 - 1, or that plus 2^61 - 1. */
static __forceinline__ __device__ uint64_t reduced(unsigned __int128 v) {
    uint64_t once = (uint64_t)(v & PRIME) + (uint64_t)(v >> 61);
    return (once & PRIME) + (once >> 61);
}

/* a + b mod 2^61 - 1, in [0, 2^61 - 1). */
static __forceinline__ __device__ uint64_t sum_of(uint64_t a, uint64_t b) {
    uint64_t sum = a + b;
    sum = (sum & PRIME) + (sum >> 61);
    return sum >= PRIME ? sum - PRIME : sum;
}

static __forceinline__ __device__ struct fingerprint both(struct fingerprint a, struct fingerprint b) {
    struct fingerprint sum = {{sum_of(a.sum[0], b.sum[0]), sum_of(a.sum[1], b.sum[1])}};
    return sum;
}

/* Loads words; those behind the matrix's end are zeros. */
static __forceinline__ __device__ uint4 load_words(const struct fingerprint_args *args, int64_t first) {
    uint4 four = {0, 0, 0, 0};
    if (first < args->count)
        four.x = args->words[first];
    if (first + 1 < args->count)
        four.y = args->words[first + 1];
    if (first + 2 < args->count)
        four.z = args->words[first + 2];
    if (first + 3 < args->count)
        four.w = args->words[first + 3];
    return four;
}

static __forceinline__ __device__ uint64_t product_of_pair(uint32_t a, uint32_t b, int key) {
    return (uint64_t)(uint32_t)(a + word_key(key)) * (uint32_t)(b + word_key(key + 1));
}

static __forceinline__ __device__ uint64_t digest_of(const uint4 *four, int shift) {
    uint64_t digest = 0;
#pragma unroll
    for (int i = 0; i < TILE_LOADS; i++)
        digest += product_of_pair(four[i].x, four[i].y, 4 * i + shift) +
                  product_of_pair(four[i].z, four[i].w, 4 * i + 2 + shift);
    return digest;
}

/* A digest's contribution to the sum: its halves times its tile's keys. */
static __forceinline__ __device__ uint64_t part_of_sum(uint64_t digest, uint64_t keys) {
    uint64_t a = random_number(2 * keys) & PRIME, b = random_number(2 * keys + 1) & PRIME;
    return reduced((unsigned __int128)a * (uint32_t)digest + (unsigned __int128)b * (uint32_t)(digest >> 32));
}

/* Gives every lane the warp's sum. */
static __forceinline__ __device__ struct fingerprint sum_of_warp(struct fingerprint mine) {
    for (int distance = LANES / 2; distance > 0; distance /= 2) {
        struct fingerprint other;
        other.sum[0] = __shfl_xor_sync(0xffffffffu, mine.sum[0], distance);
        other.sum[1] = __shfl_xor_sync(0xffffffffu, mine.sum[1], distance);
        mine = both(mine, other);
    }
    return mine;
}

/* Gives the first thread the block's sum. */
static __forceinline__ __device__ struct fingerprint sum_of_block(struct fingerprint mine,
                                                                  struct fingerprint *of_warp) {
    mine = sum_of_warp(mine);
    if (threadIdx.x % LANES == 0)
        of_warp[threadIdx.x / LANES] = mine;
    __syncthreads();
    for (int warp = 1; warp < WARPS && threadIdx.x == 0; warp++)
        mine = both(mine, of_warp[warp]);
    return mine;
}

/* The first thread of the last block compares the fingerprints, and clears the counters for the next launch.
 */
static __forceinline__ __device__ void conclude(const struct fingerprint_args *args, struct fingerprint now) {
    struct upkeep *upkeep = args->upkeep;
    if (now.sum[0] != upkeep->kept.sum[0] || now.sum[1] != upkeep->kept.sum[1]) {
        upkeep->kept = now;
        upkeep->changed = 1;
        *args->cleared = 0;
    }
    upkeep->fingerprinted = 0;
}

__global__ void __launch_bounds__(THREADS) fingerprint_kernel(struct fingerprint_args args) {
    __shared__ struct fingerprint of_warp[WARPS];
    __shared__ bool is_last;
    struct fingerprint mine = {{0, 0}};
    int64_t first = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    for (int64_t tile = first; tile < args.tiles; tile += gridDim.x * (int64_t)THREADS) {
        /* A warp's 32 tiles are interleaved: a lane has every 32nd uint4. */
        int64_t begin = tile / LANES * LANES * TILE_WORDS + threadIdx.x % LANES * 4;
        uint4 four[TILE_LOADS];
        if (args.is_aligned && begin + (TILE_LOADS - 1) * LANES * 4 + 4 <= args.count) {
#pragma unroll
            for (int i = 0; i < TILE_LOADS; i++)
                four[i] = *(const uint4 *)(args.words + begin + i * LANES * 4);
        } else {
#pragma unroll
            for (int i = 0; i < TILE_LOADS; i++)
                four[i] = load_words(&args, begin + i * LANES * 4);
        }
        struct fingerprint part = {
            {part_of_sum(digest_of(four, 0), 2 * tile), part_of_sum(digest_of(four, SHIFT), 2 * tile + 1)}};
        mine = both(mine, part);
    }
    mine = sum_of_block(mine, of_warp);
    if (threadIdx.x == 0) {
        args.upkeep->partial[blockIdx.x] = mine;
        __threadfence();
        is_last = atomicAdd(&args.upkeep->fingerprinted, 1u) == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();
    if (!is_last)
        return;
    struct fingerprint all = {{0, 0}};
    for (unsigned block = threadIdx.x; block < gridDim.x; block += THREADS) {
        struct fingerprint of_block = {
            {__ldcg(&args.upkeep->partial[block].sum[0]), __ldcg(&args.upkeep->partial[block].sum[1])}};
        all = both(all, of_block);
    }
    all = sum_of_block(all, of_warp);
    if (threadIdx.x == 0)
        conclude(&args, all);
}

LAUNCHER(fingerprint_kernel, struct fingerprint_args)

/* Of whole warps. */
static int64_t tiles_of(int64_t elements) {
    return tiles(elements, LANES * TILE_WORDS) * LANES;
}

int64_t fingerprint_blocks(int64_t elements) {
    int64_t blocks = tiles(tiles_of(elements), THREADS);
    return blocks < FINGERPRINT_BLOCKS ? blocks : FINGERPRINT_BLOCKS;
}

cudaError_t take_fingerprint(const float *matrix, int64_t elements, struct upkeep *upkeep, int *cleared,
                             cudaStream_t stream) {
    struct fingerprint_args args = {(const uint32_t *)matrix,    elements, tiles_of(elements),
                                    (uintptr_t)matrix % 16 == 0, upkeep,   cleared};
    dim3 grid = {(unsigned)fingerprint_blocks(elements), 1, 1};
    dim3 block = {THREADS, 1, 1};
    return launch_fingerprint_kernel(grid, block, 0, stream, args);
}
