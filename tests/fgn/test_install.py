"""The C library as other programs use it: from C99 and C++17, by pkg-config and by CMake."""

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from cudasim.building.compilers import find_c_compiler
from cudasim.building.toolchains import find_nvcc
from fgn.native.install import install
from fgn.native.library import GPU, PUBLIC_HEADERS, SIMULATOR
from fgn.native.places import ROOT

EXAMPLES = ROOT / "examples"
STRICT = ("-pedantic", "-Wall", "-Wextra", "-Werror")


def output_of(*command, **options) -> str:
    result = subprocess.run([*map(str, command)], capture_output=True, text=True, **options)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def needs(*tools: str):
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"needs {' and '.join(missing)}")


@pytest.fixture(scope="module")
def prefix(tmp_path_factory) -> Path:
    needs("ld", "objcopy", "ar", "nm")
    folder = tmp_path_factory.mktemp("a prefix")
    install(folder, "cpu")
    return folder


@pytest.fixture(scope="module")
def gpu_prefix(tmp_path_factory) -> Path:
    needs("ld", "objcopy", "ar", "nm")
    if find_nvcc() is None or GPU.state() != "ready":
        pytest.skip("needs nvcc and the GPU library that `make gpu` builds")
    folder = tmp_path_factory.mktemp(
        "prefix_for_a_gpu"
    )  # nvcc hands paths with spaces to the linker in pieces
    install(folder, "cuda")
    return folder


def output_of_pkg_config(prefix: Path, package: str) -> str:
    needs("pkg-config")
    environment = {"PKG_CONFIG_PATH": str(prefix / "lib" / "pkgconfig"), "PATH": "/usr/bin:/bin"}
    return output_of("pkg-config", "--cflags", "--libs", package, env=environment)


@pytest.fixture(scope="module")
def flags(prefix) -> list[str]:
    """What pkg-config says, and where the library is at run time."""
    return [*shlex.split(output_of_pkg_config(prefix, "fgn-sim")), f"-Wl,-rpath,{prefix / 'lib'}"]


def test_an_example_in_c(prefix, flags, tmp_path):
    output_of(find_c_compiler(), "-std=c99", *STRICT, EXAMPLES / "chain.c", *flags, "-o", tmp_path / "chain")
    assert output_of(tmp_path / "chain") == "naive: the mean square of y is 0.9776\n"


def test_the_static_library(prefix, tmp_path):
    parts = (
        EXAMPLES / "chain.c",
        f"-I{prefix / 'include'}",
        prefix / "lib" / "libfgn_sim.a",
        "-lm",
        "-pthread",
    )
    output_of(find_c_compiler(), "-std=c99", *parts, "-o", tmp_path / "chain")
    assert output_of(tmp_path / "chain") == "naive: the mean square of y is 0.9776\n"


def test_an_example_in_cpp(prefix, flags, tmp_path):
    needs("c++")
    output_of("c++", "-std=c++17", *STRICT, EXAMPLES / "chain.cpp", *flags, "-o", tmp_path / "chain")
    lines = output_of(tmp_path / "chain").splitlines()
    assert len(lines) >= 10
    assert {line.partition(": ")[2] for line in lines} == {"the mean square of y is 0.3543"}


CMAKE_LISTS = """cmake_minimum_required(VERSION 3.16)
project(chain LANGUAGES CXX)
find_package(fgn 99)
if(fgn_FOUND)
  message(FATAL_ERROR "a version that is not there was found")
endif()
find_package(fgn 0.1 REQUIRED)
add_executable(chain "{example}")
target_link_libraries(chain PRIVATE fgn::sim)
"""


def test_cmake(prefix, tmp_path):
    needs("cmake", "c++", "make")
    (tmp_path / "CMakeLists.txt").write_text(CMAKE_LISTS.format(example=EXAMPLES / "chain.cpp"))
    output_of("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    output_of("cmake", "--build", tmp_path / "build")
    assert "naive: the mean square" in output_of(tmp_path / "build" / "chain")


def exported(library: Path) -> set[str]:
    """The names that the library defines for others."""
    command = ("nm", "-D" if library.suffix == ".so" else "-g", library, "--defined-only")
    return {line.split()[-1] for line in output_of(*command).splitlines() if len(line.split()) == 3}


def test_only_functions_of_the_headers_are_exported(prefix):
    headers = "".join((prefix / "include" / path.name).read_text() for path in PUBLIC_HEADERS)
    for library in ("libfgn_sim.so", "libfgn_sim.a"):
        names = exported(prefix / "lib" / library)
        assert "fgn_run" in names and all(f"{name}(" in headers for name in names), names


def test_the_gpu_library_as_others_link_it(gpu_prefix, prefix, tmp_path):
    """It exports what the simulator exports, and the examples link with its shared and its static library."""
    needs("c++")
    lib = gpu_prefix / "lib"
    names = exported(prefix / "lib" / "libfgn_sim.so")
    assert exported(lib / "libfgn_cuda.so") == names == exported(lib / "libfgn_cuda.a")
    cflags, *shared = shlex.split(output_of_pkg_config(gpu_prefix, "fgn-cuda"))
    # nvcc knows where the CUDA runtime is.
    nvcc = (find_nvcc(), cflags, "-Xlinker", f"-rpath={lib}")
    c = ("-Xcompiler", "-Wall,-Wextra,-Werror", EXAMPLES / "chain_gpu.c")
    output_of(*nvcc, *c, lib / "libfgn_cuda.a", "-lstdc++", "-o", tmp_path / "static")
    output_of(*nvcc, *c, *shared, "-o", tmp_path / "shared")
    cpp = ("c++", "-std=c++17", *STRICT, cflags, EXAMPLES / "chain.cpp", *shared)
    output_of(*cpp, "-o", tmp_path / "cpp")
    if torch.cuda.is_available():
        for program in ("static", "shared"):
            assert output_of(tmp_path / program).endswith(": the mean square of y is 0.9776\n")


ALIASED = """
#include <fgn.h>
#include <stdio.h>
#include <string.h>
static float memory[8192];
int main(void) {
    fgn_chain chain = {0};
    float *x = memory, *weight = memory + 1024, *y = memory + 4096, *skip = memory + 2048;
    chain.batch = 4, chain.in_features = chain.out_features = 16, chain.groups = 2, chain.weight = weight;
    chain.eps = 1.0f, chain.after_count = 1;
    chain.after[0].kind = FGN_ADD_TENSOR, chain.after[0].tensor = skip;
    const float *const written[] = {x, x + 63, weight + 255, skip, y};
    for (int i = 0; i < 5; i++) {
        int status = fgn_forward(0, &chain, x, (void *)written[i], memory + 8000, 256, NULL);
        printf("%d %s\\n", status, status ? fgn_last_error() : "");
    }
    printf("%d\\n", fgn_group_norm(0, 4, 16, 2, 1.0f, x, NULL, NULL, x + 1, memory + 8000, 256, NULL));
    printf("%d\\n", fgn_forward(0, &chain, (char *)x + 1, y, memory + 8000, 256, NULL));
    return memory[4096] != memory[4096];
}
"""


def test_what_is_written_overlaps_nothing_that_is_read(prefix, flags, tmp_path):
    source = tmp_path / "aliased.c"
    source.write_text(ALIASED)
    output_of(find_c_compiler(), "-std=c99", *STRICT, source, *flags, "-o", tmp_path / "aliased")
    *chains, norm, misaligned = output_of(tmp_path / "aliased").splitlines()
    words = ["x", "x", "the weight", "a tensor of an operator"]
    assert chains[:4] == [f"1 y overlaps {word}, expected memory of its own" for word in words]
    assert chains[4].strip() == "0" and norm == "1" and misaligned == "1"


def test_the_library_is_the_simulator_that_python_runs(prefix):
    header = (prefix / "include" / "fgn.h").read_text()
    assert header == (SIMULATOR.sources / "fgn.h").read_text() and 'extern "C"' in header
