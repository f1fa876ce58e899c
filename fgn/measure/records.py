"""Recorded results: `profiles/<gpu>/`, written by `python -m fgn bench --all --record` and read back here.

benchmark.csv     one row per chain, shape, part and subject, as `fgn.bench()` returns them
errors.csv        one row per chain, shape and version, as `fgn.compare()` returns them
precisions.csv, precision_errors.csv
                  the same for the versions that multiply in tensor cores, in every precision
sweeps.csv        the sweeps over random shapes, as `fgn.measure.sweep.sweep()` returns them, with seed, date
                  and commit
training.csv      training steps at some of their problems and at large ones, by tools/training_steps.py
environment.json  the machine, its software, and date and commit of benchmark.csv and errors.csv; those of the
                  precisions are under "recorded again"
machine.json      the machine's measured ceilings, see `fgn.measure.Machine`
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import torch
from tqdm.auto import tqdm

from fgn.chains import CHAINS, problem
from fgn.ladder import versions as version_frame
from fgn.measure import machine as machines
from fgn.measure.accuracy import compare
from fgn.measure.benchmark import (
    PROBLEM_COLUMNS,
    RIVALS,
    bench_all,
    bench_precisions,
    ordinary_versions,
    precision_problems,
    precision_versions,
    recorded_shapes,
)
from fgn.measure.machine import Machine, measure_machine
from fgn.measure.software import recorded_environment
from fgn.measure.sweep import RECORDED
from fgn.native.places import ROOT

PROFILES = ROOT / "profiles"
TRAINING = "training.csv"
# The key of the precisions in environment.json; they may be recorded at another time than the ladder.
AGAIN = "recorded again"


@dataclass(frozen=True)
class Record:
    """One folder of recorded results."""

    name: str
    benchmark: pd.DataFrame
    errors: pd.DataFrame
    environment: dict
    machine: Machine
    precisions: pd.DataFrame | None
    precision_errors: pd.DataFrame | None
    sweeps: pd.DataFrame | None
    training: pd.DataFrame | None

    @property
    def times(self) -> pd.DataFrame:
        """All recorded times, as `fgn.bench()` returns them: those of the ladder, and those on tensor
        cores."""
        tables = [table for table in (self.benchmark, self.precisions) if table is not None]
        times = pd.concat(tables, ignore_index=True)
        return times[times.median_ms.notna()]


def recorded() -> list[str]:
    """The names of the machines whose results are recorded."""
    return sorted(path.parent.name for path in PROFILES.glob("*/benchmark.csv"))


def _times(file: Path) -> pd.DataFrame:
    return pd.read_csv(file, dtype={"count": "Int64", "note": str}).fillna({"note": ""})


def read(name: str = "h200", profiles: Path = PROFILES) -> Record:
    """The recorded results of one machine. FileNotFoundError lists the existing ones."""
    folder = profiles / name
    if not (folder / "benchmark.csv").exists():
        raise FileNotFoundError(f"no results are recorded for {name!r}; there are {recorded() or 'none'}")

    def table(file: str) -> pd.DataFrame | None:
        return pd.read_csv(folder / file) if (folder / file).exists() else None

    return Record(
        name,
        _times(folder / "benchmark.csv"),
        pd.read_csv(folder / "errors.csv"),
        json.loads((folder / "environment.json").read_text()),
        machines.read(folder),
        _times(folder / "precisions.csv") if (folder / "precisions.csv").exists() else None,
        table("precision_errors.csv"),
        table(RECORDED),
        table(TRAINING),
    )


def precision_times(times: pd.DataFrame) -> Iterator[tuple[tuple, pd.Series, pd.Series, pd.Series]]:
    """Yields, for each problem of `Record.precisions` that a version runs: (chain, sizes and precision; the
    times of the chain; the times of the product alone; the times of the chain by fgn's versions). Times are
    in ms, by subject."""
    for key, rows in times.groupby(PROBLEM_COLUMNS, sort=False):
        whole, linear = (
            rows[rows.part == part].set_index("subject").median_ms for part in ("chain", "linear")
        )
        ours = whole.drop(RIVALS, errors="ignore").dropna()
        if not ours.empty:
            yield key, whole, linear, ours


def _compare(problems, names, device: torch.device, progress: bool) -> pd.DataFrame:
    """`fgn.compare()` of each (chain, shape, precision), for the versions `names(...)` that run it."""
    frames = []
    for chain, shape, precision in tqdm(problems, "compare", unit="problem", disable=not progress):
        sizes = problem(chain, shape, device)[1]
        table = version_frame(chain, sizes, device, precision)
        here = table.name[table.supported & table.name.isin(names(chain, sizes, precision, device))]
        frame = compare(chain, shape=sizes, versions=here, device=device, precision=precision).reset_index()
        frames.append(frame.assign(chain=chain.name, **sizes._asdict(), precision=precision))
    frame = pd.concat(frames, ignore_index=True)
    return frame[PROBLEM_COLUMNS + [column for column in frame if column not in PROBLEM_COLUMNS]]


def compare_all(device: torch.device, progress: bool = True) -> pd.DataFrame:
    """`fgn.compare()` of every chain at every shape that `bench_all()` measures."""
    problems = [(chain, shape, "ieee") for shape in recorded_shapes(device) for chain in CHAINS.values()]
    return _compare(problems, lambda *_: ordinary_versions(device), device, progress)


def compare_precisions(device: torch.device, progress: bool = True) -> pd.DataFrame:
    """`fgn.compare()` of everything that `bench_precisions()` measures."""
    return _compare(precision_problems(device), precision_versions, device, progress)


def _write_json(file: Path, values: dict):
    file.write_text(json.dumps(values, indent=2) + "\n")


def _write_table(frame: pd.DataFrame, file: Path):
    frame.to_csv(file, index=False, float_format="%.6g")


def write(folder: Path, device: torch.device, progress: bool = True, **options):
    """Measures the ladder in float32 on `device` and writes it to `folder`. `options` are `fgn.bench()`'s.

    Nothing is written before all is measured, so the files and environment.json's entries for them are always
    from one run. The entries of recorded precisions in environment.json stay.
    """
    environment = recorded_environment(device)
    machine = measure_machine(device)
    errors, times = compare_all(device, progress), bench_all(device, progress, **options)
    folder.mkdir(parents=True, exist_ok=True)
    machines.write(machine, folder, date=environment["date"], commit=environment["commit"])
    _write_table(errors, folder / "errors.csv")
    _write_table(times, folder / "benchmark.csv")
    environment["files"] = ["benchmark.csv", "errors.csv"]
    file = folder / "environment.json"
    before = json.loads(file.read_text()) if file.exists() else {}
    _write_json(file, environment | {key: before[key] for key in (AGAIN,) if key in before})


def _unfinished(folder: Path, commit: str | None) -> Path | None:
    """Where a recording leaves its results for a later one with the same code; None if the commit does not
    identify the code."""
    if commit is None or commit.endswith("-dirty"):
        return None
    return folder / f"precisions_unfinished_{commit}.csv"


def write_precisions(folder: Path, device: torch.device, progress: bool = True, **options):
    """Measures the versions on tensor cores in every precision and writes the results to `folder`.

    environment.json keeps its entries of a recorded ladder; date and commit of the precisions go into it
    under "recorded again". Nothing of this is written before all is measured. If the process ends too early,
    a file beside the results has what was measured, and the next call at the same commit goes on from there,
    unless files differ from the commit.
    """
    environment = recorded_environment(device)
    unfinished = _unfinished(folder, environment["commit"])
    folder.mkdir(parents=True, exist_ok=True)
    errors = compare_precisions(device, progress)
    times = bench_precisions(
        device,
        progress,
        before=_times(unfinished) if unfinished and unfinished.exists() else None,
        keep=unfinished and (lambda frame: _write_table(frame, unfinished)),
        **options,
    )
    _write_table(errors, folder / "precision_errors.csv")
    _write_table(times, folder / "precisions.csv")
    file = folder / "environment.json"
    again = {"files": ["precisions.csv", "precision_errors.csv"]}
    again |= {name: environment[name] for name in ("date", "commit")}
    before = json.loads(file.read_text()) if file.exists() else environment
    _write_json(file, before | {AGAIN: again})
    if unfinished:
        unfinished.unlink(missing_ok=True)
