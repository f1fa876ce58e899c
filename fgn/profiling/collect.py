"""Runs tasks under ncu, in a separate process, and makes a row for each launch that ncu saw."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import pandas as pd
import torch
from tqdm.auto import tqdm

from fgn.functional import launch_count
from fgn.measure.benchmark import COMPILED, EAGER, F_LINEAR
from fgn.native.library import version_names
from fgn.plans import Device
from fgn.problem import PROBLEM, Problem
from fgn.profiling import launch_words, ncu
from fgn.profiling.target import save

# The columns before the metrics.
IDENTITY = [*PROBLEM, "subject", "launch", "operator", "kernel", "grid", "block"]

CALL = "call"


def require_gpu():
    """Raises ProfilerError, in one line, unless there are a GPU and ncu."""
    if not torch.cuda.is_available():
        raise ncu.ProfilerError("torch sees no GPU: profile on a machine with an NVIDIA GPU and its driver")
    if ncu.find_ncu() is None:
        raise ncu.ProfilerError(ncu.NOT_FOUND)


def subjects(described: Problem, device: str = "cuda") -> list[str]:
    """The versions that run a problem on a device."""
    chain, sizes, precision = described.chain, described.shape, described.precision
    kind = torch.device(device)
    return [
        name
        for name in version_names(kind.type)
        if launch_count(chain, sizes, name, kind, precision) is not None
    ]


def collect(tasks, names, report=None, cache_control="all", progress=True, sections=()) -> pd.DataFrame:
    """Runs the tasks under ncu and returns the rows of all their launches."""
    keep = report is not None
    report = Path(report) if keep else ncu.temporary_report()
    if report.suffix != ".ncu-rep":
        raise ValueError(f"report: expected a name that ends in .ncu-rep, got {report}")
    report.parent.mkdir(parents=True, exist_ok=True)
    job = ncu.temporary_report().with_name("job.pt")
    gpu = torch.cuda.get_device_properties()
    device = Device(gpu.major, gpu.minor, gpu.multi_processor_count, gpu.L2_cache_size)
    with tqdm(desc="ncu", unit="launch", disable=not progress, leave=False) as bar:
        command = [sys.executable, "-m", "fgn.profiling.target", str(job)]
        try:
            save(tasks, job)
            ncu.run(command, report, names, sections, cache_control=cache_control, on_launch=bar.update)
            rows = label(ncu.read_report(report), tasks, names, device)
        finally:
            ncu.discard(job)
            if not keep:
                ncu.discard(report)
    rows.attrs = {"machine": gpu.name, "multiprocessors": gpu.multi_processor_count}
    return rows


def label(launches: pd.DataFrame, tasks, names: Iterable[str], device: Device) -> pd.DataFrame:
    """The launches of a report with the columns `IDENTITY` before the metrics `names`; other metrics of the
    report are left out. tasks: those that ran on the device, in order."""
    if launches.empty:
        raise ncu.ProfilerError(f"ncu: {ncu.ERRORS['No kernels were profiled']}")
    # The ranges are RANGE, the task's number, and the names of torch's operators.
    number = launches.ranges.map(lambda ranges: int(ranges[1]))
    frames = []
    for index, rows in launches.groupby(number):
        task = tasks[index]
        described = task.problem
        where = dict.fromkeys(PROBLEM, "")
        if described is not None:
            where = described.columns()
        columns = where | {"subject": task.subject or CALL, "launch": range(len(rows))}
        columns |= {"operator": _operators(rows, task, device)}
        frames.append(rows.assign(**columns))
    found = pd.concat(frames, ignore_index=True)
    return found[[*IDENTITY, *(name for name in names if name in found)]]


def _operators(rows: pd.DataFrame, task, device: Device) -> list[str]:
    """Describes what each launch computes."""
    kernels = list(rows.kernel)
    if task.problem is None:
        return kernels
    if task.subject == EAGER:
        return launch_words.eager(list(rows.ranges))
    if task.subject in (COMPILED, F_LINEAR):
        return launch_words.compiled(kernels)
    return launch_words.ours(task.problem, task.subject, kernels, device)
