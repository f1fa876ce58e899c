/* The matrix product of one 128x128 tile, pipelined: the main loop of rungs 6, 7 and 8.
 *
 * 128 threads compute 128x128 outputs, 16x8 a thread, in k tiles of 8. Two pipelines run at once:
 *   - from global to shared memory, through registers: while one k tile is multiplied, the next is put into
 *     the other of two stages, and the one after it is fetched; a fetch has a whole k tile's time to arrive;
 *   - from shared memory to registers: the fragments for k + 1 are loaded before the multiply-adds of k,
 *     also across the end of a k tile, so no multiply-add waits for a load it has just asked for.
 * One barrier a k tile: it stands before the last k, whose fragments are in registers by then.
 *
 * A thread has 128 multiply-adds for each k and 6 loads of 16 bytes: 1 load for 21. Bytes asked of global
 * memory: 8 / 128 for each multiply-add.
 *
 * Limit: the issue slots. About one instruction in ten is not a multiply-add (loads, stores, addresses), and
 * with 128 sums in registers an SM holds 8 warps, two for each of its schedulers.
 *
 * The compiler's choice of registers matters as much, as ncu's dispatch stalls show: an FFMA whose operands
 * come from one bank of the register file waits a cycle. Sums that are stored directly as float4s need
 * neighbouring registers, and most FFMAs collide; adding the bias first (add_bias) leaves the compiler free
 * to place them. */
#pragma once

#include "shared/plan.h"
#include "shared/float4.h"

#define TILE 128
#define TILE_K 8
#define STAGES 2
#define TILE_THREADS 128
#define THREAD_ROWS 16
#define THREAD_COLUMNS 8
#define WARP_TILE 64 /* four warps, two by two; a warp's lanes stand 4 by 8 */

/* Aligns a row's float4s to 16 bytes, and spreads a warp's store (one k of 2 float4s, 16 rows) over 32
 * banks. */
#define TILE_PAD 4

/* A k tile is copied in steps, one at each k of the tile being multiplied; in a step each thread copies one
 * float4 of four k. So copies fill gaps between multiply-adds. They begin at the third k, because right after
 * the barrier shared memory is busy with the fragments. */
#define COPY_ROWS (TILE_THREADS * 4 / TILE_K)
#define COPY_STEPS (TILE / COPY_ROWS)
#define FIRST_COPY_K 2

/* For accuracy, long sums are made of runs (see gemm_1_naive.cu): of 256 products, or of 64 if tiles are few,
 * where BLAS libraries split the sum too. Registers have no room for a second set of sums, so the finished
 * runs are added up in shared memory. */
#define K_TILES_IN_RUN 32
#define K_TILES_IN_SHORT_RUN 8

struct stage {
    float x[TILE_K][TILE + TILE_PAD]; /* k down, so that a fragment is a float4 */
    float weight[TILE_K][TILE + TILE_PAD];
};

struct tile_memory {
    struct stage stage[STAGES];
    float4 finished_runs[THREAD_ROWS * THREAD_COLUMNS / 4][TILE_THREADS];
};

/* Bytes of dynamic shared memory. A product with a single run needs no place for finished ones. */
static inline size_t tile_memory_bytes(bool finished_runs) {
    return finished_runs ? sizeof(struct tile_memory) : sizeof(struct stage) * STAGES;
}

/* The place of this thread's outputs in the tile. Its 16 rows are four float4s, 16 apart; its 8 columns are
 * two float4s, 32 apart. Neighbouring lanes alternate between rows and columns (lane / 16 * 2 + lane % 2 is
 * the row): so the float4s of 16 lanes more often fit in 128 bytes, and a request of 16 bytes per lane takes
 * 2 wavefronts on average. In plain 4x8 order it takes 3 (measured with ncu on an H200). */
struct thread_place {
    int row;
    int column;
};

static inline __device__ struct thread_place place_of_thread(void) {
    int warp = threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    struct thread_place place;
    place.row = kept(warp / 2 * WARP_TILE + (lane / 16 * 2 + lane % 2) * 4);
    place.column = kept(warp % 2 * WARP_TILE + lane / 2 % 8 * 4);
    return place;
}

static inline __device__ int row_in_tile(struct thread_place place, int i) {
    return place.row + i / 4 * 16 + i % 4;
}

static inline __device__ int column_in_tile(struct thread_place place, int j) {
    return place.column + j / 4 * 32 + j % 4;
}

struct fragment {
    float x[THREAD_ROWS];
    float weight[THREAD_COLUMNS];
};

static __forceinline__ __device__ void load_fragment(struct fragment *fragment, const struct stage *stage,
                                                     int k, struct thread_place place) {
#pragma unroll
    for (int i = 0; i < THREAD_ROWS; i += 4)
        *(float4 *)&fragment->x[i] = *(const float4 *)&stage->x[k][row_in_tile(place, i)];
#pragma unroll
    for (int j = 0; j < THREAD_COLUMNS; j += 4)
        *(float4 *)&fragment->weight[j] = *(const float4 *)&stage->weight[k][column_in_tile(place, j)];
}

static __forceinline__ __device__ void multiply_add(float sum[THREAD_ROWS][THREAD_COLUMNS],
                                                    const struct fragment *fragment) {
#pragma unroll
    for (int i = 0; i < THREAD_ROWS; i++) {
#pragma unroll
        for (int j = 0; j < THREAD_COLUMNS; j++) {
            /* back and forth, so that one operand stays in the register file's reuse cache */
            int column = i % 2 ? THREAD_COLUMNS - 1 - j : j;
            sum[i][column] = fmaf(fragment->x[i], fragment->weight[column], sum[i][column]);
        }
    }
}

/* One thread's copy of an operand: four k of two rows, half a tile apart. */
struct copy {
    const float *next;   /* its first float of the coming k tile */
    uint32_t row_stride; /* floats from there to its other row's */
    int64_t rows;        /* rows of the matrix at and below its first one */
    int64_t k;           /* columns of the matrix at and after its first */
    int cell;            /* where the first float goes in a stage */
    bool as_float4;
    float4 four[COPY_STEPS]; /* on their way */
};

static __forceinline__ __device__ void start_copy(struct copy *copy, const float *matrix, int64_t rows,
                                                  int64_t columns, int64_t first_row) {
    int row = threadIdx.x / 2;
    int k = threadIdx.x % 2 * 4;
    copy->next = matrix + (first_row + row) * columns + k;
    copy->row_stride = (uint32_t)(COPY_ROWS * columns);
    copy->rows = rows - (first_row + row);
    copy->k = columns - k;
    copy->cell = kept(k * (TILE + TILE_PAD) + row);
    copy->as_float4 = rows_hold_float4(matrix, columns);
}

/* `inside`: the whole tile is inside the matrix, so nothing needs to be checked. */
static __forceinline__ __device__ void fetch(struct copy *copy, int step, bool inside) {
    const float *from = copy->next + step * copy->row_stride;
    if (inside)
        copy->four[step] = *(const float4 *)from;
    else
        copy->four[step] = load_float4(from, step * COPY_ROWS < copy->rows ? copy->k : 0, copy->as_float4);
}

static __forceinline__ __device__ void put(float k_tile[TILE_K][TILE + TILE_PAD], const struct copy *copy,
                                           int step) {
    float *to = &k_tile[0][0] + copy->cell + step * COPY_ROWS;
    to[0 * (TILE + TILE_PAD)] = copy->four[step].x;
    to[1 * (TILE + TILE_PAD)] = copy->four[step].y;
    to[2 * (TILE + TILE_PAD)] = copy->four[step].z;
    to[3 * (TILE + TILE_PAD)] = copy->four[step].w;
}

static __forceinline__ __device__ void next_k_tile(struct copy *copy) {
    copy->next += TILE_K;
    copy->k -= TILE_K;
}

static __forceinline__ __device__ void clear_finished_runs(struct tile_memory *memory) {
    float4 zeros = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int four = 0; four < THREAD_ROWS * THREAD_COLUMNS / 4; four++)
        memory->finished_runs[four][threadIdx.x] = zeros;
}

/* Each thread has its own float4s there, so no barrier is needed. */
static __forceinline__ __device__ void add_to_finished_runs(struct tile_memory *memory,
                                                            float sum[THREAD_ROWS][THREAD_COLUMNS]) {
#pragma unroll
    for (int i = 0; i < THREAD_ROWS; i++) {
#pragma unroll
        for (int j = 0; j < THREAD_COLUMNS; j += 4) {
            float4 *finished = &memory->finished_runs[(i * THREAD_COLUMNS + j) / 4][threadIdx.x];
            float4 four = *finished;
            four.x += sum[i][j];
            four.y += sum[i][j + 1];
            four.z += sum[i][j + 2];
            four.w += sum[i][j + 3];
            *finished = four;
            sum[i][j] = sum[i][j + 1] = sum[i][j + 2] = sum[i][j + 3] = 0.0f;
        }
    }
}

static __forceinline__ __device__ void add_finished_runs(const struct tile_memory *memory,
                                                         float sum[THREAD_ROWS][THREAD_COLUMNS]) {
#pragma unroll
    for (int i = 0; i < THREAD_ROWS; i++) {
#pragma unroll
        for (int j = 0; j < THREAD_COLUMNS; j += 4) {
            float4 four = memory->finished_runs[(i * THREAD_COLUMNS + j) / 4][threadIdx.x];
            sum[i][j] += four.x;
            sum[i][j + 1] += four.y;
            sum[i][j + 2] += four.z;
            sum[i][j + 3] += four.w;
        }
    }
}

static __forceinline__ __device__ void multiply_k_tiles(const struct gemm *g, struct tile_memory *memory,
                                                        int64_t first_row, int64_t first_column,
                                                        float sum[THREAD_ROWS][THREAD_COLUMNS],
                                                        int k_tiles_in_run, bool inside) {
    struct thread_place place = place_of_thread();
    struct copy x, weight;
    start_copy(&x, g->x, g->batch, g->in_features, first_row);
    start_copy(&weight, g->weight, g->out_features, g->in_features, first_column);
    int k_tiles = (int)tiles(g->in_features, TILE_K);

    if (k_tiles_in_run > 0)
        clear_finished_runs(memory);
#pragma unroll
    for (int step = 0; step < COPY_STEPS; step++) {
        fetch(&x, step, inside);
        fetch(&weight, step, inside);
    }
#pragma unroll
    for (int step = 0; step < COPY_STEPS; step++) {
        put(memory->stage[0].x, &x, step);
        put(memory->stage[0].weight, &weight, step);
    }
    next_k_tile(&x);
    next_k_tile(&weight);
    if (k_tiles > 1) {
#pragma unroll
        for (int step = 0; step < COPY_STEPS; step++) {
            fetch(&x, step, inside);
            fetch(&weight, step, inside);
        }
    }
    next_k_tile(&x);
    next_k_tile(&weight);
    __syncthreads();

    struct fragment fragment[2];
    load_fragment(&fragment[0], &memory->stage[0], 0, place);
    int reading = 0;
    for (int k_tile = 0; k_tile < k_tiles; k_tile++) {
        bool last = k_tile + 1 == k_tiles;
        bool fetches = k_tile + 2 < k_tiles;
#pragma unroll
        for (int k = 0; k < TILE_K; k++) {
            int step = k - FIRST_COPY_K;
            if (step >= 0 && step < COPY_STEPS) {
                put(memory->stage[1 - reading].x, &x, step);
                if (fetches)
                    fetch(&x, step, inside);
            } else if (step >= COPY_STEPS && step < 2 * COPY_STEPS) {
                put(memory->stage[1 - reading].weight, &weight, step - COPY_STEPS);
                if (fetches)
                    fetch(&weight, step - COPY_STEPS, inside);
            }
            if (k == TILE_K - 1) {
                next_k_tile(&x);
                next_k_tile(&weight);
                __syncthreads(); /* the next k tile is here, and this one is read: its stage may be filled */
                if (!last)       /* else the fragment that nobody will use comes from the same stage again */
                    reading = 1 - reading;
            }
            load_fragment(&fragment[(k + 1) % 2], &memory->stage[reading], (k + 1) % TILE_K, place);
            multiply_add(sum, &fragment[k % 2]);
        }
        if (k_tiles_in_run > 0 && ((k_tile + 1) & (k_tiles_in_run - 1)) == 0 && !last)
            add_to_finished_runs(memory, sum);
    }
    if (k_tiles_in_run > 0)
        add_finished_runs(memory, sum);
}

/* sum += bias, for the thread's columns. */
static __forceinline__ __device__ void add_bias(const struct gemm *g, int64_t first_column,
                                                float sum[THREAD_ROWS][THREAD_COLUMNS]) {
    struct thread_place place = place_of_thread();
#pragma unroll
    for (int j = 0; j < THREAD_COLUMNS; j++) {
        int64_t column = first_column + column_in_tile(place, j);
        float bias = g->bias && column < g->out_features ? g->bias[column] : 0.0f;
#pragma unroll
        for (int i = 0; i < THREAD_ROWS; i++)
            sum[i][j] += bias;
    }
}

/* sum = x W^T + bias for the rows from `first_row` and the columns from `first_column`; zero outside the
 * matrices. Ends without a barrier: other threads may still be reading the stages. */
static __forceinline__ __device__ void multiply_tile(const struct gemm *g, struct tile_memory *memory,
                                                     int64_t first_row, int64_t first_column,
                                                     float sum[THREAD_ROWS][THREAD_COLUMNS],
                                                     int k_tiles_in_run) {
    bool inside = first_row + TILE <= g->batch && first_column + TILE <= g->out_features &&
                  g->in_features % TILE_K == 0 && rows_hold_float4(g->x, g->in_features) &&
                  rows_hold_float4(g->weight, g->in_features);
    if (inside)
        multiply_k_tiles(g, memory, first_row, first_column, sum, k_tiles_in_run, true);
    else
        multiply_k_tiles(g, memory, first_row, first_column, sum, k_tiles_in_run, false);
    add_bias(g, first_column, sum);
}

/* Whether smaller blocks do better (gemm_few_rows.cu): if y has so few tiles that half of a large GPU's
 * multiprocessors would be idle, or if three quarters of every tile would be. */
#define FEW_TILES 64
#define FEW_TILE_ROWS 32

static inline bool has_few_tiles(int64_t batch, int64_t out_features) {
    return tiles(batch, TILE) * tiles(out_features, TILE) <= FEW_TILES || batch <= FEW_TILE_ROWS;
}

/* The place in a plan's choices for the number of k tiles in a run (0: one run, which needs no memory for
 * finished ones). */
#define K_TILES_IN_RUN_CHOICE 7

/* Decides the length of a run and the shared memory of the launch. GPUs of compute capability 7.5 give a
 * block at most 64 KiB: there the sums stay one run, as accurate as those of cuBLAS. `bytes`: the kernel's
 * need with and without finished runs. */
static inline void choose_runs(const fgn_chain *chain, const fgn_device *device,
                               size_t (*bytes)(bool finished_runs), fgn_plan *plan, fgn_launch *launch) {
    int k_tiles_in_run =
        has_few_tiles(chain->batch, chain->out_features) ? K_TILES_IN_SHORT_RUN : K_TILES_IN_RUN;
    if (chain->in_features <= k_tiles_in_run * TILE_K || (int64_t)bytes(true) > most_shared_bytes(device))
        k_tiles_in_run = 0;
    plan->choice[K_TILES_IN_RUN_CHOICE] = k_tiles_in_run;
    launch->shared_bytes = bytes(k_tiles_in_run > 0);
}
