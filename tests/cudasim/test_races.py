"""What is a race and what is not, by the model of cudasim/docs/memory_model.md, and faults beside races."""

import functools
import re
import threading
import warnings
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

import cudasim
from cudasim.building.compilers import find_c_compiler, version_of
from cudasim.building.library import COUNTED_SIMULATOR, ffi
from cudasim.building.toolchains import ONLY_CHECKED_FLAGS
from cudasim.counting import counted

FOLDER = Path(__file__).resolve().parent / "faults"


class Case(NamedTuple):
    kind: str | None  # None: no fault
    blocks: int = 1
    text: str = ""  # on the line that is told
    other_text: str = ""  # on the other's


RACE, BLOCK_RACE = "race", "race between blocks"
CASES = {
    "reads_what_a_lane_writes": Case(RACE, 1, "a.a[i] = i * i", "a.a[63 - i]"),
    "adds_without_atomic": Case(RACE, 1, "a.a[0] += 1", "a.a[0] += 1"),
    "blocks_write_one_word": Case(BLOCK_RACE, 2, "= (int)blockIdx.x", "= (int)blockIdx.x"),
    "block_reads_what_another_writes": Case(BLOCK_RACE, 2, "a.a[", "a.a["),
    "reads_after_an_atomic": Case(RACE, 1, "a.a[0]", "a.a[0]"),
    "writes_after_an_atomic": Case(RACE, 1, "a.a[0] = 7", "atomicAdd"),
    "blocks_share_a_variable": Case(BLOCK_RACE, 2, "total += a.n", "total += a.n"),
    "last_block_without_fence": Case(BLOCK_RACE, 2, "a.a[", "a.a["),
    "fence_for_the_block_only": Case(BLOCK_RACE, 2, "a.a[1] = a.a[0]", "a.a[0] = 1"),
    "volatile_shared_in_step": Case(RACE, 1, "sums[", "sums["),
    "meets_with_too_few": Case(RACE, 1, "values[", "values["),
    "writes_what_all_read": Case(RACE, 1, "a.a[0] = 3", "= a.a[0]"),
    "halves_of_words": Case(RACE, 1, "bytes[", "bytes["),
    "right_last_block": Case(None, 2),
    "right_last_block_resets": Case(None, 64),
    "right_volatile_flag": Case(None, 3),
    "right_lock": Case(None, 4),
    "right_grid_barrier": Case(None, 2),
    "right_warp_sync": Case(None),
    "right_volatile_in_block": Case(None),
    "right_bytes": Case(None, 2),
    "right_early_return": Case(None),
    "right_two_barriers": Case(None),
    "two_barriers_in_a_warp": Case("barrier divergence", 1, "__syncthreads()"),
    "shuffles_from_outside_the_mask": Case("shuffle source", 1, "__shfl_down_sync"),
    "writes_a_constant": Case("out of bounds", 1, "limits[a.n % 4] = 1"),
    "too_much_shared_memory": Case("invalid launch"),
    "overruns_a_local_array": Case("out of bounds", 1, "p[i] = i"),
    "overruns_into_its_neighbour": Case("out of bounds", 1, "p[threadIdx.x + 8] = 2"),
}


@functools.cache
def racing():
    def toolchain():
        base = COUNTED_SIMULATOR.toolchain()
        return replace(base, flags=(*base.flags, *ONLY_CHECKED_FLAGS))

    library = COUNTED_SIMULATOR.with_kernels(
        "races", "racing kernels", ("races.cu",), FOLDER, toolchain=toolchain
    )
    declaration = "int launch_race(const char *name, int blocks, int threads, int *a, int *b, int n);"
    ffi().cdef(declaration, override=True)
    return library.load()


def launch(name: str):
    a = torch.zeros(512, dtype=torch.uint8 if "bytes" in name or "halves" in name else torch.int32)
    b = torch.zeros(64, dtype=torch.int32)
    library = racing()
    counted.allow(a=a, b=b)
    try:
        pointers = [ffi().cast("int *", each.data_ptr()) for each in (a, b)]
        if library.launch_race(name.encode(), CASES[name].blocks, 64, *pointers, 300):
            raise counted.fault(COUNTED_SIMULATOR.load())
    finally:
        counted.forbid_all()


@pytest.mark.parametrize("name", CASES)
def test_case(name):
    if name.startswith("overruns_") and version_of(find_c_compiler())[0] == "clang":
        pytest.skip("clang does not follow a pointer to the array that it leaves (docs/limits.md)")
    case = CASES[name]
    if case.kind is None:
        for _ in range(3):
            cudasim.check(lambda: launch(name))
        return
    with pytest.raises(cudasim.KernelFault) as caught, warnings.catch_warnings():
        warnings.simplefilter("ignore", cudasim.KernelWarning)
        cudasim.check(lambda: launch(name))
    fault = caught.value
    assert (fault.kind, fault.kernel) == (case.kind, name)
    assert fault.block is not None and fault.thread is not None
    lines = (FOLDER / "races.cu").read_text().splitlines()
    if case.text:
        assert Path(fault.file).name == "races.cu" and case.text in lines[fault.line - 1]
    if case.other_text:
        assert case.other_text in lines[fault.other_line - 1]
        assert (fault.block, fault.thread) != (fault.other_block, fault.other_thread)
        assert " at 0x" in str(fault) or re.search(r"\[\d+\], byte \d+ of it", str(fault))


def test_the_block_that_counts_last_may_reset_the_counter_whichever_the_checker_saw_last(monkeypatch):
    """Of two OS threads the one whose atomic the checker sees first may be the later one in memory."""
    monkeypatch.setenv("CUDASIM_THREADS", "8")
    for _ in range(500):
        cudasim.check(lambda: launch("right_last_block_resets"))


def test_who_relies_on_lanes_in_step_reads_which_rule_says_no():
    with pytest.raises(cudasim.KernelFault) as caught:
        cudasim.check(lambda: launch("volatile_shared_in_step"))
    told = (
        r"it at .*races\.cu:\d+\. volatile does not order lanes of a warp: .*Programming Guide, Independent "
    )
    assert re.search(told + r"Thread Scheduling\)\. Write __syncwarp\(\) between", str(caught.value))


def test_the_same_value_is_a_warning():
    CASES["writes_the_same_value"] = Case(None)
    with pytest.warns(cudasim.KernelWarning, match="wrote the same value at .*races.cu"):
        cudasim.check(lambda: launch("writes_the_same_value"))


def test_threads_get_their_own_faults():
    names = ["right_warp_sync", "adds_without_atomic", "right_grid_barrier", "writes_after_an_atomic"]
    kinds = {}

    def check(name: str):
        try:
            for _ in range(20):
                kinds[name] = None
                cudasim.check(lambda: launch(name))
        except cudasim.KernelFault as fault:
            kinds[name] = (fault.kind, fault.kernel)

    threads = [threading.Thread(target=check, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert kinds == {name: CASES[name].kind and (CASES[name].kind, name) for name in names}
