"""Runs the race benchmark of HiRace (SC 2024) under the checker and records what it says of each kernel.

    python lab/race_suite.py DIR

DIR: a clone of https://github.com/JohnJacobsonIII/HiRace-Artifact-SC24, whose `indigo/indigo_sources` has
the CUDA kernels of the Indigo suite in 590 variants. A variant's name tells its bugs: atomicBug, guardBug,
syncBug and raceBug are races, boundsBug is none (where it leaves an array, the checker says so). The result
is `lab/records/race_suite.csv.xz`: names and verdicts, not code. It takes about five minutes of one core.

Each kernel runs on three graphs, with exact arrays and with arrays that have room behind them, so that an
access out of bounds does not hide a race. A verdict of "missed" is looked at by hand: a race that no input
exhibits (a guard that is never true for two threads) is not one that a run can show.
"""

from __future__ import annotations

import argparse
import re
import warnings
from pathlib import Path

import pandas as pd
import torch

import fgn
from cudasim.counting.faults import KernelWarning
from fgn.measure.software import when_recorded

RESULT = Path(__file__).parent / "records" / "race_suite.csv.xz"
RACES = ("atomicBug", "guardBug", "syncBug", "raceBug")
VERTICES, THREADS, BLOCKS = 60, 64, 4
ROOM = 64
NAMES = ("test_kernel", "atomicRead", "atomicWrite")


def graph(number: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A graph in compressed rows: where each vertex's neighbours begin, and the neighbours."""
    generator = torch.Generator().manual_seed(number)
    degrees = torch.randint(0 if number else 3, 9, (VERTICES,), generator=generator)
    if number == 2:
        degrees[7] = 100
    begins = torch.cat([torch.zeros(1, dtype=torch.int64), degrees.cumsum(0)]).int()
    neighbours = torch.randint(0, VERTICES, (int(begins[-1]),), generator=generator).int()
    return begins, neighbours


def arguments(number: int, room: int) -> tuple:
    begins, neighbours = graph(number)
    size = max(VERTICES, len(neighbours))
    generator = torch.Generator().manual_seed(number)
    data1 = torch.randint(0, VERTICES, (size + room,), generator=generator).int()
    data2 = torch.randint(0, len(neighbours), (size + room,), generator=generator).int()
    data1[0] = data2[0] = 0
    pad = torch.zeros(room, dtype=torch.int32)
    return torch.cat([begins, begins[-1] + pad]), torch.cat([neighbours, pad]), data1, data2, VERTICES


def kernel_text(file: Path) -> str:
    """The device code of a variant, its functions named after the file."""
    text = file.read_text()
    device = text[text.index("typedef int data_t;") : text.index("void serial_code")]
    device = re.sub(r"typedef int data_t;|#include \"indigo_cuda.h\"", "", device)
    for name in NAMES:
        device = re.sub(rf"\b{name}\b", f"{name}_{file.stem}", device)
    return re.sub(r"\bdata_t\b", "int", device)


def verdict(kernel, room: int) -> str:
    """The kind of the first fault or warning on any of the graphs; "nothing" without one."""
    found = "nothing"
    for number in range(3):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", KernelWarning)
            try:
                call = arguments(number, room)
                fgn.check(lambda call=call: kernel[BLOCKS * (32 if is_warp(kernel) else 1), THREADS](*call))
            except fgn.KernelFault as fault:
                return fault.kind
        if any(issubclass(each.category, KernelWarning) for each in caught):
            found = "same value"
    return found


def is_warp(kernel) -> bool:
    return "_warp" in kernel.name or "_block" in kernel.name


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--only", default="*", help="a pattern of folders")
    options = parser.parse_args()
    rows = []
    for folder in sorted((options.directory / "indigo" / "indigo_sources").glob(options.only)):
        files = sorted(folder.glob("*.cu"))
        source = "\n".join(kernel_text(file) for file in files)
        for file in files:
            kernel = fgn.kernel(source, f"test_kernel_{file.stem}", f"{folder.name}.cu")
            has_race = any(bug in file.stem for bug in RACES)
            exact, roomy = verdict(kernel, 0), verdict(kernel, ROOM)
            rows.append((file.stem, has_race, exact, roomy))
        print(f"{folder.name}: {len(files)} kernels", flush=True)
    table = pd.DataFrame(rows, columns=["kernel", "has_race", "exact_arrays", "with_room"])
    if options.only == "*":
        table.assign(**when_recorded()).to_csv(RESULT, index=False)
    said = table["with_room"].str.startswith("race") | table["exact_arrays"].str.startswith("race")
    print(pd.crosstab(table["has_race"], said.rename("said to race")))


if __name__ == "__main__":
    main()
