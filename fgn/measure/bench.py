"""Times: every version beside torch eager, torch.compile and the bare F.linear, in one run.

On a GPU a time is between two CUDA events around one call. Just before each call a buffer much larger than
the L2 cache is written, so the call finds none of its inputs there, and the host has queued the call before
the GPU gets to it. On the CPU a time is the host's; for fgn's versions it is the time that the *simulator*
takes, which says nothing about a GPU.
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

from fgn.chains import BENCHMARK_BATCH, BENCHMARK_FEATURES, CHAINS, Chain, Shape, problem, random_inputs
from fgn.functional import PRODUCT, chain_forward, default_version, launch_count, linear, prepares
from fgn.native import prepared
from fgn.native.library import version_names
from fgn.native.versions import default_device
from fgn.native.versions import versions as version_frame
from fgn.precision import PRECISIONS, torch_precision
from fgn.reference import chain_reference

EAGER, COMPILED, F_LINEAR = "torch eager", "torch.compile", "F.linear"
RIVALS = [EAGER, COMPILED, F_LINEAR]

COLUMNS = (
    *("chain", "batch", "in_features", "out_features", "groups", "precision", "device", "part", "subject"),
    *("median_ms", "min_ms", "p10_ms", "p90_ms", "count", "note"),
)

# The shapes that `python -m fgn bench --all` measures on a GPU: the benchmark's own, the same weights for a
# small batch, two narrow layers, and one so small that launches matter. Without groups: the chain's own.
RECORDED_SHAPES = (
    (BENCHMARK_BATCH, BENCHMARK_FEATURES, BENCHMARK_FEATURES),
    (16, BENCHMARK_FEATURES, BENCHMARK_FEATURES),
    (16384, 1024, 1024, 32),
    (65536, 512, 512, 32),
    (128, 512, 1024, 8),
)


# What `python -m fgn bench --precisions` measures on a GPU, in every precision and for the versions that
# multiply in tensor cores: the shapes above and one more, and one of the chains for other batches.
PRECISION_SHAPES = (*RECORDED_SHAPES[:1], *RECORDED_SHAPES[2:], (32768, 1024, 4096, 64))
PRECISION_BATCHES = (1, 4, 16, 64, 4096, 16384)


class Subject(NamedTuple):
    """What is timed: a part of the work ("chain", "linear", or "cold": the chain with nothing prepared), by
    whom, as a call without arguments."""

    part: str
    name: str
    call: Callable[[], object]


class _CudaTimer:
    def __init__(self, device: torch.device):
        cache = torch.cuda.get_device_properties(device).L2_cache_size
        self._flush = torch.empty(16 * cache, dtype=torch.uint8, device=device)
        self._pending = []

    def start(self, call, times: list[float]):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self._flush.zero_()
        begin.record()
        call()
        end.record()
        self._pending.append((begin, end, times))

    def finish(self):
        """Waits for the calls since the last time and notes what they took, in ms."""
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
) -> dict[str, list[float]]:
    """The times of each call, in ms.

    Each call is warmed up first, and is then timed about `seconds` long, at least 5 times and at most
    `at_most` times. The calls take turns, so that a clock that drifts hits them all.
    """
    with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
        timer = _CudaTimer(device) if device.type == "cuda" else _CpuTimer()
        counts = {}
        for name, call in calls.items():
            trial = []
            for _ in range(2):
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
    """Median, least, and the 10th and 90th percentiles of times in ms, and their count."""
    low, median, high = np.percentile(times, (10, 50, 90))
    return {"median_ms": median, "min_ms": min(times), "p10_ms": low, "p90_ms": high, "count": len(times)}


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
        # Without a reset, torch would stop compiling after a few problems and quietly run eagerly.
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
    `fgn.PRECISIONS`, torch's too.
    rivals: some of `RIVALS`; by default all on a GPU, and those that need no compilation on the CPU.
    seconds, at_most: how long and how often each subject is timed, see `measure()`.

    One row per subject: chain, batch, in_features, out_features, groups, precision, device; part ("chain" is
    all of it, "linear" the matrix product alone, "cold" the chain and what is prepared of its weight, which
    other calls find done); subject (a version or one of `RIVALS`); median_ms, min_ms,
    p10_ms, p90_ms, count; note ("simulator" where the time is the simulator's; the reason where there is no
    time).
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


# Sizes that every version multiplies in every precision that it has.
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


def precision_problems(device: torch.device) -> list[tuple]:
    """(chain, shape, precision) of all that `bench_precisions()` measures."""
    chains = list(CHAINS.values())
    problems = [(chain, shape) for shape in PRECISION_SHAPES for chain in chains]
    problems += [(chains[1], (batch, BENCHMARK_FEATURES, BENCHMARK_FEATURES)) for batch in PRECISION_BATCHES]
    if device.type == "cpu":
        problems = [(chain, None) for chain in chains]
    return [(*one, precision) for one in problems for precision in PRECISIONS]


def precision_versions(chain, shape, precision: str, device: torch.device) -> list[str]:
    """What is measured of such a problem: `tensor_core_versions()`, and the version that is the default."""
    default = default_version(*problem(chain, shape, device), device, precision)
    return list(dict.fromkeys([*tensor_core_versions(device), default]))


def bench_precisions(device=None, progress: bool = True, **options) -> pd.DataFrame:
    """`bench()` of `precision_versions()` in every precision; on the CPU, of the simulator's own shape."""
    device = torch.device(device) if device is not None else default_device()
    frames = []
    for one in tqdm(precision_problems(device), "bench", unit="problem", disable=not progress):
        chain, shape, precision = one
        arguments = {"precision": precision, "versions": precision_versions(*one, device), "device": device}
        frames.append(bench(chain, shape, **arguments, progress=progress, **options))
    return pd.concat(frames, ignore_index=True)


def recorded_shapes(device: torch.device) -> tuple:
    """The shapes that `--all` means on this device, as `bench()` takes them."""
    return RECORDED_SHAPES if device.type == "cuda" else (None,)


# ------------------------------------------------------------------------------------------------------------
# What the machine could do


class Ceilings(NamedTuple):
    """What a machine was seen to do at its best: bytes per second copied, fp32 operations per second without
    tensor cores, and operations per second in them by precision, where they were measured."""

    bytes_per_second: float
    operations_per_second: float
    tensor_operations_per_second: dict[str, float] | None = None


def measure_ceilings(device=None) -> Ceilings:
    """The copy bandwidth and the fp32 rate of a device, measured.

    Bandwidth: a copy within the device, far larger than any cache, counting bytes read and bytes written.
    Operations: a large product, counting a multiplication and an addition for each, by `F.linear` or, on a
    GPU, by fgn's own, whichever is faster: what was seen, not what a datasheet promises.
    On the CPU these are the processor's own; the simulator, which runs thread by thread, is far below.
    """
    device = torch.device(device) if device is not None else default_device()
    on_gpu = device.type == "cuda"
    # At most 4 GiB, and a sixteenth of the memory, for each of the two buffers of the copy.
    elements = min(2**30, torch.cuda.get_device_properties(device).total_memory // 64) if on_gpu else 2**26
    features = BENCHMARK_FEATURES if on_gpu else 2048
    source, target = (torch.zeros(elements, device=device) for _ in range(2))

    def seconds(precision: str, **calls) -> dict[str, float]:
        with torch.no_grad(), torch_precision(precision):
            times = measure(calls, device)
        return {name: float(np.median(values)) * 1e-3 for name, values in times.items()}

    def product_seconds(precision: str, candidates: list[str]) -> float:
        dtype, shape = PRECISIONS[precision].dtype, (features, features, features)
        x, weight = (torch.rand(features, features, device=device).to(dtype) for _ in range(2))
        calls = {"torch": lambda: F.linear(x, weight)}
        for name in product_versions(shape, precision, device):
            if name in candidates:
                calls[name] = lambda name=name: linear(x, weight, version=name, precision=precision)
        return min(seconds(precision, **calls).values())

    copied = 2 * source.nbytes / seconds("ieee", copy=lambda: target.copy_(source))["copy"]
    operations = 2 * features**3
    if not on_gpu:
        return Ceilings(copied, operations / product_seconds("ieee", []))
    tensor, ordinary = tensor_core_versions(device), ordinary_versions(device)[-1:]
    rates = {name: operations / product_seconds(name, tensor) for name in PRECISIONS if name != "ieee"}
    return Ceilings(copied, operations / product_seconds("ieee", ordinary), rates)


class Floor(NamedTuple):
    """The least that a chain costs. Times in ms."""

    bytes: int
    operations: int
    memory_ms: float
    compute_ms: float

    @property
    def ms(self) -> float:
        return max(self.memory_ms, self.compute_ms)


# GroupNorm, per element: an addition for the mean; a subtraction, a multiplication and an addition for the
# variance; a subtraction and a multiplication to normalise; a multiplication and an addition, by channel.
GROUP_NORM_OPERATIONS = 8


def floor(chain, shape, ceilings: Ceilings, precision: str | None = None) -> Floor:
    """The time below which no implementation of the chain can go on a machine with these ceilings.

    precision: None is float32 without tensor cores. Otherwise one of `fgn.PRECISIONS`, with them; "ieee" is
    then three products of 16-bit halves, or ordinary float32, whichever is faster.

    Bytes: x, the weight and the vectors of parameters are read once, y is written once, and nothing else has
    to touch memory: batch in_features + out_features (in_features + vectors) + batch out_features elements.

    Operations: for each of the batch out_features outputs, 2 in_features for its product, 1 for its bias,
    `GROUP_NORM_OPERATIONS`, and 1 for each pointwise operator (an exponential counts as one).

    Memory and arithmetic can overlap fully, so the floor is the larger of the two times.
    """
    chain, shape = problem(chain, shape)
    batch, in_features, out_features, _ = shape
    vectors = 3 + len(chain.channels)
    elements = batch * in_features + out_features * (in_features + vectors) + batch * out_features
    per_output = 2 * in_features + 1 + GROUP_NORM_OPERATIONS + len(chain.before) + len(chain.after)
    operations = batch * out_features * per_output
    element = 4 if precision is None else PRECISIONS[precision].dtype.itemsize
    rate, tensor = ceilings.operations_per_second, ceilings.tensor_operations_per_second
    if precision is not None and tensor is not None:
        rate = max(rate, tensor["fp16"] / 3) if precision == "ieee" else tensor[precision]
    return Floor(
        element * elements,
        operations,
        element * elements / ceilings.bytes_per_second * 1e3,
        operations / rate * 1e3,
    )
