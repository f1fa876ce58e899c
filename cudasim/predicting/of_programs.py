"""Times of a whole program's launches: `python -m cudasim predict program.cu`."""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from cudasim.counting.counted import Launch
from cudasim.predicting import machine_code
from cudasim.predicting.cards import Card, card
from cudasim.predicting.flow import line_of
from cudasim.predicting.machine_code import MachineCode
from cudasim.predicting.prediction import Prediction, predicted
from cudasim.predicting.sampling import Sample
from cudasim.predicting.statements import Statements

BLOCK_L1_BYTES = 24 << 10  # of L1 for a block: nobody knows before the launch how many a multiprocessor holds
_ALL_MEMORY = (("memory", 0, 1 << 62),)


def _codes(sources: Iterable[Path], flags: Sequence[str], architecture: str) -> dict[str, list[MachineCode]]:
    """The program's kernels by the last part of their names."""
    found: dict[str, list[MachineCode]] = {}
    for source in sources:
        folders = (source.resolve().parent, *machine_code.HEADER_FOLDERS)
        text = source.read_text(encoding="utf-8-sig", errors="replace")
        headers = [path.read_text(errors="replace") for path in sorted(source.resolve().parent.glob("*.*h*"))]
        folder = machine_code.compiled(text, source.name, architecture, folders, flags, headers)
        for name, code in machine_code.codes_in(folder, architecture).items():
            plain = re.match(r"(?:void )?([\w:]+)", machine_code.demangled(name))
            found.setdefault(plain[1].split("::")[-1] if plain else name, []).append(code)
    return found


def predictions(launches: Iterable[Launch], asked: dict) -> list[Prediction]:
    """asked: as for `show()`."""
    sources = [Path(source) for source in asked["sources"]]
    cards: list[Card] = [card(name) for name in asked["gpus"]]
    texts = {source.name: source.read_text(errors="replace") for source in sources}
    flags = [*(f"-D{name}" for name in asked["defines"]), *(f"-I{folder}" for folder in asked["folders"])]
    by_name: dict[str, dict[str, list[MachineCode]]] = {}
    if machine_code.is_there():
        names = {machine_code.architecture_for(of.capability) for of in cards}
        of_cuda = [source for source in sources if source.suffix in (".cu", ".cuh")]
        by_name = {name: _codes(of_cuda, flags, name) for name in names}
    files, found = Statements(texts), []
    for launch in launches:
        kernel = re.match(r"[\w:]*", launch.kernel)[0].split("::")[-1]
        sample = Sample(
            kernel, launch.grid, launch.block, launch.dynamic_shared_bytes, (launch,), _ALL_MEMORY, 0.0
        )
        of_name = [of[kernel] for of in by_name.values() if kernel in of]
        instances = [dict(zip(by_name, codes, strict=True)) for codes in zip(*of_name, strict=True)]
        every = [predicted(launch.kernel, sample, codes, cards, texts) for codes in instances or [None]]
        found.append(_fitting(every, files) if len(every) > 1 else every[0])
    return found


def _fitting(every: list[Prediction], files: Statements) -> Prediction:
    """Of the predictions of one launch, each by another instance of a template or an overload, that whose
    lines are those that were counted. Where several have them it is the slowest, with a warning."""

    def lacks(one: Prediction) -> int:
        lines = {line_of(instruction, files) for instruction in one.on[0].code.instructions}
        return sum((place.file, place.line) not in lines for place in one.sample.passed)

    least = min(map(lacks, every))
    alike = [one for one in every if lacks(one) == least]
    slowest = max(alike, key=lambda one: one.seconds)
    if slowest.seconds > 1.05 * min(one.seconds for one in alike):
        warnings.warn(
            f"predict: {len(alike)} instances of the template {slowest.kernel} are not told apart, and the "
            "time is that of the slowest",
            stacklevel=4,
        )
    return slowest


def show(launches: Iterable[Launch], asked: str):
    """Prints a row for each launch, with its time on each GPU. asked: JSON of sources, folders, defines, gpus
    and csv, a file for the table or ""."""
    given = json.loads(asked)
    rows = []
    for number, one in enumerate(predictions(launches, given)):
        row = {"launch": number, "kernel": one.kernel, "grid": one.sample.grid, "block": one.sample.block}
        for on in one.on:
            row |= {f"{on.card.name} us": on.seconds * 1e6, "low": on.low * 1e6, "high": on.high * 1e6}
            row |= {"limiter": on.limiter}
            if len(one.on) > 1:
                row = {name: value for name, value in row.items() if name not in ("low", "high", "limiter")}
                row[f"{on.card.name} limiter"] = on.limiter
        rows.append(row)
    table = pd.DataFrame(rows)
    if given["csv"]:
        table.to_csv(given["csv"], index=False)
        return
    print(table.round(2).to_string(index=False) if rows else "no launch", file=sys.stderr)
    if rows:
        total = table[[name for name in table if name.endswith(" us")]].sum()
        sums = ", ".join(f"{name.removesuffix(' us')} {of:,.1f} µs" for name, of in total.items())
        print(f"all launches together: {sums}", file=sys.stderr)
