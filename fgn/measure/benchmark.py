"""Times: every version beside torch eager, torch.compile and the bare F.linear, in one run.

On a GPU a time is between two CUDA events around one call. Just before each call the GPU writes a buffer much
larger than the L2 cache, so the call finds none of its inputs there; meanwhile the host queues the call. On
the CPU a time is the host's; for fgn's versions it is the *simulator's* time, which says nothing about a GPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from tqdm.auto import tqdm

from fgn.chains import BENCHMARK_BATCH, BENCHMARK_FEATURES, CHAINS, Chain, Shape, find, problem, random_inputs
from fgn.functional import PRODUCT, chain_forward, default_version, launch_count, linear, prepares
from fgn.ladder import default_device
from fgn.ladder import versions as version_frame
from fgn.native import prepared
from fgn.native.library import version_names
from fgn.precision import PRECISIONS, torch_precision
from fgn.reference import chain_reference

EAGER, COMPILED, F_LINEAR = "torch eager", "torch.compile", "F.linear"
RIVALS = [EAGER, COMPILED, F_LINEAR]

PROBLEM_COLUMNS = ["chain", "batch", "in_features", "out_features", "groups", "precision"]
COLUMNS = (
    *(*PROBLEM_COLUMNS, "device", "part", "subject"),
    *("median_ms", "min_ms", "p10_ms", "p90_ms", "count", "note"),
)

# The shapes that `python -m fgn bench --all` measures on a GPU: the benchmark's own, the same weights for a
# small batch, two narrow layers, and one so small that launches matter. A shape without groups takes the
# chain's own.
RECORDED_SHAPES = (
    (BENCHMARK_BATCH, BENCHMARK_FEATURES, BENCHMARK_FEATURES),
    (16, BENCHMARK_FEATURES, BENCHMARK_FEATURES),
    (16384, 1024, 1024, 32),
    (65536, 512, 512, 32),
    (128, 512, 1024, 8),
)


# What `python -m fgn bench --precisions` measures on a GPU, in every precision and for versions on tensor
# cores: the shapes above and one more, and one of the chains for other batches.
PRECISION_SHAPES = (*RECORDED_SHAPES[:1], *RECORDED_SHAPES[2:], (32768, 1024, 4096, 64))
PRECISION_BATCHES = (1, 4, 16, 64, 4096, 16384)
CHAIN_OF_BATCHES = "gemm_biasadd_hardtanh_mish_groupnorm"


class Subject(NamedTuple):
    """What is timed: a part of the work ("chain", "linear", or "cold": the chain with nothing prepared), its
    version or rival, and a call without arguments."""

    part: str
    name: str
    call: Callable[[], object]


# A GPU's third call may wait for its kernel to be compiled (fgn/native/jit.py); the last one is a call like
# those that are timed.
WARM_UPS = {"cuda": 4, "cpu": 2}


class _CudaTimer:
    def __init__(self, device: torch.device, busy_cycles: int = 0):
        cache = torch.cuda.get_device_properties(device).L2_cache_size
        self._flush = torch.empty(16 * cache, dtype=torch.uint8, device=device)
        self._busy_cycles = busy_cycles
        self._pending = []

    def start(self, call, times: list[float]):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        if self._busy_cycles:
            torch.cuda._sleep(self._busy_cycles)
        self._flush.zero_()
        begin.record()
        call()
        end.record()
        self._pending.append((begin, end, times))

    def finish(self):
        """Waits for the calls since its last call, and notes their times in ms."""
        # torch.cuda.synchronize() would not let Ctrl-C through before the GPU has ended.
        ended = torch.cuda.Event()
        ended.record()
        while not ended.query():
            time.sleep(1e-4)
        for begin, end, times in self._pending:
            times.append(begin.elapsed_time(end))
        self._pending.clear()


class _CpuTimer:
    def start(self, call, times: list[float]):
        begin = time.perf_counter()
        call()
        times.append((time.perf_counter() - begin) * 1e3)

    def finish(self):
        pass


def measure(
    calls: dict[str, Callable[[], object]],
    device: torch.device,
    seconds: float = 1.0,
    at_most: int = 100,
    progress: str | None = None,
    busy_cycles: int = 0,
) -> dict[str, list[float]]:
    """The times of each call, in ms.

    Each call is warmed up first, and is then timed for about `seconds` s, at least 5 times and at most
    `at_most` times. The calls take turns, so that a drifting clock affects all of them alike. busy_cycles:
    the number of clocks for which the GPU is kept busy before each call, while the host queues its launches.
    """
    with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
        timer = _CudaTimer(device, busy_cycles) if device.type == "cuda" else _CpuTimer()
        counts = {}
        for name, call in calls.items():
            trial = []
            for _ in range(WARM_UPS[device.type]):
                timer.start(call, trial)
                timer.finish()
            counts[name] = int(np.clip(seconds / (trial[-1] * 1e-3), 5, at_most))
        times = {name: [] for name in calls}
        rounds = max(counts.values())
        for done in tqdm(range(1, rounds + 1), progress, leave=False, unit="round", disable=progress is None):
            for name, call in calls.items():
                # A slow call is spread over all the rounds rather than crowded into the first.
                if done * counts[name] // rounds > (done - 1) * counts[name] // rounds:
                    timer.start(call, times[name])
            timer.finish()
    return times


def summarise(times: list[float]) -> dict[str, float]:
    """Median, minimum, 10th and 90th percentiles of times in ms, and their count."""
    low, median, high = np.percentile(times, (10, 50, 90))
    return {"median_ms": median, "min_ms": min(times), "p10_ms": low, "p90_ms": high, "count": len(times)}


def time_call(call: Callable[[], object], device=None, seconds: float = 1.0) -> pd.Series:
    """The times of a call in ms, measured as by `fgn.bench()`: median, min, p10, p90 and count.

    device: where it runs; by default the GPU, if any.
    """
    device = default_device() if device is None else torch.device(device)
    return pd.Series(summarise(measure({"call": call}, device, seconds)["call"]))


def product_versions(shape, precision: str, device: torch.device) -> list[str]:
    """The versions whose matrix product runs: shape is (batch, in_features, out_features)."""
    shape, names = Shape(*shape, groups=0), version_names(device.type)
    return [name for name in names if launch_count(PRODUCT, shape, name, device, precision) is not None]


def _cold(*arguments):
    with prepared.nothing_kept():
        chain_forward(*arguments)


def _subjects(chain: Chain, x, parameters, versions: pd.DataFrame, rivals, precision) -> list[Subject]:
    weight, bias = parameters["weight"], parameters["bias"]
    subjects = []
    for name in versions.name[versions.supported]:
        arguments = (chain, x, parameters, name, precision)
        subjects.append(Subject("chain", name, lambda arguments=arguments: chain_forward(*arguments)))
        if prepares(chain, Shape(*x.shape, weight.shape[0], chain.groups), name, x.device, precision):
            subjects.append(Subject("cold", name, lambda arguments=arguments: _cold(*arguments)))
    # Versions that share a matrix product are timed once, under the first one's name.
    shape = (*x.shape, weight.shape[0])
    products = versions[versions.name.isin(product_versions(shape, precision, x.device))]
    for name in products.drop_duplicates("gemm").name:
        arguments = (x, weight, bias, name, precision)
        subjects.append(Subject("linear", name, lambda arguments=arguments: linear(*arguments)))
    if EAGER in rivals:
        subjects.append(Subject("chain", EAGER, lambda: chain_reference(chain, x, parameters)))
    if COMPILED in rivals:
        # Without a reset, torch would stop compiling after a few problems and silently run eagerly.
        torch.compiler.reset()
        compiled = torch.compile(lambda x, parameters: chain_reference(chain, x, parameters), dynamic=False)
        subjects.append(Subject("chain", COMPILED, lambda: compiled(x, parameters)))
    if F_LINEAR in rivals:
        subjects.append(Subject("linear", F_LINEAR, lambda: F.linear(x, weight, bias)))
    return subjects


def bench(
    chain,
    shape=None,
    *,
    versions=None,
    rivals=None,
    device=None,
    seconds: float = 1.0,
    at_most: int = 100,
    seed: int = 0,
    progress: bool = True,
    precision: str = "ieee",
) -> pd.DataFrame:
    """The times of a chain's versions and of torch, in one run, on the same random inputs.

    chain, shape, device: as in `fgn.compare()`. versions: names; by default all. precision: one of
    `fgn.precision.PRECISIONS`, torch's too.
    rivals: some of `RIVALS`; by default all on a GPU, and on the CPU those without compilation. seconds,
    at_most: how long and how often each subject is timed, see `measure()`.

    One row per subject: chain, batch, in_features, out_features, groups, precision, device; part ("chain" is
    all of it, "linear" the matrix product alone, "cold" the chain with the preparation of its weight, which
    other calls find done); subject (a version or one of `RIVALS`); median_ms, min_ms,
    p10_ms, p90_ms, count; note ("simulator" if the time is the simulator's; the reason if there is no time).
    """
    device = torch.device(device) if device is not None else default_device()
    chain, shape = problem(chain, shape, device)
    x, parameters = random_inputs(chain, shape, device, seed, PRECISIONS[precision].dtype)
    table = version_frame(chain, shape, device, precision)
    versions = list(table.name if versions is None else versions)
    if rivals is None:
        rivals = RIVALS if device.type == "cuda" else (EAGER, F_LINEAR)
    for argument, names, known in (("versions", versions, list(table.name)), ("rivals", rivals, RIVALS)):
        unknown = [name for name in names if name not in known]
        if unknown:
            raise ValueError(f"{argument}: expected some of {', '.join(known)}, got {unknown[0]!r}")
    table = table[table.name.isin(versions)]

    with torch.no_grad(), torch_precision(precision):
        calls, failures = {}, []
        for subject in _subjects(chain, x, parameters, table, rivals, precision):
            try:
                subject.call()
                calls[subject[:2]] = subject.call
            except Exception as error:
                failures.append((subject, error))
        label = f"{chain.name} {'x'.join(map(str, shape[:3]))} {precision}"
        times = measure(calls, device, seconds, at_most, label if progress else None)

    def row(part: str, name: str, note: str, **summary) -> dict:
        where = {"chain": chain.name, **shape._asdict(), "precision": precision, "device": device.type}
        return where | {"part": part, "subject": name, **summary, "note": note}

    simulated = "simulator" if device.type == "cpu" else ""
    rows = [
        row(part, name, "" if name in RIVALS else simulated, **summarise(values))
        for (part, name), values in times.items()
    ]
    for refused in table[~table.supported].itertuples():
        rows.append(row("chain", refused.name, f"needs {refused.needs}"))
    for subject, error in failures:
        rows.append(row(subject.part, subject.name, f"failed: {str(error).strip().splitlines()[0]}"))
    return pd.DataFrame(rows, columns=COLUMNS).astype({"count": "Int64"})


# Sizes that every version multiplies in all of its precisions.
_ANY_PRODUCT = (64, 128, 128)


def ordinary_versions(device=None) -> list[str]:
    """The versions that run on this device and do not multiply in tensor cores."""
    device = torch.device(device) if device is not None else default_device()
    tensor = tensor_core_versions(device)
    return [name for name in product_versions(_ANY_PRODUCT, "ieee", device) if name not in tensor]


def tensor_core_versions(device=None) -> list[str]:
    """The versions that multiply in tensor cores on this device: those that know 16-bit tensors."""
    device = torch.device(device) if device is not None else default_device()
    return product_versions(_ANY_PRODUCT, "bf16", device)


def bench_all(device=None, progress: bool = True, **options) -> pd.DataFrame:
    """`bench()` of every chain in float32 without tensor cores: at `RECORDED_SHAPES` on a GPU, at the
    simulator's own shape on the CPU."""
    device = torch.device(device) if device is not None else default_device()
    problems = [(chain, shape) for shape in recorded_shapes(device) for chain in CHAINS.values()]
    options = {"versions": ordinary_versions(device), "device": device, "progress": progress} | options
    bar = tqdm(problems, "bench", unit="problem", disable=not progress)
    return pd.concat([bench(*one, **options) for one in bar], ignore_index=True)


def precision_problems(device: torch.device, chain=None, shape=None) -> list[tuple]:
    """(chain, shape, precision) of all that `bench_precisions()` measures.

    chain, shape: only this chain, only this shape, as in `bench()`.
    """
    chains = list(CHAINS.values()) if chain is None else [find(chain)]
    if shape is not None or device.type == "cpu":
        problems = [problem(one, shape, device) for one in chains]
    else:
        problems = [(one, known) for known in PRECISION_SHAPES for one in chains]
        of_batches = [one for one in chains if one.name == CHAIN_OF_BATCHES]
        sizes = (BENCHMARK_FEATURES, BENCHMARK_FEATURES)
        problems += [(one, (batch, *sizes)) for one in of_batches for batch in PRECISION_BATCHES]
    return [(*one, precision) for one in problems for precision in PRECISIONS]


def precision_versions(chain, shape, precision: str, device: torch.device) -> list[str]:
    """The versions that are measured for such a problem: `tensor_core_versions()`, and the default
    version."""
    default = default_version(*problem(chain, shape, device), device, precision)
    return list(dict.fromkeys([*tensor_core_versions(device), default]))


def bench_precisions(
    device=None,
    progress: bool = True,
    before: pd.DataFrame | None = None,
    keep: Callable[[pd.DataFrame], object] | None = None,
    problems: list[tuple] | None = None,
    **options,
) -> pd.DataFrame:
    """`bench()` of `precision_versions()` in every precision; on the CPU, of the simulator's own shape.

    problems: by default all `precision_problems()`. before: results of an earlier, unfinished call; its
    problems are not measured again. keep: is called with the results so far, after each problem. options:
    `bench()`'s.
    """
    device = torch.device(device) if device is not None else default_device()
    frames = [] if before is None else [before]
    measured = set() if before is None else set(before[PROBLEM_COLUMNS].itertuples(index=False, name=None))
    problems = precision_problems(device) if problems is None else problems
    for one in tqdm(problems, "bench", unit="problem", disable=not progress):
        chain, shape = problem(*one[:2], device)
        if (chain.name, *shape, one[2]) in measured:
            continue
        arguments = {"precision": one[2], "versions": precision_versions(*one, device), "device": device}
        frames.append(bench(*one[:2], **arguments, progress=progress, **options))
        if keep is not None:
            keep(pd.concat(frames, ignore_index=True))
    return pd.concat(frames, ignore_index=True)


def recorded_shapes(device: torch.device) -> tuple:
    """The shapes of `--all` on this device, in the form for `bench()`."""
    return RECORDED_SHAPES if device.type == "cuda" else (None,)
