"""What nvcc refuses of a whole program does not run on the simulator either, host code included."""

import re
import subprocess
import sys

import pytest
from processes import patience

from cudasim.building.toolchains import find_nvcc
from cudasim.live import judge
from cudasim.live.judge import NotCudaError
from cudasim.live.not_cuda import refusals
from cudasim.programs.building import Program

BY_NVCC = pytest.mark.skipif(find_nvcc() is None, reason="there is no nvcc")
JUDGES = [pytest.param("1", id="nvcc", marks=BY_NVCC), pytest.param("0", id="rules")]
NAMES = """
#include <cstdio>
#include <vector>
__constant__ float weights[4];
__device__ int counter;
__device__ float of_device(float x) { return x + 1; }
float of_host(float x) { return x + 1; }
__global__ void kernel(float *y) { y[0] = of_device(weights[1]) + counter; }
"""
# What main() has, or a kernel of its own before it.
REFUSED = {
    'printf("%d", (int)threadIdx.x);': "threadIdx is a variable of kernels",
    "kernel(y);": "a __global__ function call must be configured",
    'printf("%g", of_device(2));': r'calling a __device__ function\("of_device.*"\) from a __host__ function',
    "__global__ void k(float *y) { y[0] = of_host(1); }": (
        r'calling a __host__ function\("of_host.*"\) from a __global__ function'
    ),
    "__global__ void k(float *y, int n) { std::vector<float> v(n); }": r"calling a __host__ function.*vector",
    "__global__ void k(float *y, int n) { float a[n]; y[0] = a[0]; }": "must have a constant value",
    "__device__ void k(int n) { if (n) throw n; }": "device code does not support exception handling",
}
# What only nvcc tells.
REFUSED_BY_NVCC = {
    "weights[1] = 2;": '__constant__ variable "weights" cannot be directly written in a host function',
    "counter++;": '__device__ variable "counter" cannot be directly read in a host function',
    "float x = weights[1]; y[0] = x;": '__constant__ variable "weights" cannot be directly read in a host',
    "__shared__ int s; s = 1;": "__shared__",
    "__syncthreads();": r'calling a __device__ function\("__syncthreads"\) from a __host__ function',
    "struct V { virtual __device__ void f() {} }; struct W : V { void f() override {} };": (
        "execution space mismatch"
    ),
}


def program(folder, line: str) -> Program:
    is_in_main = not re.match(r"__global__|__device__|struct", line)
    inside, outside = (line, "") if is_in_main else ("", line)
    main = f"int main() {{\n    float *y = nullptr;\n    {inside}\n    return y != nullptr;\n}}\n"
    text = f"{NAMES}{outside}\n{main}"
    (folder / "program.cu").write_text(text)
    return Program((folder / "program.cu",))


def refusal(folder, line: str) -> str:
    of = program(folder, line)
    with pytest.raises(NotCudaError) as caught:
        of.object_of(of.sources[0])
    said = str(caught.value)
    number = next(n for n, of in enumerate(of.sources[0].read_text().splitlines(), 1) if line in of)
    assert re.search(rf"^program\.cu:{number}: error: ", said, re.M), said
    assert line in said
    return said


@pytest.mark.parametrize("by", JUDGES)
@pytest.mark.parametrize("line", REFUSED)
def test_what_is_not_cuda_is_refused_at_its_line(line, by, tmp_path, monkeypatch):
    monkeypatch.setenv("CUDASIM_NVCC_JUDGE", by)
    said = refusal(tmp_path, line)
    assert re.search(REFUSED[line], said), said
    is_by_nvcc = by == "1" and "threadIdx" not in line  # which nvcc leaves to the linker
    assert ("CUDASIM_NVCC_JUDGE=0 leaves nvcc out" in said) == is_by_nvcc


@BY_NVCC
def test_nvcc_tells_what_the_simulators_compiler_has_no_words_for(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDASIM_NVCC_JUDGE", "1")
    assert "cannot have ellipsis" in refusal(tmp_path, "__global__ void k(int *x, ...) { x[0] = 1; }")


@BY_NVCC
@pytest.mark.parametrize("line", REFUSED_BY_NVCC)
def test_nvcc_refuses_what_no_rule_knows(line, tmp_path, monkeypatch):
    monkeypatch.setenv("CUDASIM_NVCC_JUDGE", "1")
    assert re.search(REFUSED_BY_NVCC[line], refusal(tmp_path, line))


ACCEPTED = {
    "names that both sides have, or that mean something else": """
#include <algorithm>
#include <cmath>
#define ON_GPU __host__ __device__
#if defined(__CUDACC__)
__constant__
#endif
static float weights[4];
__device__ const int eight = 8;
__managed__ int total;
__device__ int counter;
__device__ int max(int a, int b) { return a > b ? a : b; }
__device__ int side(int x) { return x; }
__host__ int side(float x) { return (int)x; }
HD int both(int x) {
#ifdef __CUDA_ARCH__
    return side(x);
#else
    return std::max(x, 1);
#endif
}
constexpr int twice(int x) { return 2 * x; }
struct Step {
    int kernel(int x) { return x; }
    __device__ int scale(int x) const { return x + eight; }
};
static int scale(int x) { return x; }
template <class T> int square(T x) { return x * x; }
template <class F> __global__ void apply(F f, int *y) { y[0] = f(both(twice(y[0]))) + Step().scale(1); }
__global__ void kernel(int *y) { y[0] += counter + (int)weights[1]; }
__global__ void parent(int *y) { kernel<<<1, 1>>>(y); }
int main() {
    using std::max;
    float h[4] = {1, 2, 3, 4};
    int n = max(3, 2), *y;
    cudaMemcpyToSymbol(weights, h, sizeof(weights));
    cudaMemcpyToSymbol(counter, &n, sizeof n);
    cudaMallocManaged(&y, 4);
    y[0] = Step().kernel(1) + scale(n) + square(2) + side(1.5f) + both(1);
    total = eight;
    apply<<<1, 1>>>([] ON_GPU(int x) { return x + 1; }, y);
    parent<<<1, 1>>>(y);
    void (*pointer)(int *) = kernel;
    pointer<<<1, 1>>>(y);
    void *arguments[] = {&y};
    cudaLaunchKernel((void *)kernel, dim3(1), dim3(1), arguments, 0, 0);
    cudaDeviceSynchronize();
    dim3 blockDim(2);
    apply<<<1, blockDim.x>>>([] __device__ __host__(int x) { return x + 1; }, y);
    cudaDeviceSynchronize();
    {
        auto counter = 3;
        auto kernel = [&](int x) { return x + counter + total; };
        y[0] = kernel(1);
    }
    cudaFree(y);
    return sizeof(weights) != 16;
}
""",
    "a library that nvcc may lack, and names of older versions of CUDA": """
#include <cublas_v2.h>
#include <cstdio>
texture<float, 1> row;
__global__ void kernel(float *y) { y[0] = tex1Dfetch(row, 0); }
int main() {
    cublasHandle_t handle;
    cublasCreate(&handle);
    float *y;
    cudaMallocManaged(&y, 64);
    cudaMemPrefetchAsync(y, 64, 0);
    cudaBindTexture(nullptr, row, y, 64);
    kernel<<<1, 1>>>(y);
    cudaThreadSynchronize();
    cudaDeviceProp of;
    cudaGetDeviceProperties(&of, 0);
    return of.clockRate == 0;
}
""",
}


@pytest.mark.parametrize("by", JUDGES)
@pytest.mark.parametrize("name", ACCEPTED)
def test_what_is_cuda_is_compiled(name, by, tmp_path, monkeypatch):
    monkeypatch.setenv("CUDASIM_NVCC_JUDGE", by)
    source = tmp_path / "program.cu"
    source.write_text(ACCEPTED[name])
    assert Program((source,), defines=("HD=__host__ __device__",)).object_of(source).is_file()


def test_a_function_that_has_lost_a_brace_for_the_grammar_refuses_nothing():
    """As of an #if with a brace in each of its branches: what follows seems to be within."""
    kernel = "__global__ void k(int *y) { y[0] = threadIdx.x; }\n"
    assert refusals("void host(int x) {\n    {\n}\n" + kernel) == []


@pytest.mark.parametrize("by", JUDGES)
def test_host_code_for_a_library_that_nvcc_lacks_hides_no_mistake_of_a_kernel(by, tmp_path, monkeypatch):
    monkeypatch.setenv("CUDASIM_NVCC_JUDGE", by)
    source = tmp_path / "program.cu"
    mistake = "__global__ void k(float *y) {\n    throw 1;\n}\n"
    source.write_text(f"#include <cublas_v2.h>\nint main() {{ cublasHandle_t h; return h == 0; }}\n{mistake}")
    with pytest.raises(NotCudaError, match=r"(?m)^program\.cu:4: error: device code does not support"):
        Program((source,)).object_of(source)


@BY_NVCC
def test_nvcc_reads_a_program_as_it_is_compiled(tmp_path, monkeypatch):
    """Headers, folders and macros count; a mistake in a header has its line there. It is asked once."""
    monkeypatch.setenv("CUDASIM_NVCC_JUDGE", "1")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "step.h").write_text("#pragma once\ninline int host() { return N; }\n")
    (tmp_path / "own" / "use.h").write_text(
        '#include "step.h"\n__device__ int use() {\n    return CALL;\n}\n'
    )
    source = tmp_path / "program.cu"
    source.write_text('#include "use.h"\n__global__ void k(int *y) { y[0] = use(); }\nint main() {}\n')
    asked, run = [], judge._run
    monkeypatch.setattr(judge, "_run", lambda *given: asked.append(given) or run(*given))

    def compiled(call: str):
        Program((source,), (tmp_path / "own",), (f"N={id(asked)}", f"CALL={call}")).object_of(source)

    compiled("N"), compiled("N")
    assert len(asked) == 1
    with pytest.raises(NotCudaError, match=r"(?m)^use\.h:3: error: calling a __host__ function"):
        compiled("host()")


@pytest.mark.parametrize(
    "said",
    [
        "host_config.h(143): error: #error -- unsupported GNU version!\n"
        'program.cu(3): error: calling a __host__ function("f") from a __global__ function is not allowed',
        'program.cu(3): error: identifier "sum" is undefined\nprogram.cu(3): error: expected a ";"',
        "nvcc fatal   : Unsupported gpu architecture 'compute_90a'",
    ],
)
def test_an_nvcc_that_fails_for_a_reason_of_its_own_refuses_nothing(said, tmp_path, monkeypatch):
    fake = tmp_path / "nvcc"
    fake.write_text(f"#!/bin/sh\n[ $1 = --version ] && exit\ncat >&2 <<'EOF'\n{said}\nEOF\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setattr(judge, "find_nvcc", lambda: str(fake))
    monkeypatch.setattr(judge, "_version", lambda nvcc: f"{nvcc} of a test")
    monkeypatch.setattr(judge, "_identity", judge._version)
    monkeypatch.setenv("CUDASIM_NVCC_JUDGE", "1")
    of = program(tmp_path, "kernel<<<1, 1>>>(y);")
    assert of.object_of(of.sources[0]).is_file()
    of = program(tmp_path, "kernel(y);")
    with pytest.raises(NotCudaError, match="must be configured"):  # the rules judge all the same
        of.object_of(of.sources[0])


def test_the_command_says_what_is_not_cuda(tmp_path):
    program(tmp_path, 'printf("%g", of_device(2));')
    command = [sys.executable, "-m", "cudasim", "run", "program.cu"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=patience(300))
    assert ran.returncode == 1 and "program.cu:12: error: calling a __device__ function" in ran.stderr
