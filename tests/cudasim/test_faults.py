"""Each checker of the counted simulator: what it stops, and what it tells of it."""

import functools
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

import cudasim
from cudasim.building.library import COUNTED_SIMULATOR, ffi
from cudasim.counting import counted

FOLDER = Path(__file__).parent / "faults"


class Expected(NamedTuple):
    kind: str
    text: str  # on the line that is told
    blocks: int = 1
    threads: int = 32
    index: int | None = None
    other_text: str | None = None  # on the other's line


SCALE = """
__global__ void scale(float *y, const float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = 2 * x[i];
}
"""

FAULTS = {
    "reads_beyond": Expected("out of bounds", "a.n - 31", index=64),
    "reads_misaligned": Expected("misaligned", "float4 four", index=1),
    "leaves_shared_array": Expected("out of bounds", "tile[threadIdx.x + 1] = ", index=32),
    "reads_uninitialised": Expected("uninitialised", "= tile[threadIdx.x + 1]", index=32),
    "races": Expected("race", "tile[", threads=64, other_text="tile["),
    "misses_barrier": Expected("barrier divergence", "__syncthreads"),
    "waits_for_a_lane_that_has_left": Expected("missing lane", "__shfl_down_sync"),
    "reads_what_another_block_writes": Expected("race between blocks", "a.x[", blocks=2, other_text="a.x["),
}


@functools.cache
def faulty():
    library = COUNTED_SIMULATOR.with_kernels("faults", "broken kernels", ("faults.cu",), FOLDER)
    ffi().cdef("int launch_fault(int number, int blocks, int threads, float *x, int n);", override=True)
    return library.load()


def call(name: str, x: torch.Tensor):
    library, expected = faulty(), FAULTS[name]
    counted.allow(x=x)
    pointer = ffi().cast("float *", x.data_ptr())
    number = list(FAULTS).index(name)
    if library.launch_fault(number, expected.blocks, expected.threads, pointer, x.numel()):
        raise counted.fault(COUNTED_SIMULATOR.load())


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_told(name):
    expected = FAULTS[name]
    with pytest.raises(cudasim.KernelFault) as caught:
        cudasim.check(lambda: call(name, torch.zeros(64)))
    fault = caught.value
    assert (fault.kind, fault.kernel) == (expected.kind, name)
    assert fault.block is not None and fault.thread is not None
    lines = (FOLDER / "faults.cu").read_text().splitlines()
    assert Path(fault.file).name == "faults.cu" and expected.text in lines[fault.line - 1]
    if expected.index is not None:
        assert fault.index == expected.index
    if expected.other_text is not None:
        assert fault.other_block is not None and fault.other_thread is not None
        assert (fault.block, fault.thread) != (fault.other_block, fault.other_thread)
        assert expected.other_text in lines[fault.other_line - 1]
    for part in (name, f"faults.cu:{fault.line}", "thread ("):
        assert part in str(fault)


def test_the_process_goes_on_after_every_fault():
    for name in FAULTS:
        for _ in range(3):
            with pytest.raises(cudasim.KernelFault):
                cudasim.check(lambda name=name: call(name, torch.zeros(64)))
    x, y = torch.rand(1000), torch.empty(1000)
    scale = cudasim.kernel(SCALE)
    cudasim.check(lambda: scale[4, 256](y, x, 1000))
    assert torch.equal(y, 2 * x)
