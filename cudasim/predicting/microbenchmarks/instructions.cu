/* How long the result of an instruction takes, and how many of them a multiprocessor issues.
 *
 * Idea: a chain, in which each instruction needs the result of the one before. One warp with one chain waits
 * for every result: clocks / instructions is the latency. 32 warps with eight chains each never wait for one:
 * threads x instructions / clocks is the rate. The same kernel measures both.
 *
 * The operands are arguments, not constants, and the results are written, so that the compiler leaves nothing
 * out. */
#include <cuda_fp16.h>

#include "measure.h"

#define ALL_STEPS 128 /* of all chains in a round: a loop's end costs little beside them */
#define FULL 1024     /* threads of a block that fills the issue slots */

struct MultiplyAdd {
    using Value = float;
    static constexpr int instructions = 1;
    static __device__ void step(float &x, float a, float b) {
        x = fmaf(x, a, b);
    }
};

struct MultiplyAddDouble {
    using Value = double;
    static constexpr int instructions = 1;
    static __device__ void step(double &x, double a, double b) {
        x = fma(x, a, b);
    }
};

struct MultiplyAddHalf {
    using Value = __half2;
    static constexpr int instructions = 1;
    static __device__ void step(__half2 &x, __half2 a, __half2 b) {
        x = __hfma2(x, a, b);
    }
};

struct Logic { /* (x & a) ^ b: simple arithmetic of integers */
    using Value = unsigned;
    static constexpr int instructions = 1;
    static __device__ void step(unsigned &x, unsigned a, unsigned b) {
        asm volatile("lop3.b32 %0, %0, %1, %2, 0x6a;" : "+r"(x) : "r"(a), "r"(b));
    }
};

struct MultiplyAddInteger {
    using Value = unsigned;
    static constexpr int instructions = 1;
    static __device__ void step(unsigned &x, unsigned a, unsigned b) {
        x = x * a + b;
    }
};

struct Special {
    using Value = float;
    static constexpr int instructions = 1;
    static __device__ void step(float &x, float, float) {
        asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x));
    }
};

struct Convert { /* to an integer and back */
    using Value = float;
    static constexpr int instructions = 2;
    static __device__ void step(float &x, float, float) {
        x = __int2float_rn(__float2int_rz(x));
    }
};

struct ConvertDouble { /* to an integer and back */
    using Value = double;
    static constexpr int instructions = 2;
    static __device__ void step(double &x, double, double) {
        x = __int2double_rn(__double2int_rz(x));
    }
};

struct Shift {
    using Value = unsigned;
    static constexpr int instructions = 1;
    static __device__ void step(unsigned &x, unsigned a, unsigned b) {
        x = __funnelshift_l(x, a, b);
    }
};

struct CountBits {
    using Value = unsigned;
    static constexpr int instructions = 1;
    static __device__ void step(unsigned &x, unsigned, unsigned) {
        x = __popc(x);
    }
};

struct Shuffle {
    using Value = unsigned;
    static constexpr int instructions = 1;
    static __device__ void step(unsigned &x, unsigned, unsigned) {
        x = __shfl_xor_sync(0xffffffffu, x, 1);
    }
};

struct Fragments { /* mma.sync of 16 x 8 x 16 halves, with sums in float32; from compute capability 8.0 on */
    using Value = float4;
    static constexpr int instructions = 1;
    static __device__ void step(float4 &x, float4 a, float4 b) {
#if __CUDA_ARCH__ >= 800
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                     "{%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(x.x), "+f"(x.y), "+f"(x.z), "+f"(x.w)
                     : "r"(__float_as_uint(a.x)), "r"(__float_as_uint(a.y)), "r"(__float_as_uint(a.z)),
                       "r"(__float_as_uint(a.w)), "r"(__float_as_uint(b.x)), "r"(__float_as_uint(b.y)));
#endif
    }
};

/* clocks: of each block, from its first warp's begin to its last one's end. out: what the chains end with. */
template <typename Operation, int CHAINS>
__global__ void __launch_bounds__(FULL)
    chains(typename Operation::Value a, typename Operation::Value b, int rounds, long long *clocks,
           typename Operation::Value *out) {
    typename Operation::Value x[CHAINS];
    size_t own = (size_t)blockIdx.x * blockDim.x + threadIdx.x, all = (size_t)gridDim.x * blockDim.x;
    for (int chain = 0; chain < CHAINS; chain++)
        x[chain] = out[chain * all + own];
    __syncthreads();
    long long begin = clock64();
#pragma unroll 1
    for (int round = 0; round < rounds; round++) {
#pragma unroll
        for (int step = 0; step < ALL_STEPS / CHAINS; step++) {
#pragma unroll
            for (int chain = 0; chain < CHAINS; chain++)
                Operation::step(x[chain], a, b);
        }
    }
    __syncthreads();
    long long end = clock64();
    if (threadIdx.x == 0)
        clocks[blockIdx.x] = end - begin;
    for (int chain = 0; chain < CHAINS; chain++)
        out[chain * all + own] = x[chain];
}

/* The clocks of a block, the median of all blocks, for each launch after the first. */
template <typename Operation, int CHAINS>
static std::vector<double> clocks_of(const Machine &machine, int blocks, int threads, int rounds) {
    using Value = typename Operation::Value;
    Memory<long long> clocks(blocks);
    Memory<Value> out((size_t)CHAINS * blocks * threads);
    Value a{}, b{};
    std::vector<double> found;
    for (int i = 0; i <= machine.repetitions; i++) {
        chains<Operation, CHAINS><<<blocks, threads>>>(a, b, rounds, clocks.data, out.data);
        CHECK(cudaGetLastError());
        CHECK(cudaDeviceSynchronize());
        if (i > 0)
            found.push_back(median(clocks.read(blocks)));
    }
    return found;
}

template <typename Operation>
static void measure(const Machine &machine, const char *lanes, const char *latency) {
    const int chains = 8, rounds = machine.is_brief ? 1 : 200;
    const double each = (double)rounds * ALL_STEPS * Operation::instructions;
    if (latency) {
        std::vector<double> found = clocks_of<Operation, 1>(machine, 1, 32, rounds);
        for (double &value : found)
            value /= each;
        print(latency, found);
    }
    if (lanes) {
        int threads = machine.is_brief ? 64 : FULL;
        std::vector<double> found =
            clocks_of<Operation, chains>(machine, machine.multiprocessors, threads, rounds);
        for (double &value : found)
            value = threads * each / value;
        print(lanes, found);
    }
}

/* The clock under arithmetic that lasts for some milliseconds. */
static void measure_clock(const Machine &machine) {
    int blocks = machine.multiprocessors, threads = machine.is_brief ? 64 : FULL;
    int rounds = machine.is_brief ? 1 : 20000;
    Memory<long long> clocks(blocks);
    Memory<float> out((size_t)8 * blocks * threads);
    std::vector<double> found;
    auto seconds = seconds_of(machine, [&] {
        chains<MultiplyAdd, 8><<<blocks, threads>>>(0.0f, 0.0f, rounds, clocks.data, out.data);
    });
    double of_block = median(clocks.read(blocks));
    for (double of : seconds)
        found.push_back(of_block / of);
    print("clock_hz", found);
}

void measure_instructions(const Machine &machine) {
    measure_clock(machine);
    measure<MultiplyAdd>(machine, "lanes.fp32", "latency.fma");
    measure<MultiplyAddDouble>(machine, "lanes.fp64", "latency.fp64");
    measure<MultiplyAddHalf>(machine, "lanes.fp16", nullptr);
    measure<Logic>(machine, "lanes.int32", "latency.alu");
    measure<MultiplyAddInteger>(machine, "lanes.imad", "latency.imad");
    measure<Special>(machine, "lanes.special", "latency.special");
    measure<Convert>(machine, "lanes.convert", "latency.convert");
    measure<ConvertDouble>(machine, "lanes.convert64", nullptr);
    measure<Shift>(machine, "lanes.shift", nullptr);
    measure<CountBits>(machine, "lanes.popc", nullptr);
    measure<Shuffle>(machine, "lanes.shuffle", "latency.shuffle");
    if (machine.capability >= 80)
        measure<Fragments>(machine, nullptr, "latency.tensor");
}
