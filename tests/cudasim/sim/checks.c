/* What the simulator must do, each thing as a small kernel and a check of its result.
 *
 * Run without arguments it lists the names of the checks; run with names, it runs those. */
#include "sim/fiber.h"
#include "sim/ptx/cp_async.h"
#include "sim/ptx/cvt.h"
#include "sim/ptx/mma.h"
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXPECT(condition)                                                                                    \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            printf("%s:%d: expected %s\n", __FILE__, __LINE__, #condition);                                  \
            if (sim_last_report()->kind != SIM_NO_REPORT)                                                    \
                printf("  last report: %s\n", sim_last_report()->message);                                   \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

struct numbers {
    int *out;
    int n;
};

static dim3 one(unsigned x) {
    return (dim3){x, 1, 1};
}

static bool reports(cudaError_t error, sim_report_kind kind) {
    return error == cudaErrorLaunchFailure && sim_last_report()->kind == kind;
}

/* ---- Indices and sizes ---- */

__global__ void number_threads(struct numbers a) {
    unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    unsigned i = block * blockDim.x * blockDim.y * blockDim.z + thread;
    atomicAdd(&a.out[i], (int)i + 1);
}
LAUNCHER(number_threads, struct numbers)

static void indices_in_three_dimensions(void) {
    const dim3 grids[] = {{1, 1, 1}, {5, 1, 1}, {2, 3, 4}, {1, 1, 7}};
    const dim3 blocks[] = {{1, 1, 1}, {33, 1, 1}, {3, 5, 7}, {8, 8, 16}, {1, 1, 64}, {1024, 1, 1}};
    for (size_t g = 0; g < sizeof grids / sizeof *grids; g++)
        for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++) {
            dim3 grid = grids[g], block = blocks[b];
            int n = (int)(grid.x * grid.y * grid.z * block.x * block.y * block.z);
            int *out = calloc((size_t)n, sizeof *out);
            EXPECT(launch_number_threads(grid, block, 0, NULL, (struct numbers){out, n}) == cudaSuccess);
            for (int i = 0; i < n; i++)
                EXPECT(out[i] == i + 1);
            free(out);
        }
}

__global__ void count_threads(struct numbers a) {
    if (threadIdx.x == 0)
        atomicAdd(a.out, 1);
}
LAUNCHER(count_threads, struct numbers)

static void millions_of_tiny_blocks(void) {
    int count = 0;
    EXPECT(launch_count_threads(one(3000000), one(1), 0, NULL, (struct numbers){&count, 0}) == cudaSuccess);
    EXPECT(count == 3000000);
}

struct far_index {
    unsigned char *memory;
    long long stride;
};
__global__ void touch_far_away(struct far_index a) {
    a.memory[(long long)blockIdx.x * a.stride + threadIdx.x] = 1;
}
LAUNCHER(touch_far_away, struct far_index)

static void indices_beyond_32_bits(void) {
    const long long stride = 1LL << 30, blocks = 6;
    unsigned char *memory = calloc((size_t)blocks, (size_t)stride); /* pages not touched cost nothing */
    if (!memory)
        return;
    EXPECT(launch_touch_far_away(one((unsigned)blocks), one(2), 0, NULL,
                                 (struct far_index){memory, stride}) == cudaSuccess);
    for (long long b = 0; b < blocks; b++)
        EXPECT(memory[b * stride] == 1 && memory[b * stride + 1] == 1 && memory[b * stride + 2] == 0);
    free(memory);
}

/* ---- Barriers ---- */

/* Every round, each thread adds what its neighbour had in the round before. */
__global__ void barriers_in_a_loop_kernel(struct numbers a) {
    __shared__ int values[2][1024];
    unsigned t = threadIdx.x;
    values[0][t] = (int)t;
    __syncthreads();
    for (int round = 0; round < a.n; round++) {
        values[(round + 1) % 2][t] = values[round % 2][(t + 1) % blockDim.x] + 1;
        __syncthreads();
    }
    a.out[blockIdx.x * blockDim.x + t] = values[a.n % 2][t];
}
LAUNCHER(barriers_in_a_loop_kernel, struct numbers)

static void barriers_in_a_loop(void) {
    enum { BLOCKS = 9, ROUNDS = 20 };
    const unsigned sizes[] = {1, 2, 31, 32, 33, 100, 1000, 1024};
    static int out[BLOCKS * 1024];
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        unsigned n = sizes[s];
        EXPECT(launch_barriers_in_a_loop_kernel(one(BLOCKS), one(n), 0, NULL,
                                                (struct numbers){out, ROUNDS}) == cudaSuccess);
        for (unsigned i = 0; i < BLOCKS * n; i++)
            EXPECT(out[i] == (int)((i % n + ROUNDS) % n) + ROUNDS);
    }
}

__global__ void barrier_votes_kernel(struct numbers a) {
    int t = (int)threadIdx.x;
    for (int k = 0; k < a.n; k++) {
        int count = __syncthreads_count(t < k);
        int any = __syncthreads_or(t == k), all = __syncthreads_and(t < k);
        if (count != min(k, (int)blockDim.x) || any != (k < (int)blockDim.x) || all != (k >= (int)blockDim.x))
            atomicAdd(a.out, 1);
    }
}
LAUNCHER(barrier_votes_kernel, struct numbers)

static void barrier_votes(void) {
    int wrong = 0;
    EXPECT(launch_barrier_votes_kernel(one(3), one(70), 0, NULL, (struct numbers){&wrong, 80}) ==
           cudaSuccess);
    EXPECT(wrong == 0);
}

/* The tree reduction of every CUDA course, in dynamic shared memory. */
__global__ void sum_kernel(struct numbers a) {
    int *values = (int *)dynamic_shared;
    unsigned t = threadIdx.x;
    values[t] = a.out[blockIdx.x * blockDim.x + t];
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (t < half)
            values[t] += values[t + half];
    }
    __syncthreads();
    a.out[blockIdx.x * blockDim.x + t] = values[0];
}
LAUNCHER(sum_kernel, struct numbers)

static void dynamic_shared_memory(void) {
    enum { BLOCKS = 50 };
    static int out[BLOCKS * 1024];
    for (unsigned n = 1; n <= 1024; n *= 4) {
        for (unsigned i = 0; i < BLOCKS * n; i++)
            out[i] = (int)(i / n);
        EXPECT(launch_sum_kernel(one(BLOCKS), one(n), n * sizeof(int), NULL, (struct numbers){out, 0}) ==
               cudaSuccess);
        for (unsigned i = 0; i < BLOCKS * n; i++)
            EXPECT(out[i] == (int)(i / n * n));
    }
}

/* ---- Warp operations ---- */

/* What CUDA's programming guide says that a shuffle reads. */
static unsigned expected_source(int direction, unsigned lane, unsigned operand, unsigned width) {
    unsigned in_segment = lane % width, segment = lane - in_segment;
    switch (direction) {
    case 0:
        return segment + operand % width;
    case 1:
        return in_segment >= operand ? lane - operand : lane;
    case 2:
        return in_segment + operand < width ? lane + operand : lane;
    default:
        return (lane ^ operand) < segment + width ? lane ^ operand : lane;
    }
}

__global__ void shuffles_kernel(struct numbers a) {
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int width = 1; width <= 32; width *= 2)
        for (int operand = 0; operand < 32; operand++) {
            int i = (int)(warp * 100 + lane);
            double d = i + 0.5;
            unsigned long long u = 0x100000000ull * (unsigned)i;
            int got[4] = {__shfl_sync(0xffffffff, i, operand, width),
                          (int)__shfl_up_sync(0xffffffff, (float)i, operand, width),
                          (int)__shfl_down_sync(0xffffffff, d, operand, width),
                          (int)(__shfl_xor_sync(0xffffffff, u, operand, width) >> 32)};
            for (int direction = 0; direction < 4; direction++)
                if (got[direction] !=
                    (int)(warp * 100 + expected_source(direction, lane, (unsigned)operand, (unsigned)width)))
                    atomicAdd(a.out, 1);
        }
    if (__shfl_sync(0xffffffff, lane, 33) != 1)
        atomicAdd(a.out, 1);
}
LAUNCHER(shuffles_kernel, struct numbers)

static void shuffles_of_every_width(void) {
    int wrong = 0;
    EXPECT(launch_shuffles_kernel(one(3), one(96), 0, NULL, (struct numbers){&wrong, 0}) == cudaSuccess);
    EXPECT(wrong == 0);
}

/* ---- Matrix instructions ---- */

enum { MATRIX_ROWS = 16, MATRIX_COLUMNS = 8, ROW_BYTES = 32, ROW_WORDS = ROW_BYTES / 4 };

/* c = c + a b, with a's rows and b's columns as memory holds them: 32 bytes along k. */
struct matrices {
    uint32_t a[MATRIX_ROWS][ROW_WORDS];
    uint32_t b[MATRIX_COLUMNS][ROW_WORDS];
    float c[MATRIX_ROWS][MATRIX_COLUMNS];
    enum sim_factors type;
};

struct matrices_args {
    struct matrices *matrices;
};

__global__ void multiply_matrices_kernel(struct matrices_args args) {
    __shared__ struct matrices shared;
    for (unsigned i = threadIdx.x; i < sizeof shared / 4; i += 32)
        ((uint32_t *)&shared)[i] = ((const uint32_t *)&args.matrices[blockIdx.x])[i];
    __syncthreads();
    unsigned lane = threadIdx.x, g = lane / 4, t = lane % 4;
    uint32_t a[4], b[4];
    float sum[4];
    ldmatrix_x4(a, &shared.a[lane % 16][lane / 16 * 4]);
    ldmatrix_x4(b, &shared.b[lane % 8][lane / 8 % 2 * 4]); /* the last two matrices are the first two again */
    for (int i = 0; i < 4; i++)
        sum[i] = shared.c[g + i / 2 * 8][2 * t + i % 2];
    if (shared.type == SIM_TF32_FACTORS)
        mma_m16n8k8_tf32(sum, a, b);
    else if (shared.type == SIM_FLOAT16_FACTORS)
        mma_m16n8k16_f16(sum, a, b);
    else
        mma_m16n8k16_bf16(sum, a, b);
    for (int i = 0; i < 4; i++)
        args.matrices[blockIdx.x].c[g + i / 2 * 8][2 * t + i % 2] = sum[i];
}
LAUNCHER(multiply_matrices_kernel, struct matrices_args)

/* Small whole numbers: every product and sum of them is exact, in any order. */
static float small_number(unsigned i) {
    return (float)((int)(i * 2654435761u >> 27) - 16);
}

static float factor_at(const uint32_t *row, int k, enum sim_factors type) {
    if (type == SIM_TF32_FACTORS)
        return ((const float *)row)[k];
    uint16_t bits = ((const uint16_t *)row)[k];
    return type == SIM_FLOAT16_FACTORS ? float_of_float16(bits) : float_of_bfloat16(bits);
}

static void set_factor(uint32_t *row, int k, float v, enum sim_factors type) {
    if (type == SIM_TF32_FACTORS)
        ((float *)row)[k] = v;
    else
        ((uint16_t *)row)[k] = type == SIM_FLOAT16_FACTORS ? float16_bits(v) : bfloat16_bits(v);
}

static void matrices_are_multiplied(void) {
    struct matrices cases[3], before[3];
    for (int type = 0; type < 3; type++) {
        struct matrices *m = &cases[type];
        m->type = (enum sim_factors)type;
        int depth = type == SIM_TF32_FACTORS ? ROW_WORDS : 2 * ROW_WORDS;
        for (int k = 0; k < depth; k++) {
            for (int row = 0; row < MATRIX_ROWS; row++)
                set_factor(m->a[row], k, small_number((unsigned)(row * 100 + k)), m->type);
            for (int column = 0; column < MATRIX_COLUMNS; column++)
                set_factor(m->b[column], k, small_number((unsigned)(7000 + column * 100 + k)), m->type);
        }
        for (int i = 0; i < MATRIX_ROWS * MATRIX_COLUMNS; i++)
            m->c[i / MATRIX_COLUMNS][i % MATRIX_COLUMNS] = small_number((unsigned)(30000 + i));
        before[type] = *m;
    }
    EXPECT(launch_multiply_matrices_kernel(one(3), one(32), 0, NULL, (struct matrices_args){cases}) ==
           cudaSuccess);
    for (int type = 0; type < 3; type++) {
        const struct matrices *m = &before[type];
        int depth = type == SIM_TF32_FACTORS ? ROW_WORDS : 2 * ROW_WORDS;
        for (int row = 0; row < MATRIX_ROWS; row++)
            for (int column = 0; column < MATRIX_COLUMNS; column++) {
                float expected = m->c[row][column];
                for (int k = 0; k < depth; k++)
                    expected += factor_at(m->a[row], k, m->type) * factor_at(m->b[column], k, m->type);
                EXPECT(cases[type].c[row][column] == expected);
            }
    }
}

/* What is added is cut off towards zero; infinity and NaN stay what they are. */
static void matrix_sums_are_cut_off(void) {
    struct matrices m;
    memset(&m, 0, sizeof m);
    m.type = SIM_FLOAT16_FACTORS;
    const float cases[][3] = {
        {1.0f, 0x1.8p-12f, 1.0f},          {-1.0f, -0x1.8p-12f, -1.0f},
        {1.0f, 0x1p-11f, 1.0f + 0x1p-23f}, {1.0f, 0x1p-1f * -0x1p-11f, 1.0f - 0x1p-24f},
        {INFINITY, 1.0f, INFINITY},        {-0x1.fffffep127f, -60000.0f, -0x1.fffffep127f}};
    const int count = sizeof cases / sizeof *cases;
    set_factor(m.b[0], 0, 0x1p-12f, SIM_FLOAT16_FACTORS);
    for (int row = 0; row < count; row++) {
        m.c[row][0] = cases[row][0];
        set_factor(m.a[row], 0, cases[row][1], SIM_FLOAT16_FACTORS);
    }
    m.c[count][0] = NAN;
    EXPECT(launch_multiply_matrices_kernel(one(1), one(32), 0, NULL, (struct matrices_args){&m}) ==
           cudaSuccess);
    for (int row = 0; row < count; row++)
        EXPECT(m.c[row][0] == cases[row][2]);
    EXPECT(m.c[count][0] != m.c[count][0]);
}

static void tf32_has_11_bits(void) {
    const float cases[][2] = {{1.0f, 1.0f},
                              {1.0f + 0x1p-11f, 1.0f + 0x1p-10f}, /* ties go away from zero */
                              {-1.0f - 0x1p-11f, -1.0f - 0x1p-10f},
                              {1.0f + 0x1.8p-12f, 1.0f},
                              {1.0f + 0x1.8p-11f, 1.0f + 0x1p-10f},
                              {0x1.fffffep127f, INFINITY},
                              {INFINITY, INFINITY},
                              {0.0f, 0.0f}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        EXPECT(__uint_as_float(cvt_rna_tf32(__float_as_uint(cases[i][0]))) == cases[i][1]);
    float nan = __uint_as_float(cvt_rna_tf32(0x7fffffffu));
    EXPECT(nan != nan);
}

static void a_matrix_instruction_wants_whole_warps(void) {
    struct matrices m;
    memset(&m, 0, sizeof m);
    EXPECT(reports(launch_multiply_matrices_kernel(one(1), one(20), 0, NULL, (struct matrices_args){&m}),
                   SIM_MISSING_LANE));
}

__global__ void partial_warp_kernel(struct numbers a) {
    int sum = 1;
    for (int delta = 16; delta > 0; delta /= 2)
        sum += __shfl_xor_sync(0xffffffff, threadIdx.x < 32 ? sum : 0, delta);
    unsigned ballot = __ballot_sync(0xffffffff, true);
    float undefined = __shfl_sync(0xffffffff, 1.0f, 31);
    a.out[3 * threadIdx.x] = sum;
    a.out[3 * threadIdx.x + 1] = (int)ballot;
    a.out[3 * threadIdx.x + 2] = isnan(undefined);
}
LAUNCHER(partial_warp_kernel, struct numbers)

static void a_last_warp_that_is_partial(void) {
    int out[3 * 40];
    EXPECT(launch_partial_warp_kernel(one(1), one(40), 0, NULL, (struct numbers){out, 0}) == cudaSuccess);
    for (int t = 0; t < 40; t++) {
        EXPECT(t >= 32 || out[3 * t] == 32);
        EXPECT(out[3 * t + 1] == (t < 32 ? -1 : 0xff));
        EXPECT(out[3 * t + 2] == (t >= 32));
    }
    EXPECT(launch_partial_warp_kernel(one(1), one(1), 0, NULL, (struct numbers){out, 0}) == cudaSuccess);
}

__global__ void divergent_votes_kernel(struct numbers a) {
    unsigned lane = threadIdx.x % 32, wrong = 0;
    if (lane < 10) {
        wrong |= __ballot_sync(0x000003ff, lane % 2) != 0x2aa;
        wrong |= __shfl_sync(0x000003ff, lane, 9) != 9;
        __syncwarp(0x000003ff);
    } else if (lane % 2) {
        wrong |= __ballot_sync(0xaaaaa800, lane > 20) != 0xaaa00000;
        wrong |= !__any_sync(0xaaaaa800, lane == 31);
    } else {
        wrong |= !__all_sync(0x55555400, lane >= 10);
        wrong |= __all_sync(0x55555400, lane > 10);
        wrong |= __activemask() != 0x55555400;
    }
    __syncwarp();
    wrong |= __ballot_sync(0xffffffff, lane < 4) != 0xf;
    wrong |= __activemask() != 0xffffffff;
    if (wrong)
        atomicAdd(a.out, 1);
}
LAUNCHER(divergent_votes_kernel, struct numbers)

static void votes_in_divergent_branches(void) {
    int wrong = 0;
    EXPECT(launch_divergent_votes_kernel(one(7), one(256), 0, NULL, (struct numbers){&wrong, 0}) ==
           cudaSuccess);
    EXPECT(wrong == 0);
}

/* Both branches name all lanes: from compute capability 7.0 on they meet, whatever their lines. */
__global__ void meet_from_two_lines_kernel(struct numbers a) {
    int got;
    if (threadIdx.x % 2)
        got = __shfl_xor_sync(0xffffffff, (int)threadIdx.x, 1);
    else
        got = __shfl_xor_sync(0xffffffff, (int)threadIdx.x + 100, 1);
    a.out[threadIdx.x] = got;
}
LAUNCHER(meet_from_two_lines_kernel, struct numbers)

static void lanes_meet_from_two_lines(void) {
    int out[32];
    EXPECT(launch_meet_from_two_lines_kernel(one(1), one(32), 0, NULL, (struct numbers){out, 0}) ==
           cudaSuccess);
    for (int t = 0; t < 32; t++)
        EXPECT(out[t] == (t % 2 ? t - 1 + 100 : t + 1));
}

/* ---- Atomics ---- */

struct totals {
    int sum, least, bits, tickets, cleared;
    unsigned greatest;
    unsigned long long wide;
    float real;
    double precise;
    int sum_of_blocks;
};
__global__ void atomics_kernel(struct totals *const *pointer) {
    struct totals *totals = *pointer;
    __shared__ int of_block;
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (threadIdx.x == 0)
        of_block = 0;
    __syncthreads();
    atomicAdd(&of_block, i % 7);
    atomicAdd(&totals->sum, i % 5 - 2);
    atomicMin(&totals->least, -i);
    atomicMax(&totals->greatest, 0x80000000u + (unsigned)i);
    atomicOr(&totals->bits, 1 << i % 31);
    atomicAnd(&totals->cleared, ~(1 << i % 31));
    atomicAdd(&totals->wide, 1ull << 33);
    atomicAdd(&totals->real, 0.5f);
    atomicAdd(&totals->precise, 0.25);
    for (int old = totals->tickets, seen; (seen = atomicCAS(&totals->tickets, old, old + 1)) != old;)
        old = seen;
    __syncthreads();
    if (threadIdx.x == 0)
        atomicAdd(&totals->sum_of_blocks, of_block);
}
static void enter_atomics(const void *arguments) {
    atomics_kernel(arguments);
}

static void atomics_from_all_blocks(void) {
    enum { BLOCKS = 70, THREADS = 128, N = BLOCKS * THREADS };
    struct totals totals = {.cleared = -1}, *pointer = &totals;
    EXPECT(sim_launch("atomics", __FILE__, enter_atomics, &pointer, sizeof pointer, one(BLOCKS), one(THREADS),
                      0) == cudaSuccess);
    int sum = 0, sum_of_blocks = 0;
    for (int i = 0; i < N; i++) {
        sum += i % 5 - 2;
        sum_of_blocks += i % 7;
    }
    EXPECT(totals.sum == sum && totals.sum_of_blocks == sum_of_blocks);
    EXPECT(totals.least == -(N - 1) && totals.greatest == 0x80000000u + N - 1);
    EXPECT(totals.bits == 0x7fffffff && totals.cleared == (int)0x80000000);
    EXPECT(totals.wide == (unsigned long long)N << 33);
    EXPECT(totals.real == N * 0.5f && totals.precise == N * 0.25);
    EXPECT(totals.tickets == N);
}

/* A thread holds the lock while its warp waits for it: the others must not spin for ever. */
__global__ void spin_lock_kernel(struct numbers a) {
    __shared__ int lock, flag;
    if (threadIdx.x == 0)
        lock = flag = 0;
    __syncthreads();
    while (atomicCAS(&lock, 0, 1) != 0)
        ;
    int before = atomicAdd(a.out, 0);
    atomicAdd(a.out, 1);
    if (atomicAdd(a.out, 0) != before + 1)
        a.out[1] = 1;
    atomicExch(&lock, 0);
    if (threadIdx.x == blockDim.x - 1)
        atomicExch(&flag, 1);
    while (atomicAdd(&flag, 0) == 0)
        ;
}
LAUNCHER(spin_lock_kernel, struct numbers)

static void threads_that_spin(void) {
    int out[2] = {0, 0};
    EXPECT(launch_spin_lock_kernel(one(1), one(200), 0, NULL, (struct numbers){out, 0}) == cudaSuccess);
    EXPECT(out[0] == 200 && out[1] == 0);
}

/* ---- Asynchronous copies ---- */

__global__ void copies_kernel(struct numbers a) {
    int4 *tile = (int4 *)dynamic_shared;
    int *words = (int *)(tile + 4);
    for (int i = 0; i < 4; i++)
        tile[i] = make_int4(-1, -1, -1, -1);
    words[0] = words[1] = -1;
    int wrong = 0;
    cp_async_16(&tile[0], &a.out[0]);
    cp_async_commit_group();
    cp_async_16_or_zero(&tile[1], &a.out[4], true);
    cp_async_4_or_zero(&words[0], &a.out[9], true);
    cp_async_commit_group();
    cp_async_16_or_zero(&tile[2], NULL, false);
    cp_async_4_or_zero(&words[1], NULL, false);
    cp_async_commit_group();
    cp_async_16(&tile[3], &a.out[4]); /* never committed */
    wrong |= tile[0].x != -1;
    cp_async_wait_group(2);
    wrong |= tile[0].x != 0 || tile[0].w != 3 || tile[1].x != -1;
    cp_async_wait_group(2);
    wrong |= tile[1].x != -1;
    cp_async_wait_group(0);
    wrong |= tile[1].x != 4 || tile[1].w != 7 || words[0] != 9 || tile[2].y != 0 || words[1] != 0;
    wrong |= tile[3].x != -1;
    a.out[10] = wrong;
}
LAUNCHER(copies_kernel, struct numbers)

static void asynchronous_copies_land_at_the_wait(void) {
    _Alignas(16) int out[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, -1, 0};
    EXPECT(launch_copies_kernel(one(1), one(1), 4 * sizeof(int4) + 2 * sizeof(int), NULL,
                                (struct numbers){out, 0}) == cudaSuccess);
    EXPECT(out[10] == 0);
}

__global__ void misaligned_copy_kernel(struct numbers a) {
    cp_async_16(dynamic_shared, a.out + 1);
}
LAUNCHER(misaligned_copy_kernel, struct numbers)

static void a_misaligned_copy_is_reported(void) {
    _Alignas(16) int out[8] = {0};
    EXPECT(reports(launch_misaligned_copy_kernel(one(1), one(1), 16, NULL, (struct numbers){out, 0}),
                   SIM_MISALIGNED));
}

/* ---- Reports ---- */

__global__ void return_before_barrier_kernel(struct numbers a) {
    if ((int)threadIdx.x >= a.n)
        return;
    __syncthreads();
}
LAUNCHER(return_before_barrier_kernel, struct numbers)

static void a_thread_that_returns_before_a_barrier(void) {
    EXPECT(launch_return_before_barrier_kernel((dim3){3, 1, 1}, (dim3){8, 8, 1}, 0, NULL,
                                               (struct numbers){NULL, 5}) == cudaSuccess);
}

__global__ void two_barriers_kernel(struct numbers a) {
    if ((int)threadIdx.x < a.n)
        __syncthreads();
    else
        __syncthreads();
}
LAUNCHER(two_barriers_kernel, struct numbers)

static void threads_at_different_barriers(void) {
    EXPECT(launch_two_barriers_kernel(one(1), one(64), 0, NULL, (struct numbers){NULL, 32}) == cudaSuccess);
    EXPECT(reports(launch_two_barriers_kernel(one(1), one(64), 0, NULL, (struct numbers){NULL, 16}),
                   SIM_BARRIER_DIVERGENCE));
    const sim_report *report = sim_last_report();
    EXPECT(strcmp(report->kernel, "two_barriers_kernel") == 0 && strcmp(report->file, __FILE__) == 0);
    EXPECT(report->thread.x == 16 && report->other.x == 0 && report->line == report->other_line + 2);
    EXPECT(strstr(report->message, ".aligned"));
    EXPECT(strcmp(cudaGetErrorString(cudaGetLastError()), report->message) == 0);
    EXPECT(cudaGetLastError() == cudaSuccess);
    EXPECT(launch_two_barriers_kernel(one(1), one(64), 0, NULL, (struct numbers){NULL, 64}) == cudaSuccess);
}

__global__ void barrier_then_warp_kernel(struct numbers a) {
    if ((int)threadIdx.x < a.n)
        __syncthreads();
    __syncwarp();
}
LAUNCHER(barrier_then_warp_kernel, struct numbers)

static void a_barrier_in_a_divergent_branch(void) {
    EXPECT(reports(launch_barrier_then_warp_kernel(one(1), one(32), 0, NULL, (struct numbers){NULL, 16}),
                   SIM_BARRIER_DIVERGENCE));
    EXPECT(sim_last_report()->thread.x == 0 && sim_last_report()->other.x == 16);
}

__global__ void missing_lane_kernel(struct numbers a) {
    if ((int)threadIdx.x % 32 < a.n)
        a.out[0] = __shfl_down_sync(0xffffffff, a.n, 1);
}
LAUNCHER(missing_lane_kernel, struct numbers)

static void a_lane_that_never_arrives(void) {
    int out = 0;
    EXPECT(reports(launch_missing_lane_kernel(one(2), one(64), 0, NULL, (struct numbers){&out, 16}),
                   SIM_MISSING_LANE));
    EXPECT(sim_last_report()->other.x % 32 == 16 && sim_last_report()->line > 0);
}

__global__ void wrong_mask_kernel(struct numbers a) {
    a.out[0] = __any_sync((unsigned)a.n, true);
}
LAUNCHER(wrong_mask_kernel, struct numbers)

static void a_mask_that_leaves_out_its_caller(void) {
    int out = 0;
    EXPECT(reports(launch_wrong_mask_kernel(one(1), one(32), 0, NULL, (struct numbers){&out, 0xffff}),
                   SIM_LANE_NOT_IN_MASK));
    EXPECT(sim_last_report()->thread.x == 16);
}

__global__ void masks_that_differ_kernel(struct numbers a) {
    a.out[0] = __any_sync(threadIdx.x % 2 ? 0xffffffff : 0x55555555 | 2, true);
}
LAUNCHER(masks_that_differ_kernel, struct numbers)

static void masks_that_differ(void) {
    int out = 0;
    EXPECT(reports(launch_masks_that_differ_kernel(one(1), one(32), 0, NULL, (struct numbers){&out, 0}),
                   SIM_MISSING_LANE));
}

__global__ void bad_width_kernel(struct numbers a) {
    a.out[0] = __shfl_sync(0xffffffff, 1, 0, a.n);
}
LAUNCHER(bad_width_kernel, struct numbers)

static void a_width_that_is_no_power_of_two(void) {
    int out = 0;
    EXPECT(reports(launch_bad_width_kernel(one(1), one(32), 0, NULL, (struct numbers){&out, 12}),
                   SIM_SHUFFLE_WIDTH));
    EXPECT(reports(launch_bad_width_kernel(one(1), one(32), 0, NULL, (struct numbers){&out, 64}),
                   SIM_SHUFFLE_WIDTH));
}

static void launches_that_no_gpu_runs(void) {
    int out = 0;
    const struct {
        dim3 grid, block;
        size_t shared;
        cudaError_t error;
    } cases[] = {
        {{0, 1, 1}, {1, 1, 1}, 0, cudaErrorInvalidConfiguration},
        {{1, 1, 1}, {32, 0, 1}, 0, cudaErrorInvalidConfiguration},
        {{1, 65536, 1}, {1, 1, 1}, 0, cudaErrorInvalidConfiguration},
        {{1, 1, 65536}, {1, 1, 1}, 0, cudaErrorInvalidConfiguration},
        {{0x80000000u, 1, 1}, {1, 1, 1}, 0, cudaErrorInvalidConfiguration},
        {{1, 1, 1}, {1025, 1, 1}, 0, cudaErrorInvalidConfiguration},
        {{1, 1, 1}, {32, 33, 1}, 0, cudaErrorInvalidConfiguration},
        {{1, 1, 1}, {1, 1, 65}, 0, cudaErrorInvalidConfiguration},
        {{1, 1, 1}, {0xffffffffu, 0xffffffffu, 0xffffffffu}, 0, cudaErrorInvalidConfiguration},
        {{1, 1, 1}, {1, 1, 1}, 227 * 1024 + 1, cudaErrorInvalidValue},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        EXPECT(launch_count_threads(cases[i].grid, cases[i].block, cases[i].shared, NULL,
                                    (struct numbers){&out, 0}) == cases[i].error);
        EXPECT(sim_last_report()->kind == SIM_INVALID_LAUNCH && cudaGetLastError() == cases[i].error);
        EXPECT(out == 0);
    }
    EXPECT(launch_count_threads(one(1), one(1), 227 * 1024, NULL, (struct numbers){&out, 0}) == cudaSuccess);
    EXPECT(sim_last_report()->kind == SIM_NO_REPORT && cudaGetLastError() == cudaSuccess);
}

static long resident_pages(void) {
    long size, resident;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file)
        return 0;
    EXPECT(fscanf(file, "%ld %ld", &size, &resident) == 2);
    fclose(file);
    return resident;
}

__global__ void fail_while_holding_much_kernel(struct numbers a) {
    volatile int local[1000]; /* on every one of 1024 stacks */
    for (int i = 0; i < 1000; i++)
        local[i] = i;
    for (int i = 0; i < 100; i++)
        cp_async_4_or_zero(dynamic_shared, a.out, true);
    __syncthreads();
    a.out[1] = local[999];
    if (threadIdx.x == 1023)
        __syncthreads();
    else
        __syncthreads();
}
LAUNCHER(fail_while_holding_much_kernel, struct numbers)

static void failing_again_and_again(void) {
    int out[2] = {0, 0};
    long pages = 0;
    sim_set_threads(1); /* another might get its stacks late */
    for (int i = 0; i < 400; i++) {
        if (i == 200) /* an emulator of the processor grows at first, by less each time */
            pages = resident_pages();
        EXPECT(reports(
            launch_fail_while_holding_much_kernel(one(4), one(1024), 64, NULL, (struct numbers){out, 0}),
            SIM_BARRIER_DIVERGENCE));
    }
    EXPECT(resident_pages() - pages < 512); /* the stacks hold some 4,000 */
    sim_set_threads(0);
    barriers_in_a_loop();
    asynchronous_copies_land_at_the_wait();
}

/* ---- Interrupts and OS threads ---- */

__global__ void run_for_ever_kernel(struct numbers a) {
    switch (a.n) {
    case 0:
        for (;;)
            __syncthreads();
    case 1:
        for (;;)
            __syncwarp();
    case 2:
        while (atomicAdd(a.out, 0) == 0)
            ;
    }
}
LAUNCHER(run_for_ever_kernel, struct numbers)

static void *interrupt_until_told(void *ended) {
    while (!__atomic_load_n((bool *)ended, __ATOMIC_RELAXED)) {
        usleep(10000);
        sim_interrupt();
    }
    return NULL;
}

static void an_interrupt_stops_a_launch(void) {
    for (int how = 0; how < 4; how++) {
        bool ended = false;
        int out = 0;
        pthread_t thread;
        EXPECT(pthread_create(&thread, NULL, interrupt_until_told, &ended) == 0);
        cudaError_t error =
            how < 3 ? launch_run_for_ever_kernel(one(4), one(64), 0, NULL, (struct numbers){&out, how})
                    : launch_count_threads((dim3){0x7fffffff, 65535, 1}, one(1), 0, NULL,
                                           (struct numbers){&out, 0});
        __atomic_store_n(&ended, true, __ATOMIC_RELAXED);
        pthread_join(thread, NULL);
        EXPECT(reports(error, SIM_INTERRUPTED));
        barriers_in_a_loop();
    }
}

static void *launch_often(void *unused) {
    for (int i = 0; i < 50; i++) {
        int count = 0;
        EXPECT(launch_count_threads(one(100), one(32), 0, NULL, (struct numbers){&count, 0}) == cudaSuccess);
        EXPECT(count == 100);
        EXPECT(reports(launch_wrong_mask_kernel(one(1), one(32), 0, NULL, (struct numbers){&count, 1}),
                       SIM_LANE_NOT_IN_MASK));
    }
    return unused;
}

static void launches_from_several_os_threads(void) {
    pthread_t threads[8];
    for (int i = 0; i < 8; i++)
        EXPECT(pthread_create(&threads[i], NULL, launch_often, NULL) == 0);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
}

static void *launch_until_told(void *ended) {
    int count = 0;
    while (!__atomic_load_n((bool *)ended, __ATOMIC_RELAXED))
        EXPECT(launch_count_threads(one(5000), one(32), 0, NULL, (struct numbers){&count, 0}) == cudaSuccess);
    return NULL;
}

/* With the helpers asleep, and with a launch of another OS thread going on. */
static void a_forked_child_can_launch(void) {
    for (int busy = 0; busy < 2; busy++) {
        bool ended = false;
        pthread_t thread;
        barriers_in_a_loop();
        if (busy)
            EXPECT(pthread_create(&thread, NULL, launch_until_told, &ended) == 0);
        for (int i = 0; i < 3; i++) {
            usleep(3000);
            pid_t child = fork();
            if (child == 0) {
                barriers_in_a_loop();
                a_lane_that_never_arrives();
                _exit(0);
            }
            int status = -1;
            EXPECT(child > 0 && waitpid(child, &status, 0) == child && status == 0);
        }
        __atomic_store_n(&ended, true, __ATOMIC_RELAXED);
        if (busy)
            pthread_join(thread, NULL);
        barriers_in_a_loop();
    }
}

static void the_number_of_os_threads(void) {
    int by_default = sim_get_threads();
    for (int threads = 1; threads <= 5; threads++) {
        sim_set_threads(threads);
        EXPECT(sim_get_threads() == threads);
        barriers_in_a_loop();
        a_lane_that_never_arrives();
    }
    sim_set_threads(0);
    EXPECT(sim_get_threads() == by_default);
}

/* ---- Names that kernels use ---- */

__global__ void arithmetic_kernel(struct numbers a) {
    float nan = __int_as_float(0x7fc00000);
    int wrong = 0;
    wrong |= min(3, 4u) != 3 || max(-1, 2) != 2 || max(1ll << 40, 1) != 1ll << 40;
    wrong |= min(nan, 1.0f) != 1.0f || max(1.0f, nan) != 1.0f || min(2.0, 1.0f) != 1.0;
    wrong |= __float_as_int(1.0f) != 0x3f800000 || __uint_as_float(__float_as_uint(2.5f)) != 2.5f;
    wrong |= __popc(0xff) != 8 || __clz(1) != 31 || __clz(0) != 32 || __ffs(8) != 4 || __ffs(0) != 0;
    wrong |= rsqrtf(4.0f) != 0.5f || fabsf(__expf(0.0f) - 1.0f) > 0 || __fdividef(1, 2) != 0.5f;
    wrong |= __umulhi(1u << 31, 4) != 2 || __saturatef(nan) != 0 || __saturatef(2) != 1;
    float4 v = make_float4(1, 2, 3, 4);
    wrong |= __ldg(&v).z != 3 || sizeof(float3) != 12 || _Alignof(float4) != 16 || warpSize != 32;
    a.out[0] = wrong;
}
LAUNCHER(arithmetic_kernel, struct numbers)

static void arithmetic(void) {
    int wrong = -1;
    EXPECT(launch_arithmetic_kernel(one(1), one(1), 0, NULL, (struct numbers){&wrong, 0}) == cudaSuccess);
    EXPECT(wrong == 0);
}

static void the_device(void) {
    int value = -1, device = -1;
    EXPECT(cudaGetDevice(&device) == cudaSuccess && device == 0);
    EXPECT(cudaDeviceGetAttribute(&value, cudaDevAttrComputeCapabilityMajor, 0) == cudaSuccess && value == 0);
    EXPECT(cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0) == cudaSuccess &&
           value == 227 * 1024);
    EXPECT(cudaFuncSetAttribute(sum_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 100000) ==
           cudaSuccess);
    EXPECT(cudaDeviceGetAttribute(&value, (enum cudaDeviceAttr)9999, 0) == cudaErrorInvalidValue);
    EXPECT(cudaPeekAtLastError() == cudaErrorInvalidValue && cudaGetLastError() == cudaErrorInvalidValue);
}

/* Before the first launch. Where the simulator has no slots at all, stacks may be as low. */
static void no_low_address_is_in_a_slot(void) {
    EXPECT(!sim_is_in_slot(4096) && sim_note_at(((uintptr_t)1 << 36) - 4096) == NULL);
}

static const struct {
    const char *name;
    void (*run)(void);
} checks[] = {
#define CHECK(function) {#function, function}
    CHECK(no_low_address_is_in_a_slot),
    CHECK(indices_in_three_dimensions),
    CHECK(millions_of_tiny_blocks),
    CHECK(indices_beyond_32_bits),
    CHECK(barriers_in_a_loop),
    CHECK(barrier_votes),
    CHECK(dynamic_shared_memory),
    CHECK(shuffles_of_every_width),
    CHECK(matrices_are_multiplied),
    CHECK(matrix_sums_are_cut_off),
    CHECK(tf32_has_11_bits),
    CHECK(a_matrix_instruction_wants_whole_warps),
    CHECK(a_last_warp_that_is_partial),
    CHECK(votes_in_divergent_branches),
    CHECK(lanes_meet_from_two_lines),
    CHECK(atomics_from_all_blocks),
    CHECK(threads_that_spin),
    CHECK(asynchronous_copies_land_at_the_wait),
    CHECK(a_misaligned_copy_is_reported),
    CHECK(a_thread_that_returns_before_a_barrier),
    CHECK(threads_at_different_barriers),
    CHECK(a_barrier_in_a_divergent_branch),
    CHECK(a_lane_that_never_arrives),
    CHECK(a_mask_that_leaves_out_its_caller),
    CHECK(masks_that_differ),
    CHECK(a_width_that_is_no_power_of_two),
    CHECK(launches_that_no_gpu_runs),
    CHECK(failing_again_and_again),
    CHECK(an_interrupt_stops_a_launch),
    CHECK(launches_from_several_os_threads),
    CHECK(a_forked_child_can_launch),
    CHECK(the_number_of_os_threads),
    CHECK(arithmetic),
    CHECK(the_device),
};

int main(int count, char **names) {
    for (size_t c = 0; c < sizeof checks / sizeof *checks; c++) {
        bool wanted = false;
        for (int i = 1; i < count; i++)
            wanted |= strcmp(names[i], checks[c].name) == 0;
        if (count == 1)
            printf("%s\n", checks[c].name);
        if (wanted)
            checks[c].run();
    }
    return 0;
}
