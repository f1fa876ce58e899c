/* How long a load, an atomic and a barrier take on a GPU that does nothing else.
 *
 * Idea: each address comes from the load before. In global memory the places form a ring in random order, a
 * line of 128 bytes each. A small ring stays in L1; one of some megabytes, read around L1, stays in L2; of
 * one that has just been pushed out of L2, no line is there. */
#include <numeric>
#include <random>

#include "measure.h"

#define LINE 128
#define WORDS 1024 /* of shared memory */
#define STEPS 64   /* of a round */

template <bool AROUND_L1> __global__ void follow(char *first, int steps, long long *clocks, char **last) {
    char *place = first;
    long long begin = clock64();
#pragma unroll 16
    for (int i = 0; i < steps; i++) {
        const long long *next = (const long long *)place;
        place = (char *)(AROUND_L1 ? __ldcg(next) : __ldca(next));
    }
    *last = place;
    long long end = clock64();
    *clocks = end - begin;
}

/* A ring through all lines of `bytes`, in random order. */
static void make_ring(char *memory, size_t bytes) {
    std::vector<size_t> order(bytes / LINE);
    std::iota(order.begin(), order.end(), size_t(0));
    std::shuffle(order.begin(), order.end(), std::mt19937_64(1));
    std::vector<char *> words(bytes / sizeof(char *));
    for (size_t i = 0; i < order.size(); i++)
        words[order[i] * (LINE / sizeof(char *))] = memory + order[(i + 1) % order.size()] * LINE;
    CHECK(cudaMemcpy(memory, words.data(), bytes, cudaMemcpyHostToDevice));
}

/* Clocks of a step. Before each launch `flushed` bytes elsewhere are written; where there are none, the
 * launch before has left the ring in the cache. */
template <bool AROUND_L1>
static void measure_ring(const Machine &machine, const char *figure, size_t bytes, int steps,
                         size_t flushed) {
    Memory<char> ring(bytes), other(std::max<size_t>(1, flushed));
    Memory<long long> clocks(1);
    Memory<char *> last(1);
    make_ring(ring.data, bytes);
    std::vector<double> found;
    for (int i = 0; i <= machine.repetitions; i++) {
        if (flushed)
            CHECK(cudaMemset(other.data, i, flushed));
        follow<AROUND_L1><<<1, 1>>>(ring.data, steps, clocks.data, last.data);
        CHECK(cudaGetLastError());
        CHECK(cudaDeviceSynchronize());
        if (i > 0)
            found.push_back((double)clocks.read(1)[0] / steps);
    }
    print(figure, found);
}

enum Wait { LOAD, ATOMIC, GLOBAL_ATOMIC, BARRIER };

/* Steps that wait for each other in shared memory, for an atomic of global memory, or at a barrier. zero: 0,
 * which the compiler does not know. */
template <Wait WAIT> __global__ void wait(int zero, int rounds, int *global, long long *clocks, int *out) {
    __shared__ int shared[WORDS];
    for (int i = threadIdx.x; i < WORDS; i += blockDim.x)
        shared[i] = zero;
    __syncthreads();
    int offset =
        4 * zero; /* in bytes: a load's address is then the result of the one before, with nothing to add */
    long long begin = clock64();
#pragma unroll 1
    for (int round = 0; round < rounds; round++) {
#pragma unroll
        for (int i = 0; i < STEPS; i++) {
            if (WAIT == LOAD)
                offset = *(int *)((char *)shared + offset);
            else if (WAIT == ATOMIC)
                offset = atomicAdd((int *)((char *)shared + offset), zero);
            else if (WAIT == GLOBAL_ATOMIC)
                offset = atomicAdd((int *)((char *)global + offset), zero);
            else
                __syncthreads();
        }
    }
    out[threadIdx.x] = offset;
    long long end = clock64();
    if (threadIdx.x == 0)
        *clocks = end - begin;
}

template <Wait WAIT> static void measure_wait(const Machine &machine, const char *figure, int threads) {
    int rounds = machine.is_brief ? 1 : 50;
    Memory<int> global(1), out(threads);
    Memory<long long> clocks(1);
    std::vector<double> found;
    for (int i = 0; i <= machine.repetitions; i++) {
        wait<WAIT><<<1, threads>>>(0, rounds, global.data, clocks.data, out.data);
        CHECK(cudaGetLastError());
        CHECK(cudaDeviceSynchronize());
        if (i > 0)
            found.push_back((double)clocks.read(1)[0] / (rounds * STEPS));
    }
    print(figure, found);
}

void measure_latencies(const Machine &machine) {
    size_t megabyte = machine.is_brief ? 16 << 10 : 1 << 20;
    int steps = machine.is_brief ? 64 : 4096;
    measure_ring<false>(machine, "latency.l1", 8 << 10, steps, 0);
    /* 32 MB lie in few pages, so that it is the memory that is waited for, and not the tables of its pages.
     * In L2 it is half a megabyte, of which each launch reads every line. */
    measure_ring<true>(machine, "latency.l2", megabyte / 2, steps, 0);
    measure_ring<true>(machine, "latency.dram", 32 * megabyte, steps,
                       machine.is_brief ? megabyte : 4 * machine.l2_bytes);
    measure_wait<LOAD>(machine, "latency.shared", 1);
    measure_wait<ATOMIC>(machine, "latency.atomic_shared", 1);
    measure_wait<GLOBAL_ATOMIC>(machine, "latency.atomic_global", 1);
    measure_wait<BARRIER>(machine, "latency.barrier", 256);
}
