"""A puzzle as a learner uses it: `check()`, `hint()`, `solution()`, `draw()`."""

from __future__ import annotations

import html
import math
import sys

from cudasim.live.kernels import Kernel, kernel
from cudasim.live.messages import nearest
from cudasim.source import Source
from fgn.puzzles import store
from fgn.puzzles.catalogue import TASKS, find
from fgn.puzzles.definition import LAUNCHES, OVER_BUDGET, Limit
from fgn.puzzles.helper import Helper
from fgn.puzzles.judge import in_words
from fgn.puzzles.late import expect_torch
from fgn.puzzles.verdict import NOTHING, SOLVED, Verdict, number

_helper = Helper()


def _from_the_notebook(name: str):
    """The notebook's object of this name; None if there is none, or no notebook."""
    from IPython import get_ipython

    shell = get_ipython()
    return shell.user_ns.get(name) if shell else None


def _without(expected: str) -> str:
    """Why there is nothing to check: a kernel of another name, or none."""
    from IPython import get_ipython

    shell = get_ipython()
    of_puzzles = {task.kernel for task in TASKS.values()}
    there = {
        name for name, value in (shell.user_ns.items() if shell else ()) if isinstance(value, Kernel)
    } - of_puzzles
    if not there:
        return f"there is no kernel {expected} yet; run the cell that begins with %%cuda first"
    return _of_another_name(expected, there)


def _of_another_name(expected: str, there: set[str]) -> str:
    other = nearest(expected, there) or max(there)
    names = ", ".join(sorted(there))
    return (
        f"there is no kernel {expected}, and there is {names}: the task's kernel is called {expected}, "
        f"so write `__global__ void {expected}(` where {other} is declared, and run that cell again"
    )


def _progress() -> str:
    records = store.load()
    solved = sum(records[name].solved for name in TASKS if name in records)
    return f"{solved} of {len(TASKS)} puzzles solved"


class Solution:
    """A puzzle's solution and its counts."""

    def __init__(self, source: str, verdict: Verdict):
        self.source, self.verdict = Source(source), verdict

    def __str__(self) -> str:
        return f"{self.source}\n{self.verdict}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.source._repr_html_() + self.verdict._repr_html_()


class Hint(str):
    """A hint, which a notebook shows as text."""

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f'<div style="white-space:pre-wrap">{html.escape(self)}</div>'


class Puzzle:
    """A task for a learner's kernel, checked on the simulator; no GPU is needed.

    name, title: its name, for `fgn.puzzles.get()`, and its title. text: the task, in Markdown. launch: how
    the kernel is called. skeleton: the CUDA C to begin with.
    """

    def __init__(self, name: str):
        self._task = find(name)

    @property
    def name(self) -> str:
        return self._task.name

    @property
    def title(self) -> str:
        return self._task.title

    @property
    def text(self) -> str:
        return self._task.text.strip()

    @property
    def launch(self) -> str:
        return self._task.launch

    @property
    def skeleton(self) -> Source:
        return Source(self._task.skeleton())

    @property
    def budget(self) -> tuple[str, ...]:
        """The limits in words, one per line; none if only the results count."""
        return tuple(map(_in_words, self._task.limits()))

    def __repr__(self) -> str:
        lines = [
            self.title,
            "",
            self.text,
            "",
            f"{'run' if self._task.is_program else 'launch'}: {self.launch}",
        ]
        if self.budget:
            lines.append(f"budget, for {in_words(self._task.budget_sizes)}: {'; '.join(self.budget)}")
        return "\n".join(lines)

    def check(self, kernel: Kernel | None = None, seconds: float = 15.0) -> Verdict:
        """Tries a kernel on many sizes, and tells whether it is right, free of faults and within the budget.

        kernel: of a `%%cuda` cell or of `fgn.kernel()`; by default the notebook's kernel with the task's
        name. seconds: for each size; a kernel that takes longer is reported with the line of its loop. The
        check runs in a separate process, which a kernel may end or keep busy. TypeError if `kernel` is no
        kernel, ValueError if `seconds` is not a positive number, MissingToolError without torch, which most
        puzzles of the package need.
        """
        __tracebackhide__ = True
        if not isinstance(seconds, int | float) or not 0 < seconds < math.inf:
            raise ValueError(f"seconds: expected a positive number, got {seconds!r}")
        expected = self._task.kernel
        if kernel is None:
            kernel = _from_the_notebook(expected)
            if kernel is None:
                return Verdict(self.title, NOTHING, _without(expected))
        if not isinstance(kernel, Kernel):
            raise TypeError(f"kernel: expected a kernel of a %%cuda cell, got {type(kernel).__name__}")
        if kernel.name != expected:
            return Verdict(self.title, NOTHING, _of_another_name(expected, {kernel.name}))
        if not self._task.in_numpy:
            expect_torch()
        verdict = _helper.check(self.name, self.title, kernel, seconds)
        if kernel.source.strip() != self._task.skeleton().strip():
            record = store.load().get(self.name, store.Record())
            record.checks += 1
            if verdict:
                record.solved, record.source = True, kernel.source
            store.save(self.name, record)
        return _with_progress(verdict)

    def rank(self, kernel: Kernel | None = None, gpu: str | None = None, **sizes: int):
        """How fast a right kernel is, beside the kit's solution, the learners' initial source, and the floor.

        It is measured if there is a GPU, and predicted otherwise. If the kernel is not right, this returns
        the verdict.

        kernel: as for `check()`, which runs first. gpu: the card for a prediction, from `cudasim.cards()`.
        sizes: of the puzzle, large enough to fill a GPU; most puzzles have some.
        """
        from fgn.puzzles.ranking import ranked

        __tracebackhide__ = True
        kernel = kernel or _from_the_notebook(self._task.kernel)
        verdict = self.check(kernel)
        if verdict.kind not in (SOLVED, OVER_BUDGET):
            return verdict
        return ranked(self._task, kernel.source, sizes or None, gpu)

    def hint(self, which: int | None = None) -> Hint:
        """The next hint, or with `which` the hint of that number, from 1 on. ValueError if there is no such
        hint."""
        hints = self._task.hints
        record = store.load().get(self.name, store.Record())
        if which is None:
            which = min(record.hints + 1, len(hints))
        if not isinstance(which, int) or not 1 <= which <= len(hints):
            raise ValueError(f"which: expected 1 to {len(hints)}, got {which!r}")
        record.hints = max(record.hints, which)
        store.save(self.name, record)
        return Hint(f"Hint {which} of {len(hints)}: {hints[which - 1]}")

    def solution(self) -> Solution:
        """A solution and its counts."""
        record = store.load().get(self.name, store.Record())
        record.read_solution = record.read_solution or not record.solved
        store.save(self.name, record)
        if not self._task.in_numpy:
            expect_torch()
        source = self._task.solution()
        solution = kernel(source, self._task.kernel)
        return Solution(source, _helper.check(self.name, self.title, solution, 120.0))

    def draw(self):
        """The drawing that belongs to the task, as a matplotlib Figure."""
        if "IPython" in sys.modules and sys.modules["IPython"].get_ipython():
            _helper.get_ready()  # a reader of a notebook draws the task, writes a kernel and checks it
        if self._task.drawing is not None:
            return self._task.drawing()
        if self._task.has_report:
            from fgn.plot.report_drawings import report

            return report(self._task)
        from fgn.plot import puzzle_drawings as drawn

        return drawn.draw(self.name) if self.name in drawn.DRAWINGS else None


def _in_words(limit: Limit) -> str:
    if limit.metrics == (LAUNCHES,) and limit.most == 1:
        return "one launch"
    if limit.is_least:
        return f"at least {number(limit.most)} {limit.words}"
    return f"no {limit.words}" if limit.most == 0 else f"at most {number(limit.most)} {limit.words}"


def _with_progress(verdict: Verdict) -> Verdict:
    from dataclasses import replace

    return replace(verdict, progress=_progress())
