"""Eight threads at a time make plain, checked, counted, traced and live calls, the first ones of their
process too; eight threads of a C program under ThreadSanitizer; interrupts; a child process.

FGN_STRESS_SECONDS=60 makes a stress test of the first.
"""

import os
import subprocess
from pathlib import Path

import pytest
from processes import output_of

from cudasim.building.compilers import find_c_compiler
from fgn.native.library import SIMULATOR
from fgn.native.places import SOURCES

STRESS = r"""
import sys, threading, time
import torch, fgn
from cudasim.counting import check, count, trace

end, failures, calls = time.time() + float(sys.argv[1]), [], [0] * 8
chain, shape = fgn.chains.problem("gemm_groupnorm_hardtanh", (5, 24, 48, 4))
x, parameters = fgn.chains.random_inputs(chain, shape)
versions = ["naive", "register_tile", "fused", "one_kernel"]

def call(version):
    return fgn.chain_forward(chain, x, parameters, version)

live = fgn.kernel('''
__global__ void scale(float *y, const float *x, float a, int n) {
    __shared__ float part[32];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    part[threadIdx.x] = i < n ? x[i] : 0.0f;
    __syncthreads();
    if (i < n)
        y[i] = a * part[threadIdx.x];
}''')

pointer = fgn.kernel("__global__ void pointer(long long place) { *(volatile int *)place = 1; }")

def scaled(number, n=100, **how):
    y = torch.zeros(100)
    live[4, 32](y, torch.arange(100.0), float(number), n, **how)
    assert torch.equal(y, number * torch.arange(100.0))

def fails_as_it_should(number):
    try:
        scaled(number, n=101)
    except fgn.KernelFault as fault:
        assert fault.kind == "out of bounds" and fault.index == 100, fault
    else:
        raise AssertionError("no fault")

def crashes_as_it_should(number):
    try:
        pointer[1, 1](number << 4, unchecked=True)
    except fgn.KernelFault as fault:
        assert fault.kind == "crash", fault
    else:
        raise AssertionError("no crash")

def same(what, kept, value, equal):
    assert equal(kept.setdefault(what, value), value), what

def work(number):
    version, kept = versions[number % 4], {}
    expected = call(version)
    kinds = [
        lambda: same("y", kept, call(version), torch.equal),
        lambda: check(lambda: call(version)),
        lambda: same("counts", kept, count(lambda: call(version)), lambda a, b: a.equals(b)),
        lambda: scaled(number, unchecked=True),
        lambda: scaled(number),
        lambda: fails_as_it_should(number),
        lambda: crashes_as_it_should(number),
        lambda: same("trace", kept, len(trace.record(lambda: scaled(number)).events), int.__eq__),
        lambda: same("live counts", kept, count(lambda: scaled(number)), lambda a, b: a.equals(b)),
    ]
    try:
        while time.time() < end or calls[number] < len(kinds):
            kinds[(calls[number] + number) % len(kinds)]()
            calls[number] += 1
    except BaseException as error:
        failures.append(repr(error))

threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(failures, min(calls))
"""

CRASHES = """
import threading, time, torch, fgn

pointer = fgn.kernel("__global__ void pointer(long long place) { *(volatile int *)place = 1; }")
one = fgn.kernel("__global__ void one(float *y) { y[threadIdx.x] = 1; }")
crashes, launches = [], []

def crash():
    try:
        pointer[1, 1](64, unchecked=True)
    except fgn.KernelFault as fault:
        crashes.append(fault.kind)

def launch():
    one[1, 32](torch.zeros(32))
    launches.append(1)

crash()
launch()
end = time.time() + 2

def often(work):
    while time.time() < end:
        work()

threads = [threading.Thread(target=often, args=(work,)) for work in (crash, launch, crash, launch)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(set(crashes), min(len(crashes), len(launches)))
"""

AFTER_FORK = """
import os, torch, fgn
x, weight = torch.randn(70, 40), torch.randn(65, 40)
expected = fgn.functional.linear(x, weight)
child = os.fork()
if child == 0:
    os._exit(0 if torch.equal(fgn.functional.linear(x, weight), expected) else 1)
print(os.waitpid(child, 0)[1])
"""


def test_kernels_crash_in_one_simulator_while_the_other_one_runs():
    """Both catch crashes by the same signals."""
    kinds, _, fewest = output_of(CRASHES).rpartition(" ")
    assert kinds == "{'crash'}" and int(fewest) > 20


def test_eight_threads():
    failures, _, fewest = output_of(STRESS, os.environ.get("FGN_STRESS_SECONDS", 2)).rpartition(" ")
    assert failures == "[]" and int(fewest) >= 9


class ThreadSanitizer:
    """Builds and runs C programs under ThreadSanitizer; skips the test where the compiler has none."""

    flags = ("-fsanitize=thread", "-std=gnu11", "-O1", "-g", "-fno-strict-aliasing")

    def __init__(self, folder):
        self.program = folder / "program"
        self.environment = dict(os.environ) | {"CUDASIM_THREADS": "3"}
        self.environment.pop("LD_PRELOAD", None)  # the runtime of another sanitizer
        if find_c_compiler() is None:
            pytest.skip("there is no C compiler here")
        source = folder / "works.c"
        source.write_text('#include <stdio.h>\nint main(void) { return puts("works") < 0; }')
        if self.said_of_building(source) or self.said_by_program() != "works\n":
            pytest.skip("this compiler has no ThreadSanitizer that works here")

    def _said(self, *command) -> str:
        command = [*map(str, command)]
        result = subprocess.run(command, env=self.environment, capture_output=True, text=True)
        return result.stdout + result.stderr

    def said_of_building(self, *parts) -> str:
        return self._said(find_c_compiler(), *self.flags, *parts, "-o", self.program, "-lm", "-pthread")

    def said_by_program(self) -> str:
        return self._said(self.program)


RACING = """
#include <pthread.h>
#include <stdio.h>
static int shared;
static void *add(void *unused) {
    shared += 1;
    return unused;
}
int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, add, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return puts("done") < 0;
}
"""


def test_thread_sanitizer_finds_a_race_that_is_there(tmp_path):
    sanitizer, source = ThreadSanitizer(tmp_path), tmp_path / "racing.c"
    source.write_text(RACING)
    assert sanitizer.said_of_building(source) == ""
    report = sanitizer.said_by_program()
    assert "WARNING: ThreadSanitizer: data race" in report and "in add" in report


@pytest.mark.simulator
@pytest.mark.memory
def test_threads_of_a_c_program_under_thread_sanitizer(tmp_path):
    """The kernels are as they are in the library: fgn.check looks for races of theirs."""
    if os.environ.get("CUDASIM_SANITIZE") != "1":
        pytest.skip("`make sanitize-threads` and `make sanitize` run it")
    sanitizer = ThreadSanitizer(tmp_path)
    (simulator,) = SIMULATOR.needs
    includes = (f"-I{SOURCES}", f"-I{simulator.sources}", "-fwrapv")
    parts = (*includes, Path(__file__).parent / "threads.c", *simulator.source_files(), *SIMULATOR.objects())
    assert sanitizer.said_of_building(*parts) == ""
    assert sanitizer.said_by_program() == "done\n"


INTERRUPTED = '''
import signal, threading, time, torch, fgn
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background begins with it ignored
forever = fgn.kernel("""__global__ void forever(volatile int *runs, volatile int *go_on) {
    *runs = 1;
    while (*go_on) ;
}""")
runs, go_on = torch.zeros(1, dtype=torch.int32), torch.ones(1, dtype=torch.int32)
failures = []

def launch():
    try:
        forever[1, 1](runs, go_on, unchecked=True)
    except BaseException as error:
        failures.append(repr(error))

x, weight = torch.randn(20, 16), torch.randn(24, 16)
expected = fgn.functional.linear(x, weight)
other = threading.Thread(target=launch)
other.start()
while not runs[0] and other.is_alive():
    time.sleep(0.01)
try:
    threading.Timer(0.2, lambda: signal.raise_signal(signal.SIGINT)).start()
    fgn.functional.linear(x, weight)  # waits for its turn
    print("not interrupted")
except KeyboardInterrupt:
    print("interrupted", other.is_alive())
go_on[0] = 0
other.join()
print(failures, torch.equal(fgn.functional.linear(x, weight), expected))
'''


def test_an_interrupt_ends_the_wait_for_another_threads_launch_and_not_that_launch():
    assert output_of(INTERRUPTED) == "interrupted True\n[] True"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork()")
def test_a_child_process_after_use():
    assert output_of(AFTER_FORK) == "0"
