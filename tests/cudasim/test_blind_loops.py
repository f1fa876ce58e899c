"""Kernels that run the threads of a block in a loop that keeps no account of them, and those that may not."""

import platform
import re
import subprocess
from pathlib import Path

import pytest
from processes import patience

from cudasim.building.compilers import find_cpp_compiler, version_of
from cudasim.programs.building import Program, command

SOURCE = Path(__file__).parent / "programs" / "blind.cu"
KERNEL = "__global__ void k(int *y, {0}int *x) {{ {1} }}\nint main() {{ k<<<1, 1>>>(nullptr, nullptr); }}\n"


def ran(*arguments: str) -> subprocess.CompletedProcess:
    runs = command("run", Program((SOURCE,)).library("run"), "blind", arguments)
    return subprocess.run(runs, capture_output=True, text=True, timeout=patience(300))


def listed(source: Path) -> int:
    """How many loops of a program may run."""
    if platform.machine() != "x86_64" or version_of(find_cpp_compiler())[0] != "gcc":
        pytest.skip("the assembly of gcc for x86-64 is looked at")
    text = Program((source,)).object_of(source).with_name("kernels.s").read_text("latin-1")
    return len(re.findall(r"^\t\.quad\t\S*sim_run_blind", text.partition("\tsim_blind_loops,")[2], re.M))


def test_kernels_that_call_nothing_may_run_in_one():
    assert listed(SOURCE) == 8  # all but those with assert() and __trap()


@pytest.mark.parametrize(
    "body",
    [
        "__syncthreads(); *y = 1;",
        "atomicAdd(y, 1);",
        'printf("%d", *y);',
        "*y = __shfl_sync(~0u, *x, 0);",
        "__threadfence(); *y = 1;",
    ],
)
def test_what_the_simulator_has_to_know_of_may_not(body, tmp_path):
    source = tmp_path / "k.cu"
    source.write_text(KERNEL.format("", body))
    assert listed(source) == 0


def test_what_may_wait_for_another_thread_may_not(tmp_path):
    source = tmp_path / "k.cu"
    source.write_text(KERNEL.format("volatile ", "while (*x == 0); *y = 1;"))
    assert listed(source) == 0
    source.write_text(KERNEL.format("", "*y = *x;"))
    assert listed(source) == 1


@pytest.mark.parametrize("threads", ["1", "2"])
def test_each_thread_does_its_own(threads, monkeypatch):
    monkeypatch.setenv("CUDASIM_THREADS", threads)
    done = ran()
    assert (done.stdout, done.stderr, done.returncode) == ("0 wrong\n", "", 0)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("crashes", "y[i == bad", "thread (37, 0, 0) of block (1, 0, 0) accesses address"),
        ("divides", "y[i] = 100", "thread (7, 0, 0) of block (0, 0, 0) divides an integer by zero"),
        ("asserts", "assert(thr", "thread (9, 0, 0) of block (0, 0, 0) finds assert(threadIdx.x != 9)"),
        ("bounded", "__global__ void __launch", "the kernel's __launch_bounds__ allows 64"),
        ("traps", "__trap()", "thread (5, 0, 0) of block (0, 0, 0) calls __trap()"),
        # The thread reads what it has overwritten when it runs again.
        ("forgets", "y[at] = 1", "a thread of block (0, 0, 0) accesses an address where no memory is"),
    ],
)
def test_a_fault_is_told_with_its_line_and_thread(name, text, told):
    lines = SOURCE.read_text().splitlines()
    line = 1 + next(i for i, of in enumerate(lines) if text in of)
    done = ran(name)
    assert f" in {name} (blind.cu:{line}): " in done.stderr and told in done.stderr, done.stderr
    assert done.returncode == (name != "bounded")


def test_a_loop_without_end_is_told():
    runs = command("run", Program((SOURCE,)).library("run"), "blind", ["endless"])
    with subprocess.Popen(runs, stderr=subprocess.PIPE, text=True) as process:
        told = process.stderr.readline()
        process.kill()
    assert told.startswith("cudasim: endless, launched at blind.cu:"), told
