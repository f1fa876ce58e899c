"""Profiles: what each launch of a chain took and moved, by ncu's metrics.

On a GPU Nsight Compute collects them, in a separate process. Without a GPU they come from recorded profiles
or, for CPU tensors, from the counted simulator. The rows have the same columns, so that one plot draws any of
them (`fgn.plot.launches`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pandas as pd
import torch
from torch import Tensor

from cudasim.counting import counted, counts
from cudasim.counting import metrics as ncu_metrics
from fgn.chains import CHAINS, Chain, problem, random_inputs
from fgn.functional import prepares, run_chain
from fgn.measure.benchmark import RIVALS
from fgn.modules import ChainModule
from fgn.native.library import version_names
from fgn.precision import OF_CALLS, check_precision, resolve
from fgn.problem import PROBLEM, Problem
from fgn.profiling import launch_words, ncu
from fgn.profiling import records as profile_records
from fgn.profiling.collect import CALL, IDENTITY, collect, require_gpu, subjects
from fgn.profiling.target import Task

SIMULATOR = "the simulator"
_ON_SIMULATOR = {"machine": SIMULATOR, "multiprocessors": counted.H200_MULTIPROCESSORS}


def profile(
    model_or_kernel: str | Chain | ChainModule | Callable,
    x: Tensor | None = None,
    *,
    version: str | Sequence[str] | None = None,
    rivals: Sequence[str] = (),
    shape=None,
    precision: str | None = None,
    metrics: Iterable[str] | None = None,
    set: str = "default",
    report: Path | str | None = None,
    cache_control: str = "all",
    seed: int = 0,
    device=None,
    recorded: str | None = None,
    progress: bool = True,
) -> pd.DataFrame:
    """What each launch took and moved: one row per launch, in order.

    model_or_kernel: a name in `CHAINS`, a `Chain`, one of fgn's modules, whose parameters are then used, or
        anything that can be called: with x, or without arguments. A callable goes to another process, so it
        has to survive cloudpickle.
    x: (batch, in_features); by default random, from `seed`, at `shape`. A CUDA tensor is profiled on its GPU
        by ncu, a CPU tensor on the counted simulator.
    version: a version's name, or several; by default all that run the chain.
    rivals: of `fgn.measure.RIVALS`, to have torch's own launches in the same table.
    shape, device: as in `fgn.compare()`; of a call without x, device="cpu" says that it runs on the CPU.
    precision: a key of `PRECISIONS`; by default x's, or "ieee".
    metrics: ncu's names, instead of `set`, which is a key of `fgn.simulator.metrics.SETS` ("default": all
        that the plots draw; "bytes": times and bytes only, in a third of the passes).
    report: a file to keep ncu's report in, ending in .ncu-rep, for the Nsight Compute GUI.
    recorded: a folder of `profiles/`, to have what is recorded there instead of profiling.
    cache_control: see `fgn.profiling.ncu.run()`; by default the caches are flushed before each pass over a
        launch.

    Without a GPU, without ncu, or without permission to read the counters, a warning says so in one line, and
    how to change it. The rows are then the recorded ones of the same problem or, where none are recorded, the
    simulator's; `frame.attrs` says which. For a callable this is a ProfilerError.

    Columns: `IDENTITY` (operator: what the launch computes; kernel: its function's name; grid, block: their
    sizes), then the metrics, in ncu's base units. ValueError for names that nothing here has, and where
    `recorded` has no such problem.
    """
    names = _metric_names(metrics, set)
    versions = None if version is None else [version] if isinstance(version, str) else list(version)
    on_cpu = _is_on_cpu(model_or_kernel, x, device)
    asked = None if metrics is None else names
    if isinstance(model_or_kernel, ChainModule) or not callable(model_or_kernel):
        described = _described(model_or_kernel, x, shape, precision, seed, "cpu" if on_cpu else "cuda")
        _check_subjects(versions, rivals)
        if recorded is not None:
            return _only(_recorded(described, versions, rivals, recorded), asked)
        if on_cpu:
            return _only(_simulated(described, versions), asked)
        try:
            require_gpu()
            _check_metrics(names)
            tasks = _tasks(described, versions, rivals)
            return collect(tasks, names, report, cache_control, progress)
        except ncu.ProfilerError as error:
            return _only(_fallback(described, versions, rivals, error), asked)
    if recorded is not None:
        raise ValueError(
            f"recorded: expected a chain with it, got {model_or_kernel!r}, of which nothing is recorded"
        )
    call = model_or_kernel if x is None else _Applied(model_or_kernel, x)
    if on_cpu:
        return _only(_named(counts.count(call)), asked)
    require_gpu()
    _check_metrics(names)
    return collect([Task(call=call)], names, report, cache_control, progress)


def _is_on_cpu(model, x, device) -> bool:
    """Whether the call's tensors are on the CPU: the given ones or, without these, the random ones that would
    be made."""
    if device is not None:
        return torch.device(device).type == "cpu"
    if x is None and isinstance(model, ChainModule):
        x = next(model.parameters())
    return x is not None and x.device.type == "cpu"


class _Applied:
    """A callable and its argument."""

    def __init__(self, function, x):
        self.function, self.x = function, x

    def __call__(self):
        return self.function(self.x)


def _metric_names(names: Iterable[str] | None, chosen: str) -> list[str]:
    if names is not None:
        return list(dict.fromkeys([ncu_metrics.TIME, *names]))
    if chosen not in ncu_metrics.SETS:
        raise ValueError(f"set: expected one of {', '.join(ncu_metrics.SETS)}, got {chosen!r}")
    return list(ncu_metrics.SETS[chosen])


def _check_metrics(names: Iterable[str]):
    """Raises ValueError for a metric that this GPU does not have, unless it is in one of
    `fgn.simulator.metrics.SETS`."""
    ours = {name for names in ncu_metrics.SETS.values() for name in names}
    known = {*ncu.available(names), *ours}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"metrics: expected ncu's names of what this GPU counts, got {unknown[0]!r}")


def _only(rows: pd.DataFrame, names: list[str] | None) -> pd.DataFrame:
    """The rows with these metrics alone. ValueError for a metric that the rows lack, except the time, which
    is always requested."""
    if names is None:
        return rows
    unknown = [name for name in names if name not in rows and name != ncu_metrics.TIME]
    if unknown:
        raise ValueError(f"metrics: expected some that {rows.attrs['machine']} has, got {unknown[0]!r}")
    found = rows[[*IDENTITY, *(name for name in names if name in rows)]]
    found.attrs = rows.attrs
    return found


def _check_subjects(versions, rivals):
    known = version_names()
    for argument, names, allowed in (("version", versions or (), known), ("rivals", rivals, RIVALS)):
        for name in names:
            if name not in allowed:
                raise ValueError(f"{argument}: expected some of {', '.join(allowed)}, got {name!r}")


def _described(model, x, shape, precision, seed, device):
    """The `Problem` for the arguments."""
    inputs = None
    if isinstance(model, ChainModule):
        parameters = {name: value.detach() for name, value in model.chain_parameters().items()}
        weight = parameters["weight"]
        out_features, in_features = weight.shape
        batch = x.shape[0] if x is not None else problem(model.chain, shape, device)[1].batch
        chain, sizes = problem(model.chain, (batch, in_features, out_features))
        if x is None:
            x = random_inputs(chain, sizes, weight.device, seed)[0].to(weight.dtype)
        inputs = x, parameters
        precision = precision or model.precision
    else:
        chain, sizes = problem(model, shape, device)
        if x is not None:
            sizes = sizes._replace(batch=x.shape[0], in_features=x.shape[1])
            inputs = x, random_inputs(chain, sizes, x.device, seed)[1]
            inputs[1]["weight"] = inputs[1]["weight"].to(x.dtype)
    if precision is not None:
        check_precision(precision, OF_CALLS)
    if inputs is not None:
        precision = resolve(precision, inputs[0].dtype)
    return Problem(chain, sizes, precision or "ieee", seed, inputs)


def _tasks(described, versions, rivals) -> list:
    here = subjects(described)
    names = here if versions is None else versions
    for name in names:
        if name not in here:
            raise RuntimeError(f"version: {name!r} does not run {described} on this GPU")
    return [Task(described, name) for name in (*names, *rivals)]


# ------------------------------------------------------------------------------------------------------------
# Without a GPU


def _recorded(described, versions, rivals, gpu: str) -> pd.DataFrame:
    """The recorded launches of a problem on a GPU. ValueError if none are recorded."""
    launches = profile_records.read(gpu).launches
    rows = described.rows(launches)
    rows = rows[rows.subject.isin([*(versions or version_names()), *rivals])].reset_index(drop=True)
    if rows.empty:
        there = launches[PROBLEM].drop_duplicates()
        words = "; ".join(" ".join(map(str, row)) for row in there.itertuples(index=False))
        raise ValueError(f"recorded: expected a problem that {gpu!r} has ({words}), got {described}")
    rows.attrs = launches.attrs
    return rows


def _fallback(described, versions, rivals, error: ncu.ProfilerError) -> pd.DataFrame:
    for name in profile_records.recorded():
        try:
            rows = _recorded(described, versions, rivals, name)
        except ValueError:
            continue
        warnings.warn(f"{error}; these are the profiles of {rows.attrs['machine']}", stacklevel=3)
        return rows
    warnings.warn(
        f"{error}; no profile of this problem is recorded, so the simulator counts it, at a size that it "
        "runs in a moment",
        stacklevel=3,
    )
    chain, shape = problem(described.chain if described.chain.name not in CHAINS else described.chain.name)
    return _simulated(Problem(chain, shape, "ieee"), versions)


def _simulated(described, versions) -> pd.DataFrame:
    """The counted simulator's counts for a problem, a row per launch."""
    chain, shape = described.chain, described.shape
    x, parameters = described.given or random_inputs(chain, shape, "cpu", described.seed)
    frames = []
    for name in subjects(described, "cpu") if versions is None else versions:

        def call(name=name):
            return run_chain(chain, x, parameters, name, precision=described.precision)

        if prepares(chain, shape, name, x.device, described.precision):
            # The first call prepares the weight for the version; later calls reuse it.
            call()
        rows = counts.count(call)
        where = {"chain": chain.name, **shape._asdict(), "precision": described.precision}
        operators = launch_words.ours(described, name, list(rows.kernel))
        frames.append(rows.assign(**where, subject=name, launch=range(len(rows)), operator=operators))
    found = pd.concat(frames, ignore_index=True)
    found = found[[*IDENTITY, *(name for name in found if name not in IDENTITY)]]
    found.attrs = _ON_SIMULATOR
    return found


def _named(rows: pd.DataFrame) -> pd.DataFrame:
    """Names the launches of a call that is no chain by the kernels' names."""
    where = dict.fromkeys(PROBLEM, "") | {
        "subject": CALL,
        "launch": range(len(rows)),
        "operator": rows.kernel,
    }
    found = rows.assign(**where)
    found = found[[*IDENTITY, *(name for name in found if name not in IDENTITY)]]
    found.attrs = _ON_SIMULATOR
    return found
