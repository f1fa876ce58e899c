"""A profiling session for a user's kernel: the questions of notebook 08, its pictures, advice by line.

With a GPU and ncu the launch is profiled; without, requests and conflicts are counted by the simulator and
times predicted (`cudasim.predicting.as_ncu`). The questions and the pictures are the same.
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from cudasim.arrays import array_of, is_array
from cudasim.counting import metrics as m
from cudasim.live.kernels import BoundLaunch
from cudasim.predicting.advice import Advices
from cudasim.predicting.as_ncu import metrics_of
from cudasim.predicting.cards import Card
from cudasim.predicting.cards import card as card_of
from cudasim.predicting.prediction import Prediction, predict
from cudasim.predicting.samples import Samples
from cudasim.predicting.source_page import SourcePage, source_page
from fgn.measure.machine import Machine, machine_here
from fgn.problem import PROBLEM
from fgn.profiling.ncu import ProfilerError
from fgn.profiling.stalls import SECTION, profile_launch, read_samples, recorded_samples

QUESTIONS = {
    "full": "Which part of the machine is full?",
    "moved": "What does it ask of memory, and what comes from where?",
    "waits": "What do the warps wait for?",
    "room": "How many warps are there, and what limits them?",
    "roof": "How far is it from what the machine allows?",
}


@dataclass(frozen=True)
class Answer:
    """A question of the session with its answer in numbers, and its picture. figure: None if there is none,
    and `why` tells the reason."""

    question: str
    words: str
    figure: object | None
    why: str = ""

    def __str__(self) -> str:
        return "\n".join(filter(None, (self.question, self.words, self.why)))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        words = "<br>".join(map(html.escape, filter(None, (self.words, self.why))))
        picture = ""
        if self.figure is not None:
            from fgn.plot.style import with_palette

            data = io.BytesIO()
            self.figure.savefig(data, format="png", dpi=72, bbox_inches="tight", facecolor="white")
            code = base64.b64encode(with_palette(data.getvalue())).decode()
            picture = f'<br><img alt="{html.escape(self.question)}" src="data:image/png;base64,{code}">'
        return f"<div><b>{html.escape(self.question)}</b><br>{words}{picture}</div>"


@dataclass(frozen=True)
class OwnSession:
    """launch, arguments: the profiled launch. launches: its row of metrics by ncu's names. prediction: of the
    launch, whether or not it was measured. samples: stall samples or None. machine: the GPU's ceilings. note:
    why nothing was measured, if so."""

    launch: BoundLaunch
    arguments: tuple
    launches: pd.DataFrame
    prediction: Prediction
    samples: Samples | None
    machine: Machine
    note: str = ""

    @property
    def _row(self) -> pd.Series:
        return self.launches.iloc[0]

    def __str__(self) -> str:
        row = self._row
        lines = [
            f"{self.launch.kernel.name}[{self.launch.grid}, {self.launch.block}]: "
            f"{row[m.TIME] / 1e3:,.1f} µs, {self.launches.attrs['machine']}",
            *([f"because {self.note}"] if self.note else []),
            *(f'ask("{name}")   {question}' for name, question in QUESTIONS.items()),
            "advice, page()   what would help, and the source line by line",
        ]
        return "\n".join(lines)

    __repr__ = __str__

    # ---- The questions

    def ask(self, name: str) -> Answer:
        """The answer to one of `QUESTIONS`. ValueError for any other question."""
        if name not in QUESTIONS:
            raise ValueError(f"name: expected one of {', '.join(QUESTIONS)}, got {name!r}")
        words = getattr(self, f"_{name}")()
        try:
            return Answer(QUESTIONS[name], words, self._pictures[name]())
        except ValueError as error:
            return Answer(QUESTIONS[name], words, None, f"no picture: {error}")

    def pictures(self) -> dict[str, object]:
        """The available pictures, by the names of the questions."""
        answers = {name: self.ask(name) for name in QUESTIONS}
        return {name: answer.figure for name, answer in answers.items() if answer.figure is not None}

    @cached_property
    def _pictures(self) -> dict[str, Callable]:
        from fgn.plot import launches as drawn
        from fgn.plot.roofline import launch_roofline

        return {
            "full": lambda: drawn.pipes(self.launches),
            "moved": lambda: drawn.memory_chart(self.launches),
            "waits": lambda: drawn.stalls(self.launches),
            "room": lambda: drawn.occupancy(self.launches),
            "roof": lambda: launch_roofline(self.launches, self.machine),
        }

    def _full(self) -> str:
        names = {"issue slots": m.ISSUE, **m.PIPES, **{name: m.THROUGHPUTS[name] for name in ("L2", "DRAM")}}
        there = {name: self._row[metric] for name, metric in names.items() if metric in self._row}
        most = sorted(there, key=there.get, reverse=True)[:3]
        said = ", ".join(f"{name} {there[name]:.0f} %" for name in most)
        verdict = "nothing is full: look at what the warps wait for" if there[most[0]] < 60 else most[0]
        return f"{said}: {verdict}"

    def _moved(self) -> str:
        row, parts = self._row, []
        for word, operation in (("load", "ld"), ("store", "st")):
            requests = row.get(m.GLOBAL_REQUESTS[operation], 0)
            if requests:
                sectors = row[m.GLOBAL_SECTORS[operation]]
                parts.append(f"{sectors / requests:.3g} sectors for a request of a global {word}")
        conflicts = sum(row.get(metric, 0) for metric in m.BANK_CONFLICTS.values())
        if sum(row.get(metric, 0) for metric in m.SHARED_REQUESTS.values()):
            parts.append(f"{conflicts:,.0f} bank conflicts")
        parts.append(f"{(row[m.DRAM_READ] + row[m.DRAM_WRITE]) / 1e6:,.1f} MB to and from DRAM")
        return "; ".join(parts)

    def _waits(self) -> str:
        there = {name: self._row.get(metric, 0.0) for name, metric in m.STALLS.items()}
        there = {name: value for name, value in there.items() if value > 0}
        if not there:
            return "no machine code, no answer: nvcc and nvdisasm make it"
        total = sum(there.values())
        said = f"an instruction of a warp takes {total:,.1f} clocks: {_most_frequent(there)}"
        if self.samples is None or not len(lines := self.samples.lines):
            return said
        line = int(lines.samples.idxmax())
        text = self.launch.kernel.source.splitlines()[line - 1].strip().rstrip(";")
        part = lines.samples[line] / self.samples.total
        seen = _most_frequent(lines.drop(columns="samples").sum().to_dict())
        return (
            f"samples on {self.samples.gpu}: {seen}, and {part:.0%} of all at line {line}: {text}; "
            f"{self.launches.attrs['machine']}: {said}"
        )

    def _room(self) -> str:
        row = self._row
        limits = {name: row[metric] for name, metric in m.OCCUPANCY_LIMITS.items() if metric in row}
        fewest = min(limits.values())
        by = ", ".join(name for name, blocks in limits.items() if blocks == fewest)
        return (
            f"{row[m.OCCUPANCY_POSSIBLE]:.0f} % of the warps that a multiprocessor holds, limited by {by}; "
            f"{row[m.OCCUPANCY]:.0f} % are there on average"
        )

    def _roof(self) -> str:
        arrays = {id(each): array_of(each) for each in self.arguments if is_array(each)}
        moved = sum(of.nbytes for of in arrays.values())
        floor = moved / self.machine.dram_bytes_per_second
        times = self._row[m.TIME] * 1e-9 / floor
        return (
            f"{self._row[m.TIME] / 1e3:,.1f} µs; DRAM would move the arguments' {moved / 1e6:,.1f} MB once "
            f"in {floor * 1e6:,.1f} µs, {1 / times:.0%} of it"
        )

    @property
    def advice(self) -> Advices:
        """Advice in words, each with its line, from counts and predicted times."""
        return self.prediction.advice

    def page(self) -> SourcePage:
        """The source with each line's costs, and with stall samples if there are some; beside it SASS and
        PTX."""
        gpu = self.prediction.on[0].card
        return source_page(self.launch, *self.arguments, gpu=gpu, samples=self.samples)


def _most_frequent(reasons: dict[str, float], most: int = 2) -> str:
    """The most frequent reasons to wait, with their shares; "selected" waits for nothing."""
    total = sum(reasons.values())
    waits = sorted((name for name in reasons if name != "selected"), key=reasons.get, reverse=True)
    return ", ".join(f"{name} {reasons[name] / total:.0%}" for name in waits[:most])


def _row_of(kernel: str, launch: BoundLaunch, found: dict[str, float], card: Card) -> pd.DataFrame:
    where = dict.fromkeys(PROBLEM, "") | {
        "subject": kernel,
        "launch": 0,
        "operator": kernel,
        "kernel": kernel,
    }
    rows = pd.DataFrame([{**where, "grid": launch.grid, "block": launch.block, **found}])
    rows.attrs = {"machine": f"{card.name}, predicted", "multiprocessors": card.multiprocessors}
    return rows


def machine_of_card(card: Card) -> Machine:
    """A card's ceilings, from its file."""
    return Machine(
        name=card.name,
        dram_bytes_per_second=card.dram_bandwidth,
        product_operations_per_second={"ieee": card.flops},
        multiprocessors=card.multiprocessors,
        clock_hz=card.clock_hz,
        l2_bytes=card.l2_bytes,
        l2_bytes_per_second=card.l2_bandwidth,
        l1_bytes_per_second=card.l1_bytes_per_clock * card.multiprocessors * card.clock_hz,
        fp32_operations_per_second=card.flops,
        launch_seconds=card.launch_seconds,
    )


def open_own_session(
    launch: BoundLaunch, *arguments, gpu="H200", samples: Samples | Path | str | None = None
) -> OwnSession:
    """Profiles a user's launch: by ncu if its tensors are on a GPU, else counted and predicted.

    launch, arguments: as for `cudasim.predict()`: `open_own_session(kernel[grid, block], y, x, n)`. gpu: the
    card for predictions, from `cudasim.cards()`. samples: a file of `Samples.save()`, or a report of ncu,
    instead of new samples. By default ncu takes new ones; if nothing is measured, they are those in
    `profiles/` for exactly this text, if any. ValueError for samples of another text.
    """
    kernel = launch.kernel
    if samples is not None and not isinstance(samples, Samples):
        found = read_samples(samples)
        samples = next((each for each in found if each.file == kernel.file), found[0])
    if samples is not None and (why := samples.not_of(kernel)):
        raise ValueError(f"samples: {why}")
    prediction = predict(launch, *arguments, gpu=gpu)
    note = "the arguments are on the CPU: what is counted is exact, times and waits are predicted"
    if any(is_array(each) and array_of(each).device != "cpu" for each in arguments):
        try:
            sections = (SECTION,) if samples is None else ()
            measured, taken = profile_launch(launch, *arguments, metrics=m.SETS["default"], sections=sections)
            rows = measured[measured.kernel == kernel.name].head(1)
            rows = rows.assign(subject=kernel.name, operator=kernel.name)
            rows.attrs = measured.attrs
            return OwnSession(launch, arguments, rows, prediction, samples or taken, machine_here())
        except ProfilerError as error:
            note = str(error)
    samples = samples or recorded_samples(kernel)
    card = card_of(gpu)
    rows = _row_of(kernel.name, launch, metrics_of(prediction), card)
    return OwnSession(launch, arguments, rows, prediction, samples, machine_of_card(card), note)
