"""What the counted simulator says of TMA, mbarriers, clusters and wgmma: a right ring, and mistakes in it."""

import functools
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

import cudasim
from cudasim.building.compilers import find_c_compiler, version_of
from cudasim.building.library import COUNTED_SIMULATOR, ffi
from cudasim.counting import counted

FOLDER = Path(__file__).parent / "faults"
STEPS = 4  # twice as many as the ring has stages


# A product that nobody waited for reads what has not come yet, or what comes beside it.
TOO_EARLY = ("uninitialised", "race for a stage")


class Expected(NamedTuple):
    kind: str | tuple[str, ...]
    line: str  # what stands on the line that is told
    says: tuple[str, ...] = ()


FAULTS = {
    "not_waited_until_empty": Expected(
        "mbarrier misuse", "mbarrier_arrive_expect_tx(", ("has all its 1 arrivals",)
    ),
    "told_too_early": Expected("race for a stage", "cp_async_bulk_tensor(", ("has read by the product",)),
    "wrong_parity": Expected(TOO_EARLY, "wgmma_m64n64k16", ("parity 1 and returned at once",)),
    "not_waited_until_full": Expected(TOO_EARLY, "wgmma_m64n64k16", ("multiplies",)),
    "no_proxy_fence": Expected("missing proxy fence", "wgmma_m64n64k16", ("fence.proxy.async",)),
    "no_barrier_after_stores": Expected("race for a stage", "wgmma_m64n64k16", ("has written",)),
    "sums_too_early": Expected("sums not waited for", "sum[1] *= 0.5f", ("wgmma.wait_group",)),
    "wrong_swizzle": Expected("wrong layout", "wgmma_m64n64k16", ("64 bytes", "128 bytes")),
    "wrong_atom_distance": Expected("wrong layout", "wgmma_m64n64k16", ("row 8",)),
    "too_many_bytes": Expected("deadlock", "mbarrier_wait(", ("lacks 16 bytes", "127 others")),
    "parity_never_flips": Expected("race for a stage", "wgmma_m64n64k16", ("parity 0 and returned at once",)),
    "never_told": Expected("deadlock", "mbarrier_wait(", ("lacks 1 of 1 arrivals", "lacks")),
    # A race with the producer, which already waits for it; a misuse if that one comes later.
    "barrier_overwritten": Expected(("mbarrier misuse", "race"), "empty"),
    "not_initialised": Expected("mbarrier misuse", "mbarrier_wait(", ("initialised",)),
    "exits_early": Expected("block has exited", "ld_shared_cluster_v4", ("block 1",)),
    "read_by_threads_too_early": Expected("race for a stage", "sum[0] += ring->x", ("reads",)),
}
NUMBERS = {name: number + 1 for number, name in enumerate(FAULTS)}


@functools.cache
def rings():
    library = COUNTED_SIMULATOR.with_kernels("rings", "rings with mistakes", ("ring.cu",), FOLDER)
    declarations = (
        "int launch_ring(int mistake, const void *x, const void *w, float *y, int steps);"
        "int launch_exchange(int mistake, float *y);"
    )
    ffi().cdef(declarations, override=True)
    return library.load()


def run(mistake: int, seed: int = 0, exchange: bool = False):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(64, 64 * STEPS, generator=generator).bfloat16()
    w = torch.randn(64, 64 * STEPS, generator=generator).bfloat16()
    y = torch.zeros(64, 64)
    counted.allow(x=x, w=w, y=y)
    pointers = [ffi().cast("void *", t.data_ptr()) for t in (x, w)]
    to = ffi().cast("float *", y.data_ptr())
    library = rings()
    failed = (
        library.launch_exchange(mistake, to)
        if exchange
        else library.launch_ring(mistake, *pointers, to, STEPS)
    )
    if failed:
        raise counted.fault(COUNTED_SIMULATOR.load())
    return x, w, y


@pytest.mark.simulator
@pytest.mark.parametrize("seed", range(3))
def test_the_right_ring_is_right_and_has_no_fault(seed):
    x, w, y = cudasim.check(lambda: run(0, seed))
    exact = x.double() @ w.double().T
    assert ((y - exact).norm() / exact.norm()).item() < 1e-6


@pytest.mark.simulator
def test_the_right_exchange_is_right_and_has_no_fault():
    _, _, y = cudasim.check(lambda: run(0, exchange=True))
    assert y[0, :2].tolist() == [1.0, 0.0]


@pytest.mark.simulator
@pytest.mark.parametrize("name", FAULTS)
def test_mistake_is_told(name):
    if name == "sums_too_early" and version_of(find_c_compiler())[0] == "clang":
        pytest.skip("clang does not report accesses to an array of the thread's own (docs/limits.md)")
    expected = FAULTS[name]
    with pytest.raises(cudasim.KernelFault) as caught:
        cudasim.check(lambda: run(NUMBERS[name], exchange=name == "exits_early"))
    fault = caught.value
    lines = (FOLDER / "ring.cu").read_text().splitlines()
    kinds = expected.kind if isinstance(expected.kind, tuple) else (expected.kind,)
    assert fault.kind in kinds, str(fault)
    assert fault.thread is not None and fault.block is not None
    assert Path(fault.file).name == "ring.cu" and expected.line in lines[fault.line - 1], str(fault)
    for text in expected.says:
        assert text in str(fault), str(fault)


@pytest.mark.simulator
def test_products_and_copies_are_counted_as_ncu_counts_them():
    """By launches.csv of an H200 wgmma reads 32 bytes of each row of both tiles."""
    frame = cudasim.count(lambda: run(0))
    launch = frame.iloc[0]
    assert launch.products == 4 * STEPS
    assert launch["smsp__sass_data_bytes_mem_shared_op_gmma.sum"] == 4 * STEPS * (64 + 64) * 32
    assert (launch.tensor_copies, launch.tensor_bytes) == (2 * STEPS, 2 * STEPS * 64 * 128)
