/* What the hardware does at its best, one resource at a time: the roofs of the roofline plot and the rates of
 * the model of fusion. fgn/ceilings.py runs and times these kernels.
 *
 * Idea: a kernel that waits for one resource only. Reads are 16 bytes a lane, neighbouring lanes side by
 * side, several in flight, and every address depends on the round, so that no round can be left out.
 *
 * Limit: the resource itself. A read of 16 bytes a lane keeps L1 or shared memory busy for four cycles, in
 * which the multiprocessor has sixteen places for instructions; the loops need about eight. */
#include "portable.h"

#ifdef __cplusplus
extern "C" {
#endif
#include "ceilings.h"
#ifdef __cplusplus
}
#endif

#define THREADS 256
#define QUAD 4
#define IN_FLIGHT 4
#define SHARED_FLOATS 8192
#define SUMS 16

static __device__ float add_quad(float sum, float4 quad) {
    return sum + (quad.x + quad.y) + (quad.z + quad.w);
}

struct ceiling_read_args {
    const float *data;
    float *out;
    int size;
    int span;
    int step;
    int rounds;
};

__global__ void __launch_bounds__(THREADS) ceiling_read_kernel(struct ceiling_read_args args) {
    unsigned within_span = (unsigned)args.span - 1;
    unsigned within_data = (unsigned)args.size - 1;
    unsigned first = blockIdx.x * (unsigned)args.step;
    float sum[IN_FLIGHT] = {0.0f};
    for (int round = 0; round < args.rounds; round++) {
        unsigned begin = (unsigned)(round * QUAD * 32) + threadIdx.x * QUAD;
        for (unsigned at = 0; at < (unsigned)args.span; at += THREADS * QUAD * IN_FLIGHT)
            for (unsigned i = 0; i < IN_FLIGHT; i++) {
                unsigned place = first + ((begin + at + i * THREADS * QUAD) & within_span);
                sum[i] = add_quad(sum[i], *(const float4 *)&args.data[place & within_data]);
            }
    }
    args.out[blockIdx.x * THREADS + threadIdx.x] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

LAUNCHER(ceiling_read_kernel, struct ceiling_read_args)

int ceiling_read(const float *data, float *out, int size, int span, int step, int blocks, int rounds,
                 void *stream) {
    struct ceiling_read_args args = {data, out, size, span, step, rounds};
    dim3 grid = {(unsigned)blocks, 1, 1};
    dim3 block = {THREADS, 1, 1};
    return (int)launch_ceiling_read_kernel(grid, block, 0, (cudaStream_t)stream, args);
}

struct ceiling_args {
    float *out;
    int rounds;
};

__global__ void __launch_bounds__(THREADS) ceiling_shared_kernel(struct ceiling_args args) {
    __shared__ __align__(16) float data[SHARED_FLOATS];
    for (int i = threadIdx.x; i < SHARED_FLOATS; i += THREADS)
        data[i] = (float)i;
    __syncthreads();
    float sum[IN_FLIGHT] = {0.0f};
    for (int round = 0; round < args.rounds; round++) {
        int begin = threadIdx.x * QUAD + round * QUAD * 32;
        for (int at = 0; at < SHARED_FLOATS; at += THREADS * QUAD * IN_FLIGHT)
            for (int i = 0; i < IN_FLIGHT; i++) {
                int place = (begin + at + i * THREADS * QUAD) & (SHARED_FLOATS - 1);
                sum[i] = add_quad(sum[i], *(const float4 *)&data[place]);
            }
    }
    args.out[blockIdx.x * THREADS + threadIdx.x] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

LAUNCHER(ceiling_shared_kernel, struct ceiling_args)

int ceiling_shared(float *out, int blocks, int rounds, void *stream) {
    struct ceiling_args args = {out, rounds};
    dim3 grid = {(unsigned)blocks, 1, 1};
    dim3 block = {THREADS, 1, 1};
    return (int)launch_ceiling_shared_kernel(grid, block, 0, (cudaStream_t)stream, args);
}

__global__ void __launch_bounds__(THREADS) ceiling_multiply_add_kernel(struct ceiling_args args) {
    /* The factors come from memory, so that they are not known when this is compiled. */
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
