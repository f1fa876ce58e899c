"""Where a notebook runs, whose times it predicts, and its measurements beyond `fgn.bench()`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd
import torch
import torch.nn.functional as F

from fgn.chains import Chain, Shape, default_shape, find
from fgn.functional import group_norm, linear
from fgn.ladder import default_device
from fgn.measure.accuracy import relative_error
from fgn.measure.benchmark import F_LINEAR, measure, summarise
from fgn.measure.machine import Machine, machine_here
from fgn.measure.records import Record, read, recorded
from fgn.problem import Problem, find_problem
from fgn.reference import ieee_float32

F_GROUP_NORM = "F.group_norm"


def recorded_results() -> Record | None:
    """The results that are drawn beside the reader's own: the H200's, or None if none are recorded."""
    return read("h200") if "h200" in recorded() else None


@dataclass(frozen=True)
class Setting:
    """Where a notebook runs and whose times it predicts.

    device, problem: what runs here. machine, predicted: the machine and the problem of predictions: the GPU
    here, else the recorded one, else None. record: the recorded results, or None.
    """

    device: torch.device
    problem: Problem
    machine: Machine | None
    predicted: Problem
    record: Record | None

    @property
    def chain(self) -> Chain:
        return self.problem.chain

    @property
    def shape(self) -> Shape:
        """The sizes that run here."""
        return self.problem.shape

    @property
    def machine_shape(self) -> Shape:
        """The sizes whose times are predicted."""
        return self.predicted.shape

    @property
    def on_gpu(self) -> bool:
        return self.device.type == "cuda"

    @property
    def here(self) -> str:
        """This machine's name beside recorded ones."""
        return self.machine.name if self.on_gpu else "the simulator"

    @property
    def steps(self) -> float:
        """Multiply-adds of a warp in the matrix product at `machine_shape`."""
        return self.predicted.steps

    def inputs(self):
        """Random (x, parameters) at `shape`, like those of `fgn.bench()`."""
        return self.problem.inputs(self.device)

    def recorded(self) -> pd.DataFrame:
        """The recorded times of this chain at `machine_shape`; no rows if there are none."""
        if self.record is None:
            return pd.DataFrame(columns=["part", "subject", "median_ms"])
        return self.predicted.rows(self.record.benchmark)

    def recorded_errors(self) -> pd.DataFrame:
        """The recorded errors of this chain at `machine_shape`, as `fgn.compare()` returns them."""
        rows = self.predicted.rows(self.record.errors).set_index("version")
        return rows.drop(columns=["chain", *Shape._fields])

    def measured(self, times: pd.DataFrame, subject: str, part: str = "linear") -> dict[str, float]:
        """The median times in ms for comparison with a prediction, by their source.

        `times` is from `fgn.bench()` here, and is used if it is a GPU's. A recorded time is always included.
        """
        found = {}
        sources = {f"{self.here}, here": times} if self.on_gpu else {}
        if self.record is not None:
            sources[f"{self.record.environment['device']}, recorded"] = self.recorded()
        for name, rows in sources.items():
            median = rows.median_ms[(rows.part == part) & (rows.subject == subject)].dropna()
            if len(median):
                found[name] = float(median.iloc[0])
        return found

    def beside(self, times: pd.DataFrame) -> pd.DataFrame:
        """`times` from here and the recorded ones of the same subjects, distinguished by the column
        `machine`."""
        here = times.assign(machine=f"here: {self.here}")
        rows = self.recorded()
        rows = rows[rows.subject.isin(times.subject)]
        if rows.empty:
            return here
        return pd.concat(
            [here, rows.assign(machine=f"recorded: {self.record.environment['device']}")], ignore_index=True
        )

    def of_gpus(self, times: pd.DataFrame) -> pd.DataFrame:
        """Like `beside()`, without the simulator's times, which say nothing about a GPU; they are included
        only if no GPU's are known."""
        rows = self.beside(times)
        of_gpus = rows[rows.machine.isin(self.machines())]
        return rows if of_gpus.empty else of_gpus

    def machines(self) -> dict[str, Machine]:
        """The machines of `beside()`, by their names there, without the simulator, which has no ceilings."""
        found = {f"here: {self.here}": self.machine} if self.on_gpu else {}
        if self.record is not None:
            found[f"recorded: {self.record.environment['device']}"] = self.record.machine
        return found

    def __str__(self):
        predicted = "no GPU here and none recorded: predictions stop at counts and cycles"
        if self.machine is not None:
            origin = "this GPU" if self.on_gpu else "recorded"
            predicted = f"{self.machine.name} ({origin}), {self.predicted.sizes()}"
        return (
            f"chain       {self.chain.name}\n"
            f"runs on     {self.here}, {self.problem.sizes()}\n"
            f"predicts    {predicted}"
        )


def setting(chain: str | Chain) -> Setting:
    """The setting for a chain on this machine. On a GPU this measures its ceilings, once."""
    device, record, described = default_device(), recorded_results(), find(chain)
    machine = record.machine if record else None
    if device.type == "cuda":
        machine = machine_here()
    predicted = Problem(described, default_shape(described, "cuda"))
    return Setting(device, find_problem(described, device=device), machine, predicted, record)


def check_linear(setting: Setting, version: str) -> pd.DataFrame:
    """The relative errors against float64 of a version's matrix product and of F.linear."""
    x, parameters = setting.inputs()
    weight, bias = parameters["weight"], parameters["bias"]
    with torch.no_grad(), ieee_float32():
        exact = F.linear(x.double(), weight.double(), bias.double())
        results = {version: linear(x, weight, bias, version), F_LINEAR: F.linear(x, weight, bias)}
    errors = {name: relative_error(y, exact) for name, y in results.items()}
    return pd.DataFrame({"relative error": errors})


def time_group_norm(setting: Setting, names: list[str], seconds: float = 0.2) -> pd.DataFrame:
    """The times of some versions' GroupNorm alone and of torch's, on the chain's intermediate.

    One row each, as in `fgn.bench()`, with the part "norm".
    """
    batch, _, out_features, groups = setting.shape
    x = torch.randn(batch, out_features, generator=torch.Generator().manual_seed(0)).to(setting.device)
    calls = {name: lambda name=name: group_norm(x, groups, version=name) for name in names}
    calls[F_GROUP_NORM] = lambda: F.group_norm(x, groups)
    with torch.no_grad():
        times = measure(calls, setting.device, seconds)
    rows = [
        {
            "chain": setting.chain.name,
            **setting.shape._asdict(),
            "device": setting.device.type,
            "part": "norm",
            "subject": name,
            **summarise(values),
            "note": "simulator" if name in names and not setting.on_gpu else "",
        }
        for name, values in times.items()
    ]
    return pd.DataFrame(rows)


def time_calls(
    setting: Setting, calls: dict[str, Callable[[], object]], seconds: float = 0.2
) -> pd.DataFrame:
    """The times of any calls, taken in turns, as by `fgn.bench()`; a row each."""
    with torch.no_grad():
        times = measure(calls, setting.device, seconds)
    frame = pd.DataFrame({name: summarise(values) for name, values in times.items()}).T
    return frame.assign(machine=setting.here)
