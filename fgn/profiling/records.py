"""Recorded profiles: `profiles/<gpu>/`, written by `python -m fgn profile --record` (`make profile`).

launches.csv   one row per chain, shape, precision, subject and launch, as `fgn.profile()` returns them
machine.json   what the GPU does at its best, one resource at a time, see `fgn.measure.Machine`
reports/       reports of the most instructive launches for the Nsight Compute GUI, compressed by xz
profiled.json  the machine, its software, date and commit of launches.csv and of the reports
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from fgn.measure import machine as machines
from fgn.measure.machine import Machine
from fgn.measure.records import PROFILES
from fgn.profiling.ncu import COMPRESSED

LAUNCHES, ENVIRONMENT, REPORTS = "launches.csv", "profiled.json", "reports"


@dataclass(frozen=True)
class Profiles:
    """The recorded profiles of one machine."""

    name: str
    launches: pd.DataFrame
    machine: Machine
    environment: dict
    reports: tuple[Path, ...]


def recorded(profiles: Path = PROFILES) -> list[str]:
    """The names of the machines whose profiles are recorded."""
    return sorted(path.parent.name for path in profiles.glob(f"*/{LAUNCHES}"))


def read_launches(file: Path) -> pd.DataFrame:
    launches = pd.read_csv(file)
    for column in ("grid", "block"):
        launches[column] = launches[column].map(lambda text: tuple(map(int, text.split("x"))))
    return launches


def report_files(folder: Path) -> tuple[Path, ...]:
    return tuple(sorted((folder / REPORTS).glob(f"*.ncu-rep{COMPRESSED}")))


@functools.cache
def read(name: str = "h200", profiles: Path = PROFILES) -> Profiles:
    """The recorded profiles of one machine. FileNotFoundError lists the existing ones."""
    folder = profiles / name
    if not (folder / LAUNCHES).exists():
        there = ", ".join(recorded(profiles)) or "none"
        raise FileNotFoundError(f"no profiles are recorded for {name!r}; there are: {there}")
    launches = read_launches(folder / LAUNCHES)
    environment = json.loads((folder / ENVIRONMENT).read_text())
    launches.attrs = {
        "machine": f"{environment['device']}, recorded",
        "multiprocessors": environment["multiprocessors"],
        "recorded": name,
    }
    return Profiles(
        name,
        launches,
        machines.read(folder),
        environment,
        report_files(folder),
    )


def write_launches(launches: pd.DataFrame, folder: Path):
    """Writes rows of `fgn.profile()` as text: sizes as 512x1x1, numbers with seven digits."""
    sizes = {name: launches[name].map(lambda size: "x".join(map(str, size))) for name in ("grid", "block")}
    launches.assign(**sizes).to_csv(folder / LAUNCHES, index=False, float_format="%.7g")
