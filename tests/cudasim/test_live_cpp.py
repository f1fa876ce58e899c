"""Kernels in CUDA C++: each feature of the language and of CUDA's headers once, on the simulator."""

import re
import struct
import warnings

import pytest
import torch

import cudasim
from cudasim.building.library import BuildError
from cudasim.counting.faults import KernelWarning
from cudasim.live.kernels import Kernel, Program
from cudasim.live.source import HostCode, without_host_code

FEATURES = r"""
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <curand_kernel.h>
#include <cub/cub.cuh>
#include <mma.h>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda/atomic>
#include <atomic>
#include <iostream>
#include <vector>
#include <cassert>

namespace cg = cooperative_groups;
using namespace nvcuda;

#define CHECK(call) if ((call) != cudaSuccess) std::cerr << "failed";

constexpr int SIZE = 32;
__constant__ float weights[4] = {1, 2, 3, 4};
__device__ int counter;

struct Point {
    float x, y;
    int tag;
    __device__ Point operator+(const Point &other) const { return {x + other.x, y + other.y, tag}; }
};

template <typename T> __device__ T twice(const T &v, int times = 2) { return static_cast<T>(v * times); }

template <int TILE, typename T> __global__ void transposed(T *to, const T *__restrict__ from, int n) {
    __shared__ T tile[TILE][TILE + 1];
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    if (x < n && y < n) tile[threadIdx.y][threadIdx.x] = from[y * n + x];
    __syncthreads();
    x = blockIdx.y * TILE + threadIdx.x, y = blockIdx.x * TILE + threadIdx.y;
    if (x < n && y < n) to[y * n + x] = tile[threadIdx.x][threadIdx.y];
}

__global__ void language(float *to, Point p, float **rows, const unsigned n) {
    static __shared__ float sums[SIZE];
    auto square = [](float v) { return v * v; };
    Point q = p + Point{1.0f, 2.0f, 0};
    float row = rows[threadIdx.x % 2][threadIdx.x / 2];
    sums[threadIdx.x] = square(q.x) + q.y + row + twice(weights[threadIdx.x % 4]);
    __syncthreads();
    to[threadIdx.x] = sums[SIZE - 1 - threadIdx.x] + std::min(1.0f, 2.0f) + max(0, (int)n);
    atomicAdd(&counter, 1);
    assert(n < 1000);
}

__global__ void halves(__half *to, const __half *a, const __half2 *b, __nv_bfloat16 *c) {
    int i = threadIdx.x;
    __half2 pair = __hfma2(b[i], b[i], __float2half2_rn(1.0f));
    to[i] = a[i] * a[i] + __low2half(pair) + __hmax(a[i], __float2half(0.5f));
    c[i] = __float2bfloat16(1.0f / 3.0f) + __nv_bfloat16(1.0f);
}

__global__ void groups(int *to, const int *from) {
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    auto four = cg::tiled_partition<4>(warp);
    int own = from[block.thread_rank()];
    int sum = cg::reduce(warp, own, cg::plus<int>());
    to[threadIdx.x] = sum * 1000 + cg::inclusive_scan(four, 1) * 100 + four.shfl(own, 0);
    block.sync();
    if (warp.thread_rank() == 0) atomicInc((unsigned *)&to[64], 100u);
}

__global__ void matrices(float *to, const half *a, const half *b) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    wmma::load_matrix_sync(fa, a, 16);
    wmma::load_matrix_sync(fb, b, 16);
    wmma::mma_sync(sum, fa, fb, sum);
    wmma::store_matrix_sync(to, sum, 16, wmma::mem_row_major);
}

__global__ void blocks(int *to, const int *from) {
    using Reduce = cub::BlockReduce<int, 64>;
    using Scan = cub::BlockScan<int, 64>;
    __shared__ union { typename Reduce::TempStorage reduce; typename Scan::TempStorage scan; } shared;
    int sum = Reduce(shared.reduce).Sum(from[threadIdx.x]), before;
    __syncthreads();
    Scan(shared.scan).ExclusiveSum(from[threadIdx.x], before);
    to[threadIdx.x] = before;
    if (threadIdx.x == 0) to[64] = sum;
}

__global__ void copies(float *to, const float *from) {
    __shared__ float tile[64];
    auto block = cg::this_thread_block();
    cg::memcpy_async(block, tile, from, sizeof(float) * 64);
    cg::wait(block);
    to[threadIdx.x] = tile[63 - threadIdx.x];
    curandState state;
    curand_init(1234, threadIdx.x, 0, &state);
    float u = curand_uniform(&state);
    if (u <= 0.0f || u > 1.0f) __trap();
    cuda::atomic_ref<float, cuda::thread_scope_device> first(to[64]);
    first.fetch_add(1.0f);
}

template <typename T> struct Shared {
    T *first;
    std::atomic<int> owners;
    Shared(T *p) : first(p), owners(1) {}
};
void helper(std::vector<float> &v) { CHECK(cudaMalloc(0, 3)); std::cout << v.size(); }
int main() { language<<<1, 32>>>(nullptr, {}, nullptr, 3); helper(*(std::vector<float> *)nullptr); return 0; }
"""


@pytest.fixture(scope="module")
def features():
    program = cudasim.kernel(FEATURES, name="transposed")._program
    whole = type(program)(FEATURES, "features.cu", ())
    return {name: cudasim.live.kernels.Kernel(whole, name) for name in whole.kernels}


def test_templates_take_their_arguments_at_the_call(features):
    from_ = torch.rand(40, 40)
    to = torch.zeros(40, 40)
    features["transposed"][(5, 5), (8, 8)](to, from_, 40, template=(8, "float"))
    assert torch.equal(to, from_.T)
    doubles = torch.rand(40, 40, dtype=torch.float64)
    features["transposed"][(3, 3), (16, 16)](
        result := torch.zeros_like(doubles), doubles, 40, template=(16, torch.float64)
    )
    assert torch.equal(result, doubles.T)
    with pytest.raises(TypeError, match=r"template: expected arguments for <int TILE, typename T>"):
        features["transposed"][1, 1](to, from_, 40)


def test_the_language(features):
    rows = [torch.rand(16), torch.rand(16)]
    to, n = torch.zeros(32), 5
    kernel = features["language"]
    kernel.symbols["counter"].zero_()
    kernel.symbols["weights"].copy_(torch.tensor([10.0, 20.0, 30.0, 40.0]))
    kernel[1, 32](to, {"x": 1.0, "y": 2.0, "tag": 3}, rows, n)
    thread = torch.arange(32)
    sums = (
        4.0 + 4.0 + torch.stack(rows).T.reshape(32) + 2 * torch.tensor([10.0, 20.0, 30.0, 40.0])[thread % 4]
    )
    assert torch.allclose(to, sums.flip(0) + 1.0 + n)
    assert kernel.symbols["counter"].item() == 32
    with pytest.raises(cudasim.KernelFault, match=r"assert\(n < 1000\)") as caught:
        kernel[1, 32](to, {"x": 1.0}, rows, 1000)
    assert caught.value.kind == "assertion"


def test_halves(features):
    a, b = torch.rand(32).half(), torch.rand(64).half()
    to, c = torch.zeros(32, dtype=torch.float16), torch.zeros(32, dtype=torch.bfloat16)
    features["halves"][1, 32](to, a, b, c)
    low = (b[::2].double() ** 2 + 1).half()
    assert torch.equal(to, a * a + low + torch.maximum(a, torch.tensor(0.5).half()))
    assert torch.equal(c, torch.full((32,), 1 / 3).bfloat16() + 1)


def test_cooperative_groups(features):
    from_ = torch.randint(0, 9, (64,), dtype=torch.int32)
    to = torch.zeros(65, dtype=torch.int32)
    features["groups"][1, 64](to, from_)
    thread = torch.arange(64)
    sums = from_.view(2, 32).sum(1)[thread // 32]
    assert torch.equal(to[:64].long(), sums * 1000 + (thread % 4 + 1) * 100 + from_[thread // 4 * 4])
    assert to[64] == 2


def test_wmma(features):
    a, b = torch.rand(16, 16).half(), torch.rand(16, 16).half()
    to = torch.zeros(16, 16)
    features["matrices"][1, 32](to, a, b)
    assert torch.allclose(to, a.float() @ b.float().T, rtol=1e-6)


def test_cub_and_copies(features):
    from_ = torch.randint(0, 9, (64,), dtype=torch.int32)
    to = torch.zeros(65, dtype=torch.int32)
    features["blocks"][1, 64](to, from_)
    assert to[64] == from_.sum() and torch.equal(to[:64], from_.cumsum(0).int() - from_)
    values, result = torch.rand(64), torch.zeros(65)
    features["copies"][1, 64](result, values)
    assert torch.equal(result[:64], values.flip(0)) or result[64] == 64


def test_host_code_is_left_out_and_named(features):
    assert str(features["language"]._program.read.left_out) == "host code left out: helper, main"
    source = "int f() { return 1; }\n__device__ int g() {\n return 2; }\nvoid h() { k<<<1, 2>>>(); }"
    left_out = HostCode()
    kept = without_host_code(source, left_out)
    assert kept.split() == ["__device__", "int", "g()", "{", "return", "2;", "}"] and kept.count("\n") == 3


# Each rule with the section of the PTX ISA that it is from.
RULES = r"""
#include <cuda_fp16.h>

__global__ void rules(float x, int many, int *to, float *floats) {
    to[0] = __float2int_rz(x * 1e30f);              // cvt: out of range becomes the largest
    to[1] = __float2int_rn(x * -1e30f);
    to[2] = __float2int_rd(x * NAN);                // cvt: NaN becomes 0
    to[3] = (int)__float2uint_rz(x * -1.0f);
    to[4] = __float2int_rn(2.5f) + 10 * __float2int_ru(2.1f) + 100 * __float2int_rd(-0.5f);
    to[5] = __funnelshift_lc(1, 2, 40) == 1;        // shf.clamp
    to[6] = __byte_perm(0x03020100, 0x07060504, 0x5140);  // prmt
    to[7] = __dp4a(0x01020304, 0x01010101, 5);      // dp4a
    to[8] = __clz(0) + 100 * __ffs(8) + 1000 * __popc(7u);
#ifdef __CUDA_ARCH__
    to[9] = __CUDA_ARCH__;
#endif
    floats[0] = fminf(x * NAN, 1.0f) + max(2.0f, x * NAN);  // min, max: the one that is not NaN
    floats[1] = __fdividef(x, 1.5e38f);             // div.approx: 0 for a divisor beyond 2^126
    floats[2] = __saturatef(x * NAN);               // sat: NaN becomes 0
    floats[3] = x * 1e-40f;                         // denormals are kept
    floats[4] = abs(x * -1.5f);
    long long longs = (long long)(x * NAN);         // cvt: NaN becomes the first bit where 64 bits are
    to[10] = (int)(x * 1e30f) ^ int(x * -1e30f);    // and of casts likewise
    to[11] = 2 + static_cast<int>(x * NAN) - (int)-x * 3 + (unsigned char)(x * -7.0f) + (unsigned)(x * -2.5f);
    to[12] = (longs == LLONG_MIN) + 2 * ((int)(x * (double)NAN) == INT_MIN);
    to[13] = (float)(int)__half2float(__float2half(x * 2.75f)) + (short)(x * 70000.0f);  // by way of 32 bits
    floats[5] = __fadd_ru(1.0f, 1e-8f) - __fadd_rz(1.0f, 1e-8f);  // add.rp, add.rz
    int v = -5;  // many is an argument: of a multiple of 32 nvcc would know that, in C++, it can only be 0
    to[14] = (1 << many) + (int)(0x80000000u >> many) + (int)(3ull << (many + 32));  // shl, shr: a count
    to[15] = -5 >> many;                            // beyond the width is clamped to it; shr.s32 fills with
    v >>= many + 8;                                 // the sign
    to[16] = v;
}
"""


def test_the_rules_of_ptx(device):
    to, floats = torch.zeros(17, dtype=torch.int32, device=device), torch.zeros(6, device=device)
    told = "which C++ leaves undefined; it went on with a GPU's value"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cudasim.kernel(RULES)[1, 1](1.0, 32, to, floats)
    places = 5 if device.type == "cpu" else 0
    assert [told in str(each.message) for each in caught if each.category is KernelWarning] == [True] * places
    named = [2**31 - 1, -(2**31), 0, 0, 2 + 30 - 100, 1, 0x05010400, 15, 32 + 400 + 3000, 900]
    assert to.tolist() == [*named, -1, 5, 3, 2 + 70000 - 65536, 0, -1, -1]
    denormal = struct.unpack("f", struct.pack("f", 1e-40))[0]
    assert floats.tolist() == [3.0, 0.0, 0.0, denormal, 1.5, 2.0**-23]


UNDEFINED = {
    "to[0] = x;": "converts 3e+09 to 'int', which cannot hold it",
    "to[0] = n < x && to[1] >> (n + 8);": "shifts a number of 32 bits by 40",  # `<...>>` may be a template
}


@pytest.mark.parametrize("unchecked", [False, True])
@pytest.mark.parametrize("statement", UNDEFINED)
def test_what_is_undefined_in_cpp_is_no_wrong_number(statement, unchecked):
    kernel = cudasim.kernel(f"__global__ void undefined(int *to, float x, int n) {{\n    {statement}\n}}\n")
    with pytest.raises(cudasim.KernelFault, match=re.escape(UNDEFINED[statement])) as caught:
        kernel[1, 1](torch.zeros(2, dtype=torch.int32), 3e9, 32, unchecked=unchecked)
    assert (caught.value.kind, caught.value.line) == ("undefined arithmetic", 2)


def test_messages_are_short_and_have_the_line():
    source = "#include <vector>\n__global__ void f(int *a) {\n    int v;\n    a[0] = nothing_here;\n}\n"
    with pytest.raises(BuildError) as caught:
        cudasim.kernel(source)[1, 1](torch.zeros(1, dtype=torch.int32))
    assert "f.cu:4:12: error:" in str(caught.value) and "    4 |     a[0] = nothing_here;" in str(
        caught.value
    )
    host = "int g(int i) { return i; }\n__global__ void f(int *a) { a[0] = g(1); }\n"
    with pytest.raises(BuildError, match=r"g\(\) \(line 1\) is host code here: write __device__ before it"):
        cudasim.kernel(host).build()
    for ptx in ("pmevent 1;", "nop;"):  # the processor here has an instruction of the second name
        barrier = f'__global__ void f(int *a) {{\n    asm volatile("" ::: "memory");\n    asm("{ptx}");\n}}\n'
        with pytest.raises(BuildError, match=r"f\.cu:3:0: error: inline PTX") as caught:
            cudasim.kernel(barrier).build()
        assert f'asm("{ptx}");' in str(caught.value) and "write CUDA C++, or an intrinsic" in str(
            caught.value
        )
    nested = "__global__ void g() {}\n__global__ void f(int *a) { g<<<1, 1>>>(); }\n"
    with pytest.raises(BuildError, match="dynamic parallelism"):
        cudasim.kernel(nested, name="f").build()


def test_a_crash_is_a_fault_even_unchecked():
    wild = cudasim.kernel("__global__ void wild(int *a, long i) {\n    a[i] = 1;\n}")
    a = torch.zeros(4, dtype=torch.int32)
    with pytest.raises(cudasim.KernelFault, match=r"wild\.cu:2") as caught:
        wild[1, 1](a, 1 << 50, unchecked=True)
    assert caught.value.kind == "crash"
    with pytest.raises(cudasim.KernelFault) as caught:
        wild[1, 1](a, 4)
    assert (caught.value.kind, caught.value.line) == ("out of bounds", 2)
    divided = cudasim.kernel("__global__ void divided(int *a, int n) {\n    a[0] = a[1] / n;\n}")
    with pytest.raises(cudasim.KernelFault, match="divides an integer by zero"):
        divided[1, 1](a, 0, unchecked=True)
    wild[1, 1](a, 3)
    assert a[3] == 1


def test_a_notebook_shows_the_kernels_own_lines_of_a_fault():
    wild = cudasim.kernel(
        "__global__ void wild(int *a, int n) {\n    int i = threadIdx.x + n;\n    a[i] = 1;\n}"
    )
    with pytest.raises(cudasim.KernelFault) as caught:
        wild[1, 1](torch.zeros(4, dtype=torch.int32), 4)
    shown = re.sub(r"\x1b\[[\d;]*m", "", "\n".join(caught.value._render_traceback_()))
    assert "->    3      a[i] = 1;" in shown and "      2      int i" in shown and ".py" not in shown


TEXTURE = """
__global__ void sampled(cudaTextureObject_t image, float *to, float dx, float dy) {
    to[threadIdx.y * blockDim.x + threadIdx.x] = tex2D<float>(image, threadIdx.x + dx, threadIdx.y + dy);
}
"""


def test_textures():
    image, to = torch.rand(4, 8), torch.zeros(4, 8)
    sampled = cudasim.kernel(TEXTURE)
    sampled[1, (8, 4)](cudasim.Texture(image), to, 1.5, 0.5)
    assert torch.equal(to, torch.cat((image[:, 1:], image[:, -1:]), 1))
    sampled[1, (8, 4)](cudasim.Texture(image, address="border"), to, 1.5, 0.5)
    assert torch.equal(to, torch.cat((image[:, 1:], torch.zeros(4, 1)), 1))
    sampled[1, (8, 4)](cudasim.Texture(image, filter="linear"), to, 1.0, 0.5)
    after = torch.cat((image[:, 1:], image[:, -1:]), 1)
    assert torch.allclose(to, (image + after) / 2)
    with pytest.raises(ValueError, match="filter: expected point or linear"):
        cudasim.Texture(image, filter="cubic")


def test_texture_references():
    source = """texture<float, 2, cudaReadModeElementType> image;
__global__ void copied(float *to) { to[threadIdx.x] = tex2D(image, threadIdx.x + 0.5f, 1.5f); }"""
    image, to = torch.rand(4, 8), torch.zeros(8)
    copied = cudasim.kernel(source)
    with pytest.raises(cudasim.KernelFault, match="texture reference is bound"):
        copied[1, 8](to)
    copied.symbols.bind("image", cudasim.Texture(image))
    copied[1, 8](to)
    assert torch.equal(to, image[1])


def test_surfaces():
    source = """__global__ void turned(cudaSurfaceObject_t to, cudaSurfaceObject_t from, int beyond) {
    float v;
    surf2Dread(&v, from, threadIdx.x * (int)sizeof(float), threadIdx.y);
    v += surf2Dread<float>(from, -4, 0, cudaBoundaryModeZero);
    surf2Dwrite(v, to, (threadIdx.y + beyond) * (int)sizeof(float), threadIdx.x);
}"""
    image, to = torch.rand(4, 8), torch.zeros(8, 4)
    turned = cudasim.kernel(source)
    turned[1, (8, 4)](cudasim.Texture(to), cudasim.Texture(image), 0)
    assert torch.equal(to, image.T)
    with pytest.raises(cudasim.KernelFault, match=r"turned\.cu:5.*inside the surface"):
        turned[1, (8, 4)](cudasim.Texture(to), cudasim.Texture(image), 1)
    with pytest.raises(cudasim.KernelFault, match="elements have the type"):
        turned[1, (8, 4)](cudasim.Texture(to), cudasim.Texture(image.double()), 0)


def test_declarations_that_look_like_casts():
    forms = {
        "int(x) = 3; o[0] = x;": 3,
        "int y = 7; { int(y); y = 5; } o[0] = y;": 7,
        "int f(unsigned(x)); o[0] = 4;": 4,
        "int q[4] = {1, 2, 3, 4}, *p = q; o[0] = (*(int (*)[4])p)[1];": 2,
        "for (int(i) = 0; i < 3; i++) o[0] = i;": 2,
        "auto l = [](int (x)) -> int { return int(x * 2.5f); }; o[0] = l(2);": 5,
        "enum { int_ = 9 }; o[0] = int_; int (*g)(int(z)) = 0; o[0] += g == 0;": 10,
    }
    kernels = "\n".join(f"__global__ void k{i}(int *o) {{ {form} }}" for i, form in enumerate(forms))
    o = torch.zeros(1, dtype=torch.int32)
    for i, wanted in enumerate(forms.values()):
        cudasim.kernel(kernels, name=f"k{i}")[1, 1](o, unchecked=True)
        assert o.item() == wanted


def test_constants_are_only_read():
    source = """__constant__ float filled[4]; __constant__ const int kept = 3;
__device__ __constant__ int more = 5;
__global__ void reads(float *to) { to[threadIdx.x] = filled[threadIdx.x] + kept + more; }
__global__ void writes(float *to) { ((float *)filled)[threadIdx.x] = 1; }"""
    reads, to = cudasim.kernel(source, name="reads"), torch.zeros(4)
    reads.symbols["filled"].copy_(torch.arange(4.0))
    reads[1, 4](to)
    assert to.tolist() == [8, 9, 10, 11]
    assert (
        cudasim.count(lambda: reads[1, 4](to))["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"].item() == 0
    )
    with pytest.raises(cudasim.KernelFault, match=r"writes filled\[0\], which is __constant__"):
        cudasim.kernel(source, name="writes")[1, 1](to)


def test_a_block_of_threads_waits_at_a_barrier_object():
    source = """#include <cuda/barrier>
__global__ void turned(int *to) {
    __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
    __shared__ int kept[64];
    if (threadIdx.x == 0)
        init(&barrier, blockDim.x);
    __syncthreads();
    kept[threadIdx.x] = threadIdx.x;
    barrier.arrive_and_wait();
    to[threadIdx.x] = kept[63 - threadIdx.x];
}"""
    to = torch.zeros(64, dtype=torch.int32)
    cudasim.kernel(source)[1, 64](to)
    assert to.tolist() == list(range(63, -1, -1))


def test_floats_of_8_bits():
    source = """#include <cuda_fp8.h>
__global__ void narrowed(unsigned char *to, float *back, const float *from, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        to[i] = __nv_cvt_float_to_fp8(from[i], __NV_SATFINITE, __NV_E4M3);
        to[n + i] = __nv_fp8_e5m2(from[i]).__x;
        __nv_fp8_e4m3 v;
        v.__x = to[i];
        back[i] = float(v);
    }
}"""
    numbers = torch.cat(
        (torch.randn(500) * torch.logspace(-4, 2, 500), torch.tensor([0.0, -0.0, 448.0, 464.0]))
    )
    to, back = torch.zeros(2 * len(numbers), dtype=torch.uint8), torch.zeros(len(numbers))
    cudasim.kernel(source)[1, 32](to, back, numbers, len(numbers))
    wanted = numbers.clamp(-448, 448)
    assert torch.equal(to[: len(numbers)], wanted.to(torch.float8_e4m3fn).view(torch.uint8))
    assert torch.equal(to[len(numbers) :], numbers.to(torch.float8_e5m2).view(torch.uint8))
    assert torch.equal(back, wanted.to(torch.float8_e4m3fn).float())


def test_templates_of_one_cell_are_told_apart():
    """Two templates with the same arguments, and one of which all arguments have defaults."""
    source = """
    template <typename T> __global__ void doubled(T *x) { x[threadIdx.x] *= 2; }
    template <typename T> __global__ void increased(T *x) { x[threadIdx.x] += 1; }
    template <int BY = 3> __global__ void decreased(float *x) { x[threadIdx.x] -= BY; }
    """
    program = Program(source, "cell.cu")
    x = torch.zeros(32)
    for name in ("increased", "doubled", "decreased"):
        Kernel(program, name)[1, 32](x)
    assert (x == -1).all()


def test_a_kernel_with_a_concept():
    source = """
template <class T> concept number = std::is_arithmetic_v<T>;
template <number T> __global__ void doubles(T *x) { x[threadIdx.x] *= 2; }
"""
    x = torch.arange(4.0)
    cudasim.kernel(source)[1, 4](x, template=torch.float32)
    assert x.tolist() == [0, 2, 4, 6]


def test_dynamic_shared_memory_is_one_object():
    source = """
    template <int n> struct parts { float a[n], b[n]; };
    template <int n> __global__ void turn(float *x) {
        extern __shared__ parts<n> s;
        s.a[threadIdx.x] = x[threadIdx.x];
        s.b[n - 1 - threadIdx.x] = 2 * x[threadIdx.x];
        __syncthreads();
        x[threadIdx.x] = s.a[n - 1 - threadIdx.x] + s.b[threadIdx.x];
    }"""
    x = torch.arange(32.0)
    cudasim.kernel(source)[1, 32, 256](x, template=(32,))
    assert torch.equal(x, 3 * torch.arange(31.0, -1, -1))


def test_clock_is_the_gpu_s_and_not_the_c_library_s():
    ordered = torch.zeros(1, dtype=torch.int32)
    cudasim.kernel("""__global__ void ticks(int *ordered) {
        long long before = clock64(), between = clock(), after = clock64();
        *ordered = before <= between && between <= after;
    }""")[1, 1](ordered)
    assert ordered.item() == 1
