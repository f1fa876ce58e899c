"""Recorded profiles: `profiles/<gpu>/`, written by `python -m fgn profile --record` (`make profile`).

launches.csv   one row per chain, shape, precision, subject and launch, as `fgn.profile()` returns them
ceilings.json  what the GPU does at its best, one resource at a time (fgn/ceilings.py)
profiled.json  the machine, its software, and the commit
reports/       reports of the most instructive launches, to be opened in the Nsight Compute GUI
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import torch
from tqdm.auto import tqdm

from fgn import ceilings, metrics
from fgn.bench import COMPILED, EAGER
from fgn.chains import BENCHMARK_BATCH, BENCHMARK_FEATURES, CHAINS, problem
from fgn.environment import recorded_environment
from fgn.functional import PRODUCT
from fgn.ncu_target import Problem, Task
from fgn.profile import collect, require_gpu, subjects
from fgn.records import PROFILES
from fgn.versions import versions

LAUNCHES, ENVIRONMENT, REPORTS = "launches.csv", "profiled.json", "reports"

# The benchmark's own shape, where the product is nearly all of the time, and a narrow one, where it is not.
PROFILED_SHAPES = ((BENCHMARK_BATCH, BENCHMARK_FEATURES, BENCHMARK_FEATURES), (65536, 512, 512, 32))
# float16 does what bfloat16 does, at the same rate.
PROFILED_PRECISIONS = ("ieee", "tf32", "bf16")


@dataclass(frozen=True)
class Profiles:
    """The recorded profiles of one machine."""

    name: str
    launches: pd.DataFrame
    roofs: ceilings.Roofs
    environment: dict
    reports: tuple[Path, ...]

    @property
    def machine(self) -> str:
        return self.environment["device"]


def recorded(profiles: Path = PROFILES) -> list[str]:
    """The names of the machines whose profiles are recorded."""
    return sorted(path.parent.name for path in profiles.glob(f"*/{LAUNCHES}"))


@functools.cache
def read(name: str = "h200", profiles: Path = PROFILES) -> Profiles:
    """The recorded profiles of one machine. FileNotFoundError names those that there are."""
    folder = profiles / name
    if not (folder / LAUNCHES).exists():
        there = ", ".join(recorded(profiles)) or "none"
        raise FileNotFoundError(f"no profiles are recorded for {name!r}; there are: {there}")
    launches = pd.read_csv(folder / LAUNCHES)
    for column in ("grid", "block"):
        launches[column] = launches[column].map(lambda text: tuple(map(int, text.split("x"))))
    launches.attrs["machine"] = f"{json.loads((folder / ENVIRONMENT).read_text())['device']}, recorded"
    return Profiles(
        name,
        launches,
        ceilings.read(folder),
        json.loads((folder / ENVIRONMENT).read_text()),
        tuple(sorted((folder / REPORTS).glob("*.ncu-rep"))),
    )


def write_launches(launches: pd.DataFrame, folder: Path):
    """Writes rows of `fgn.profile()` as text: sizes as 512x1x1, numbers with seven digits."""
    sizes = {name: launches[name].map(lambda size: "x".join(map(str, size))) for name in ("grid", "block")}
    launches.assign(**sizes).to_csv(folder / LAUNCHES, index=False, float_format="%.7g")


def _tasks(chain: str, shape) -> list:
    """Every version at every precision that it has kernels for, and torch's two ways."""
    chain, shape = problem(chain, shape, "cuda")
    # float32 kernels run under tf32 as well, which allows rounding and asks for none: that is no new profile.
    rounding = subjects(Problem(chain, shape, "bf16"))
    tasks = []
    for precision in PROFILED_PRECISIONS:
        described = Problem(chain, shape, precision)
        names = subjects(described)
        if precision == "tf32":
            names = [name for name in names if name in rounding]
        tasks += [Task(described, name) for name in (*names, EAGER, COMPILED)]
    return tasks


# What the GUI shows of a launch. The counters of single instructions, with the source, are megabytes for a
# long kernel, so they are recorded for short ones.
GUI_SECTIONS = (
    *("SpeedOfLight", "SpeedOfLight_RooflineChart", "ComputeWorkloadAnalysis", "MemoryWorkloadAnalysis"),
    *("MemoryWorkloadAnalysis_Chart", "MemoryWorkloadAnalysis_Tables", "SchedulerStats", "WarpStateStats"),
    *("LaunchStats", "Occupancy"),
)
SOURCE_SECTIONS = (*GUI_SECTIONS, "SourceCounters")


def report_tasks() -> dict[str, tuple[list[Task], tuple[str, ...]]]:
    """The reports for the GUI: their tasks and sections.

    ladder: the chain with the most operators at the benchmark's shape, by all versions of one or two
    launches; and the product alone of the first version and of the last one with a launch for each operator.
    source: the first three products, with the counters of each line of source.
    """
    chain = max(CHAINS.values(), key=lambda chain: len(chain.before) + len(chain.after))
    chain, shape = problem(chain, None, "cuda")
    table = versions(chain, shape, "cuda")
    table = table[table.supported]
    separate = list(table.name[table.launches > 2])
    alone = Problem(PRODUCT, shape._replace(groups=0), "ieee")
    products = [Task(alone, name) for name in (separate[0], separate[-1])]
    chains = [Task(Problem(chain, shape, "ieee"), name) for name in table.name[table.launches <= 2]]
    return {
        "ladder": (products + chains, GUI_SECTIONS),
        "source": ([Task(alone, name) for name in separate[:3]], SOURCE_SECTIONS),
    }


def record(folder: Path, device: torch.device, shapes=PROFILED_SHAPES, progress: bool = True):
    """Profiles everything on a GPU and writes it to `folder`; several minutes.

    Each problem is written when it is done. ProfilerError when ncu cannot do it.
    """
    require_gpu()
    (folder / REPORTS).mkdir(parents=True, exist_ok=True)
    (folder / ENVIRONMENT).write_text(json.dumps(recorded_environment(device), indent=2) + "\n")
    ceilings.write(ceilings.measure_roofs(device), folder)
    for name, (tasks, sections) in report_tasks().items():
        report = folder / REPORTS / f"{name}.ncu-rep"
        collect(tasks, (metrics.TIME,), report, progress=progress, sections=sections)
    found = []
    problems = [(chain, shape) for shape in shapes for chain in CHAINS]
    for chain, shape in tqdm(problems, "profile", unit="problem", disable=not progress):
        found.append(collect(_tasks(chain, shape), metrics.SETS["default"], progress=progress))
        write_launches(pd.concat(found, ignore_index=True), folder)
