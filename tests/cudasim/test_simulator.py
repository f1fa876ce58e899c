"""The simulator: the checks of tests/cudasim/sim/checks.c in several builds, and its library read by cffi."""

import os
import re
import resource
import subprocess
import sys
import threading
from pathlib import Path

import cffi
import pytest
from processes import patience

from cudasim.building.compilers import find_c_compiler
from cudasim.building.digests import digest, digest_of_headers
from cudasim.building.library import held, replacing
from cudasim.building.places import SOURCES, build_folder
from cudasim.live.compiling import identity_of

CHECKS = Path(__file__).parent / "sim" / "checks.c"
SIMULATOR = SOURCES / "sim"
COMPILER = find_c_compiler()
FLAGS = ["-std=gnu11", "-g", "-Wall", "-Wextra", "-Werror", "-fno-strict-aliasing", "-fwrapv"]
BUILDS = {
    "optimized": ["-O2", "-fPIC"],
    "sanitized": ["-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
}

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")


def compiled(name, command, files, libraries=()) -> Path:
    """What a command makes of the files: once for all tests, processes and runs."""
    texts = digest(*(path.read_bytes() for path in files))
    key = digest(
        digest_of_headers((SOURCES, CHECKS.parent)), texts, COMPILER, identity_of(COMPILER), *command
    )
    folder = build_folder() / "checks" / key[:16]
    with held(folder):
        if not (folder / name).exists():
            with replacing(folder / name) as temporary:
                whole = [COMPILER, *command, *map(str, files), "-o", temporary, *libraries]
                result = subprocess.run(whole, capture_output=True, text=True)
                assert result.returncode == 0, result.stderr
    return folder / name


def compile_c(name, source: Path, *flags, shared=()) -> Path:
    """The source and the simulator. shared: flags for the linker alone."""
    command = [*FLAGS, f"-I{SOURCES}", *flags]
    sources = sorted(path for pattern in ("*.c", "hopper/*.c") for path in SIMULATOR.glob(pattern))
    simulator = compiled("simulator.o", [*command, "-r", "-nostdlib"], sources)
    return compiled(name, [*command, *shared], [source, simulator], ["-lm", "-pthread"])


@pytest.fixture(scope="module", params=BUILDS)
def build(request, tmp_path_factory):
    if request.param == "sanitized":
        folder = tmp_path_factory.mktemp("sim")
        small = folder / "small.c"
        small.write_text("#include <sanitizer/asan_interface.h>\nint main(void) { return 0; }\n")
        command = [COMPILER, *BUILDS["sanitized"], str(small), "-o", str(folder / "small")]
        if subprocess.run(command, capture_output=True).returncode != 0:
            pytest.skip("the compiler's sanitizers are not installed")
    return compile_c(request.param, CHECKS, *BUILDS[request.param])


def run_checks(program, *names, threads=None):
    # Fake stacks would stay behind on fibers that are abandoned, and one check measures memory.
    environment = {**os.environ, "ASAN_OPTIONS": "detect_stack_use_after_return=0"}
    if threads:
        environment["CUDASIM_THREADS"] = str(threads)
    result = subprocess.run(
        [program, *names], env=environment, capture_output=True, text=True, timeout=patience(120)
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout.split()


def names_of_checks():
    """Those in the table at the end of checks.c, so that each is a test of its own."""
    return re.findall(r"\bCHECK\((\w+)\),", CHECKS.read_text())


@pytest.mark.parametrize("name", names_of_checks())
def test_check(build, name):
    run_checks(build, name)


@pytest.mark.parametrize("threads", [1, 7])
def test_every_check_is_run_with_other_numbers_of_threads(build, threads):
    assert run_checks(build) == names_of_checks()  # without a name it runs none, and says which there are
    others = [name for name in names_of_checks() if name != "failing_again_and_again"]  # which sets its own
    run_checks(build, *others, threads=threads)


def test_checks_without_assembly():
    """The switch for processors that fiber.c has no assembly for."""
    build = compile_c("ucontext", CHECKS, "-O2", "-DSIM_UCONTEXT")
    run_checks(build, *names_of_checks())


def with_little_room():
    """A process with 24 GiB of addresses, where the simulator cannot reserve a range for all stacks."""
    resource.setrlimit(resource.RLIMIT_AS, (24 << 30, 24 << 30))


def test_checks_with_little_room_for_addresses():
    program = compile_c("optimized", CHECKS, *BUILDS["optimized"])
    subprocess.run(
        [program, *names_of_checks()], preexec_fn=with_little_room, check=True, timeout=patience(120)
    )


@pytest.mark.simulator
@pytest.mark.skipif(
    "CUDASIM_SANITIZE" in os.environ, reason="AddressSanitizer itself reserves 16 TiB of addresses"
)
def test_counts_and_checks_with_little_room_for_addresses():
    """In both simulators, one after the other."""
    program = """
import numpy as np, cudasim
turn = cudasim.kernel('''
__global__ void turn(float *y, const float *x) {
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = s[63 - threadIdx.x];
}
''')
race = cudasim.kernel("__global__ void race(float *y, const float *x) { y[0] = x[threadIdx.x]; }")
room = np.zeros(80, np.float32)
first = -(room.ctypes.data // 4) % 8  # where a sector begins
x, y = room[first : first + 64], np.zeros(64, np.float32)
x[:] = np.arange(64)
turn[1, 64](y, x)
print((y == x[::-1]).all())
print(cudasim.count(lambda: turn[1, 64](y, x))["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"][0])
cudasim.check(lambda: turn[1, 64](y, x))
try:
    cudasim.check(lambda: race[1, 64](y, x))
except cudasim.KernelFault as fault:
    print(fault.kind)
"""
    call = [sys.executable, "-c", program]
    ran = subprocess.run(
        call, preexec_fn=with_little_room, capture_output=True, text=True, timeout=patience(300)
    )
    assert ran.stdout.split() == ["True", "8", "race"], ran.stderr


KERNELS = r"""
#include "sim/cuda.h"

struct add { const float *a, *b; float *sum; long long n; };
__global__ void add(struct add x) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < x.n)
        x.sum[i] = x.a[i] + x.b[i];
}
LAUNCHER(add, struct add)
int run_add(const float *a, const float *b, float *sum, long long n) {
    return launch_add((dim3){(unsigned)((n + 127) / 128), 1, 1}, (dim3){128, 1, 1}, 0, NULL,
                      (struct add){a, b, sum, n});
}

__global__ void forever(struct add x) {
    (void)x;
    for (;;)
        __syncthreads();
}
LAUNCHER(forever, struct add)
int run_forever(void) {
    return launch_forever((dim3){2, 1, 1}, (dim3){32, 1, 1}, 0, NULL, (struct add){0});
}
"""


@pytest.fixture(scope="module")
def library_file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sim")
    kernels = folder / "kernels.c"
    kernels.write_text(KERNELS)
    return compile_c("kernels.so", kernels, *BUILDS["optimized"], shared=["-shared"])


@pytest.fixture(scope="module")
def library(library_file):
    ffi = cffi.FFI()
    header = (SIMULATOR / "sim.h").read_text()
    ffi.cdef(header.replace("#pragma once", ""))  # about which cffi warns
    ffi.cdef("int run_add(const float *a, const float *b, float *sum, long long n); int run_forever(void);")
    return ffi, ffi.dlopen(str(library_file))


def test_cffi_launches(library):
    ffi, lib = library
    n = 1000
    a, b, total = ffi.new("float[]", list(range(n))), ffi.new("float[]", [0.5] * n), ffi.new("float[]", n)
    assert lib.run_add(a, b, total, n) == 0
    assert list(total) == [i + 0.5 for i in range(n)]
    assert lib.sim_last_report().kind == lib.SIM_NO_REPORT


def test_cffi_reads_a_report(library):
    ffi, lib = library
    assert lib.run_add(ffi.NULL, ffi.NULL, ffi.NULL, 0) == lib.cudaErrorInvalidConfiguration
    report = lib.sim_last_report()
    assert report.kind == lib.SIM_INVALID_LAUNCH
    assert ffi.string(report.kernel) == b"add"
    assert ffi.string(report.message).startswith(b"invalid launch in add: grid (0, 1, 1)")


def test_python_interrupts_a_launch(library):
    _, lib = library
    outcome = []

    def launch():
        error = lib.run_forever()
        outcome.append((error, lib.sim_last_report().kind))

    thread = threading.Thread(target=launch)
    thread.start()
    while thread.is_alive():  # an interrupt between two launches stops neither
        lib.sim_interrupt()
        thread.join(0.01)
    assert outcome == [(lib.cudaErrorLaunchFailure, lib.SIM_INTERRUPTED)]


def test_a_library_that_is_closed_keeps_the_code_of_its_threads(library_file):
    program = """
import cffi, os, sys, time
ffi = cffi.FFI()
ffi.cdef("int run_add(const float *a, const float *b, float *sum, long long n);")
library, room = ffi.dlopen(sys.argv[1]), ffi.new("float[]", 1000)
assert library.run_add(room, room, room, 1000) == 0
ffi.dlclose(library)
os.seteuid(os.geteuid())  # which every thread of the process takes part in
time.sleep(0.2)
"""
    environment = {**os.environ, "CUDASIM_THREADS": "2"}
    command = [sys.executable, "-c", program, library_file]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def test_the_library_works_in_a_forked_child(library):
    test_cffi_launches(library)
    child = os.fork()
    if child == 0:
        try:
            test_cffi_launches(library)
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
