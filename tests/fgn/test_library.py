"""Building and loading: what is stale is rebuilt, what fails says why, what is missing is named."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest
import torch
from processes import output_of

import fgn
from cudasim.building import library, places, toolchains
from cudasim.building.compilers import MissingToolError
from cudasim.building.library import BuildError
from cudasim.building.toolchains import find_nvcc
from fgn.native.library import COUNTED_SIMULATOR, GPU, SIMULATOR, ffi, version_table
from fgn.native.places import ROOT, SOURCES

KERNEL = """
#include "answer.h"
int fgn_version_count(void) { return ANSWER; }
"""


@pytest.fixture
def small(tmp_path):
    """A library of two sources that builds in no time."""
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "answer.h").write_text("#define ANSWER 1\n")
    (sources / "answer.cu").write_text(KERNEL)
    (sources / "other.cu").write_text("int other(void) { return 2; }\n")
    return replace(
        library.SIMULATOR, name="small", patterns=("*.cu",), sources=sources, directory=tmp_path / "build"
    )


def answer(small):
    loaded = ffi().dlopen(str(small.build()))
    result = loaded.fgn_version_count()
    ffi().dlclose(loaded)
    return result


def test_a_library_is_built_once(small):
    assert small.state() == "not built"
    assert answer(small) == 1
    assert small.state() == "ready"
    before = small.path.stat()
    small.build()
    assert small.path.stat() == before


@pytest.mark.parametrize(
    "file, text",
    [("answer.cu", KERNEL.replace("ANSWER", "7")), ("answer.h", "#define ANSWER 7\n")],
    ids=["source", "header"],
)
def test_a_library_older_than_a_source_is_rebuilt(small, file, text):
    assert answer(small) == 1
    (small.sources / file).write_text(text)
    # The age of files does not matter, what is in them does.
    os.utime(small.sources / file, (time.time() - 1e6,) * 2)
    assert small.state() == "stale"
    assert answer(small) == 7
    assert small.state() == "ready"


def test_only_what_changed_is_compiled_again(small):
    answer(small)
    (small.sources / "answer.cu").write_text(KERNEL.replace("ANSWER", "7"))
    objects = small.directory / "objects" / small.name
    before = {path.name for path in objects.glob("*.o")}
    answer(small)
    after = {path.name for path in objects.glob("*.o")}
    assert len(before & after) == 1 and next(iter(before & after)).startswith("other.")
    assert len(after) == 2


def test_other_flags_make_a_library_stale(small):
    small.build()
    toolchain = small.toolchain()
    other = replace(small, toolchain=lambda: replace(toolchain, flags=(*toolchain.flags, "-DOTHER")))
    assert other.state() == "stale"


def test_a_build_failure_shows_the_compilers_message_and_the_old_library_is_not_used(small):
    small.build()
    (small.sources / "answer.cu").write_text("int fgn_version_count(void) { return mistake; }\n")
    for _ in range(2):
        with pytest.raises(BuildError, match=r"answer\.cu:1.*(mistake.*undeclared|undeclared.*mistake)"):
            small.load()
        assert small.state() == "stale"


def test_a_warning_ends_no_build_and_is_kept(small):
    small.build()
    assert small.warnings() == ""
    (small.sources / "other.cu").write_text("int other(void) { int unused; return 2; }\n")
    assert answer(small) == 1
    assert re.search(r"other\.cu:1:.*warning: .*unused", small.warnings())
    assert len(list((small.directory / "objects" / "small").iterdir())) == 4  # no object without its warnings


WITH_NVCC = pytest.mark.skipif(find_nvcc() is None, reason="needs nvcc")


@pytest.mark.parametrize(
    "built",
    [
        SIMULATOR,
        *SIMULATOR.needs,
        COUNTED_SIMULATOR,
        *COUNTED_SIMULATOR.needs,
        pytest.param(GPU, marks=WITH_NVCC),
    ],
    ids=lambda built: built.name,
)
def test_no_compiler_warns_of_the_sources(built):
    # nvcc says beside warnings what its optimiser has done.
    assert "warning" not in built.warnings()


def test_two_processes_do_not_build_at_once(small):
    script = f"""
from dataclasses import replace
from pathlib import Path
from cudasim.building.library import SIMULATOR
print(replace(SIMULATOR, name="small", patterns=("*.cu",), sources=Path({str(small.sources)!r}),
      directory=Path({str(small.directory)!r})).build())
"""
    command = [sys.executable, "-c", script]
    runs = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [run.communicate()[0].strip() for run in runs] == [str(small.path)] * 2
    assert not list(small.directory.rglob("*.tmp*"))


def test_who_waits_for_another_build_is_told_so(small, capsys):
    small.directory.mkdir()
    with library.locked(small.directory / "small.lock"):
        waiting = threading.Thread(target=small.build)
        waiting.start()
        while "waiting until another process has built the simulator" not in capsys.readouterr().err:
            assert waiting.is_alive()
            time.sleep(0.02)
        assert small.state() == "not built"
    waiting.join()
    assert small.state() == "ready"


# A process that was started in the background ignores SIGINT, and so would this one.
BUILD_AND_HANG = """
import signal
import sys
from dataclasses import replace
from pathlib import Path
from cudasim.building.library import SIMULATOR
signal.signal(signal.SIGINT, signal.default_int_handler)
sources, directory, compiler = map(Path, sys.argv[1:])
toolchain = replace(SIMULATOR.toolchain(), compiler=str(compiler))
replace(
    SIMULATOR,
    name="small",
    patterns=("*.cu",),
    sources=sources,
    directory=directory,
    toolchain=lambda: toolchain,
).build()
"""


@pytest.mark.parametrize("step, how", [("compiling", signal.SIGINT), ("linking", signal.SIGKILL)])
def test_a_build_that_was_stopped_is_no_obstacle_to_the_next_one(small, step, how):
    compiler, hangs = small.sources / "compiler", small.sources / "hangs"
    is_the_step = '[ "$*" = "${*#*-c }" ]' if step == "linking" else "true"
    real = small.toolchain().compiler
    compiler.write_text(
        f'#!/bin/sh\nif {is_the_step}; then : > "{hangs}"; exec sleep 600; fi\nexec "{real}" "$@"\n'
    )
    compiler.chmod(0o755)
    command = [sys.executable, "-c", BUILD_AND_HANG, small.sources, small.directory, compiler]
    # A group of its own, as a terminal's Ctrl-C finds it.
    build = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL, start_new_session=True)
    while not hangs.exists():
        assert build.poll() is None
        time.sleep(0.02)
    os.killpg(build.pid, how)
    assert build.wait() != 0
    assert answer(small) == 1
    assert not list(small.directory.rglob("*.tmp*"))


def test_a_truncated_library_is_built_again(small):
    small.build()
    content = small.path.read_bytes()
    small.path.write_bytes(content[: len(content) // 2])
    assert small.state() == "stale"
    assert answer(small) == 1


def test_a_full_disk_is_told_whoever_meets_it(small, monkeypatch):
    compiler = small.sources / "compiler"
    # As gcc does: it says so, and removes what it has begun.
    compiler.write_text(
        '#!/bin/sh\nfor last; do :; done; rm -f "$last"; echo "No space left on device" >&2; exit 1\n'
    )
    compiler.chmod(0o755)
    toolchain = replace(small.toolchain(), compiler=str(compiler))
    with pytest.raises(BuildError, match=f"^no space left on the disk of {small.directory}"):
        replace(small, toolchain=lambda: toolchain).build()

    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(library.tempfile, "mkstemp", full)
    with pytest.raises(BuildError, match=f"^no space left on the disk of {small.directory}"):
        small.build()


def test_a_library_that_is_ready_needs_no_folder_to_write_to(small, monkeypatch):
    small.build()
    monkeypatch.setattr(library, "is_writable", lambda folder: False)
    monkeypatch.setattr(library, "locked", None)
    assert answer(small) == 1
    (small.sources / "answer.h").write_text("#define ANSWER 7")
    with pytest.raises(BuildError, match=r"cannot be written to, .* set FGN_CACHE to a folder that can"):
        small.build()


@pytest.mark.simulator
def test_a_kernel_of_ones_own_needs_a_folder_to_write_to(monkeypatch):
    fgn.kernel("__global__ void before(float *y) { y[threadIdx.x] = 1.0f; }")[1, 32](torch.empty(32))
    kernel = fgn.kernel("__global__ void compiled_nowhere(float *y) { y[threadIdx.x] = 1.0f; }")
    monkeypatch.setattr(library, "is_writable", lambda folder: False)
    with pytest.raises(BuildError, match=r"cannot be written to, .* set FGN_CACHE to a folder that can"):
        kernel[1, 32](torch.empty(32))


def test_the_cache_forgets_what_was_used_longest_ago(tmp_path, monkeypatch):
    monkeypatch.setenv("FGN_CACHE", str(tmp_path))
    for age, name in enumerate(("lib-new", "lib-old")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_bytes(bytes(1000))
        os.utime(tmp_path / name / "file", (time.time() - 1e6 * age,) * 2)
    assert places.uses_cache() and places.build_folder() == tmp_path
    assert places.prune_cache(limit=1500) == 1000
    assert [path.name for path in tmp_path.iterdir()] == ["lib-new"]


def test_without_a_c_compiler(small, monkeypatch):
    monkeypatch.setattr(toolchains, "find_c_compiler", lambda: None)
    with pytest.raises(MissingToolError, match=r"no C compiler was found .*still work") as caught:
        small.build()
    assert "\n" not in str(caught.value)


def test_without_a_c_compiler_a_library_of_the_same_sources_works(small, monkeypatch):
    small.build()
    monkeypatch.setattr(toolchains, "find_c_compiler", lambda: None)
    assert answer(small) == 1
    (small.sources / "answer.h").write_text("#define ANSWER 7")
    with pytest.raises(MissingToolError):
        small.build()


def test_without_nvcc(tmp_path, monkeypatch):
    monkeypatch.setattr(toolchains, "find_nvcc", lambda: None)
    with pytest.raises(
        MissingToolError, match=r"nvcc was not found .*what is on the CPU runs on the simulator"
    ) as caught:
        replace(GPU, directory=tmp_path).build()
    assert "\n" not in str(caught.value)


def test_the_compiler_can_be_chosen(tmp_path, monkeypatch):
    chosen = tmp_path / "my-compiler"
    chosen.write_text("#!/bin/sh\n")
    chosen.chmod(0o755)
    monkeypatch.setenv("CC", str(chosen))
    assert toolchains.find_c_compiler() == str(chosen)
    (tmp_path / "bin").mkdir()
    nvcc = tmp_path / "bin" / "nvcc"
    nvcc.write_text("#!/bin/sh\n")
    nvcc.chmod(0o755)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert toolchains.find_nvcc() == str(nvcc)


@pytest.mark.skipif(find_nvcc() is None, reason="needs nvcc")
def test_the_gpu_library_builds_and_has_the_same_versions():
    loaded = GPU.load()
    rows = [loaded.fgn_version_at(index) for index in range(loaded.fgn_version_count())]
    assert [ffi().string(row.name).decode() for row in rows] == [row["name"] for row in version_table("cpu")]
    for name in dir(SIMULATOR.load()):
        if name.startswith("fgn_"):
            assert getattr(loaded, name) is not None


def test_every_version_names_files_that_are_there():
    for row in version_table("cpu"):
        assert row["name"] and row["summary"]
        for file in (row["gemm"], row["norm"]):
            assert not file or (SOURCES / file).is_file()


def test_environment_says_what_is_here():
    table = fgn.measure.environment()[""]
    assert table["torch"] == torch.__version__
    assert table[SIMULATOR.title].startswith("ready")
    assert (find_nvcc() is None) == (table["nvcc"] == "none")


INCLUDED = """
import cffi, gc
from fgn.native.library import ffi
other = cffi.FFI()
other.include(ffi())
other.new("dim3 *")
del other
gc.collect()
print(ffi().new("counted_launch *").grid.x)
"""


def test_structs_outlive_an_interface_that_includes_them():
    assert output_of(INCLUDED) == "0"


CUDA_RUNTIME = "int cudaMemsetAsync(void) { return 1; } int cudaGetLastError(void) { return 1; }"
WITH_CUDA_LOADED = """
import ctypes, sys
ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
import fgn, torch
from fgn.functional import run_chain
chain, shape = fgn.chains.problem("gemm_groupnorm_hardtanh", fgn.chains.Shape(8, 32, 64, 4))
x, parameters = fgn.chains.random_inputs(chain, shape, "cpu")
print(bool(torch.isfinite(run_chain(chain, x, parameters, "tensor_core")).all()))
"""


def test_the_simulator_does_not_call_the_cuda_runtime_that_torch_has_loaded(tmp_path):
    runtime = tmp_path / "libcudart.so"
    compile_it = [toolchains.find_c_compiler(), "-shared", "-fPIC", "-x", "c", "-", "-o", runtime]
    subprocess.run(compile_it, input=CUDA_RUNTIME, text=True, check=True)
    assert output_of(WITH_CUDA_LOADED, runtime) == "True"


def test_a_function_that_runs_once_among_threads():
    runs, barrier = [], threading.Barrier(8)
    once = library.once(lambda: time.sleep(0.01) or runs.append(1) or len(runs))
    results = []

    def call():
        barrier.wait()
        results.append(once())

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert runs == [1] and results == [1] * 8


@pytest.mark.parametrize("release, is_new", [("12.8", False), ("13.0", True), ("", False)])
def test_nvcc_compresses_where_every_driver_reads_it(tmp_path, monkeypatch, release, is_new):
    nvcc = tmp_path / "nvcc"
    nvcc.write_text(f"#!/bin/sh\necho 'Cuda compilation tools, release {release}, V{release}'\n")
    nvcc.chmod(0o755)
    monkeypatch.setattr(toolchains, "find_nvcc", lambda: str(nvcc))
    monkeypatch.setattr(toolchains, "NVCC_FLAGS", ())
    flags = toolchains.nvcc_toolchain().flags
    assert ("--compress-mode=size" in flags) == is_new
    monkeypatch.setattr(toolchains, "NVCC_FLAGS", ("--compress-mode=none",))
    chosen = [flag for flag in toolchains.nvcc_toolchain().flags if "compress" in flag]
    assert chosen == ["--compress-mode=none"]
