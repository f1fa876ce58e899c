"""What was compiled is used when the compiler has gone since, and only where it is of the very same text."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import cudasim
from cudasim.building import kept, places
from cudasim.building.compilers import MissingToolError
from cudasim.building.library import BuildError

HEADER = "#define FACTOR 2\n"
# Two other ways to write it are refused first: with `weights`, which the preprocessor takes out, and with the
# shift of a struct of its own as one of an integer.
SOURCE = """#include "factor.h"
#if defined(NEVER)
__device__ float weights[4];
#endif
struct Meters {
    float value;
    __device__ Meters operator<<(int bits) const { return {value * (1 << bits)}; }
};
__global__ void scale(float *y, const float *x, int n) {
    int i = threadIdx.x;
    Meters m{x[i]};
    m = m << 1;
    y[i] = m.value * FACTOR;
}
"""
CALL = f"""
import shutil, sys
import numpy as np
import cudasim
assert not any(map(shutil.which, ("cc", "gcc", "g++", "clang", "ld", "addr2line")))
scale = cudasim.kernel({SOURCE!r}, include=[sys.argv[1]])
x = np.arange(32, dtype=np.float32)
y = np.zeros_like(x)
scale[1, 32](y, x, 32)
print(y.sum())
print(cudasim.count(lambda: scale[1, 32](y, x, 32))["memory_threads"].item())
try:
    scale[1, 64](y, x, 64)
except cudasim.KernelFault as fault:
    print(fault.line, fault.index)
"""
PROGRAM = """#include <cstdio>
__global__ void write(int *x) { x[0] = 7; }
int main() {
    int *x, value;
    cudaMalloc(&x, sizeof(int));
    write<<<1, 1>>>(x);
    cudaMemcpy(&value, x, sizeof(int), cudaMemcpyDeviceToHost);
    printf("%d\\n", value);
    return cudaFree(x);
}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "factor.h").write_text(HEADER)
    return tmp_path


def without_a_compiler(*arguments) -> subprocess.CompletedProcess:
    environment = {name: value for name, value in os.environ.items() if name not in ("CC", "CXX")}
    environment |= {"PATH": "/nowhere", "CUDASIM_NVCC_JUDGE": "0"}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.mark.simulator
def test_a_kernel_is_used_when_its_compiler_has_gone(folder):
    call = CALL.replace("assert not any", "any")
    here = subprocess.run([sys.executable, "-c", call, folder], capture_output=True, text=True)
    gone = without_a_compiler("-c", CALL, folder)
    assert here.stdout.split() == ["1984.0", "64", "11", "32"], here.stderr
    assert gone.stdout == here.stdout, gone.stderr


@pytest.mark.simulator
def test_a_kernel_of_another_text_is_not(folder):
    cudasim.kernel(SOURCE, include=[folder]).build()
    (folder / "factor.h").write_text(HEADER.replace("2", "3"))
    said = without_a_compiler("-c", CALL, folder).stderr.splitlines()[-1]
    assert "MissingToolError: no C++ compiler was found ($CXX, g++, clang++), so kernels" in said
    assert said.endswith("; nothing that was compiled from this text before is in the cache")


@pytest.mark.simulator
@pytest.mark.parametrize("mode", ["run", "check"])
def test_a_program_is_used_when_its_compiler_has_gone(tmp_path, mode):
    source = tmp_path / "number.cu"
    source.write_text(PROGRAM.replace("7", str(os.getpid())))
    command = ["-m", "cudasim", mode, source]
    gone = without_a_compiler(*command)
    assert gone.returncode == 1 and "no C++ compiler was found" in gone.stderr
    here = subprocess.run([sys.executable, *command], capture_output=True, text=True)
    gone = without_a_compiler(*command)
    assert gone.returncode == 0 and gone.stdout == here.stdout == f"{os.getpid()}\n", gone.stderr


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Where something is made by a compiler, in a cache of its own."""
    monkeypatch.setenv(places.cache_variable(), str(tmp_path / "cache"))
    return kept.folder_of("live", ["text"], ["gcc"]) / "made.o"


def find() -> Path:
    return kept.made_before("live", ["text"], "made.o", MissingToolError("no compiler"))


def test_what_any_compiler_has_made_is_found(made):
    with pytest.raises(MissingToolError, match="no compiler; nothing that was compiled"):
        find()
    with kept.building(made) as is_missing:
        assert is_missing
        made.write_text("made")
    assert find() == made and made.parent != kept.folder_of("live", ["text"], ["clang"])
    with kept.building(made) as is_missing:
        assert not is_missing


def test_what_was_made_for_another_processor_is_not(made, monkeypatch):
    with kept.building(made):
        made.write_text("made")
    monkeypatch.setattr(kept, "processor", lambda: "another")
    with pytest.raises(MissingToolError):
        find()


def test_what_has_changed_since_it_was_made_is_not(made):
    with kept.building(made):
        made.write_text("made")
    made.write_text("changed")
    with pytest.raises(MissingToolError):
        find()


def test_what_a_compiler_has_refused_is_refused_again_unless_another_has_made_it(made):
    with pytest.raises(BuildError), kept.building(made):
        raise BuildError("text:1: error: no")
    with pytest.raises(BuildError, match=r"^text:1: error: no$"):
        find()
    by_another = kept.folder_of("live", ["text"], ["clang"]) / "made.o"
    with kept.building(by_another):
        by_another.write_text("made")
    assert find() == by_another


def test_a_full_disk_is_no_refusal(made):
    with pytest.raises(BuildError, match="no space left on the disk"), kept.building(made):
        raise BuildError("as: a.o: No space left on device")
    with pytest.raises(MissingToolError):
        find()
