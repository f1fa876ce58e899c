"""Whole files as people paste them: what their host code, their macros and their own headers say about the
kernels."""

import math

import pytest
import torch

import cudasim
from cudasim.building.library import BuildError
from cudasim.live.cells import CellError, _define
from cudasim.live.kernels import Program
from cudasim.live.source import included


def launched(source, *arguments, name=None, grid=1, block=32, **keywords):
    cudasim.kernel(source, name)[grid, block](*arguments, **keywords)
    return arguments[0]


def test_template_arguments_follow_from_the_files_own_launches():
    source = """
    template <typename T, int kBlock, int kItems> __global__ void fill(T *y) {
        for (int i = 0; i < kItems; i++)
            y[i * kBlock + threadIdx.x] = kBlock + i;
    }
    template <int B> void start(float *y) {
        constexpr int kItems = 1 << 1, kOther = 5;
        fill<float, B, (kItems)><<<1, B>>>(y);
    }
    void solve(float *y) { start<32>(y); }
    """
    y = launched(source, torch.zeros(64))
    assert y.tolist() == [32.0] * 32 + [33.0] * 32
    half = launched(source, torch.zeros(64, dtype=torch.float16))  # the tensor's type is deduced
    assert half.tolist() == y.tolist()


def test_a_default_of_the_hosts_template_is_none_of_its_constants():
    source = """
    template <int N, int B> __global__ void fill(float *y) { y[threadIdx.x] = 10 * N + B; }
    template <const int B = 8>
    void start(float *y) {
        constexpr int N = 4;
        fill<N, B><<<1, 32>>>(y);
    }
    void solve(float *y) { start<5>(y); }
    """
    assert launched(source, torch.zeros(32))[0] == 45


def test_launches_that_disagree_are_named():
    source = """
    template <int B> __global__ void fill(float *y) { y[threadIdx.x] = B; }
    void solve(float *y, int n) {
        if (n > 9) fill<64><<<1, 64>>>(y);
        else fill<32><<<1, 32>>>(y);
    }
    """
    with pytest.raises(TypeError, match=r"template: .*; the source has <64>, <32>"):
        launched(source, torch.zeros(32))
    assert launched(source, torch.zeros(32), template=(32,))[0] == 32


def test_braces_that_both_branches_of_an_if_open():
    source = """
    __host__ __device__ int half_of(int n) {
    #if WHOLE
        if (n > 0) {
    #else
        for (int i = 0; i < 1; i++) {
    #endif
            return n / 2;
        }
        return 0;
    }
    __global__ void k(int *y) { y[threadIdx.x] = half_of(threadIdx.x); }
    """
    assert launched(source, torch.zeros(32, dtype=torch.int32))[31] == 15


def test_macros_between_declarations_stay():
    source = """
    #define BEGIN_C extern "C" {
    #define END_C }
    BEGIN_C
    #define SCALE 3
    void of_the_host(int *p);
    NVBENCH_BENCH(of_the_host).add_axis("n", 3);
    END_C
    using namespace cv;
    __global__ void k(int *y) { y[threadIdx.x] = SCALE; }
    """
    assert launched(source, torch.zeros(32, dtype=torch.int32))[0] == 3


@pytest.mark.parametrize("name", ["tanh", "round", "reduce"])
def test_kernels_with_the_name_of_another_function(name):
    source = f"""
    #include <numeric>
    using namespace std;
    __global__ void {name}();
    __global__ void {name}(float *y) {{ y[threadIdx.x] = 1; }}
    """
    assert launched(source, torch.zeros(32))[0] == 1


def test_what_cub_and_torch_include_for_their_users():
    source = """
    #include <cub/cub.cuh>
    __global__ void k(int *y, const c10::Half *x) {
        typedef cub::BlockScan<int, 32> Scan;
        __shared__ typename Scan::TempStorage temp;
        int items[2] = {(int)threadIdx.x, (int)(float)x[threadIdx.x]}, results[2], total;
        Scan(temp).InclusiveScan(items, results, cuda::maximum<int>(), total);
        y[2 * threadIdx.x] = results[0];
        y[2 * threadIdx.x + 1] = cuda::std::clamp(results[1], 0, 20);
    }
    """
    x = torch.arange(32, 0, -1).half()
    y = launched(source, torch.zeros(64, dtype=torch.int32), x).view(32, 2)
    assert y[:, 0].tolist() == [0] + [32] * 31
    assert y[:, 1].tolist() == [20] * 32
    with pytest.raises(BuildError, match="Thrust is the host's"):
        launched("__global__ void k(int *y) { thrust::sort(y, y + 1); }", torch.zeros(1, dtype=torch.int32))


def test_numbers_and_shuffles_of_torch_are_its_own():
    """A type of 16 bits that is not CUDA's has constructors and conversions of its own."""
    source = """
    #include <ATen/ATen.h>
    #include <c10/util/complex.h>
    __global__ void k(c10::complex<float> *z, c10::BFloat16 *b, const at::Half *a, float *f) {
        int i = threadIdx.x;
        z[i] = z[i] * c10::complex<float>(0, 1) + std::conj(z[i]) + std::exp(c10::complex<float>(0, 0));
        b[i] = static_cast<float>(a[i]) + 1;
        c10::Half h(0x3c00, c10::Half::from_bits());
        float sum = static_cast<float>(-a[i] + h);
        for (int lane = C10_WARP_SIZE / 2; lane > 0; lane /= 2)
            sum += WARP_SHFL_XOR(sum, lane);
        f[i] = i ? sum : at::numeric_limits<float>::lower_bound();
    }
    """
    torch.manual_seed(0)
    z, a, f = torch.randn(32, dtype=torch.complex64), torch.arange(32).half(), torch.zeros(32)
    given, b = z.clone(), torch.zeros(32, dtype=torch.bfloat16)
    launched(source, z, b, a, f)
    assert torch.allclose(z, given * 1j + given.conj() + 1, atol=1e-6)
    assert b.tolist() == list(range(1, 33))
    assert f.tolist() == [-math.inf] + [32 - sum(range(32))] * 31


def test_pragmas_before_loops_change_no_values():
    source = """
    constexpr int N = 4;
    __global__ void k(float *y, int n) {
        float sum = 0;
        #pragma unroll
        for (int i = 0; i < N; i++)
            #pragma unroll 8 // the inner one
            for (int j = 0; j < 8; j++) sum += i * j;
        if (n)
        #pragma unroll (N)

            for (int i = 0; i < n; i++) { sum += 1; }
        #pragma unroll 1
        for (int i = 0; i < n; i++) sum += 1;
        #pragma unroll
        while (n-- > 0) sum += 1;
        #pragma unroll
        if (n < 0) y[threadIdx.x] = sum;
    }
    """
    assert launched(source, torch.zeros(32), 100, unchecked=True).tolist() == [168 + 300] * 32
    read = included(source, "k.cu", ())
    assert [line.strip() for line in read.text.splitlines()].count("SIM_UNROLL") == 2


def test_a_kernel_that_an_if_leaves_out_of_a_cell(capsys):
    cell = """
    #if 0
    __global__ void first(int *y) { y[0] = 1; }
    #endif
    __global__ void second(int *y) { y[0] = 2; }
    """
    assert list(_define("", cell)) == ["second"]
    assert "left out by an #if: first" in capsys.readouterr().err
    with pytest.raises(BuildError, match="an #if leaves first out"):
        _define("first", cell)


def test_what_another_file_defines_is_named():
    source = "__device__ int other(int i);\n__global__ void k(int *y) { y[0] = other(1); }"
    with pytest.raises(BuildError, match=r"^error: other\(int\) is declared and called, and its definition"):
        launched(source, torch.zeros(1, dtype=torch.int32))


def test_own_headers_are_cuda_too(tmp_path):
    (tmp_path / "warp.hpp").write_text(
        '#pragma once\n#include "marks.h"\nMARK float twice(float x) { return 2 * x; }\n'
        "MARK int bits(float x) { return (int)x - 2147483647; }\n"
        "MARK float *dynamic() { extern __shared__ float every[]; return every; }\n"
    )
    (tmp_path / "marks.h").write_text(
        "#define MARK __device__ __noinline__\n#define KERNEL __global__ void\n"
    )
    source = """
    #include "warp.hpp"
    MARK float four_times(float x) { return twice(twice(x)); }
    KERNEL unused(float *y) { y[0] = 1; }
    __global__ void k(float *y) {
        dynamic()[threadIdx.x] = threadIdx.x;
        y[threadIdx.x] = four_times(dynamic()[threadIdx.x]) + bits(3e9f);
    }
    """
    y = torch.zeros(32)
    cudasim.kernel(source, "k", include=[tmp_path])[1, 32, 128](y)
    assert y.tolist() == [4.0 * i for i in range(32)]
    assert "four_times" not in str(Program(source, "k.cu", (tmp_path,)).read.left_out)


OWN_HEADERS = {
    "marks/every.cuh": """\
        # pragma once
        #include "../parts/two.h"
        #ifndef ONE
        #include "functions.h"
        #else
        #include "functions.h"
        #endif
        #include "every.cuh"
        namespace shapes { namespace flat {
        template <typename T, int N = 2> __forceinline__ __device__ T times(T x) { return N * x; }
        } }
        struct __align__(8) Pair {
            float a, b;
            __noinline__ __device__ float sum() const { return a + b; }
        };
        """,
    "marks/functions.h": """\
        #ifndef FUNCTIONS_H
        #define FUNCTIONS_H
        extern "C" {
        __host__ __device__ __noinline__ float one_more(float x) { return x + 1; }
        void of_the_host(float *x);
        }
        extern "C" __noinline__ __device__ void swap(float *a, float *b);
        #endif
        """,
    "parts/two.h": "\ufeff#pragma once\n__constant__ int parts_two = 2; // größer\n",
    "parts/numbers.def": "NUMBER(1)\nNUMBER(2)\n",
}


def test_own_headers_in_folders_of_their_own(tmp_path, monkeypatch):
    for name, text in OWN_HEADERS.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    cell = """
    #include "marks/every.cuh"
    #if 0
    #include "marks/functions.h"
    #endif
    void __noinline__ __device__ swap(float *a, float *b) { float t = *a; *a = *b; *b = t; }
    __device__ int numbers() {
        int sum = 0;
    #define NUMBER(n) sum += n;
    #include "parts/numbers.def"
    #undef NUMBER
    #define NUMBER(n) sum += 10 * n;
    #include "parts/numbers.def"
        return sum;
    }
    __global__ void k(float *y) {
        float a = one_more(threadIdx.x), b = shapes::flat::times(a) + parts_two;
        swap(&a, &b);
        y[threadIdx.x] = a - Pair{b, 1}.sum() + numbers();
    }
    """
    y = torch.zeros(32)
    _define("", cell)["k"][1, 32](y)
    assert y.tolist() == [i + 1 + 2 - 1 + 33.0 for i in range(32)]


def test_a_header_that_changed_is_compiled_anew(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    y = torch.zeros(32)
    for number in (1, 2):
        (tmp_path / "number.h").write_text(f"#define NUMBER {number}\n")
        cell = '#include "number.h"\n__global__ void k(float *y) { y[threadIdx.x] = NUMBER; }'
        _define("", cell)["k"][1, 32](y)
        assert y[0] == number


def test_an_error_in_a_header_says_where(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inner.h").write_text("#pragma once\n\n#define TWO 2\n")
    (tmp_path / "outer.h").write_text(
        '#pragma once\n#include "inner.h"\n\n__device__ int f(int x) { return x + nowhere; }\n'
    )
    with pytest.raises(BuildError, match=r"^outer.h:4:\d+: error: .*nowhere"):
        _define("", '#include "outer.h"\n__global__ void k(int *y) { y[0] = f(TWO); }\n')


PARTS = """
__global__ void one(float *y) { y[threadIdx.x] = 1; }
__global__ void launches(float *y) { one<<<1, 32>>>(y); }
template <int N> __global__ void many(float *y) { y[threadIdx.x] = N; }
"""


def test_the_other_kernels_of_a_cell_compile():
    with pytest.raises(
        CellError, match=r"(?s)dynamic parallelism.*compiled all the same: one, many$"
    ) as error:
        _define("", PARTS)
    assert error.value.kernels.keys() == {"one", "many"}
    y = torch.zeros(32)
    error.value.kernels["one"][1, 32](y)
    assert y[31] == 1
    _define("many one", PARTS)["many"][1, 32](y, template=(5,))
    assert y[31] == 5
    with pytest.raises(CellError) as error:
        _define("launches", PARTS)
    assert not error.value.kernels


@pytest.mark.parametrize("name", ["atomicAdd", "max", "fmaf", "make_float2"])
def test_a_kernel_may_have_the_name_of_a_function_of_cuda(name):
    source = (
        f"__global__ void {name}(const float *x, float *y, int n) {{ y[threadIdx.x] = n * x[threadIdx.x]; }}"
    )
    y = torch.zeros(32)
    cudasim.kernel(source)[1, 32](torch.ones(32), y, 3)
    assert y[31] == 3


GUESSES = {
    "guide": """
        unsigned long long *as_ull = (unsigned long long *)at;
        unsigned long long old = *as_ull, assumed;
        do {
            assumed = old;
            old = atomicCAS(as_ull, assumed, __double_as_longlong(v + __longlong_as_double(assumed)));
        } while (assumed != old);""",
    "index": """
        unsigned long long *a = (unsigned long long *)at, assumed;
        unsigned long long now = a[0];
        do { // once more
            assumed = now;
            now = atomicCAS(&a[0], assumed, __double_as_longlong(v + __longlong_as_double(assumed)));
        } while (assumed != now);""",
    "cast": """
        double old = *at, assumed;
        do {
            assumed = old;
            old = __longlong_as_double(atomicCAS((unsigned long long *)at, __double_as_longlong(assumed),
                                                 __double_as_longlong(v + assumed)));
        } while (assumed != old);""",
    "in_front": """
        unsigned long long *a = (unsigned long long *)at, guess = *a;
        unsigned long long was = atomicCAS(a, guess, __double_as_longlong(v + __longlong_as_double(guess)));
        while (was != guess) {
            guess = was;
            was = atomicCAS(a, guess, __double_as_longlong(v + __longlong_as_double(guess)));
        }""",
    "in_condition": """
        unsigned long long *a = (unsigned long long *)at, old, next;
        do {
            old = *a;
            next = __double_as_longlong(v + __longlong_as_double(old));
        } while (atomicCAS(a, old, next) != old);""",
}
BRANCHES = """
    unsigned long long *as_ull = (unsigned long long *)at;
    unsigned long long old = *as_ull, assumed;
    do {
        if (__longlong_as_double(old) > 1e9) break;
        assumed = old;
        old = atomicCAS(as_ull, assumed, __double_as_longlong(v + __longlong_as_double(assumed)));
    } while (assumed != old);"""


def adding(loop: str):
    return cudasim.kernel(
        f"__device__ void add(double *at, double v) {{ {loop} }}\n"
        "__global__ void k(double *y) { add(y, threadIdx.x); }"
    )


@pytest.mark.parametrize("loop", GUESSES.values(), ids=GUESSES)
def test_the_guess_of_a_swap_is_no_race(loop):
    y = torch.zeros(1, dtype=torch.float64)
    cudasim.check(lambda: adding(loop)[4, 64](y))
    assert y == 4 * 63 * 64 / 2


@pytest.mark.parametrize(
    "loop",
    [BRANCHES, GUESSES["in_front"].split("while")[0] + "(void)was;"],
    ids=["a branch", "no loop after it"],
)
def test_what_is_read_for_more_than_a_swap_is_a_race(loop):
    with pytest.raises(cudasim.KernelFault, match="race in k"):
        cudasim.check(lambda: adding(loop)[1, 64](torch.zeros(1, dtype=torch.float64)))


def test_the_folders_of_headers_are_named_by_the_cell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my common").mkdir()
    (tmp_path / "my common" / "shared.h").write_text("#pragma once\n#define THREE 3\n")
    cell = '#include "shared.h"\n__global__ void k(float *y) { y[threadIdx.x] = THREE; }'
    with pytest.raises(CellError, match=r"headers were not found: shared.h \(`%%cuda -I folder`"):
        _define("", cell)
    y = torch.zeros(32)
    _define('k -I "my common"', cell)["k"][1, 32](y)
    assert y[0] == 3


def test_what_the_compiler_says_of_the_simulators_headers_is_left_out(capsys):
    cell = """#pragma once
    __device__ int next(int *counter) {
        unsigned active = __activemask();
        int leader = __ffs(active) - 1, lane = threadIdx.x % 32, first;
        if (lane == leader)
            first = atomicAdd(counter, __popc(active));
        return __shfl_sync(active, first, leader) + __popc(active & ((1u << lane) - 1));
    }
    __global__ void k(int *y, int *counter) {
        int never;
        y[next(counter)] = threadIdx.x;
    }
    """
    y = torch.zeros(64, dtype=torch.int32)
    _define("", cell)["k"][1, 64](y, torch.zeros(1, dtype=torch.int32))
    assert sorted(y.tolist()) == list(range(64))
    said = capsys.readouterr().err
    assert "unused variable" in said
    assert "uninitialized" not in said and "pragma" not in said and "sim/cpp" not in said


def test_a_cell_that_is_run_again_has_its_variables_anew():
    cell = """
    __device__ float scale = 5;
    __device__ int launches;
    __global__ void k(float *y) {
        y[0] = scale;
        y[1] = ++launches;
    }
    """
    y = torch.zeros(2)
    for _ in range(2):
        k = _define("", cell)["k"]
        k[1, 1](y)
        assert y.tolist() == [5, 1]
        k.symbols["scale"].fill_(6)
        cudasim.check(lambda k=k: k[1, 1](y))
        assert y.tolist() == [6, 2]


def test_a_source_that_is_no_text():
    with pytest.raises(ValueError, match="source: expected text"):
        cudasim.kernel("__global__ void k(float *y) {} // \udcff")


def test_a_constructor_that_calls_what_calls_the_host_is_left_out():
    """In a template the compiler wants `allocate` where it reads the call, and not where it makes it."""
    source = """
    template <typename T>
    class Buffer {
        T *data = nullptr;
      public:
        explicit Buffer(size_t n) { reserve(n); }
        __device__ explicit Buffer(T *own) : data(own) {}
        ~Buffer() { release(); }
        void reserve(size_t n) { this->allocate(n); }
        void allocate(size_t n) { cudaMalloc((void **)&data, n * sizeof(T)); }
        __device__ T at(int i) const { return data[i]; }
      private:
        void release() { cudaFree(data); }
    };

    __global__ void copy(float *y, const float *x) {
        Buffer<const float> own(x);
        y[threadIdx.x] = own.at(threadIdx.x);
    }"""
    y, x = torch.zeros(32), torch.arange(32.0)
    assert torch.equal(launched(source, y, x), x)


def test_types_of_functions_that_no_kernel_needs_are_left_out():
    """As the headers of OpenGL have them, whose own types another header has that is not here."""
    source = """
#define APIENTRYP *
typedef void (APIENTRYP PFNGLACTIVETEXTUREPROC) (GLenum texture);
typedef float (*rows)[4];
typedef float (*operation)(float x);
__device__ float twice(float x) { return 2.0f * x; }
__global__ void k(float *y, int texture) {
    __shared__ float tile[2][4];
    rows both = tile;
    operation f = twice;
    both[threadIdx.x / 4][threadIdx.x % 4] = f(y[threadIdx.x]);
    __syncthreads();
    y[threadIdx.x] = both[1 - threadIdx.x / 4][threadIdx.x % 4] + texture;
}
"""
    y = torch.arange(8.0)
    cudasim.kernel(source)[1, 8](y, 1)
    assert y.tolist() == [9.0, 11.0, 13.0, 15.0, 1.0, 3.0, 5.0, 7.0]


def test_macros_of_the_source_may_be_called_block_size():
    """What stands for threadIdx and its like has no name that people give their constants."""
    source = """
#define block_size 256
#define grid_size 4
#define thread_index 0
#define block_index 0
#define shared_memory 48
__global__ void k(float *y) {
    extern __shared__ float s[];
    s[threadIdx.x] = blockIdx.x;
    y[blockIdx.x * blockDim.x + threadIdx.x] = s[threadIdx.x] + gridDim.x + block_size;
}
"""
    y = torch.zeros(64)
    cudasim.kernel(source)[2, 32, 128](y)
    assert y[::32].tolist() == [258.0, 259.0]
