"""A workbench for versions of one kernel: whether they are right, what they ask of memory, which is
faster."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
import pandas as pd

from cudasim.arrays import array_of, is_array, loaded_torch
from cudasim.building.library import ffi
from cudasim.live.kernels import BoundLaunch
from cudasim.predicting import machine_code
from cudasim.predicting.cards import card
from cudasim.predicting.occupancy import occupancy
from cudasim.predicting.prediction import Prediction, expect_launch, predict
from cudasim.predicting.sampling import copied

_MOST_CHECKED = 1 << 21  # threads of a launch that is run as a whole to compare its results
_REPETITIONS, _WARM_UP = 11, 2


@dataclass(frozen=True)
class Comparison:
    """The result of `compare()`. table: a row for each version, size and block. predictions: by these."""

    table: pd.DataFrame
    predictions: Mapping[tuple, Prediction]

    def __repr__(self) -> str:
        return self.table.round(2).to_string(index=False)

    def _repr_html_(self) -> str:
        return self.table.round(2).to_html(index=False)

    def plot(self):
        """A figure of the best block's time of each version over the sizes."""
        from cudasim.predicting.figures import comparison_figure

        return comparison_figure(self.table)


def _with_block(bound: BoundLaunch, block: int | None) -> BoundLaunch:
    """The launch with another one-dimensional block, and the same number of threads in all."""
    if block is None:
        return bound
    if not isinstance(block, int) or not 1 <= block <= 1024:
        raise ValueError(f"blocks: expected numbers of threads from 1 to 1024, or None, got {block!r}")
    grid, own = bound.grid, bound.block
    if not isinstance(grid, int) or not isinstance(own, int):
        raise ValueError(
            f"blocks: expected launches of one dimension, or functions of size and block that make them, got "
            f"{bound!r}"
        )
    return BoundLaunch(bound.kernel, -(-grid * own // block), block, bound.shared_bytes)


def _threads(bound: BoundLaunch) -> int:
    def product(size) -> int:
        return math.prod(size) if isinstance(size, (tuple, list)) else size

    return product(bound.grid) * product(bound.block)


def _numbers(value) -> list[np.ndarray]:
    """The contents of all arrays in a copy of the arguments, as float64, else as bytes."""
    if isinstance(value, (list, tuple, dict)):
        inside = value.values() if isinstance(value, dict) else value
        return [numbers for item in inside for numbers in _numbers(item)]
    if not is_array(value):
        return []
    array, torch = array_of(value), loaded_torch()
    data = np.frombuffer(ffi().buffer(ffi().cast("char *", array.address), array.nbytes), np.uint8).copy()
    if array.dtype in ("bfloat16", "float8_e4m3fn", "float8_e5m2") and torch is not None:
        return [torch.from_numpy(data).view(getattr(torch, array.dtype)).double().numpy()]
    dtype = np.dtype(getattr(np, array.dtype, np.uint8))
    numbers = data.view(dtype if dtype.kind in "fiubc" else np.uint8)
    return [(numbers.view(numbers.real.dtype) if dtype.kind == "c" else numbers).astype(np.float64)]


def _as_given(own, given):
    """A copy as an object of the user's kind, with the same memory."""
    if isinstance(own, (list, tuple)):
        return type(own)(map(_as_given, own, given))
    if isinstance(own, dict):
        return {name: _as_given(item, given[name]) for name, item in own.items()}
    torch = loaded_torch()
    if torch is not None and isinstance(given, torch.Tensor):
        return torch.from_numpy(own.value).view(given.dtype).as_strided(own.shape, own.strides)
    if is_array(given):
        steps = [step * own.itemsize for step in own.strides]
        return np.ndarray(own.shape, own.dtype, own.value, strides=steps)
    return own


def _difference(first: list[np.ndarray], second: list[np.ndarray]) -> float:
    """The largest difference, relative to the largest value of its array; what is NaN in one alone is far."""
    worst = 0.0
    for a, b in zip(first, second, strict=True):
        if a.size:
            scale = max(float(np.abs(b[np.isfinite(b)]).max(initial=0.0)), 1e-30)
            both = (a == b) | (np.isnan(a) & np.isnan(b))
            with np.errstate(invalid="ignore"):
                apart = np.where(both, 0.0, np.abs(a - b))
            worst = max(worst, float(np.where(np.isnan(apart), np.inf, apart).max() / scale))
    return worst


def _measured(bound: BoundLaunch, arguments: Sequence) -> float:
    """Microseconds on the arguments' GPU, from a flushed L2; NaN if they are on the CPU."""
    torch = loaded_torch()
    tensors = [a for a in arguments if torch is not None and isinstance(a, torch.Tensor)]
    if not tensors or not tensors[0].is_cuda:
        return math.nan
    times = []
    with torch.cuda.device(tensors[0].device):
        flushed = torch.empty(256 << 20, dtype=torch.uint8, device=tensors[0].device)
        for _ in range(_WARM_UP + _REPETITIONS):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(400_000)  # while the host queues what follows
            flushed.fill_(1)
            begin.record()
            bound(*arguments)
            end.record()
            torch.cuda.synchronize()
            times.append(1000 * begin.elapsed_time(end))
    return median(times[_WARM_UP:])


def compare(
    versions: Mapping[str, BoundLaunch | Callable],
    arguments: Sequence | Callable,
    *,
    sizes: Sequence = (None,),
    blocks: Sequence[int | None] = (None,),
    reference: Callable | None = None,
    gpu="H200",
    tolerance: float = 1e-4,
) -> Comparison:
    """Runs, counts and predicts versions of a kernel at each size and block, and checks that they agree.

    versions: by name, `kernel[grid, block]`, or a function of (size, block) that returns such a launch.
    arguments: of all versions, or a function of a size that returns them. sizes: None for a single one.
    blocks: threads of a block; a plain launch keeps its total number of threads, and with None its own block.
    reference: a function that writes the right results to copies of the arguments; by default the first
    version. tolerance: of the largest difference, relative to the largest value.

    If a launch has at most two million threads, it runs as a whole on the simulator, and results are
    compared; the column `right` is None for larger ones, with a warning. With arguments on a GPU the versions
    are also timed there, and `measured us` has the medians, from a flushed L2.
    """
    if not isinstance(versions, Mapping) or not versions:
        raise TypeError(f"versions: expected launches by name, got {versions!r}")
    for name, value in (("sizes", sizes), ("blocks", blocks)):
        if isinstance(value, str) or not isinstance(value, Sequence) or not value:
            raise TypeError(f"{name}: expected a list with one item at least, got {value!r}")
    if reference is not None and not callable(reference):
        raise TypeError(f"reference: expected a function, got {reference!r}")
    if not isinstance(tolerance, (int, float)) or not tolerance >= 0:
        raise ValueError(f"tolerance: expected a number that is not negative, got {tolerance!r}")
    of = card(gpu)
    rows, predictions, unchecked = [], {}, False
    for size in sizes:
        made = arguments(size) if callable(arguments) else arguments
        if not isinstance(made, (list, tuple)):
            raise TypeError(
                f"arguments: expected a list, or a function of a size that makes one, got {made!r}"
            )
        given = list(made)
        expected = None
        for name, version in versions.items():
            for block in blocks:
                is_launch = isinstance(version, BoundLaunch)
                bound = _with_block(version, block) if is_launch else version(size, block)
                if not isinstance(bound, BoundLaunch):
                    raise TypeError(f"versions[{name!r}]: expected kernel[grid, block], got {bound!r}")
                right = None
                if _threads(bound) <= _MOST_CHECKED:
                    if expected is None and reference is not None:
                        own = copied(given)
                        reference(*_as_given(own, given))
                        expected = _numbers(own)
                    own = copied(given)
                    bound(*own)
                    results = _numbers(own)
                    expected = results if expected is None else expected
                    right = _difference(results, expected) <= tolerance
                else:
                    unchecked = True
                found = predict(bound, *given, gpu=of)
                predictions[name, size, block] = found
                rows.append(_row(name, size, bound, found, right, _measured(bound, given)))
    if unchecked:
        warnings.warn(
            f"compare: launches of more than {_MOST_CHECKED:,} threads were predicted and not run as "
            "a whole, so their results are not compared",
            stacklevel=2,
        )
    return Comparison(pd.DataFrame(rows), predictions)


def _row(name: str, size, bound: BoundLaunch, found: Prediction, right: bool | None, measured: float) -> dict:
    one, sample = found.on[0], found.sample
    sums = {
        space: sum(getattr(i, what) for i in sample.instructions if i.space == space) * sample.scale
        for space, what in (("global", "sectors"), ("shared", "wavefronts"))
    }
    return {
        "version": name,
        "size": size,
        "grid": bound.grid,
        "block": bound.block,
        "right": right,
        "us": one.seconds * 1e6,
        "low": one.low * 1e6,
        "high": one.high * 1e6,
        "measured us": measured,
        "limiter": one.limiter,
        "registers": one.code.registers,
        "warps %": 100 * one.held.fraction,
        "instructions": one.terms.instructions if one.terms else math.nan,
        "sectors": sums["global"],
        "wavefronts": sums["shared"],
        "gpu": one.card.name,
    }


def occupancy_plot(launch: BoundLaunch, *arguments, gpu="H200", template=None):
    """A figure like Nsight Compute's occupancy calculator for this kernel: the part of a multiprocessor's
    warps over block size, registers and shared memory, with the launch's own values marked. MissingToolError
    without nvcc."""
    expect_launch(launch)
    of, kernel = card(gpu), launch.kernel
    instance = kernel._instance(copied(list(arguments)), template)
    code = machine_code.machine_code(kernel, instance, machine_code.architecture_for(of.capability))
    block = math.prod(launch.block) if isinstance(launch.block, (tuple, list)) else launch.block
    shared = code.shared_bytes + launch.shared_bytes

    def curve(values, at):
        return list(values), [at(value).fraction for value in values]

    blocks = curve(range(32, 1025, 32), lambda n: occupancy(of, n, code.registers, shared))
    registers = curve(range(16, 256, 8), lambda n: occupancy(of, block, n, shared))
    bytes_ = curve(range(0, of.shared_per_block + 1, 1024), lambda n: occupancy(of, block, code.registers, n))
    from cudasim.predicting.figures import occupancy_figure

    return occupancy_figure(
        {
            "threads of a block": [("", *blocks, block)],
            "registers of a thread": [("", *registers, code.registers)],
            "bytes of shared memory of a block": [("", *bytes_, shared)],
        }
    )
