"""The check of a puzzle: the kernel runs on the counted simulator, for many sizes.

For each size, a fault (a race, an access out of bounds, a missed barrier …) ends the check; then the outputs
are compared with float64, and the inputs with copies from before. If the kernel is right, its counts are
compared with the budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property

import numpy as np

from cudasim.building.compilers import MissingToolError, find_cpp_compiler, version_of
from cudasim.building.library import BuildError
from cudasim.counting.apart import Apart, Counts, Stopped, as_allocated, counts_of, launch
from cudasim.counting.counted import check, recording
from cudasim.counting.faults import KernelFault
from cudasim.live import kernels as live
from cudasim.live.kernels import Kernel
from cudasim.programs.building import COUNT
from fgn.marks import NEVER_WRITTEN, READ_UNWRITTEN
from fgn.puzzles import programs
from fgn.puzzles.definition import (
    FAULT,
    LAUNCHES,
    MISREAD,
    OVER_BUDGET,
    STEPS,
    WRONG,
    Arrays,
    Limit,
    Sizes,
    Task,
    is_float,
)
from fgn.puzzles.programs import Running
from fgn.puzzles.verdict import NOT_BUILT, NOT_LAUNCHED, SOLVED, STOPPED, Counted, Verdict, number


def in_words(sizes: Sizes) -> str:
    return ", ".join(f"{name} = {value}" for name, value in sizes.items())


def _memory(inputs: Arrays, right: Arrays, starts_at_zero: bool) -> Arrays:
    """A kernel's arguments: copies of the inputs, and memory for its outputs, filled with a mark that shows
    unwritten elements."""
    memory = {name: as_allocated(x.dtype, x.shape, x.tobytes()) for name, x in inputs.items()}
    for name, of in right.items():
        marks = np.full(of.shape, 0 if starts_at_zero else NEVER_WRITTEN, np.int32)
        memory[name] = as_allocated(np.float32 if is_float(of) else np.int32, of.shape, marks.tobytes())
    return memory


class Here:
    """Runs a kernel in this process. `Apart` is the same for kernels of strangers.

    more: the names of further kernels of its source, which the launch calls too.
    """

    def __init__(self, kernel: Kernel, more: Sequence[str] = ()):
        self._kernel, self.source, self.file, self._more = kernel, kernel.source, kernel.file, more

    def build(self) -> None:
        # No size has to wait for the compiler; its errors come again with the first launch.
        kernels = self._kernels.values()
        with suppress(BuildError, ValueError), recording(only_checks=True):
            for kernel in kernels:
                kernel.build()

    @cached_property
    def _kernels(self) -> dict[str, Kernel]:
        """By name. ValueError if the source lacks one that the launch calls."""
        more = {name: live.kernel(self.source, name, self.file) for name in self._more}
        return {self._kernel.name: self._kernel, **more}

    def check(self, expression: str, arrays: Mapping[str, np.ndarray], sizes: Sizes) -> None:
        check(lambda: launch(expression, self._kernels, {**arrays, **sizes}))

    def counts(self, expression: str, arrays: Mapping[str, np.ndarray], sizes: Sizes) -> Counts:
        return counts_of(lambda: launch(expression, self._kernels, {**arrays, **sizes}))


def here(task: Task, kernel: Kernel) -> Here | Running:
    """Where an answer from a kernel's cell is tried: in this process or, for a program, in separate
    processes."""
    if task.is_program:
        return Running(task.name, kernel.source)
    return Here(kernel, task.more_kernels)


# ------------------------------------------------------------------------------------------------------------
# Faults


def _marked_lines(kernel: Here, fault: KernelFault) -> tuple[str, ...]:
    """The lines of the learner's source in a fault, with their numbers."""
    lines = kernel.source.splitlines()
    places = [(fault.file, fault.line), (fault.other_file, fault.other_line)]
    named = sorted({line for file, line in places if file == kernel.file and line and line <= len(lines)})
    return tuple(f"→ line {line}: {lines[line - 1].strip()}" for line in named)


# ------------------------------------------------------------------------------------------------------------
# Numbers


def _at(index: int, shape: tuple[int, ...]) -> str:
    return str([int(i) for i in np.unravel_index(index, shape)])


def _value(of: np.ndarray, index: int) -> str:
    value = of.ravel()[index]
    return f"{value:.7g}" if is_float(of) else str(value)


def _wrong_numbers(
    name: str, came: np.ndarray, right: np.ndarray, allowed: float, relative: float
) -> tuple[str, ...]:
    """Lines that tell which elements are wrong; none if all are right."""
    with np.errstate(invalid="ignore"):  # a difference of infinities
        difference = abs(came.astype(np.float64) - right)
        if is_float(right):
            far = difference > allowed + relative * abs(right)
            is_finite = np.isfinite(right) & np.isfinite(came)
            wrong = np.where(is_finite, far, ~np.isclose(came, right, equal_nan=True))
        else:
            wrong = came != right
    if not wrong.any():
        return ()
    places = np.flatnonzero(wrong)
    first = int(places[0])
    marks = {
        NEVER_WRITTEN: "were never written",
        READ_UNWRITTEN: f"were computed from what was in {name} before anybody had written there",
    }
    unwritten = np.zeros_like(wrong)
    lines = []
    for mark, what in marks.items():
        marked = came.view(np.int32) == mark
        if marked.any():
            at = _at(int(np.flatnonzero(marked)[0]), came.shape)
            lines.append(f"{marked.sum()} of {came.size} elements of {name} {what}, the first is {name}{at}")
            unwritten |= marked
    if lines:
        places = np.flatnonzero(wrong & ~unwritten)
        if len(places) == 0:
            return tuple(lines)
        first = int(places[0])
    lines.append(
        f"{name}{_at(first, came.shape)}: expected {_value(right, first)}, got {_value(came, first)} "
        f"(the first of {len(places)} wrong ones of {came.size})"
    )
    finite = np.where(wrong & ~unwritten & np.isfinite(difference), difference, -1.0).ravel()
    largest = int(finite.argmax())
    if finite[largest] > 0 and largest != first:
        lines.append(
            f"{name}{_at(largest, came.shape)}: expected {_value(right, largest)}, "
            f"got {_value(came, largest)} (the largest difference)"
        )
    return tuple(lines)


# ------------------------------------------------------------------------------------------------------------
# Budgets


def _sum(counts: Mapping[str, float], metrics: Iterable[str]) -> float:
    """A missing number in a program's line is None, which pandas stores as NaN."""
    values = (float(counts.get(metric, 0.0)) for metric in metrics)
    return sum(value for value in values if not math.isnan(value))


def _where(kernel: Here, lines: Iterable[Mapping], limit: Limit) -> str:
    """The line of the source that is furthest from what the limit allows."""

    def value(line: Mapping) -> float:
        counted = _sum(line, limit.metrics)
        if not limit.per:
            return counted
        asked = _sum(line, limit.per)
        return counted / asked if asked else (math.inf if limit.is_least else 0.0)

    own = [line for line in lines if line["file"] == kernel.file]
    there = {metric for line in own for metric in line}
    if not own or not there.issuperset((*limit.metrics, *limit.per)):
        return ""
    worst = min(own, key=value) if limit.is_least else max(own, key=value)
    line, text = int(worst["line"]), kernel.source.splitlines()
    shown = text[line - 1].strip() if line <= len(text) else ""
    which = "fewest" if limit.is_least else "most"
    return f"→ {limit.words}: line {line} has {which}, {number(value(worst))}: {shown}"


def _counted(limits: Iterable[Limit], machine: Here | Apart | Running, counts: Counts) -> tuple[Counted, ...]:
    rows = []
    for limit in limits:
        if limit.metrics == (LAUNCHES,):
            value = float(counts.launches)
        elif limit.metrics == (STEPS,):
            value = counts.busiest
        else:
            value = _sum(counts.totals, limit.metrics)
        if limit.per:
            asked = _sum(counts.totals, limit.per)
            value = value / asked if asked else 0.0
        metric = " + ".join(limit.metrics) + (f" / {' + '.join(limit.per)}" if limit.per else "")
        row = Counted(limit.words, metric, value, limit.most, "", limit.is_least)
        rows.append(row if row.is_kept else replace(row, where=_where(machine, counts.lines, limit)))
    return tuple(rows)


# ------------------------------------------------------------------------------------------------------------


def judge(
    task: Task,
    machine: Here | Apart | Running,
    tell: Callable[[str], None] = lambda sizes: None,
    seed: str = "",
) -> Verdict:
    """Checks whether a kernel solves a task. machine: has the kernel and runs it. tell: a function that is
    called with the sizes, in words, before each try. seed: draws sizes and inputs that differ from those of
    learners' own checks.

    A kernel's mistakes raise no exception here, except `Stopped` for a kernel in a separate process.
    """
    all_sizes = task.all_sizes(seed)
    try:
        machine.build()
    except BuildError as error:
        return Verdict(task.title, NOT_BUILT, "does not compile", (str(error),))
    except ValueError as error:
        return Verdict(task.title, NOT_LAUNCHED, "is refused", (str(error),))
    if task.question and (misread := task.question.misread(machine.source)):
        return Verdict(task.title, MISREAD, "read the report again", (misread,))
    for sizes in all_sizes:
        tell(in_words(sizes))
        if (verdict := _tried(task, machine, sizes, seed)) is not None:
            return verdict
    right_for = f"right for all {len(all_sizes)} sizes that were tried"
    budgets = {}
    if task.is_program and task.budget:
        tell(in_words(task.budget_sizes))
        machine.build(COUNT)  # no size has to wait for the compiler
    for sizes in task.counted_sizes(seed):
        words = in_words(sizes)
        tell(words)
        try:
            budgets[words] = counted(task, machine, sizes, seed)
        except RuntimeError as error:
            if not task.is_program:
                raise
            return Verdict(task.title, STOPPED, f"{right_for}, and not counted", (str(error),))
        if not all(limit.is_kept for limit in budgets[words]):
            sentence = f"{right_for}, but over the budget"
            return Verdict(task.title, OVER_BUDGET, sentence, _doubts(), budgets[words], words)
    if not budgets:
        return Verdict(task.title, SOLVED, right_for)
    words, budget = next(iter(budgets.items()))
    return Verdict(task.title, SOLVED, f"{right_for}, and within the budget", (), budget, words)


def _doubts() -> tuple[str, ...]:
    """A note on counts above a budget, before the learner looks for a mistake."""
    compiler = None
    with suppress(MissingToolError):
        compiler = find_cpp_compiler()
    if compiler is None or (version_of(compiler) or ("",))[0] != "clang":
        return ()
    return (
        f"{compiler} is clang, which takes a float4 apart and copies bodies of loops: a right one may count",
        "more here than on a GPU. With gcc the counts are a GPU's: CC=gcc CXX=g++ in the environment",
    )


def counted(task: Task, machine: Here | Apart | Running, sizes: Sizes, seed: str = "") -> tuple[Counted, ...]:
    """A solution's counts for these sizes, beside the budget."""
    if task.is_program:
        counts = machine.counts(sizes)
    else:
        inputs, right, _ = task.case(sizes, seed)
        memory = _memory(inputs, right, task.starts_at_zero)
        counts = machine.counts(task.launch, memory, sizes)
    return _counted(task.limits(sizes), machine, counts)


def _tried(task: Task, machine: Here | Apart | Running, sizes: Sizes, seed: str) -> Verdict | None:
    """Tells what is wrong with the kernel for these sizes; None if it is right."""
    words = in_words(sizes)
    if task.is_program:
        return programs.tried(task, machine, sizes, words, _wrong_numbers)
    inputs, right, allowed = task.case(sizes, seed)
    memory = _memory(inputs, right, task.starts_at_zero)
    try:
        machine.check(task.launch, memory, sizes)
    except KernelFault as fault:
        sentence = f"{fault.kind}, for {words}"
        return Verdict(task.title, FAULT, sentence, (str(fault), *_marked_lines(machine, fault)))
    except BuildError as error:
        return Verdict(task.title, NOT_BUILT, "does not compile", (str(error),))
    except Stopped:
        raise
    except (TypeError, ValueError, RuntimeError) as error:
        details = (str(error), f"the launch is {task.launch}")
        return Verdict(task.title, NOT_LAUNCHED, f"cannot be launched, for {words}", details)
    lines = [
        line
        for name, of in right.items()
        for line in _wrong_numbers(name, memory[name], of, allowed, task.tolerance)
    ]
    changed = [name for name, x in inputs.items() if x.tobytes() != memory[name].tobytes()]
    lines += [f"the input {name} was changed" for name in changed]
    return Verdict(task.title, WRONG, f"wrong numbers, for {words}", tuple(lines)) if lines else None
