"""Which public kernels compute on the simulator what they must:

    python lab/corpus_runs.py DIR [--aside NAME ...]

DIR has a folder for each repository, named owner+name, as for lab/corpus.py. Every call of
lab/corpus_calls is made of the kernel as it is in its file, checked as by `fgn.check()`, and what it has
written is compared with the reference. One that `check` flags for a race is run once more without it. The
result goes to lab/records/corpus_runs.csv.xz, beside what compiles: "right", "wrong", "flagged" (right, or
not compared, but `check` reports a fault), "flagged, wrong" or "refused"; and `why`, which names the bug in
the kernel itself where there is one. The columns date and commit of the result that is there now are of the
commit that brought it: its runs were put together, and were made before that commit.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import pkgutil
import sys
import time
import warnings
from pathlib import Path

import corpus_calls
import pandas as pd
import torch
from corpus import include_folders
from corpus_calls import calls
from corpus_calls.calls import Run
from torch import Tensor

from cudasim.counting.faults import KernelFault
from cudasim.live.kernels import Kernel, Program
from fgn.measure.software import when_recorded
from fgn.native.places import ROOT

RESULT = ROOT / "lab" / "records" / "corpus_runs.csv.xz"


def tables() -> dict[str, list[Run]]:
    """All runs, by repository."""
    names = [module.name for module in pkgutil.iter_modules(corpus_calls.__path__) if module.name != "calls"]
    modules = [importlib.import_module(f"corpus_calls.{name}") for name in sorted(names)]
    return {module.REPOSITORY: module.RUNS for module in modules}


@functools.lru_cache(maxsize=8)
def _program(path: Path, repository: Path, only: str | None) -> Program:
    text = path.read_text(errors="replace")
    return Program(text, f"{path.stem}.cu", include_folders(path, repository), only, has_warned=True)


def _as_reference(argument):
    is_float = isinstance(argument, Tensor) and argument.is_floating_point()
    return argument.double() if is_float else argument.clone() if isinstance(argument, Tensor) else argument


def _difference(got: Tensor, expected: Tensor) -> float:
    """The largest difference, relative to the largest value."""
    got, expected = got.double().flatten(), torch.as_tensor(expected).double().flatten()
    if got.numel() != expected.numel():
        raise ValueError(f"expected {got.numel()} values of the reference, got {expected.numel()}")
    both_same = (got == expected) | (got.isnan() & expected.isnan())
    difference = torch.where(both_same, 0.0, (got - expected).abs())
    return difference.max().item() / max(expected[expected.isfinite()].abs().max().item(), 1e-30)


def _call(kernel: Kernel, run: Run, unchecked: bool) -> float:
    """Runs it, and says how far from the reference it is."""
    calls.generator.manual_seed(0)
    arguments = run.arguments()
    before = [_as_reference(argument) for argument in arguments]
    keywords = {} if run.template is None else {"template": run.template}
    kernel[run.grid, run.block, run.shared](*arguments, **keywords, unchecked=unchecked)
    expected = run.expected(*before)
    return max(_difference(arguments[place], value) for place, value in expected.items())


def result(run: Run, repository: Path) -> tuple[str, str]:
    """What came of a run, and the difference or what was said."""
    path = repository / (run.within or run.file)
    kernel = Kernel(_program(path, repository, run.kernel), run.kernel)
    said = ""
    try:
        try:
            difference = _call(kernel, run, unchecked=False)
        except KernelFault as fault:
            said = str(fault)
            if not said.startswith("race"):
                return "flagged", said  # without the check it might write anywhere
            difference = _call(kernel, run, unchecked=True)
    except Exception as error:
        return "refused", f"{type(error).__name__}: {error}"
    is_right = difference <= run.tolerance
    outcome = ", ".join(word for word in ("flagged" if said else "", "" if is_right else "wrong") if word)
    return outcome or "right", said or f"difference {difference:.1e}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--aside", nargs="*", default=[], help="repositories that nothing was tuned on")
    parser.add_argument("--only", help="only this repository; nothing is recorded")
    parser.add_argument("--kernel", help="only kernels of this name; nothing is recorded")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    rows, begun = [], time.time()
    for repository, runs in tables().items():
        if arguments.only not in (None, repository):
            continue
        for run in runs:
            if arguments.kernel not in (None, run.kernel):
                continue
            folder = arguments.directory / repository.replace("/", "+")
            outcome, said = result(run, folder)
            kept = "aside" if folder.name in arguments.aside else "tuned"
            rows.append((repository, kept, run.file, run.kernel, outcome, run.bug))
            if outcome != "right":
                print(f"{outcome}: {run.file} {run.kernel}\n    {said[:1500]}", flush=True)
    table = pd.DataFrame(rows, columns=["repository", "set", "file", "kernel", "result", "why"])
    print(pd.crosstab([table.set, table.repository], table.result).to_string())
    print(f"{len(table)} runs, {(table.result == 'right').sum()} right, in {time.time() - begun:.0f} s")
    if arguments.only is None and arguments.kernel is None:
        table.assign(**when_recorded()).to_csv(RESULT, index=False)


if __name__ == "__main__":
    sys.exit(main())
