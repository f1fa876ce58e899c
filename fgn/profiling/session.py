"""A profiling session: the launches of one problem, their machine, and questions.

`open_session()` profiles on this machine's GPU; without one, or without ncu, it uses recorded launches, and
if there are none, the simulator's counts. All three answer the same questions.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from cudasim.counting import metrics
from fgn.chains import Chain, Shape
from fgn.measure.benchmark import COMPILED, EAGER
from fgn.measure.machine import Machine, machine_here
from fgn.problem import Problem, find_problem
from fgn.profiling import records as profile_records
from fgn.profiling.launch_words import part_of
from fgn.profiling.launches import heads
from fgn.profiling.profiler import SIMULATOR, profile


@dataclass(frozen=True)
class Session:
    """The profile of one problem.

    launches: as `fgn.profile()` returns them.
    machine: the GPU of the launches, None for the simulator. note: why nothing was profiled here, if so.
    """

    problem: Problem
    launches: pd.DataFrame
    machine: Machine | None
    note: str = ""

    @property
    def origin(self) -> str:
        """The source of the launches in words: a GPU's name, with "recorded" if so, or the simulator."""
        return self.launches.attrs["machine"]

    @property
    def subjects(self) -> list[str]:
        """The profiled versions and torch's, in the order of the launches."""
        return list(self.launches.subject.unique())

    @property
    def multiprocessors(self) -> int:
        """The number of multiprocessors of the launches' GPU, or of the GPU that the simulator models."""
        return self.launches.attrs["multiprocessors"]

    @property
    def steps(self) -> float:
        """Multiply-adds of a warp, 32 products, in the matrix product."""
        return self.problem.steps

    def of(self, *subjects: str) -> pd.DataFrame:
        """The launches of these subjects only."""
        unknown = [name for name in subjects if name not in self.subjects]
        if unknown:
            raise ValueError(f"subjects: expected some of {', '.join(self.subjects)}, got {unknown[0]!r}")
        rows = self.launches[self.launches.subject.isin(subjects)].reset_index(drop=True)
        rows.attrs = self.launches.attrs
        return rows

    def product(self, subject: str) -> pd.Series:
        """The launch with the matrix product of a subject."""
        return heads(self.of(subject)).loc[subject]

    def total(self, subject: str, *names: str) -> float:
        """The sum of metrics over all launches of a subject."""
        return float(self.of(subject)[list(names)].sum().sum())

    def milliseconds(self, subject: str) -> float:
        """The total time of a subject's launches."""
        return self.total(subject, metrics.TIME) / 1e6

    def compare(self, subject: str, predicted: Mapping[str, float], whole: bool = False) -> pd.DataFrame:
        """Predictions beside measurements: for the launch with the matrix product or, with `whole`, for all
        launches of the subject together.

        predicted: values by the names of metrics, in their own units. ValueError for a missing one.
        """
        rows = {}
        for name, value in predicted.items():
            if name not in self.launches:
                raise ValueError(f"predicted: expected metrics that {self.origin} has, got {name!r}")
            measured = self.total(subject, name) if whole else float(self.product(subject)[name])
            rows[name] = {"predicted": value, "measured": measured, "measured ÷ predicted": measured / value}
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("metric")

    def table(self, names: Mapping[str, str], *subjects: str) -> pd.DataFrame:
        """Metrics of the launch with the matrix product: a row for each subject.

        names: metrics by the columns' headings.
        """
        chosen = subjects or self.subjects
        rows = {subject: self.product(subject) for subject in chosen}
        columns = {word: {s: row.get(name) for s, row in rows.items()} for word, name in names.items()}
        return pd.DataFrame(columns, index=list(chosen))

    def by_launch(self, names: Mapping[str, str], *subjects: str) -> pd.DataFrame:
        """Metrics of all launches of some subjects, a row for each launch. names: as in `table()`."""
        rows = self.of(*subjects).set_index(["subject", "operator"])
        return pd.DataFrame({word: rows[name] for word, name in names.items()})

    def summary(self) -> pd.DataFrame:
        """A row for each launch: what it computes, its time, its bytes of DRAM and how busy DRAM and the
        multiprocessors were, as far as the profile has these."""
        rows = self.launches
        columns = {name: rows[name] for name in ("subject", "launch", "operator")}
        columns |= {"part": rows.operator.map(part_of)}
        wanted = {
            "µs": (metrics.TIME, 1e-3),
            "DRAM read, MB": (metrics.DRAM_READ, 1e-6),
            "DRAM written, MB": (metrics.DRAM_WRITE, 1e-6),
            "DRAM, %": (metrics.THROUGHPUTS["DRAM"], 1),
            "compute, %": (metrics.THROUGHPUTS["compute"], 1),
            "registers": (metrics.REGISTERS, 1),
        }
        columns |= {word: rows[name] * scale for word, (name, scale) in wanted.items() if name in rows}
        return pd.DataFrame(columns)

    def __str__(self):
        return (
            f"chain       {self.problem.chain.name}\n"
            f"problem     {self.problem.sizes()}, {self.problem.precision}\n"
            f"launches    {len(self.launches)} of {len(self.subjects)} subjects, {self.origin}"
            + (f"\nbecause     {self.note.partition(';')[0]}" if self.note else "")
        )


def machine_of(launches: pd.DataFrame) -> Machine | None:
    """The machine of the launches, recorded with them or measured here; None for the simulator, which has no
    ceilings."""
    recorded = launches.attrs.get("recorded")
    if recorded:
        return profile_records.read(recorded).machine
    return machine_here() if launches.attrs["machine"] != SIMULATOR else None


def open_session(
    chain: str | Chain,
    shape=None,
    precision: str = "ieee",
    version: str | Sequence[str] | None = None,
    rivals: Sequence[str] = (EAGER, COMPILED),
    device=None,
    recorded: str | None = None,
    progress: bool = True,
) -> Session:
    """Profiles a problem: live if possible, else as recorded, else on the simulator. The arguments are those
    of `fgn.profile()`."""
    where = {"shape": shape, "precision": precision, "version": version, "rivals": rivals}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        launches = profile(chain, **where, device=device, recorded=recorded, progress=progress)
    notes = [str(warning.message) for warning in caught if warning.category is UserWarning]
    sizes = Shape(*(int(launches[name].iloc[0]) for name in Shape._fields))
    described = find_problem(chain, sizes, launches.precision.iloc[0])
    return Session(described, launches, machine_of(launches), "; ".join(notes))
