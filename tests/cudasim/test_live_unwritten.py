"""Reads of global memory that nobody has written, where `cudasim.check()` is told which memory that is."""

import functools

import pytest
import torch

import cudasim
from cudasim.live.kernels import Kernel, Program

SOURCE = """
__global__ void add(float *y, const float *x) {
    y[threadIdx.x] += x[threadIdx.x]; // reads
}
__global__ void set(float *y, float a) {
    y[threadIdx.x] = a;
}
__global__ void add_atomically(float *y) {
    atomicAdd(&y[threadIdx.x], 1.0f); // reads
}
__global__ void add_quads(float4 *y) {
    float4 v = y[threadIdx.x]; // reads
    v.x += v.y;
    y[threadIdx.x] = v;
}
__global__ void set_even_bytes(unsigned char *y) {
    y[2 * threadIdx.x] = 1;
}
__global__ void copy_byte(unsigned char *y, int from) {
    y[0] = y[from]; // reads
}
__global__ void copy_bytes(unsigned char *y) {
    memcpy(y + 8, y, 3); // reads
}
"""


@functools.cache
def program() -> Program:
    return Program(SOURCE, "unwritten.cu", (), has_warned=True)


def launch(name: str, threads: int, *arguments):
    Kernel(program(), name)[1, threads](*arguments)


def fault_of(call, *unwritten) -> cudasim.KernelFault:
    with pytest.raises(cudasim.KernelFault) as caught:
        cudasim.check(call, unwritten=unwritten)
    assert caught.value.kind == "unwritten"
    return caught.value


def test_a_sum_onto_memory_that_nobody_set():
    x, y = torch.ones(64), torch.zeros(64)
    fault = fault_of(lambda: launch("add", 64, y, x), y)
    assert (fault.index, fault.thread) == (0, (0, 0, 0)) and "reads y[0]" in str(fault)
    assert "// reads" in SOURCE.splitlines()[fault.line - 1]
    assert fault_of(lambda: launch("add", 64, y, x), x).index == 0
    cudasim.check(lambda: launch("add", 64, y, x))
    assert y.tolist() == [1.0] * 64
    assert "updates y[0]" in str(fault_of(lambda: launch("add_atomically", 64, y), y))


def test_what_an_earlier_launch_wrote_is_written():
    x, y = torch.ones(64), torch.zeros(64)

    def set_and_add(threads: int):
        launch("set", threads, y, 3.0)
        launch("add", 64, y, x)

    cudasim.check(lambda: set_and_add(64), unwritten=[y])
    assert y.tolist() == [4.0] * 64
    assert fault_of(lambda: set_and_add(40), y).index == 40
    assert fault_of(lambda: launch("add", 64, y, x), y).index == 0  # the next check knows nothing of the last


def test_each_byte_counts():
    y = torch.zeros(64, dtype=torch.uint8)

    def after_even_bytes(name: str, *more):
        launch("set_even_bytes", 32, y)
        launch(name, 1, y, *more)

    cudasim.check(lambda: after_even_bytes("copy_byte", 6), unwritten=[y])
    assert fault_of(lambda: after_even_bytes("copy_byte", 7), y).index == 7
    assert fault_of(lambda: after_even_bytes("copy_bytes"), y).index == 1
    quads = torch.zeros(64)
    fault = fault_of(lambda: (launch("set", 61, quads, 0.0), launch("add_quads", 16, quads)), quads)
    assert fault.index in (60, 61)  # gcc reads a float4 at once, clang its parts


def test_a_part_of_a_tensor_that_nobody_set():
    y = torch.zeros(128)
    x = torch.ones(64)
    cudasim.check(lambda: launch("add", 64, y[:64], x), unwritten=[y[64:]])
    assert fault_of(lambda: launch("add", 64, y[64:], x), y).index == 0


@pytest.mark.parametrize("wrong", [3, torch.zeros(2, device="meta")])
def test_wrong_arguments(wrong):
    with pytest.raises(TypeError, match=r"unwritten\[1\]: expected a CPU tensor, got"):
        cudasim.check(lambda: None, unwritten=[torch.zeros(2), wrong])
