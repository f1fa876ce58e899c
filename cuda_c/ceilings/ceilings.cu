/* What the hardware does at its best, one resource at a time: the roofs of the roofline plot and the rates of
 * the model of fusion. fgn/measure/machine.py runs and times these kernels.
 *
 * Idea: each kernel waits for one resource only. A lane reads 16 bytes next to its neighbour's, several
 * reads are in flight, and every address depends on the round, so that the compiler cannot remove a
 * round.
 *
 * Limit: the resource itself. A warp's read of 16 bytes per lane keeps L1 or shared memory busy for four
 * cycles, in which the multiprocessor can issue sixteen instructions; the loops need about eight. */
#include "sim/portable.h"

#ifdef __cplusplus
extern "C" {
#endif
#include "ceilings/ceilings.h"
#ifdef __cplusplus
}
#endif

#define THREADS 256
#define QUAD 4
#define IN_FLIGHT 4
#define GROUP (THREADS * QUAD * IN_FLIGHT) /* floats that a block reads at once */
#define SPAN (2 * GROUP)                   /* floats that a block reads in a round */
#define SUMS 16

static __device__ float add_quad(float sum, float4 quad) {
    return sum + (quad.x + quad.y) + (quad.z + quad.w);
}

struct ceiling_read_args {
    const float *data; /* (blocks * SPAN,) */
    float *out;
    bool around_l1;
    int rounds;
};

__global__ void __launch_bounds__(THREADS) ceiling_read_kernel(struct ceiling_read_args args) {
    const float *data = args.data + (size_t)blockIdx.x * SPAN + threadIdx.x * QUAD;
    float sum[IN_FLIGHT] = {0.0f};
    for (int round = 0; round < args.rounds; round++)
        for (int half = 0; half < 2; half++) {
            /* Which half comes first depends on the round: the compiler would hoist reads that are the same
             * in every round. */
            const float *group = data + (round + half) % 2 * GROUP;
            for (int i = 0; i < IN_FLIGHT; i++) {
                const float4 *quad = (const float4 *)(group + i * THREADS * QUAD);
                sum[i] = add_quad(sum[i], args.around_l1 ? __ldcg(quad) : *quad);
            }
        }
    args.out[blockIdx.x * THREADS + threadIdx.x] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

LAUNCHER(ceiling_read_kernel, struct ceiling_read_args)

int ceiling_read(const float *data, float *out, int around_l1, int blocks, int rounds, void *stream) {
    struct ceiling_read_args args = {data, out, around_l1 != 0, rounds};
    dim3 grid = {(unsigned)blocks, 1, 1};
    dim3 block = {THREADS, 1, 1};
    return (int)launch_ceiling_read_kernel(grid, block, 0, (cudaStream_t)stream, args);
}

struct ceiling_args {
    float *out;
    int rounds;
};

struct ceiling_shared_args {
    float *out;
    int step; /* floats from one round's reads to the next one's, modulo SPAN */
    int rounds;
};

__global__ void __launch_bounds__(THREADS) ceiling_shared_kernel(struct ceiling_shared_args args) {
    __shared__ __align__(16) float data[SPAN];
    for (int i = threadIdx.x; i < SPAN; i += THREADS)
        data[i] = (float)i;
    __syncthreads();
    float sum[IN_FLIGHT] = {0.0f};
    for (int round = 0; round < args.rounds; round++)
        for (int half = 0; half < 2; half++) {
            /* The step is only known at run time. If the compiler saw how two groups alternate, it would read
             * each once and keep it. */
            unsigned first = ((unsigned)(round * args.step) + half * GROUP) % SPAN;
            const float *group = data + first + threadIdx.x * QUAD;
            for (int i = 0; i < IN_FLIGHT; i++)
                sum[i] = add_quad(sum[i], *(const float4 *)(group + i * THREADS * QUAD));
        }
    args.out[blockIdx.x * THREADS + threadIdx.x] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

LAUNCHER(ceiling_shared_kernel, struct ceiling_shared_args)

int ceiling_shared(float *out, int blocks, int rounds, void *stream) {
    struct ceiling_shared_args args = {out, GROUP, rounds};
    dim3 grid = {(unsigned)blocks, 1, 1};
    dim3 block = {THREADS, 1, 1};
    return (int)launch_ceiling_shared_kernel(grid, block, 0, (cudaStream_t)stream, args);
}

__global__ void __launch_bounds__(THREADS) ceiling_multiply_add_kernel(struct ceiling_args args) {
    /* The factors come from memory, so that they are no compile-time constants. */
    float factor = args.out[0];
    float term = args.out[1];
    float sum[SUMS];
    for (int i = 0; i < SUMS; i++)
        sum[i] = (float)(threadIdx.x + i);
    for (int round = 0; round < args.rounds; round++)
        for (int i = 0; i < SUMS; i++)
            sum[i] = sum[i] * factor + term;
    float all = 0.0f;
    for (int i = 0; i < SUMS; i++)
        all += sum[i];
    args.out[blockIdx.x * THREADS + threadIdx.x + 2] = all;
}

LAUNCHER(ceiling_multiply_add_kernel, struct ceiling_args)

int ceiling_multiply_add(float *out, int blocks, int rounds, void *stream) {
    struct ceiling_args args = {out, rounds};
    dim3 grid = {(unsigned)blocks, 1, 1};
    dim3 block = {THREADS, 1, 1};
    return (int)launch_ceiling_multiply_add_kernel(grid, block, 0, (cudaStream_t)stream, args);
}

__global__ void ceiling_launch_kernel(struct ceiling_args args) {
    args.out[0] = (float)args.rounds;
}

LAUNCHER(ceiling_launch_kernel, struct ceiling_args)

int ceiling_launches(float *out, int count, void *stream) {
    struct ceiling_args args = {out, 0};
    dim3 one = {1, 1, 1};
    for (int i = 0; i < count; i++) {
        int status = (int)launch_ceiling_launch_kernel(one, one, 0, (cudaStream_t)stream, args);
        if (status)
            return status;
    }
    return 0;
}
