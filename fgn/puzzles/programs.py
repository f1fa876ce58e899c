"""The check of a puzzle that is a program with a main(): `cudasim check` runs it, for many sizes.

The program is built once. For each size it runs in a process of its own, gets the sizes as arguments, and
prints its results: numbers, or the words of an error, with which it then ends by another code than 0.
"""

from __future__ import annotations

import ctypes
import os
import re
import resource
import signal
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cudasim.building.library import BuildError
from cudasim.counting.apart import PACKAGES, Counts
from cudasim.live.text import blanked
from cudasim.programs.building import CHECK, COUNT, Program, command
from fgn.puzzles.definition import FAULT, WRONG, Sizes, Task, calls_of
from fgn.puzzles.verdict import CRASHED, ENDLESS, Verdict

SECONDS = 12  # of the processor's time, for each size
_MOST_SECONDS = 60.0  # by the clock, for a program that sleeps
_MOST_SHOWN = 6  # lines of faults
_ENDS_WITH_PARENT = 1  # PR_SET_PDEATHSIG


@dataclass(frozen=True)
class Ran:
    """The outcome of a program. status: its exit code, or None if it took too long. said: the checks'
    messages, a line each."""

    status: int | None
    printed: str
    said: tuple[str, ...]


def _limited():
    """Runs in the program's process, before it begins."""
    ctypes.CDLL(None).prctl(_ENDS_WITH_PARENT, signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))


class Running:
    """A program's source, built once and run as often as needed."""

    def __init__(self, name: str, source: str):
        self.name, self.file, self.source = name, f"{name}.cu", source
        self._folder = tempfile.TemporaryDirectory()
        self._libraries: dict[str, Path] = {}

    def build(self, mode: str = CHECK) -> Path:
        """The built program. BuildError with the compiler's messages."""
        if mode not in self._libraries:
            path = Path(self._folder.name) / self.file
            path.write_text(self.source, encoding="utf-8")
            try:
                self._libraries[mode] = Program((path,)).library(mode)
            except BuildError as error:
                raise BuildError(str(error).replace(f"{self._folder.name}/", "")) from None
        return self._libraries[mode]

    def run(self, mode: str, sizes: Sizes, table: str = "") -> Ran:
        words = [str(value) for value in sizes.values()]
        process = subprocess.Popen(
            command(mode, self.build(mode), self.name, words, table),
            cwd=self._folder.name,
            env=os.environ | {"PYTHONPATH": str(PACKAGES), "PYTHONWARNINGS": "ignore"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=_limited,
        )
        status = None
        try:
            out, err = process.communicate(timeout=_MOST_SECONDS)
            status = process.returncode if process.returncode != -signal.SIGXCPU else None
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
        lines = err.decode(errors="replace").replace(f"{self._folder.name}/", "").splitlines()
        said = [line.removeprefix("cudasim: ") for line in lines if line.startswith("cudasim: ")]
        said = tuple(line for line in said if not line.startswith("warning: "))
        return Ran(status, out.decode(errors="replace"), said)

    def counts(self, sizes: Sizes) -> Counts:
        """The summed counts of its launches, and the functions of CUDA that its source calls, how often and
        where. RuntimeError if the program does not end."""
        import pandas as pd

        path = Path(self._folder.name) / "counts.csv"
        path.unlink(missing_ok=True)
        if self.run(COUNT, sizes, str(path)).status != 0:
            raise RuntimeError("the program did not come to its end when its launches were counted")
        try:
            table = pd.read_csv(path)
        except (FileNotFoundError, pd.errors.EmptyDataError):  # there was no launch
            table = pd.DataFrame()
        totals = table.select_dtypes("number").sum().to_dict() if len(table) else {}
        lines = []
        for number, line in enumerate(blanked(self.source).splitlines(), 1):
            for name in re.findall(r"\b(cuda\w+)\s*\(", line):
                totals[calls_of(name)] = totals.get(calls_of(name), 0) + 1
                lines.append({"file": self.file, "line": number, calls_of(name): 1})
        return Counts(len(table), totals, lines, 0.0)


def _marked_lines(running: Running, said: tuple[str, ...]) -> list[str]:
    """The lines of the source in the checks' messages, with their numbers; for an impossible launch, which is
    reported by its kernel, the lines that launch it."""
    text = running.source.splitlines()
    refused = {name for line in said for name in re.findall(r"^invalid launch in (\w+):", line)}
    launches = {
        n for n, line in enumerate(text, 1) for name in refused if re.search(rf"\b{name}\s*<<<", line)
    }
    named = rf"\b{re.escape(running.file)}:(\d+)"
    numbers = {int(n) for line in said for n in re.findall(named, line)}
    return [f"→ line {n}: {text[n - 1].strip()}" for n in sorted({*numbers, *launches}) if n <= len(text)]


def tried(
    task: Task,
    running: Running,
    sizes: Sizes,
    words: str,
    wrong_numbers: Callable[..., tuple[str, ...]],
) -> Verdict | None:
    """Tells what is wrong with the program for these sizes; None if it is right."""
    _, right, allowed = task.case(sizes)
    ((name, expected),) = right.items()
    ran = running.run(CHECK, sizes)
    shown = (*ran.said[:_MOST_SHOWN], *_marked_lines(running, ran.said[:_MOST_SHOWN]))
    if ran.status is None:
        return Verdict(task.title, ENDLESS, f"not done after {SECONDS:g} seconds, for {words}", shown)
    if isinstance(expected, str):
        printed = ran.printed.strip()
        if printed != expected:
            return _wrong(
                task, words, f"expected that it prints “{expected}”, and it prints “{printed[:200]}”"
            )
        if ran.status == 0:
            return _wrong(task, words, "main() returns 0, as if nothing had gone wrong")
        return None
    if ran.said:
        return Verdict(task.title, FAULT, f"a fault, for {words}", shown)
    if ran.status < 0:
        details = (f"it ended by {signal.Signals(-ran.status).name}",)
        return Verdict(task.title, CRASHED, f"ended its process, for {words}", details)
    if ran.status != 0:
        said = f"it ends with code {ran.status}, and prints “{ran.printed.strip()[:200]}”"
        return _wrong(task, words, said)
    try:
        numbers = np.array([float(word) for word in ran.printed.split()], np.float32)
    except ValueError as error:
        return _wrong(task, words, f"expected that it prints numbers: {error}")
    if numbers.size != expected.size:
        return _wrong(task, words, f"expected {expected.size} numbers, and it prints {numbers.size}")
    numbers, exact = numbers.reshape(expected.shape), expected.astype(np.float64)
    lines = wrong_numbers(name, numbers, exact, allowed, task.tolerance)
    return Verdict(task.title, WRONG, f"wrong numbers, for {words}", lines) if lines else None


def _wrong(task: Task, words: str, what: str) -> Verdict:
    return Verdict(task.title, WRONG, f"wrong, for {words}", (what,))
