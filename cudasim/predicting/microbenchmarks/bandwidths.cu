/* How many bytes a second DRAM copies and L2 gives, and how many a clock L1 and shared memory give to their
 * multiprocessor.
 *
 * Idea: reads of 16 bytes a lane, side by side, several in flight. The place of a read depends on the round,
 * which the compiler does not know, so that it leaves none out. */
#include "measure.h"

#define THREADS 1024
#define IN_FLIGHT 4
#define QUADS 2048 /* of 16 bytes, that a block reads again and again: 32 KB */

static __device__ float sum_of(float4 quad) {
    return (quad.x + quad.y) + (quad.z + quad.w);
}

__global__ void copy(const float4 *from, float4 *to, size_t count) {
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
        to[i] = from[i];
}

/* Every block reads all `count` quads, a power of two, each from a place of its own on. */
__global__ void __launch_bounds__(THREADS) read_l2(const float4 *data, unsigned count, float *out) {
    unsigned first = blockIdx.x * (count / gridDim.x) + threadIdx.x;
    float sum[IN_FLIGHT] = {0.0f};
    for (unsigned i = 0; i < count; i += IN_FLIGHT * THREADS) {
#pragma unroll
        for (int j = 0; j < IN_FLIGHT; j++)
            sum[j] += sum_of(__ldcg(data + ((first + i + j * THREADS) & (count - 1))));
    }
    out[blockIdx.x * THREADS + threadIdx.x] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* Every block reads 32 KB of its own in each round, from L1 or, where IS_SHARED, from shared memory. */
template <bool IS_SHARED>
__global__ void __launch_bounds__(THREADS)
    read_near(const float4 *data, int rounds, unsigned step, long long *clocks, float *out) {
    __shared__ float4 shared[IS_SHARED ? QUADS : 1];
    const float4 *own = data + (size_t)blockIdx.x * QUADS;
    if (IS_SHARED)
        for (int i = threadIdx.x; i < QUADS; i += THREADS)
            shared[i] = own[i];
    float sum[IN_FLIGHT] = {0.0f};
    long long begin = 0;
    /* The first round brings the data to L1 and is not timed. */
    for (int round = 0; round <= rounds; round++) {
        if (round <= 1) {
            __syncthreads();
            begin = clock64();
        }
        unsigned at = threadIdx.x + round * step;
#pragma unroll
        for (int j = 0; j < 2 * IN_FLIGHT; j++) {
            unsigned place = (at + j * (QUADS / 2 + 32)) & (QUADS - 1);
            sum[j % IN_FLIGHT] += sum_of(IS_SHARED ? shared[place] : own[place]);
        }
    }
    __syncthreads();
    long long end = clock64();
    if (threadIdx.x == 0)
        clocks[blockIdx.x] = end - begin;
    out[blockIdx.x * THREADS + threadIdx.x] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

__global__ void nothing() {}

__global__ void spin(long long clocks) {
    long long begin = clock64();
    while (clock64() - begin < clocks)
        ;
}

/* The time between two events around a launch that does nothing, on a GPU that is busy while the host queues
 * all. */
static void measure_launch(const Machine &machine) {
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    std::vector<double> found;
    for (int i = 0; i <= machine.repetitions; i++) {
        spin<<<1, 1>>>(machine.is_brief ? 1 : 400000);
        CHECK(cudaEventRecord(begin));
        nothing<<<1, 32>>>();
        CHECK(cudaEventRecord(end));
        CHECK(cudaEventSynchronize(end));
        float milliseconds = 0;
        CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
        if (i > 0)
            found.push_back(1e-3 * milliseconds);
    }
    print("launch_seconds", found);
}

static void measure_dram(const Machine &machine) {
    size_t bytes = machine.is_brief ? 1 << 16 : std::min<size_t>(size_t(1) << 30, machine.memory_bytes / 8);
    Memory<float4> from(bytes / sizeof(float4)), to(bytes / sizeof(float4));
    unsigned blocks = (unsigned)(bytes / sizeof(float4) / 256);
    auto found =
        seconds_of(machine, [&] { copy<<<blocks, 256>>>(from.data, to.data, bytes / sizeof(float4)); });
    for (double &value : found)
        value = 2 * bytes / value;
    print("dram_bytes_per_second_of_a_copy", found);
}

static void measure_l2(const Machine &machine) {
    size_t bytes = 1 << 16; /* a power of two, at most a quarter of L2 */
    while (!machine.is_brief && 8 * bytes <= machine.l2_bytes)
        bytes *= 2;
    unsigned blocks = machine.is_brief ? 2 : 2 * machine.multiprocessors;
    Memory<float4> data(bytes / sizeof(float4));
    Memory<float> out((size_t)blocks * THREADS);
    auto found = seconds_of(machine, [&] {
        read_l2<<<blocks, THREADS>>>(data.data, (unsigned)(bytes / sizeof(float4)), out.data);
    });
    for (double &value : found)
        value = (double)blocks * bytes / value;
    print("l2_bytes_per_second", found);
}

template <bool IS_SHARED> static void measure_near(const Machine &machine, const char *figure) {
    int blocks = machine.is_brief ? 2 : machine.multiprocessors, rounds = machine.is_brief ? 1 : 1000;
    Memory<float4> data((size_t)blocks * QUADS);
    Memory<float> out((size_t)blocks * THREADS);
    Memory<long long> clocks(blocks);
    std::vector<double> found;
    for (int i = 0; i <= machine.repetitions; i++) {
        read_near<IS_SHARED><<<blocks, THREADS>>>(data.data, rounds, 32, clocks.data, out.data);
        CHECK(cudaGetLastError());
        CHECK(cudaDeviceSynchronize());
        if (i > 0)
            found.push_back(2.0 * IN_FLIGHT * THREADS * sizeof(float4) * rounds /
                            median(clocks.read(blocks)));
    }
    print(figure, found);
}

void measure_bandwidths(const Machine &machine) {
    measure_launch(machine);
    measure_dram(machine);
    measure_l2(machine);
    measure_near<false>(machine, "l1_bytes_per_clock");
    measure_near<true>(machine, "shared_bytes_per_clock");
}
