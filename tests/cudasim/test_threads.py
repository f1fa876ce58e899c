"""The threads of a block in the plain simulator, which run in a loop until one of them waits."""

import ctypes
import platform
import subprocess
from pathlib import Path

import numpy
import pytest
import torch
from processes import patience

import cudasim
from cudasim.programs.building import Program, command

SOURCE = Path(__file__).parent / "programs" / "threads.cu"

# Threads come to the end of the kernel, or leave it, and others of their warp then wait.
WAITS = """
__global__ void waits(int *y, int from, bool leaves) {
    if ((int)threadIdx.x < from && leaves)
        return;
    if ((int)threadIdx.x >= from) {
        __syncthreads();
        y[threadIdx.x] = 1;
    }
}
"""
CRASHES = """
__global__ void crashes(int *y, int bad) {
    int i = threadIdx.y * blockDim.x + threadIdx.x;
    y[blockIdx.x == 1 && i == bad ? 1ll << 50 : i] = 1;  // of one block: with two, either is told first
}
"""


def ran(mode: str, *arguments: str) -> subprocess.CompletedProcess:
    runs = command(mode, Program((SOURCE,)).library(mode), "threads", arguments)
    return subprocess.run(runs, capture_output=True, text=True, timeout=patience(300))


@pytest.mark.parametrize(("mode", "threads"), [("run", "1"), ("run", "2"), ("check", "2")])
def test_each_thread_does_what_it_is_to_do(mode, threads, monkeypatch):
    monkeypatch.setenv("CUDASIM_THREADS", threads)
    done = ran(mode)
    assert done.stdout.splitlines()[-1] == "0 wrong", done.stdout + done.stderr
    assert sorted(done.stdout.splitlines()[:-1]) == ["0 0", "0 1", "1 0", "1 1"]
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("how", "kernel", "thread"),
    [
        ("crash", "crashes", "(1, 1, 1) of block (0, 0, 0)"),
        ("pointer", "kernel", "(3, 2, 1) of block (0, 1, 0)"),
    ],
)
def test_a_crash_is_told_with_its_thread_and_line(how, kernel, thread):
    line = 1 + SOURCE.read_text().splitlines().index("    p[i] = i;")
    done = ran("run", how)
    assert f"cudasim: crash in {kernel} (threads.cu:{line}): thread {thread} accesses " in done.stderr
    assert done.returncode == 1


def test_a_cell_s_crash_is_told_with_its_thread():
    y = numpy.zeros(64, numpy.int32)
    with pytest.raises(cudasim.KernelFault, match=r"crashes\.cu:4.*thread \(5, 3, 0\) of block \(1, 0, 0\)"):
        cudasim.kernel(CRASHES)[2, (8, 8)](y, 29, unchecked=True)


def test_who_has_gone_past_a_barrier_is_known_and_who_has_left():
    waits = cudasim.kernel(WAITS)
    for first, leaves in ((40, True), (32, False)):  # of the second's warp that waits nobody has gone past
        y = numpy.zeros(64, numpy.int32)
        waits[1, 64](y, first, leaves, unchecked=True)
        assert y.tolist() == [0] * first + [1] * (64 - first)
    with pytest.raises(cudasim.KernelFault, match=r"thread \(40, 0, 0\).*thread \(39, 0, 0\) of its warp"):
        waits[1, 64](y, 40, False, unchecked=True)


HALVES = "__global__ void halves(float *y, float x) { y[0] = 0.5f * x, y[1] = 1 + x; }"


def test_a_kernel_rounds_as_a_gpu_whatever_its_caller_has_set():
    upward = 0x800 if platform.machine() == "x86_64" else 0x400000  # <fenv.h>
    small = 2.0**-126  # the smallest that is not subnormal
    kernel, y = cudasim.kernel(HALVES)[1, 1], numpy.zeros(2, numpy.float32)
    c = ctypes.CDLL("libm.so.6")
    before = c.fegetround()
    assert torch.set_flush_denormal(True)
    try:
        c.fesetround(upward)
        kernel(y, small)
        assert c.fegetround() == upward  # the caller keeps what it has set
        assert (torch.full((4,), small) * 0.5 == 0).all()
    finally:
        c.fesetround(before)
        torch.set_flush_denormal(False)
    assert y.tolist() == [small / 2, 1]
