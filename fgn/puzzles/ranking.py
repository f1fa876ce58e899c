"""How fast a right kernel is, beside the kit's own solution, the learners' initial source, and the floor.

If there is a GPU, the kernels run there and are timed, for sizes that fill it. Otherwise `cudasim.predict()`
predicts their times on a named GPU. The floor is the time in which memory moves the inputs and the outputs
once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from cudasim.counting.apart import launch
from cudasim.live.kernels import BoundLaunch, kernel
from cudasim.predicting.cards import card
from cudasim.predicting.prediction import predict
from fgn.puzzles.definition import Arrays, Sizes, Task, arrays_of, is_float
from fgn.puzzles.late import is_torch_there, torch

FLOOR, KIT, BEGUN, YOURS = "the floor", "the kit's solution", "what learners begin with", "yours"
PREDICTED_FOR = "H200"
_SQUARE = {"rows": 4096, "columns": 4096}
_PRODUCT = {"rows": 1024, "columns": 1024, "inner": 1024}
_VECTOR = {"n": 1 << 22}
_ROWS = {"rows": 16384, "columns": 1024}
_SHORT_ROWS = {"rows": 65536, "columns": 256}

# Sizes that fill a GPU, for puzzles whose launch grows with them.
LARGE: Mapping[str, Sizes] = {
    **dict.fromkeys(("guard", "vectors", "butterfly", "ballot_rank", "fix_the_mask", "fusion_tile"), _VECTOR),
    **dict.fromkeys(("coalescing", "transpose", "padding", "heat_step", "fix_the_bank_conflict"), _SQUARE),
    **dict.fromkeys(
        ("block_reduction", "warp_shuffle", "softmax_row", "welford_chan", "online_softmax"), _ROWS
    ),
    **dict.fromkeys(("warp_scan", "blelloch", "fix_the_race"), _SHORT_ROWS),
    **dict.fromkeys(("gemm_naive", "gemm_tiled", "register_tile", "double_buffer", "epilogue"), _PRODUCT),
    "convolution": {"radius": 8, "n": 1 << 22},
    "merge": {"n": 1 << 21, "m": 1 << 21},
    "group_norm_once": {"samples": 2048, "groups": 32, "size": 128},
    "group_norm_teams": {"samples": 8192, "groups": 32, "size": 32},
    "attention_row": {"queries": 4096, "keys": 512},
    "attention_tiled": {"queries": 4096, "keys": 512},
    "attention_causal": {"n": 2048},
    "mma_tile": {"row_tiles": 64, "column_tiles": 128, "steps": 128},
    "wgmma_tile": {"row_tiles": 16, "column_tiles": 16, "steps": 32},
    "cluster_norm": {"rows": 16384},
    "beat_the_budget": {"rows": 16384, "fours": 128},
    "profile_total": {"n": 1 << 20},
    "profile_scaled": {"rows": 4096, "columns": 2048},
    "profile_echoes": {"row_tiles": 8192},
    "fusion_recompute": {"row_tiles": 64, "column_tiles": 256},
}


class _Recording:
    """Replaces a kernel in a task's launch, which is noted and not run."""

    def __init__(self, source: str, name: str, found: list):
        self._kernel, self._found = kernel(source, name), found

    def __getitem__(self, where):
        bound = self._kernel[where]
        return lambda *arguments: self._found.append((bound, arguments))


def launches_of(task: Task, source: str, arrays: Mapping, sizes: Sizes) -> list[tuple[BoundLaunch, tuple]]:
    """The launches of a task's kernels, with their arguments."""
    found: list[tuple[BoundLaunch, tuple]] = []
    kernels = {name: _Recording(source, name, found) for name in (task.kernel, *task.more_kernels)}
    launch(task.launch, kernels, {**arrays, **sizes})
    return found


def large_case(task: Task, sizes: Sizes) -> tuple[Arrays, Arrays]:
    """Inputs, and zeros in the shapes of the outputs, without torch's computation of the right results."""
    inputs = task.inputs_of(sizes, 1)
    if task.in_numpy:
        right = task.right(**inputs, **sizes)
        kinds = {name: is_float(of) for name, of in right.items()}
    else:
        right = task.right(**{name: x.to("meta") for name, x in inputs.items()}, **sizes)
        kinds = {name: of.is_floating_point() for name, of in right.items()}
    outputs = {
        name: np.zeros(tuple(of.shape), np.float32 if kinds[name] else np.int32) for name, of in right.items()
    }
    return arrays_of(inputs), outputs


def has_gpu() -> bool:
    """Whether there is a GPU that torch can use; without torch nothing is measured."""
    return is_torch_there() and torch.cuda.is_available()


@dataclass(frozen=True)
class Ranking:
    """Times of a puzzle's kernels, the fastest first. where: the GPU, and whether it was present. sizes: in
    words."""

    title: str
    where: str
    sizes: str
    table: pd.DataFrame

    def _head(self) -> str:
        return f"{self.title}, for {self.sizes}, {self.where}"

    def __repr__(self) -> str:
        return f"{self._head()}\n{self.table.to_string(float_format='{:,.3g}'.format)}"

    def _repr_html_(self) -> str:
        import html

        return f"<pre>{html.escape(self._head())}</pre>{self.table.to_html(float_format='{:,.3g}'.format)}"


def _predicted(task: Task, sources: Mapping[str, str], inputs, outputs, sizes: Sizes, gpu: str):
    """Seconds by name, and the bytes per second of memory."""
    times = {
        name: sum(
            predict(bound, *arguments, gpu=gpu, seconds=1.0).seconds
            for bound, arguments in launches_of(task, source, {**inputs, **outputs}, sizes)
        )
        for name, source in sources.items()
    }
    return times, card(gpu).dram_bandwidth


def _measured(task: Task, sources: Mapping[str, str], inputs, outputs, sizes: Sizes):
    """The same on this machine's GPU. A kernel that is further from float64 than the kit's is left out."""
    from fgn.measure.benchmark import measure

    device = torch.device("cuda")
    there = {name: torch.as_tensor(x).to(device) for name, x in inputs.items()}
    if task.in_numpy:
        right = task.right(**task.exact(inputs), **sizes)
        right = {name: torch.as_tensor(of).to(device) for name, of in right.items()}
    else:
        right = task.right(**task.exact(there), **sizes)
    calls: dict[str, Callable[[], object]] = {}
    errors: dict[str, float] = {}
    for name, source in sources.items():
        results = {key: torch.as_tensor(of).to(device, copy=True) for key, of in outputs.items()}
        made = launches_of(task, source, {**there, **results}, sizes)

        def call(made=made):
            for bound, arguments in made:
                bound(*arguments)

        call()
        errors[name] = max(
            float((results[key].double() - of.double()).abs().max()) for key, of in right.items()
        )
        # The kit's order of summation is the reference; another order may have a few times its error.
        if errors[name] <= 8 * errors[KIT] + task.tolerance:
            calls[name] = call
    words = sum(x.numel() * x.element_size() for x in (*there.values(), *right.values())) // 8
    half = torch.empty(max(words, 1 << 20), device=device)
    copied = torch.empty_like(half)
    times = measure({**calls, FLOOR: lambda: copied.copy_(half)}, device, 0.2, busy_cycles=1_000_000)
    medians = {name: float(np.median(of)) * 1e-3 for name, of in times.items()}
    return medians, 8 * half.numel() / medians.pop(FLOOR)


def ranked(task: Task, source: str, sizes: Sizes | None = None, gpu: str | None = None) -> Ranking:
    """The ranking of a right kernel's source.

    sizes: by default those of `LARGE`. gpu: the card for a prediction instead of a measurement; by default it
    is measured if there is a GPU, and predicted for an H200 otherwise.
    ValueError for a puzzle without known sizes, and for a program.
    """
    from fgn.puzzles.judge import in_words

    if task.is_program:
        raise ValueError(f"{task.name} is a program: `cudasim predict` says how long its launches take")
    sizes = sizes or LARGE.get(task.name)
    names = ", ".join(f"{name}=…" for name in task.sizes[0])
    if sizes is None or sizes.keys() != task.sizes[0].keys():
        raise ValueError(f"sizes: expected {names}, large enough to fill a GPU, got {sizes or 'none'}")
    inputs, outputs = large_case(task, sizes)
    sources = {KIT: task.solution(), YOURS: source}
    if task.starts_from is not None:
        sources[BEGUN] = task.skeleton()
    moved = sum(x.nbytes for x in (*inputs.values(), *outputs.values()))
    if gpu is None and has_gpu():
        times, bandwidth = _measured(task, sources, inputs, outputs, sizes)
        where = f"measured on an {torch.cuda.get_device_name()}"
    else:
        times, bandwidth = _predicted(task, sources, inputs, outputs, sizes, gpu or PREDICTED_FOR)
        where = f"predicted for an {gpu or PREDICTED_FOR}"
    times[FLOOR] = moved / bandwidth
    rows = {
        name: {
            "µs": seconds * 1e6,
            "times the floor": seconds / times[FLOOR],
            "times the kit's": seconds / times[KIT],
        }
        for name, seconds in sorted(times.items(), key=lambda item: item[1])
    }
    return Ranking(task.title, where, in_words(sizes), pd.DataFrame.from_dict(rows, orient="index"))
