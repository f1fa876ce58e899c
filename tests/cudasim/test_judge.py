"""What nvcc refuses does not run on the simulator either: by nvcc itself where it is there, else by rules."""

import re
import time
import warnings

import numpy as np
import pytest

import cudasim
from cudasim.building.toolchains import find_nvcc
from cudasim.live import judge
from cudasim.live.judge import NotCudaError

NVCC = find_nvcc()
JUDGES = [
    pytest.param("1", id="nvcc", marks=pytest.mark.skipif(NVCC is None, reason="there is no nvcc")),
    pytest.param("0", id="rules"),
]

# Each with the line that is wrong, and the words for it.
REFUSED = {
    "a vector": (
        "#include <vector>\n__global__ void k(float *y, int n) {\n    std::vector<float> v(n);\n"
        "    v[0] = n;\n    y[0] = v[0];\n}",
        3,
        r"calling a __host__ function.*std::vector.* from a __global__ function\(.k.\) is not allowed",
    ),
    "a map of using namespace std, in a template": (
        "#include <map>\nusing namespace std;\ntemplate <class T> __device__ T f(T x) {\n"
        "    map<int, T> m; m[0] = x;\n    return m[0];\n}\n"
        "__global__ void k(float *y, int n) { y[0] = f(1.0f); }",
        4,
        r"calling a __host__ function.*std::map.* from a __device__ function\(.f.*\) is not allowed",
    ),
    "an exception that is caught": (
        "__global__ void k(float *y, int n) {\n    try {\n        y[0] = n;\n    } catch (...) {\n    }\n}",
        2,
        "device code does not support exception handling",
    ),
    "an exception that is thrown": (
        "__global__ void k(float *y, int n) {\n    if (n > 100)\n        throw n;\n    y[0] = n;\n}",
        3,
        "device code does not support exception handling",
    ),
    "an array of a size at run time": (
        "__global__ void k(float *y, int n) {\n    const int m = n + 1;\n    int l = n;\n"
        "    float a[2][l * 2];\n    a[1][0] = m;\n    y[0] = a[1][0];\n}",
        4,
        "expression must have a constant value",
    ),
    "a variable of the host's": (
        "int scale = 4;\nstatic float sums[3];\n\n__global__ void k(float *y, int n) {\n"
        "    y[0] = scale * n;\n}\n",
        5,
        r'identifier "scale" is undefined in device code',
    ),
    "an array of the host's in a namespace": (
        "namespace own {\nfloat sums[3];\n}\n__global__ void k(float *y, int n) {\n    using namespace own;\n"
        "    y[0] = sums[n];\n}\n",
        6,
        r'identifier ".*sums" is undefined in device code',
    ),
}

ACCEPTED = {
    "constants": """
        #include <limits>
        constexpr int COUNT = 8;
        const int half_of_them = COUNT / 2;
        const float factor = 2.0f;
        enum { three = 3 };
        #define SIZE 16
        int sums;
        __global__ void k(float *y, int n) {
            float a[COUNT], b[half_of_them * three], c[SIZE], d[sizeof(n)];
            const int more = three + 1;
            float e[more][COUNT], sums = n;
            a[0] = b[0] = c[0] = d[0] = e[0][0] = sums;
            y[0] = factor * a[0] + (y[1] < std::numeric_limits<float>::max());
        }""",
    "members and parameters by the name of the host's": """
        int size, rank;
        struct Tile {
            int size;
            static constexpr int rows = 4;
            __device__ int get() const { return size; }
        };
        template <int rank> __device__ int of() { return rank; }
        __global__ void k(float *y, int n) {
            Tile tile = {n};
            float a[tile.rows], b[Tile::rows];
            auto f = [=](int size) { return size + tile.size; };
            a[0] = b[0] = f(1);
            y[0] = tile.get() + of<3>();
        }""",
    "the device's own, by a macro's word": """
        #define ON_DEVICE __device__
        ON_DEVICE float table[4];
        __constant__ float weights[4];
        __device__ int counter;
        __global__ void k(float *y, int n) {
            float *more = new float[n];
            delete[] more;
            y[0] = table[0] + weights[1] + counter;
        }""",
    "the host's half of a function, and what an #if leaves out": """
        #include <vector>
        __host__ __device__ int both(int n) {
        #ifdef __CUDA_ARCH__
            return n;
        #else
            throw n;
        #endif
        }
        float of_host(int n) {
            std::vector<float> v(n);
            try { v.at(0) = 1; } catch (...) {}
            return v[0];
        }
        __global__ void k(float *y, int n) {
        #if 0
            std::vector<float> v(n);
        #endif
            y[0] = both(n);
        }""",
    "constexpr functions, traits and lambdas": """
        #include <algorithm>
        #include <string>
        #include <type_traits>
        constexpr int twice(int n) { return 2 * n; }
        template <class F> __global__ void apply(float *y, F f) { y[0] = f(1.0f); }
        [[maybe_unused]] auto plus = [] __device__ (float x) { return x + 1; };
        __global__ void k(float *y, int n) {
            if (std::is_same<float, std::string>::value)
                return;
            y[0] = std::max(twice(n), 3);
        }""",
    "a name of the simulator's header for the source itself": """
        __device__ float kept(float x) { return x; }
        __global__ void k(float *y, int n) { y[0] = kept(n); }""",
    "a name of the simulator's header": """
        __global__ void k(float *y, int n) { ((float *)dynamic_shared)[0] = y[0] = n; }""",
    "a header for the simulator alone": """
        #include "sim/ptx/mbarrier.h"
        __global__ void k(float *y, int n) {
            __shared__ uint64_t ready;
            if (threadIdx.x == 0)
                mbarrier_init(shared_address(&ready), 1);
            y[0] = n;
        }""",
    "instructions of Hopper alone": """
        __global__ void k(float *y, int n) {
        #if defined(__CUDA_ARCH_FEAT_SM90_ALL) || !defined(__CUDACC_VER_BUILD__)
            y[0] = n;
        #else
            static_assert(sizeof(n) == 1, "another architecture");
        #endif
        }""",
}


@pytest.fixture(autouse=True)
def with_nvcc(monkeypatch):
    monkeypatch.setenv("CUDASIM_NVCC_JUDGE", "1")


def run(source: str) -> float:
    y = np.zeros(64, np.float32)
    cudasim.kernel(source, "k")[1, 1, 64](y, 2)
    return y[0]


@pytest.mark.parametrize("by", JUDGES)
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_cuda_is_refused_at_its_line(name, by, monkeypatch):
    monkeypatch.setenv("CUDASIM_NVCC_JUDGE", by)
    source, line, words = REFUSED[name]
    with pytest.raises(NotCudaError, match=words) as caught:
        run(source)
    assert ("nvcc refuses it" in str(caught.value)) == (by == "1")
    assert re.search(rf"^k\.cu:{line}: error: ", str(caught.value), re.M)
    assert source.splitlines()[line - 1] in str(caught.value)


@pytest.mark.parametrize("by", JUDGES)
@pytest.mark.parametrize("name", ACCEPTED)
def test_what_is_cuda_runs(name, by, monkeypatch):
    monkeypatch.setenv("CUDASIM_NVCC_JUDGE", by)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(ACCEPTED[name])


def test_a_cell_that_is_not_cuda_defines_the_kernels_that_are(monkeypatch):
    from cudasim.live.cells import CellError, _define

    monkeypatch.setenv("CUDASIM_NVCC_JUDGE", "0")
    cell = "__global__ void good(int *y) { y[0] = 1; }\n__global__ void bad(int *y) { throw 1; }\n"
    with pytest.raises(CellError, match="bad") as caught:
        _define("", cell)
    assert list(caught.value.kernels) == ["good"]


@pytest.mark.skipif(NVCC is None, reason="there is no nvcc")
def test_nvcc_refuses_what_no_rule_knows():
    source = "struct S { int get() { return 1; } };\n__global__ void k(float *y, int n) { y[0] = S().get(); }"
    with pytest.raises(NotCudaError, match=r"(?s)k\.cu:2: error: calling a __host__ function"):
        run(source)


@pytest.mark.skipif(NVCC is None, reason="there is no nvcc")
def test_nvcc_is_asked_once_for_the_same_text(monkeypatch):
    asked = []
    run_nvcc = judge._run
    monkeypatch.setattr(judge, "_run", lambda *given: asked.append(given) or run_nvcc(*given))
    source = f"__global__ void k(float *y, int n) {{ y[0] = {time.time()}; }}"
    run(source), run(source)
    assert len(asked) == 1


@pytest.mark.skipif(NVCC is None, reason="there is no nvcc")
def test_an_error_in_the_users_header_is_told_at_its_line(tmp_path):
    (tmp_path / "own.h").write_text("#pragma once\nint total;\n__device__ int f() {\n    return total;\n}\n")
    source = '#include "own.h"\n__global__ void k(float *y, int n) { y[0] = f(); }'
    with pytest.raises(NotCudaError, match=r'own\.h:4: error: identifier "total" is undefined'):
        cudasim.kernel(source, include=[tmp_path])[1, 1](np.zeros(1, np.float32), 1)


@pytest.mark.skipif(NVCC is None, reason="there is no nvcc")
def test_nvcc_judges_what_a_missing_header_cannot_make_good():
    source = '#include "helper_of_the_host.h"\n/*\n#include <none.h>\n*/\n'
    good = "__global__ void k(float *y, int n) {\n    y[0] = n;\n}\n"
    with pytest.raises(
        NotCudaError, match=r"nvcc refuses it.*\nk\.cu:9: error: device code does not support"
    ):
        run(source + good + "\n__device__ void f() { throw 1; }")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(source + good) == 2
    # What only the missing header may declare: the simulator has __half without an #include.
    with pytest.raises(NotCudaError, match=r'k\.cu:4: error: .*"__half" is undefined'):
        run(good + "__device__ __half of(__half x) { return x; }")
    assert run(source + good + "__device__ __half of(__half x) { return x; }") == 2


@pytest.mark.parametrize(
    "said",
    [
        "k.cu:3:10: fatal error: cutlass.h: No such file or directory",
        'host_config.h(143): error: #error -- unsupported GNU version!\nk.cu(2): error: expected a ";"',
        "nvcc fatal   : Unsupported gpu architecture 'compute_90a'",
        'k.cu(2): error: namespace "cooperative_groups" has no member "this_multi_grid"',
        "",
    ],
)
def test_an_nvcc_that_fails_for_a_reason_of_its_own_refuses_nothing(said, tmp_path, monkeypatch):
    fake = tmp_path / "nvcc"
    fake.write_text(f"#!/bin/sh\n[ $1 = --version ] && exit\ncat >&2 <<'EOF'\n{said}\nEOF\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setattr(judge, "find_nvcc", lambda: str(fake))
    monkeypatch.setattr(judge, "nvcc_toolchain", lambda: _Fake)
    monkeypatch.setattr(judge, "_told_of", [])
    monkeypatch.setenv("CUDASIM_NVCC_JUDGE", "1")
    source = f"// {tmp_path}\n__global__ void k(float *y, int n) {{ y[0] = n; }}"
    with pytest.warns(UserWarning, match="cannot tell whether k.cu is CUDA"):
        assert run(source) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(source + "\n") == 2  # said once
    with pytest.raises(NotCudaError, match="exception handling"):  # the rules judge all the same
        run(source + "\n__device__ void f() { throw 1; }")


class _Fake:
    identity = "an nvcc of a test"
