"""The planted mistakes: what each changes in a right kernel, the data that show it, and what finds it.

`bugs/bugs.csv` is the table, and `bugs/NAME.diff` has a mistake's story and its change.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from fgn.native.places import ROOT

FOLDER = ROOT / "bugs"
RIGHT = FOLDER / "right"

# The kernels of each chain's parts: the product with the operators before, the norm with those after.
KERNELS = {
    "gemm_biasadd_hardtanh_mish_groupnorm": ("gemm_tile", "norm_tree"),
    "gemm_groupnorm_hardtanh": ("gemm_float4", "norm_atomic"),
    "matmul_groupnorm_leakyrelu_sum": ("gemm_float4", "norm_warp"),
}

COMPARISON = "comparison"


@dataclass(frozen=True)
class Bug:
    """A planted mistake.

    file: what the broken file is called in reports. right: the file in `bugs/right/` that it is made from.
    mistake: in a few words.
    found_by: "comparison" with float64, or the kind of the KernelFault. data: the data that shows the
    mistake, a key of `DATA`. shown: for a fault, the line of source that it names: the wrong line, or the
    line where something is missing; for a comparison, words of its report.
    """

    file: str
    right: str
    mistake: str
    found_by: str
    data: str
    shown: str

    @property
    def name(self) -> str:
        return Path(self.file).stem

    @property
    def chain(self) -> str:
        """The chain in which the mistake is planted."""
        return next(chain for chain, kernels in KERNELS.items() if Path(self.right).stem in kernels)

    @property
    def story(self) -> str:
        """The mistake, why people make it, what they see, and how it is found."""
        return self._halves[0].strip()

    @property
    def diff(self) -> str:
        """What the mistake changes in the right file, and in its host side if that must change too."""
        return self._halves[1]

    @property
    def _halves(self) -> tuple[str, str]:
        text = (FOLDER / f"{self.name}.diff").read_text()
        begin = text.index("--- right/")
        return text[:begin], text[begin:]

    @property
    def files(self) -> dict[str, BrokenFile]:
        """The broken files, by the names of the right files that they replace."""
        changes = re.split(r"^--- right/(.*)\n\+\+\+ (.*)\n", self.diff, flags=re.M)[1:]
        return {
            right: broken_file((RIGHT / right).read_text(), name, hunks)
            for right, name, hunks in zip(changes[::3], changes[1::3], changes[2::3], strict=True)
        }

    @property
    def broken(self) -> BrokenFile:
        """The one that has the mistake."""
        return next(broken for broken in self.files.values() if broken.name == self.file)


@dataclass(frozen=True)
class BrokenFile:
    """changed: the numbers of the lines that have the mistake. Where it leaves out lines, the line in their
    place counts."""

    name: str
    text: str
    changed: frozenset[int]


def broken_file(right: str, name: str, hunks: str) -> BrokenFile:
    """The right text with the hunks of a unified diff applied. ValueError if they do not fit to it."""
    before, after, changed, at = right.splitlines(), [], set(), 0
    for line in hunks.splitlines():
        if head := re.match(r"@@ -(\d+)", line):
            after += before[at : int(head[1]) - 1]
            at = int(head[1]) - 1
            continue
        if line[:1] in "+-":
            changed.add(len(after) + 1)
        if not line.startswith("+"):
            if before[at] != line[1:]:
                raise ValueError(f"{name}: expected {line[1:]!r} in line {at + 1}, got {before[at]!r}")
            at += 1
        if not line.startswith("-"):
            after.append(line[1:])
    return BrokenFile(name, "\n".join([*after, *before[at:]]) + "\n", frozenset(changed))


BUGS = {
    row["file"].partition(".")[0]: Bug(**row)
    for row in csv.DictReader((FOLDER / "bugs.csv").read_text().splitlines())
}


def find_bug(bug: str | int | Bug) -> Bug:
    """The bug with this name or number. Numbers are rows of `table()`, from 0; unlike the name, a number does
    not reveal the mistake."""
    if isinstance(bug, Bug):
        return bug
    if isinstance(bug, int):
        if not 0 <= bug < len(BUGS):
            raise IndexError(f"bug: expected 0 to {len(BUGS) - 1}, got {bug}")
        return list(BUGS.values())[bug]
    if bug not in BUGS:
        raise ValueError(f"bug: expected one of {', '.join(BUGS)}, got {bug!r}")
    return BUGS[bug]


def table() -> pd.DataFrame:
    """The table of bugs, without running them."""
    columns = ("file", "right", "mistake", "data", "found_by")
    return pd.DataFrame([{name: getattr(bug, name) for name in columns} for bug in BUGS.values()])


def kinds() -> tuple[str, ...]:
    """What may find a mistake of the gallery: a kind of KernelFault, or comparison with float64."""
    return tuple(sorted({bug.found_by for bug in BUGS.values()}))
