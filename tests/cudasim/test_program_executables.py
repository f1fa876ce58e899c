"""Executables: how CMake builds them, what they tell where no Python runs them, and why one cannot go on."""

import re
import shutil
import subprocess
import sys
import time

import pytest
from processes import patience

from cudasim.building.library import COUNTED_SIMULATOR, SIMULATOR
from cudasim.programs.building import Program, command

needs_tools = pytest.mark.skipif(
    any(shutil.which(name) is None for name in ("cmake", "make", "objcopy")),
    reason="there is no cmake, make or objcopy here",
)
PROJECT = """cmake_minimum_required(VERSION 3.18)
project(app LANGUAGES CXX CUDA)
find_package(CUDAToolkit REQUIRED)
add_library(adds SHARED adds.cu)
add_executable(app main.cu twice.cu host.cpp)
target_include_directories(app PRIVATE include)
target_compile_options(app PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-Wall -lineinfo -Xptxas=-v --use_fast_math>)
target_compile_features(app PRIVATE cuda_std_17)
target_link_libraries(app PRIVATE adds CUDA::cublas)
set_target_properties(app PROPERTIES CUDA_SEPARABLE_COMPILATION ON CUDA_ARCHITECTURES native)
"""
SOURCES = {
    "adds.cu": "__global__ void add(int *x) { *x += 1; }\nvoid adds(int *x) { add<<<1, 1>>>(x); }\n",
    "twice.cu": "__device__ int twice(int i) { return 2 * i; }\n",
    "host.cpp": """#include <cuda_runtime.h>
#include <algorithm>
int seven() {
    int *x, seven = 0;
    cudaStream_t stream;
    if (cudaStreamCreate(&stream) || cudaMalloc(&x, 4)) return 0;
    cudaMemsetAsync(x, 7, 4, stream);
    cudaMemcpyAsync(&seven, x, 4, cudaMemcpyDeviceToHost, stream);
    return cudaStreamSynchronize(stream) || cudaFree(x) ? 0 : std::max(seven & 7, 1);
}
""",
    "include/by.h": "#define BY 3\n",
    "main.cu": """#include "by.h"
#include <cstdio>
#include <cublas_v2.h>
int seven();
void adds(int *x);
__device__ int twice(int i);
__global__ void k(int *x) { *x = twice(*x) * BY; }
int main() {
    int *x;
    cublasHandle_t handle;
    if (cublasCreate(&handle) || cublasDestroy(handle)) return 2;
    cudaMallocManaged(&x, sizeof *x);
    *x = seven();
    k<<<1, 1>>>(x);
    adds(x);
    cudaDeviceSynchronize();
    printf("%d\\n", *x);
    return cudaFree(x);
}
""",
}


def said(*call, folder) -> str:
    ran = subprocess.run(call, cwd=folder, capture_output=True, text=True, timeout=patience(300))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@needs_tools
def test_cmake_builds_what_nvcc_does_and_knows_its_headers(tmp_path):
    SIMULATOR.build()
    (tmp_path / "include").mkdir()
    for name, text in SOURCES.items() | {("CMakeLists.txt", PROJECT)}:
        (tmp_path / name).write_text(text)
    said(sys.executable, "-m", "cudasim", "toolkit", "cuda", folder=tmp_path)
    said("cmake", "-B", "build", "-DCMAKE_TOOLCHAIN_FILE=cuda/cudasim.cmake", folder=tmp_path)
    said("make", "-C", "build", folder=tmp_path)
    assert said("build/app", folder=tmp_path) == "43\n"
    time.sleep(0.01)  # a file is newer than another by its time
    (tmp_path / "include/by.h").write_text("#define BY 2\n")
    made = said("make", "-C", "build", folder=tmp_path)
    assert "main.cu.o" in made and "twice.cu.o" not in made
    assert said("build/app", folder=tmp_path) == "29\n"


def test_a_kernel_without_an_end_is_told_with_its_lines(tmp_path):
    SIMULATOR.build()
    COUNTED_SIMULATOR.build()
    (tmp_path / "endless.cu").write_text(
        "__global__ void endless(volatile int *n) {\n"
        "    while (*n >= 0) {\n        *n = (*n + 1) & 7;\n    }\n}\n"
        "int main() { int *n; cudaMalloc(&n, 4); cudaMemset(n, 0, 4);\n"
        "    endless<<<1, 1>>>(n); return cudaDeviceSynchronize(); }\n"
    )
    program = Program((tmp_path / "endless.cu",))
    program.executable(tmp_path / "app")
    call = command("check", program.library("check"), "endless", [])
    with (
        subprocess.Popen(call, stderr=subprocess.PIPE, text=True) as running,
        subprocess.Popen([tmp_path / "app"], stderr=subprocess.PIPE, text=True) as alone,
    ):
        began = time.monotonic()
        said = running.stderr.readline()
        seconds = time.monotonic() - began
        said_alone = alone.stderr.readline()
        running.kill()
        alone.kill()
    told = r"cudasim: endless, launched at endless\.cu:7, is not done after 12 seconds; "
    assert re.fullmatch(told + r"it is at endless\.cu:[2-4].*\n", said)
    assert re.fullmatch(told + "`cudasim check` tells where it is\n", said_alone)
    assert seconds > 12


# The line is the program's own, also where a function of C's library, or of a header, meets the mistake.
_CRASHES = r"""#include <cstdlib>
__device__ __forceinline__ void put(int *p, int i) {
    p[i] = i;
}
__global__ void k(int *p) {
    if (threadIdx.x == 3) put(p, 0);
}
int main(int argc, char **argv) {
    k<<<1, 32>>>(nullptr);
    cudaDeviceSynchronize();
    return atoi(argv[1]);
}
"""


@pytest.mark.parametrize("way", ["run", "an executable"])
def test_a_crash_has_its_line(tmp_path, way):
    (tmp_path / "program.cu").write_text(_CRASHES)
    program = Program((tmp_path / "program.cu",))
    app = tmp_path / "app"
    if way == "an executable":
        program.executable(app)
    call = command("run", program.library("run"), "program", []) if way == "run" else [app]
    ran = subprocess.run(call, cwd="/", capture_output=True, text=True, timeout=patience(300))
    of_kernel, of_host = (of.replace(f"{tmp_path}/", "") for of in ran.stderr.splitlines())
    assert of_kernel.startswith("cudasim: crash in k (program.cu:3): thread (3, 0, 0)")
    assert of_host.startswith("cudasim: program.cu:11: the host code accesses address (nil)")


ENDS = {
    "the program has no main()": "__global__ void kernel() {}\n",
    "program.cu:1: the host code needs more stack than there is": (
        "int deeper(int n) { volatile char room[4096]; room[0] = n; return deeper(n + 1) + room[0]; }\n"
        "int main() { return deeper(0); }\n"
    ),
}


@pytest.mark.parametrize("mode", ["run", "check"])
@pytest.mark.parametrize("told", ENDS)
def test_why_a_program_cannot_go_on_is_told(tmp_path, told, mode):
    (tmp_path / "program.cu").write_text(ENDS[told])
    called = [sys.executable, "-m", "cudasim", mode, "program.cu"]
    ran = subprocess.run(called, cwd=tmp_path, capture_output=True, text=True, timeout=patience(300))
    assert f"cudasim: {told}" in ran.stderr
    assert ran.returncode in (1, -11)
