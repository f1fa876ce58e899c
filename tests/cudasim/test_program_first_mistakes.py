"""What beginners write in whole programs: launches that do not fit, and headers by names that CUDA has."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from processes import patience

from cudasim.building.compilers import find_cpp_compiler


def run(folder: Path, text: str, *more: str, mode: str = "run") -> subprocess.CompletedProcess:
    (folder / "program.cu").write_text(text)
    command = [sys.executable, "-m", "cudasim", mode, "program.cu", *more]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=patience(300))


@pytest.mark.parametrize(
    ("launch", "said"),
    [
        ("f<<<1, 1>>>(x);", "the launch gives (int*&), and the kernel takes (int*, int)"),
        ("f<<<1, 1>>>(&y, 3);", "the launch gives (float*, int), and the kernel takes (int*, int)"),
        ("f<<<1>>>(x, 3);", "a launch is kernel<<<grid, block, shared bytes, stream>>>"),
        ("cudaMalloc(x, 4);", "cudaMalloc(int*&, int)"),
        ("g<<<1, 1>>>(x);", "a kernel returns nothing: write `__global__ void`, not int"),
    ],
)
def test_a_launch_that_does_not_fit_is_told_in_cudas_words(tmp_path, launch, said):
    kernels = "__global__ void f(int *x, int n) { *x = n; }\n"
    kernels += "__global__ int g(int *x) { return *x; }\n" if launch.startswith("g") else ""
    ran = run(tmp_path, f"{kernels}int main() {{ int *x = 0; float y; {launch} }}\n")
    assert ran.returncode == 1 and re.sub("['‘’]", "", said) in re.sub("['‘’]", "", ran.stderr), ran.stderr
    assert not re.search(r"sim_\w+|\.hpp", ran.stderr), ran.stderr


@pytest.mark.parametrize("mode", ["run", "check"])
def test_headers_of_what_is_always_there_and_a_copy_that_ends_in_zeros(tmp_path, mode):
    """cuda_pipeline.h and older names; of a copy's 16 bytes the last 8 are zeros, and are not read."""
    ran = run(
        tmp_path,
        r"""
#include <channel_descriptor.h>
#include <cuda_pipeline.h>
#include <host_defines.h>
#include <sm_35_intrinsics.h>
#include <sm_60_atomic_functions.h>
#include <sm_61_intrinsics.h>
#include <vector_functions.hpp>
#include <cstdio>

__global__ void copies(int4 *to, const int *from) {
    __shared__ int4 stage[32];
    __pipeline_memcpy_async(&stage[threadIdx.x], from + 4 * threadIdx.x, 16, threadIdx.x == 31 ? 8 : 0);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    to[threadIdx.x] = stage[threadIdx.x];
}
int main() {
    int h[128], *from;
    for (int i = 0; i < 128; i++)
        h[i] = i + 1;
    int4 *to, last;
    cudaMalloc(&from, 126 * sizeof(int));
    cudaMalloc(&to, 32 * sizeof(int4));
    cudaMemcpy(from, h, 126 * sizeof(int), cudaMemcpyHostToDevice);
    copies<<<1, 32>>>(to, from);
    cudaMemcpy(&last, to + 31, sizeof last, cudaMemcpyDeviceToHost);
    printf("%d %d %d %d\n", last.x, last.y, last.z, last.w);
    cudaFree(from);
    cudaFree(to);
}
""",
        mode=mode,
    )
    assert (ran.stdout, ran.stderr, ran.returncode) == ("125 126 0 0\n", "", 0)


@pytest.mark.parametrize("place", [".", "nowhere/app"])
def test_what_is_built_needs_a_place(tmp_path, place):
    ran = run(tmp_path, "int main() { return 0; }\n", "-o", place, mode="build")
    assert ran.returncode == 2
    assert ran.stderr == f"cudasim: -o: expected a file in a folder that is there, got {place}\n"


def test_a_function_may_be_called_as_the_enumeration_of_errors_and_launch_nothing(tmp_path):
    text = """
#include <cstdio>
void cudaError(const char *said, int line) {
    enum cudaError last = cudaGetLastError();
    printf("%s %d %s\\n", said, line, cudaGetErrorString(last));
}
int main() {
    cudaError("line", 9);
}
"""
    ran = run(tmp_path, text, mode="count")
    assert (ran.stdout, ran.stderr) == ("line 9 no error\n", "no launch\n")


def test_a_launch_in_a_lambda_may_name_constants_around_it(tmp_path):
    """As benchmarks write it: the time of a function that launches."""
    text = """
#include <cstdio>
template <int A, int B> __global__ void k(float *x, float s) { x[threadIdx.x] = A * s + B; }
template <class F> void time_of(F f) { f(); }
int main() {
    float *x, h[4];
    cudaMalloc(&x, sizeof h);
    constexpr int A = 4, B = 2;
    time_of([&] { k<A, B><<<1, A>>>(x, 3); });
    cudaMemcpy(h, x, sizeof h, cudaMemcpyDeviceToHost);
    printf("%g\\n", h[3]);
    cudaFree(x);
}
"""
    ran = run(tmp_path, text, mode="check")
    assert (ran.stdout, ran.stderr, ran.returncode) == ("14\n", "", 0)


# What main() does, with x of 16 bytes, and what is said. N: the line.
TOLD = {
    "null<<<1, 1>>>(x); said(cudaGetLastError());": (
        "cudasim: null at program.cu:N: launches a null pointer, which is no kernel\ninvalid device function"
    ),
    "print<<<1, 1>>>(x); said(cudaDeviceSynchronize());": (
        "crash in print (program.cu:8): thread (0, 0, 0) of block (0, 0, 0) has printf() read a string at "
    ),
    "returns<<<1, 1>>>(x); said(cudaDeviceSynchronize());": (
        "crash in returns (program.cu:7): thread (0, 0, 0) of block (0, 0, 0) comes to the end of a function "
        "that returns a value"
    ),
    "said((cudaError_t)none(1));": "cudasim: program.cu:7: the host code comes to the end of a function",
    "delete[] x;": "cudasim: program.cu:N: the host code frees x, which cudaMalloc has given (program.cu:12)",
    "cudaMallocHost(&x, 8); free(x);": "cudaHostAlloc has given (program.cu:N), by free()",
    "throw 3;": "cudasim: program.cu:N: the host code aborts",
    "capture(cudaStreamCaptureModeGlobal); said(cudaMalloc(&x, 4)); said(ended());": (
        "operation not permitted when stream is capturing\n"
        "operation failed due to a previous error during capture"
    ),
    "capture(cudaStreamCaptureModeThreadLocal); said(cudaMemcpy(x, x + 1, 4, cudaMemcpyDeviceToDevice));": (
        "operation would make the legacy stream depend on a capturing blocking stream"
    ),
    "capture(cudaStreamCaptureModeRelaxed); said(cudaMalloc(&x, 4)); said(ended());": "no error\nno error",
}


@pytest.mark.parametrize("mistake", TOLD)
def test_what_a_gpu_would_not_do_is_told_with_its_line(mistake, tmp_path):
    text = """
#include <cstdio>
#include <cstdlib>
void said(cudaError_t error) { fprintf(stderr, "%s\\n", cudaGetErrorString(error)); }
cudaStream_t stream;
void capture(cudaStreamCaptureMode mode) { cudaStreamCreate(&stream); cudaStreamBeginCapture(stream, mode); }
__host__ __device__ int none(int n) { if (n > 3) return 1; }
__global__ void print(int *x) { printf("%s", 5 + (int)threadIdx.x); }
__global__ void returns(int *x) { x[0] = none(threadIdx.x); }
cudaError_t ended() { cudaGraph_t graph; return cudaStreamEndCapture(stream, &graph); }
int main() {
    int *x; cudaMalloc(&x, 16);
    void (*null)(int *) = nullptr;
MISTAKE
    cudaFree(x);
    return null != nullptr;
}
"""
    ran = run(tmp_path, text.replace("MISTAKE", mistake))
    line = 1 + text.splitlines().index("MISTAKE")
    assert TOLD[mistake].replace(":N", f":{line}") in ran.stderr, ran.stderr


def test_a_kernel_with_more_parameters_than_a_gpu_takes_is_refused(tmp_path):
    text = "struct S { char of[40000]; };\n__global__ void k(S s, int *x) { x[0] = s.of[1]; }\n"
    ran = run(tmp_path, text + "int main() { k<<<1, 1>>>(S(), nullptr); }\n")
    assert ran.returncode == 1 and "a kernel's parameters have 32764 bytes at most" in ran.stderr


def test_a_compiler_that_fortifies(tmp_path, monkeypatch):
    """Ubuntu's replaces printf() by another function, which would return how many characters it printed."""
    compiler = tmp_path / "g++"
    compiler.write_text(f'#!/bin/sh\nexec {find_cpp_compiler()} -D_FORTIFY_SOURCE=2 "$@"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    text = """
#include <cstdio>
__global__ void print(int *y) { y[0] = printf("%d %d\\n", 10, 20); }
int main() {
    int *y, n;
    cudaMalloc(&y, sizeof n);
    print<<<1, 1>>>(y);
    cudaMemcpy(&n, y, sizeof n, cudaMemcpyDeviceToHost);
    printf("returned %d\\n", n);
}
"""
    ran = run(tmp_path, text)
    assert ran.stdout == "10 20\nreturned 2\n", ran.stdout + ran.stderr
