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

from fgn import ceilings, metrics, profile
from fgn.bench import COMPILED, EAGER
from fgn.chains import BENCHMARK_BATCH, BENCHMARK_FEATURES, CHAINS, problem
from fgn.environment import recorded_environment
from fgn.functional import PRODUCT
from fgn.records import PROFILES

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
    from fgn.ncu_target import Problem, Task

    chain, shape = problem(chain, shape, "cuda")
    # float32 kernels run under tf32 as well, which allows rounding and asks for none: that is no new profile.
    rounding = profile.subjects(Problem(chain, shape, "bf16"))
    tasks = []
    for precision in PROFILED_PRECISIONS:
        described = Problem(chain, shape, precision)
        names = profile.subjects(described)
        if precision == "tf32":
            names = [name for name in names if name in rounding]
        tasks += [Task(described, name) for name in (*names, EAGER, COMPILED)]
    return tasks


def instructive_tasks() -> list:
    """What the report for the GUI has: the chain with the most operators at the benchmark's shape, by all
    versions of one or two launches; and the product alone of the first version and of the last one that has
    a launch for each operator."""
    from fgn.ncu_target import Problem, Task
    from fgn.versions import versions

    chain = max(CHAINS.values(), key=lambda chain: len(chain.before) + len(chain.after))
    chain, shape = problem(chain, None, "cuda")
    table = versions(chain, shape, "cuda")
    table = table[table.supported]
    separate = table.name[table.launches > 2]
    product = Problem(PRODUCT, shape._replace(groups=0), "ieee")
    return [
        *(Task(product, name) for name in (separate.iloc[0], separate.iloc[-1])),
        *(Task(Problem(chain, shape, "ieee"), name) for name in table.name[table.launches <= 2]),
    ]


def record(folder: Path, device: torch.device, shapes=PROFILED_SHAPES, progress: bool = True):
    """Profiles everything on a GPU and writes it to `folder`; several minutes.

    Each problem is written when it is done. ProfilerError when ncu cannot do it.
    """
    profile.require_gpu()
    (folder / REPORTS).mkdir(parents=True, exist_ok=True)
    (folder / ENVIRONMENT).write_text(json.dumps(recorded_environment(device), indent=2) + "\n")
    ceilings.write(ceilings.measure_roofs(device), folder)
    report = folder / REPORTS / "ladder.ncu-rep"
    profile.collect(instructive_tasks(), (metrics.TIME,), report, sections="detailed", progress=progress)
    found = []
    problems = [(chain, shape) for shape in shapes for chain in CHAINS]
    for chain, shape in tqdm(problems, "profile", unit="problem", disable=not progress):
        found.append(profile.collect(_tasks(chain, shape), metrics.SETS["default"], progress=progress))
        write_launches(pd.concat(found, ignore_index=True), folder)
