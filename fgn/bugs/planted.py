"""The planted mistakes: the file of each, the data that show it, and what finds it, from `bugs/bugs.csv`."""

from __future__ import annotations

import csv
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

    file: in `bugs/`; if it needs its own host side, that is beside it. right: the changed file in
    `bugs/right/`. mistake: in a few words.
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
    def files(self) -> dict[Path, Path]:
        """The broken file, by the right file that it replaces."""
        pairs = {}
        for suffix in (".cu", ".py"):
            broken = FOLDER / f"{self.name}{suffix}"
            if broken.exists():
                pairs[(RIGHT / self.right).with_suffix(suffix)] = broken
        return pairs


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
