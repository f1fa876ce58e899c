"""Races between streams: each is told, and what an order keeps apart is not."""

import re
import subprocess
import sys

import pytest
from processes import patience

PROGRAM = """
#include <cuda_runtime.h>
__global__ void set(int *p, int n, int v) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        p[i] = v;
}
__global__ void add(int *p, const int *q, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        p[i] += q[i];
}
__global__ void count(int *p) { atomicAdd(p, 1); }
__global__ void every_second(unsigned char *p) { p[2 * threadIdx.x] = 1; }
int main() {
    const int n = 1024, bytes = 4 * n;
    int *a, *b, *h;
    cudaMalloc(&a, bytes), cudaMalloc(&b, bytes), cudaMallocHost(&h, bytes);
    cudaMemset(a, 0, bytes), cudaMemset(b, 0, bytes);
    cudaStream_t s, t, free; /* the third one does not wait for the default stream */
    cudaStreamCreate(&s), cudaStreamCreate(&t), cudaStreamCreateWithFlags(&free, cudaStreamNonBlocking);
    cudaEvent_t e, f;
    cudaEventCreate(&e), cudaEventCreate(&f);
    cudaDeviceSynchronize();
    STATEMENTS
    cudaDeviceSynchronize();
    cudaFree(a), cudaFree(b), cudaFreeHost(h);
}
"""
SETS = "set<<<4, 256, 0, s>>>(a, n, 1);"
ADDS = "add<<<4, 256, 0, t>>>(b, a, n);"

RACES = {
    "a kernel and a copy of what it writes": (
        f"{SETS} cudaMemcpyAsync(h, a, bytes, cudaMemcpyDeviceToHost, t);",
        "cudaMemcpyAsync at .*: race between streams: reads byte 0 of a, which set at",
    ),
    "a copy and a kernel that writes its source": (
        "cudaMemcpyAsync(h, a, bytes, cudaMemcpyDeviceToHost, t);" + SETS,
        "set at .*: race between streams: writes byte 0 of a, which cudaMemcpyAsync",
    ),
    "one element": (
        "set<<<4, 256, 0, s>>>(a, 512, 1); set<<<4, 256, 0, t>>>(a + 511, 512, 2);",
        "writes byte 2044 of a, which set at .* may still be writing",
    ),
    "a stream that does not wait for the default one": (
        "set<<<4, 256>>>(a, n, 1); add<<<4, 256, 0, free>>>(b, a, n);",
        "reads byte 0 of a, which set at",
    ),
    "an event that is recorded before": (
        f"cudaEventRecord(e, s); {SETS} cudaStreamWaitEvent(t, e, 0); {ADDS}",
        "reads byte 0 of a, which set at",
    ),
    "a wait for the other stream": (
        f"{SETS} cudaStreamSynchronize(t); {ADDS}",
        "reads byte 0 of a, which set at",
    ),
    "an atomic and a plain write": (
        "count<<<1, 32, 0, s>>>(a); set<<<1, 1, 0, t>>>(a, 1, 3);",
        "writes byte 0 of a, which count at .* may still be writing",
    ),
    "rows": (
        "cudaMemcpy2DAsync(a, 64, b, 64, 16, 8, cudaMemcpyDeviceToDevice, s);"
        "set<<<1, 16, 0, t>>>(a + 16, 4, 2);",
        "writes byte 64 of a, which cudaMemcpy2DAsync at .* may still be writing",
    ),
    "the last of many streams": (
        "cudaStream_t many[100]; for (auto &of : many) cudaStreamCreate(&of);"
        "set<<<4, 256, 0, many[98]>>>(a, n, 1); add<<<4, 256, 0, many[99]>>>(b, a, n);",
        "reads byte 0 of a, which set at",
    ),
    "rows of one array between each other": (
        "cudaMemcpy2DAsync(a, 128, a + 16, 128, 64, 8, cudaMemcpyDeviceToDevice, s);"
        "set<<<1, 16, 0, t>>>(a + 48, 4, 2);",
        "writes byte 192 of a, which cudaMemcpy2DAsync at .* may still be reading",
    ),
}
ORDERED = {
    "an event": f"{SETS} cudaEventRecord(e, s); cudaStreamWaitEvent(t, e, 0); {ADDS}",
    "events in a chain": f"{SETS} cudaEventRecord(e, s); cudaStreamWaitEvent(t, e, 0); cudaEventRecord(f, t);"
    "cudaStreamWaitEvent(free, f, 0); add<<<4, 256, 0, free>>>(b, a, n);",
    "the host waits": f"{SETS} cudaStreamSynchronize(s); {ADDS} cudaEventRecord(e, t);"
    f"cudaEventSynchronize(e); {SETS}",
    "the default stream": f"set<<<4, 256>>>(a, n, 1); {ADDS} set<<<4, 256>>>(a, n, 1);",
    "a stream after many that are gone": "cudaStream_t of; for (int i = 0; i < 100; i++) {"
    "cudaStreamCreate(&of); set<<<4, 256, 0, of>>>(a, n, i); cudaStreamSynchronize(of);"
    "cudaStreamDestroy(of); }",
    "a command in the default stream": f"{SETS} cudaEventRecord(e); {ADDS}",
    "a function of the host's": f"{SETS} cudaLaunchHostFunc(s, [](void *) {{}}, 0); {ADDS}",
    "parts": "for (int i = 0; i < 4; i++) { cudaStream_t on = i % 2 ? s : t; int *part = a + 256 * i;"
    "set<<<1, 256, 0, on>>>(part, 256, i);"
    "cudaMemcpyAsync(h + 256 * i, part, 1024, cudaMemcpyDeviceToHost, on); }",
    "rows between rows": "cudaMemcpy2DAsync(a, 128, b, 128, 64, 8, cudaMemcpyDeviceToDevice, s);"
    "cudaMemcpy2DAsync(a + 16, 128, b + 16, 128, 64, 8, cudaMemcpyDeviceToDevice, t);",
    "bytes between bytes": "every_second<<<1, 64, 0, s>>>((unsigned char *)a);"
    "every_second<<<1, 64, 0, t>>>((unsigned char *)a + 1);",
    "only reads": "cudaMemcpyAsync(h, a, bytes, cudaMemcpyDeviceToHost, s);" + ADDS,
    "only atomics": "count<<<1, 32, 0, s>>>(a); count<<<1, 32, 0, t>>>(a);",
    "other memory at the same place": "int *c; cudaMalloc(&c, 64); set<<<1, 16, 0, s>>>(c, 16, 1);"
    "cudaFree(c); cudaMalloc(&c, 64); set<<<1, 16, 0, t>>>(c, 16, 1); cudaFree(c);",
}


def checked(folder, statements: str) -> subprocess.CompletedProcess:
    (folder / "main.cu").write_text(PROGRAM.replace("STATEMENTS", statements))
    command = [sys.executable, "-m", "cudasim", "check", "main.cu"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=patience(300))


@pytest.mark.parametrize("of", RACES)
def test_a_race_between_streams_is_told(tmp_path, of):
    statements, told = RACES[of]
    ran = checked(tmp_path, statements)
    assert re.search(f"{told}.* in another stream", ran.stderr), ran.stderr
    assert ran.stderr.count("race between streams") == 1
    assert ran.returncode == 1


@pytest.mark.parametrize("of", ORDERED)
def test_what_is_ordered_or_apart_is_no_race(tmp_path, of):
    ran = checked(tmp_path, ORDERED[of])
    assert (ran.returncode, ran.stderr) == (0, "")


# Host code reads managed memory that two streams use, after waits.
WRITES = "cudaMallocManaged(&m, bytes); set<<<2, 256, 0, s>>>(m, 512, 1); cudaEventRecord(e, s);"
HOST_READS = {
    "its stream": ("cudaStreamSynchronize(s);", False),
    "another stream": ("cudaStreamSynchronize(t);", True),
    "a chain of events": (
        "cudaStream_t chain[5]; for (auto &of : chain) {"
        "cudaStreamCreateWithFlags(&of, cudaStreamNonBlocking); cudaStreamWaitEvent(of, e, 0);"
        "cudaEventRecord(e, of); } cudaEventSynchronize(e);",
        False,
    ),
    "one of two that write": ("set<<<2, 256, 0, t>>>(m + 512, 512, 1); cudaStreamSynchronize(t);", True),
    "what writes and not what reads": (
        "cudaStreamWaitEvent(t, e, 0); add<<<2, 256, 0, t>>>(b, m, 512); cudaStreamSynchronize(s);",
        False,
    ),
}


@pytest.mark.parametrize("waits_for", HOST_READS)
def test_host_code_waits_for_what_writes_its_memory(tmp_path, waits_for):
    waits, is_told = HOST_READS[waits_for]
    ran = checked(
        tmp_path, f"int *m; {WRITES} {waits} int first = m[0]; cudaFree(m); if (first != 1) return 1;"
    )
    told = "the host code accesses byte 0 of m .* while set may still be writing to it"
    assert bool(re.search(told, ran.stderr)) == is_told, ran.stderr
    assert (ran.returncode == 0) == (not is_told)


BETWEEN_DEVICES = """
    int *c;
    cudaSetDevice(1);
    cudaStream_t other;
    cudaMalloc(&c, bytes), cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    set<<<4, 256, 0, other>>>(c, n, 1);
    cudaSetDevice(0);
    WAITS
    cudaMemcpyPeerAsync(a, 0, c, 1, bytes, STREAM);
    add<<<4, 256, 0, free>>>(b, a, n);
    cudaDeviceSynchronize();
    cudaFree(c);
"""


@pytest.mark.parametrize(
    ("waits", "stream", "races"),
    [
        ("", "0", 0),
        ("", "free", 1),
        ("cudaSetDevice(1), cudaDeviceSynchronize(), cudaSetDevice(0);", "free", 0),
    ],
)
def test_a_copy_between_devices_in_the_default_stream_waits_for_both(
    tmp_path, monkeypatch, waits, stream, races
):
    monkeypatch.setenv("CUDASIM_GPUS", "2")
    ran = checked(tmp_path, BETWEEN_DEVICES.replace("WAITS", waits).replace("STREAM", stream))
    assert ran.stderr.count("race between streams") == races, ran.stderr
