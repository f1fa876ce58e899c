"""A sample of a launch's blocks: what they ask of the caches, and how often their warps come to each line.

A launch of millions of threads takes the simulator minutes; some of its blocks take seconds, and represent
all of them if blocks resemble each other. Blocks are drawn in small neighbourhoods spread over the grid:
neighbours show how much of memory they share, and the spread shows how much blocks differ.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real

import numpy as np

from cudasim.arrays import Array, array_of, is_array
from cudasim.building.library import COUNTED_SIMULATOR, ffi
from cudasim.counting.counted import BasicBlock, Instruction, Launch, recording
from cudasim.counting.faults import KernelFault
from cudasim.counting.places import Place
from cudasim.live.kernels import BoundLaunch
from cudasim.live.tensor_maps import TensorMap
from cudasim.live.textures import Texture

SECTOR_BYTES = 32
READ, WRITTEN, UPDATED, SHIFT = map(np.uint64, (1, 2, 4, 3))  # of what a counted_block has
_ALIGNMENT = 256  # as the CUDA runtime and torch align what they allocate
_SECONDS = 4.0  # of simulating, about
_STEPS_A_SECOND = 12e6  # accesses and basic blocks of threads, on two cores, about
_MOST_BLOCKS = 512
_RUN = 4  # blocks that follow each other along an axis in a neighbourhood


# ------------------------------------------------------------------------------------------------------------
# Arguments


def copied(value, made: dict | None = None):
    """An argument with its memory copied to the CPU, aligned as on a GPU, which hides a sample's writes.
    Arguments with the same memory share a copy."""
    made = {} if made is None else made
    if isinstance(value, (Texture, TensorMap)):
        return replace(value, tensor=copied(value.tensor, made))
    if isinstance(value, (list, tuple)):
        return type(value)(copied(item, made) for item in value)
    if isinstance(value, dict):
        return {name: copied(item, made) for name, item in value.items()}
    if not is_array(value):
        return value
    array = array_of(value)
    key = (array.address, array.nbytes, array.dtype)
    if key not in made:
        source = array if array.device == "cpu" else array_of(value.detach().cpu())
        memory = np.empty(source.nbytes + _ALIGNMENT, np.uint8)
        begin = -memory.ctypes.data % _ALIGNMENT
        own = memory[begin : begin + source.nbytes]
        if source.nbytes:
            own[:] = np.frombuffer(
                ffi().buffer(ffi().cast("char *", source.address), source.nbytes), np.uint8
            )
        made[key] = own
    own = made[key]
    return Array(own, own.ctypes.data, array.shape, array.strides, array.dtype, array.itemsize)


# ------------------------------------------------------------------------------------------------------------
# Which blocks


def _number(index: Sequence[int], grid: Sequence[int]) -> int:
    return (index[2] * grid[1] + index[1]) * grid[0] + index[0]


def _neighbourhood(number: int, grid: tuple[int, int, int], cluster: int) -> list[int]:
    """A block and the next ones along each axis of the grid, if they exist."""
    x, y, z = number % grid[0], number // grid[0] % grid[1], number // grid[0] // grid[1]
    blocks = []
    for axis in range(3):
        run = min(_RUN, grid[axis])
        index = [x, y, z]
        index[axis] = min(index[axis], grid[axis] - run)
        for step in range(run):
            at = list(index)
            at[axis] += step
            first = _number(at, grid) // cluster * cluster
            blocks += range(first, first + cluster)
    return blocks


def chosen_blocks(grid: tuple[int, int, int], most: int, cluster: int = 1) -> list[int]:
    """About `most` blocks of the grid, by ascending number: all if there are no more; else neighbourhoods at
    equal distances."""
    total = math.prod(grid)
    if total <= most:
        return list(range(total))
    chosen: set[int] = set()
    size = max(1, len(set(_neighbourhood(total // 2, grid, cluster))))
    if size > most:
        return list(
            range(total // 2 // cluster * cluster, total // 2 // cluster * cluster + max(cluster, most))
        )
    places = max(1, most // size)
    for place in range(places):
        chosen |= set(_neighbourhood(int((place + 0.5) * total / places), grid, cluster))
    return sorted(chosen)


# ------------------------------------------------------------------------------------------------------------
# The sample


@dataclass(frozen=True)
class Sample:
    """The counts of some blocks of a launch. launches: of the simulator, with their blocks. blocks: in the
    whole grid. seconds: the time it took. names: of the arguments' memory: name, begin, end.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared_bytes: int
    launches: tuple[Launch, ...]
    memory: tuple[tuple[str, int, int], ...]
    seconds: float

    @property
    def total(self) -> int:
        return math.prod(self.grid)

    @cached_property
    def blocks(self) -> dict[int, np.ndarray]:
        return {number: sectors for launch in self.launches for number, sectors in launch.blocks}

    @property
    def scale(self) -> float:
        """The factor from the sample's counts to the launch's."""
        ran = sum(len(launch.blocks) for launch in self.launches)
        return self.total / ran

    @property
    def is_whole(self) -> bool:
        return len(self.blocks) == self.total

    @property
    def threads(self) -> int:
        return math.prod(self.block)

    @property
    def warps(self) -> int:
        """Of a block."""
        return (self.threads + 31) // 32

    @cached_property
    def instructions(self) -> list[Instruction]:
        """Loads, stores and atomics of all launches together."""
        numbers = (
            "requests",
            "threads",
            "addresses",
            "sectors",
            "wavefronts",
            "phases",
            "lines",
            "missed",
            "waits",
            "first_requests",
            "first_waits",
            "wavefronts_of_8",
            "wavefronts_of_16",
        )
        found: dict[tuple, Instruction] = {}
        for launch in self.launches:
            for index, one in enumerate(launch.instructions):
                key = (one.place, one.place.callers, one.space, one.operation, one.bytes, index)
                key = key[:5] if len(self.launches) > 1 else key
                if key in found:
                    sums = {name: getattr(found[key], name) + getattr(one, name) for name in numbers}
                    found[key] = replace(found[key], **sums)
                else:
                    found[key] = one
        return list(found.values())

    @cached_property
    def passed(self) -> dict[Place, BasicBlock]:
        """By line, how often warps and threads ran the line's most frequent basic block."""
        found: dict[Place, BasicBlock] = {}
        for launch in self.launches:
            of_launch: dict[Place, BasicBlock] = {}
            for one in launch.basic_blocks:
                before = of_launch.get(one.place)
                if before is None or before.warps < one.warps:
                    of_launch[one.place] = one
            for place, one in of_launch.items():
                if place in found:
                    before = found[place]
                    one = BasicBlock(
                        place,
                        before.warps + one.warps,
                        before.threads + one.threads,
                        before.slowest + one.slowest,
                        max(before.most, one.most),
                    )
                found[place] = one
        return found

    @property
    def barriers(self) -> int:
        return sum(launch.barriers for launch in self.launches)

    @property
    def warp_operations(self) -> int:
        return sum(launch.warp_operations for launch in self.launches)


@contextmanager
def only(*blocks: Sequence[int] | None) -> Iterator[None]:
    """In this context launches of this OS thread run only these blocks: each launch the next list, later ones
    the last list. None: all blocks."""
    library = COUNTED_SIMULATOR.load()
    lists = [of for of in blocks if of]
    numbers = ffi().new("unsigned long long[]", [number for of in lists for number in of] or [0])
    counts = ffi().new("unsigned long long[]", [len(of) for of in lists] or [0])
    library.sim_choose_blocks(numbers, counts, len(lists))
    try:
        yield
    finally:
        library.sim_choose_blocks(ffi().NULL, ffi().NULL, 0)


def _run(bound: BoundLaunch, arguments, keywords, blocks, l1_bytes: int) -> Launch:
    with only(blocks), recording(l1_bytes=l1_bytes) as launches:
        bound(*arguments, **keywords)
    return launches[0]


def _steps(launch: Launch) -> int:
    """Accesses and basic blocks of the launch's threads."""
    accesses = sum(one.threads for one in launch.instructions)
    return accesses + sum(one.threads for one in launch.basic_blocks)


def expect_seconds(seconds: float):
    """TypeError or ValueError if it is no time that the simulator may take."""
    if isinstance(seconds, bool) or not isinstance(seconds, Real):
        raise TypeError(f"seconds: expected a number, got {type(seconds).__name__} {seconds!r}")
    if not seconds > 0:
        raise ValueError(f"seconds: expected more than 0, got {seconds}")


def most_blocks(first: Launch, cluster: int, seconds: float) -> int:
    """How many blocks of a launch take about this many seconds, by its first cluster's counts."""
    return int(min(_MOST_BLOCKS, seconds * _STEPS_A_SECOND / max(1, _steps(first) / cluster)))


def compile_for_samples(bound: BoundLaunch, arguments: Sequence, template=None):
    with recording(l1_bytes=1):
        bound.kernel._program.load("cpu", bound.kernel._instance(arguments, template))


def take_sample(
    bound: BoundLaunch,
    arguments: Sequence,
    l1_bytes: int,
    cluster: int = 1,
    seconds: float = _SECONDS,
    **keywords,
) -> Sample:
    """Runs blocks of the launch on the simulator for about this many seconds, on copies of its arguments.

    l1_bytes: of a block's own L1 cache. cluster: blocks of a cluster. KernelFault as from `cudasim.check()`;
    if a block waits for one outside the sample, all blocks run.
    """
    own = copied(list(arguments))
    grid, total = _triple(bound.grid), math.prod(_triple(bound.grid))
    compile_for_samples(bound, own, keywords.get("template"))
    launches, began = [], time.perf_counter()
    middle = total // 2 // cluster * cluster
    first = list(range(middle, middle + cluster))
    try:
        launches.append(_run(bound, own, keywords, first if total > cluster else None, l1_bytes))
        # By the first block's counts and not its time, so that the same launch has the same sample.
        most = most_blocks(launches[0], cluster, seconds)
        if total > cluster and most > cluster:
            launches = [_run(bound, own, keywords, chosen_blocks(grid, most, cluster), l1_bytes)]
    except KernelFault as fault:
        if total <= cluster or not _waits(fault):
            raise
        own = copied(list(arguments))
        launches = [_run(bound, own, keywords, None, l1_bytes)]
    launch = launches[0]
    return Sample(
        launch.kernel,
        launch.grid,
        launch.block,
        launch.dynamic_shared_bytes,
        tuple(launches),
        tuple(_memory(own, bound)),
        time.perf_counter() - began,
    )


def _triple(size) -> tuple[int, int, int]:
    sizes = tuple(size) if isinstance(size, (tuple, list)) else (size,)
    return (*map(int, sizes), 1, 1)[:3]


def _waits(fault: KernelFault) -> bool:
    """Whether a thread waited in vain, perhaps for another block."""
    said = str(fault)
    return any(word in said for word in ("wait", "deadlock", "never", "spin"))


def _memory(arguments, bound: BoundLaunch) -> Iterator[tuple[str, int, int]]:
    """The arguments' memory, by the names of their parameters."""
    parameters = bound.kernel._signature.parameters
    for parameter, argument in zip(parameters, arguments, strict=True):
        for array in _arrays(argument):
            yield parameter.name, array.address, array.address + array.nbytes


def _arrays(argument) -> Iterator[Array]:
    if isinstance(argument, (Texture, TensorMap)):
        yield argument.memory
    elif is_array(argument):
        yield array_of(argument)
    elif isinstance(argument, dict):
        for value in argument.values():
            yield from _arrays(value)
    elif isinstance(argument, (list, tuple)):
        for value in argument:
            yield from _arrays(value)
