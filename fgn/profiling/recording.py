"""Recording profiles on a GPU into `profiles/<gpu>/`: `python -m fgn profile --record` (`make profile`)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import torch
from tqdm.auto import tqdm

from cudasim.counting import metrics
from fgn.chains import BENCHMARK_BATCH, BENCHMARK_FEATURES, CHAINS, problem
from fgn.functional import PRODUCT
from fgn.ladder import versions
from fgn.measure import machine as machines
from fgn.measure.benchmark import COMPILED, EAGER
from fgn.measure.records import PROFILES
from fgn.measure.software import recorded_environment
from fgn.problem import PROBLEM, Problem
from fgn.profiling import ncu
from fgn.profiling.collect import collect, require_gpu, subjects
from fgn.profiling.records import (
    ENVIRONMENT,
    LAUNCHES,
    REPORTS,
    read,
    read_launches,
    report_files,
    write_launches,
)
from fgn.profiling.target import Task

# The benchmark's own shape, where the product is nearly all of the time, and a narrow one, where it is not.
PROFILED_SHAPES = ((BENCHMARK_BATCH, BENCHMARK_FEATURES, BENCHMARK_FEATURES), (65536, 512, 512, 32))
# Without float16, whose kernels do the same as bfloat16's, at the same rate.
PROFILED_PRECISIONS = ("ieee", "tf32", "bf16")

# The parts of a recording, in their order.
PARTS = ("machine", "reports", "launches")


def _tasks(chain: str, shape, only: Iterable[str] | None = None) -> list:
    """Every version at every precision for which it has kernels, and torch's two; or `only` some."""
    chain, shape = problem(chain, shape, "cuda")
    # Versions without tensor cores also run under tf32, with the same launches as in ieee, so they are not
    # profiled again.
    rounding = subjects(Problem(chain, shape, "bf16"))
    tasks = []
    for precision in PROFILED_PRECISIONS:
        described = Problem(chain, shape, precision)
        names = subjects(described)
        if precision == "tf32":
            names = [name for name in names if name in rounding]
        tasks += [Task(described, name) for name in (*names, EAGER, COMPILED)]
    return [task for task in tasks if only is None or task.subject in only]


# The sections of a launch that the GUI shows. They add the kernel's machine code with line numbers to the
# report, megabytes for long kernels and those of libraries. Reports of such kernels have metrics only.
GUI_SECTIONS = (
    *("SpeedOfLight", "SpeedOfLight_RooflineChart", "ComputeWorkloadAnalysis", "MemoryWorkloadAnalysis"),
    *("MemoryWorkloadAnalysis_Chart", "MemoryWorkloadAnalysis_Tables", "SchedulerStats", "WarpStateStats"),
    *("LaunchStats", "Occupancy"),
)
SOURCE_SECTIONS = (*GUI_SECTIONS, "SourceCounters")


class Report(NamedTuple):
    """What a report for the GUI is made of: tasks, metrics by name, and ncu's sections."""

    tasks: list[Task]
    metrics: tuple[str, ...] = (metrics.TIME,)
    sections: tuple[str, ...] = ()


def reports() -> dict[str, Report]:
    """The reports for the GUI, all at the narrow shape.

    ladder: the product alone of the first, the third and the last version with launches for operators; the
        whole chain with the most operators by those with one or two launches.
    source: the first three products, with the counters of each line of source.

    ncu keeps the code of each kernel's module, which is tens of MB for the tensor core rungs and for
    libraries.
    """
    chain = max(CHAINS.values(), key=lambda chain: len(chain.before) + len(chain.after))
    chain, shape = problem(chain, PROFILED_SHAPES[1], "cuda")
    alone = Problem(PRODUCT, shape._replace(groups=0), "ieee")
    ieee, on_tensor_cores = Problem(chain, shape, "ieee"), subjects(Problem(chain, shape, "bf16"))
    table = versions(chain, shape, "cuda")
    plain = table[table.supported & ~table.name.isin(on_tensor_cores)]
    separate = [Task(alone, name) for name in plain.name[plain.launches > 2]]
    fused = [Task(ieee, name) for name in plain.name[plain.launches <= 2]]
    return {
        "ladder": Report([separate[0], separate[2], separate[-1], *fused], sections=GUI_SECTIONS),
        "source": Report(separate[:3], sections=SOURCE_SECTIONS),
    }


def folder_of(device_name: str) -> str:
    """The name of a card's folder in `profiles/`: "NVIDIA H200" is in h200."""
    name = re.sub(r"nvidia|geforce", "", device_name.lower())
    return re.sub(r"[^a-z0-9]+", "_", name).strip("_")


def _merged(folder: Path, new: pd.DataFrame) -> pd.DataFrame:
    """The new launches, and the recorded ones of all other calls."""
    file = folder / LAUNCHES
    if not file.exists():
        return new
    old = read_launches(file)
    calls = [*PROBLEM, "subject"]
    replaced = pd.MultiIndex.from_frame(old[calls]).isin(pd.MultiIndex.from_frame(new[calls]))
    return pd.concat([old[~replaced], new], ignore_index=True)


def record(
    folder: Path | None = None,
    device: torch.device | str = "cuda",
    parts: Sequence[str] = PARTS,
    chains: Iterable[str] = CHAINS,
    shapes: Iterable[tuple[int, ...]] = PROFILED_SHAPES,
    subjects: Iterable[str] | None = None,
    progress: bool = True,
) -> Path:
    """Profiles on a GPU and writes it to a folder, which it returns: about ten minutes for everything.

    folder: by default `profiles/` and `folder_of()` the card. parts: some of `PARTS`. chains, shapes: the
    problems of the
        launches; those that are recorded of other problems stay. Each problem is written when it is done.

    ProfilerError if ncu fails; problems that are already done stay written.
    """
    for part in parts:
        if part not in PARTS:
            raise ValueError(f"parts: expected some of {', '.join(PARTS)}, got {part!r}")
    require_gpu()
    device = torch.device(device)
    environment = recorded_environment(device) | {"ncu": ncu.version()}
    folder = PROFILES / folder_of(environment["device"]) if folder is None else folder

    def describe():
        files = [LAUNCHES, *(f"{REPORTS}/{path.name}" for path in report_files(folder))]
        (folder / ENVIRONMENT).write_text(json.dumps(environment | {"files": files}, indent=2) + "\n")

    folder.mkdir(parents=True, exist_ok=True)
    if "machine" in parts:
        when = {name: environment[name] for name in ("date", "commit")}
        machines.write(machines.measure_machine(device), folder, **when)
    if "reports" in parts:
        (folder / REPORTS).mkdir(exist_ok=True)
        for name, report in reports().items():
            file = folder / REPORTS / f"{name}.ncu-rep"
            collect(report.tasks, report.metrics, file, progress=progress, sections=report.sections)
            ncu.compress(file)
            describe()
    if "launches" in parts:
        problems = [(chain, shape) for shape in shapes for chain in chains]
        for chain, shape in tqdm(problems, "profile", unit="problem", disable=not progress):
            tasks = _tasks(chain, shape, subjects)
            if not tasks:
                continue
            found = collect(tasks, metrics.SETS["default"], progress=progress)
            write_launches(_merged(folder, found), folder)
            describe()
    # What `read()` keeps may be an older recording.
    read.cache_clear()
    return folder
