"""What a puzzle is: a task, inputs and the right result, a budget, hints, a solution, and wrong attempts.

A solution is a file of CUDA C in `solutions/`. A learner begins with a skeleton: either the solution without
the lines between `// BEGIN SOLUTION` and `// END SOLUTION`, or one of the wrong attempts. A wrong attempt is
the solution with a few words replaced, so that a reader sees what the mistake is.
"""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from cudasim.counting.metrics import (
    BANK_CONFLICTS,
    GLOBAL_REQUESTS,
    GLOBAL_SECTORS,
    SHARED_REQUESTS,
    SHARED_WAVEFRONTS,
)
from fgn.puzzles.late import torch

FOLDER = Path(__file__).parent / "solutions"

Sizes = dict[str, int]
Arrays = dict[str, np.ndarray]

_REGION = re.compile(r"^( *)// BEGIN SOLUTION:? *(.*)\n(?:.*\n)*?^ *// END SOLUTION\n", re.M)
_MARKER = re.compile(r"^ *// (?:BEGIN|END) SOLUTION.*\n", re.M)


# ------------------------------------------------------------------------------------------------------------
# Budgets

LAUNCHES = "launches"
STEPS = "memory instructions of the busiest warp"


@dataclass(frozen=True)
class Limit:
    """An upper limit for one kind of a kernel's requests to the machine, or a lower limit that it must reach.

    words: what is counted, in words. metrics: the columns of `fgn.count()` that are added up, by ncu's names.
    per: the columns by which the sum is divided, if any. most: the largest allowed number. is_least: `most`
    is the smallest instead.
    """

    words: str
    metrics: tuple[str, ...]
    most: float
    per: tuple[str, ...] = ()
    is_least: bool = False


LOADS, STORES, ATOMICS = "ld", "st", "atom"
_IN_WORDS = {LOADS: "load", STORES: "store", ATOMICS: "atomic"}


def sectors_per_request(operation: str, most: float) -> Limit:
    """Coalescing: 4 sectors of 32 bytes for each request is the minimum, if each lane takes 4 bytes."""
    words = f"sectors for each request of a global {_IN_WORDS[operation]}"
    return Limit(words, (GLOBAL_SECTORS[operation],), most, (GLOBAL_REQUESTS[operation],))


def coalesced() -> tuple[Limit, ...]:
    return sectors_per_request(LOADS, 4), sectors_per_request(STORES, 4)


def sectors(operation: str, most: int) -> Limit:
    return Limit(f"sectors of global {_IN_WORDS[operation]}s", (GLOBAL_SECTORS[operation],), most)


def requests(operation: str, most: int) -> Limit:
    return Limit(f"requests of global {_IN_WORDS[operation]}s", (GLOBAL_REQUESTS[operation],), most)


def shared_requests(most: int) -> Limit:
    return Limit("requests of shared memory", tuple(SHARED_REQUESTS.values()), most)


def shared_wavefronts(most: int) -> Limit:
    """For puzzles where the words "bank conflicts" would give the answer away."""
    return Limit("wavefronts of shared memory", tuple(SHARED_WAVEFRONTS.values()), most)


def no_bank_conflicts() -> Limit:
    return Limit("bank conflicts", (BANK_CONFLICTS[LOADS], BANK_CONFLICTS[STORES]), 0)


def barriers(most: int) -> Limit:
    return Limit("barriers, once for each warp", ("barriers",), most)


def warp_operations(most: int) -> Limit:
    """Shuffles, votes and other operations of a warp's lanes together."""
    return Limit("shuffles and votes, once for each warp", ("warp_operations",), most)


def launches(most: int) -> Limit:
    return Limit("launches", (LAUNCHES,), most)


def accesses(most: int) -> Limit:
    """The work of all threads together; `steps` is the work of one thread."""
    words = "accesses to memory by threads, each of a warp's 32 counted for itself"
    return Limit(words, ("memory_threads",), most)


def calls_of(function: str) -> str:
    """The name of the count of a function's calls in a program's source."""
    return f"calls of {function}()"


def no_calls(function: str) -> Limit:
    return Limit(f"{calls_of(function)} in the source", (calls_of(function),), 0)


def at_least(limit: Limit) -> Limit:
    """The same number as a lower limit."""
    return replace(limit, is_least=True)


def steps(most: int) -> Limit:
    """The critical path: the sequential work of the busiest warp, however idle the others are."""
    return Limit(STEPS, (STEPS,), most)


def together(least: float) -> Limit:
    """Divergence: 32 threads are active in an instruction if the lanes of a warp stay together."""
    words = "threads of a warp that are active in an instruction, on average over those that access memory"
    return Limit(words, ("memory_threads",), least, ("memory_instructions",), is_least=True)


# ------------------------------------------------------------------------------------------------------------
# Wrong attempts

FAULT, WRONG, OVER_BUDGET, MISREAD = "fault", "wrong numbers", "over budget", "wrong answer"


@dataclass(frozen=True)
class Wrong:
    """A mistake that learners make.

    edits: replacements for pieces of the solution's text; None for an attempt that has little in common with
    the solution, and has its own file. kind: how the check fails: a fault, wrong numbers, or over budget.
    says: words of the check's message, which are the point of this attempt.
    """

    edits: Mapping[str, str] | None
    kind: str
    says: str


# For a solution with one barrier.
NO_BARRIER = Wrong({"    __syncthreads();\n": ""}, FAULT, "race")


# ------------------------------------------------------------------------------------------------------------
# Questions


@dataclass(frozen=True)
class Question:
    """A question that a learner has to answer before the kernel is tried, in a line `// WORD: answer` of the
    source.

    word: the line's first word. right: the answer. others: each wrong answer, and the argument against it.
    """

    word: str
    right: str
    others: Mapping[str, str]

    def misread(self, source: str) -> str:
        """What is wrong with the answer in a source; empty for the right one."""
        found = re.search(rf"^[ \t]*//[ \t]*{self.word}:[ \t]*(.*?)[ \t.]*$", source, re.M | re.I)
        given = " ".join(found[1].lower().split()) if found else ""
        if given == self.right:
            return ""
        if given in self.others:
            return f"{self.word}: {given}? {self.others[given]}"
        choices = ", ".join(sorted([self.right, *self.others]))
        got = f"“{found[1]}”" if found and found[1] else "nothing"
        return f"the line `// {self.word}: …` of the source says {got}: expected one of {choices}"


# ------------------------------------------------------------------------------------------------------------
# Puzzles


@dataclass(frozen=True)
class Task:
    """A puzzle, as its author describes it; learners use `fgn.puzzles.Puzzle`.

    name, title: of the puzzle. kernel: the name of its `__global__` function. more_kernels: of others of the
        same source that the launch calls.
    text: the task, in about five lines of Markdown.
    is_program: whether the source is a program with a main(), which gets the sizes as arguments and prints
        its one output, numbers or the words of an error; `launch` then shows how it is run.
    launch: how the kernel is called, as a learner reads it. It is evaluated as it stands, with the kernel,
        the inputs, the outputs, the sizes, and `tiles(count, size)`, which rounds up.
    sizes: what the kernel is tried on. between: for each size the bounds that random ones are drawn from.
    inputs: tensors by name, from the sizes and a generator of random numbers.
    right: the right outputs by name, from the inputs as float64 tensors (integers stay integers) and the
        sizes. The outputs' memory is marked before each launch, so that what is never written is noticed.
    in_numpy: whether both are numpy's: arrays in place of tensors, and a `numpy.random.Generator`. Such a
        puzzle needs no torch.
    starts_at_zero: whether a kernel finds zeros in the outputs instead, because it adds to them.
    tolerance: by how much an element may differ from float64: absolute, and relative to the element.
    allowed: the absolute one, for tasks whose rounding depends on the inputs.
    budget: the limits for a problem of given sizes. They are counted for the sizes `budget_sizes`, which a
        learner is told, and for others that `budget_between` gives: the smallest, the largest, the step.
    starts_from: the wrong attempt that a learner begins with; None: the solution without its marked lines.
    hints: from a nudge to nearly the answer. fits: whether random sizes are a problem that there is.
    question: to be answered in the source, before the kernel is tried.
    has_report: whether the drawing is a report of the kernel that learners begin with,
        by `fgn.plot.report_drawings`.
    drawing: makes a Figure, for puzzles that have none in `fgn.plot.puzzle_drawings`. folder: where the
        solution is, of puzzles that are not the package's.
    """

    name: str
    title: str
    kernel: str
    text: str
    launch: str
    sizes: tuple[Sizes, ...]
    between: Mapping[str, tuple[int, int]]
    inputs: Callable[[Sizes, object], dict]
    right: Callable[..., dict]
    hints: tuple[str, ...]
    wrong: Mapping[str, Wrong]
    budget: Callable[..., tuple[Limit, ...]] | None = None
    budget_sizes: Sizes = field(default_factory=dict)
    budget_between: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    in_numpy: bool = False
    starts_at_zero: bool = False
    starts_from: str | None = None
    tolerance: float = 1e-5
    allowed: Callable[[dict, Sizes], float] | None = None
    fits: Callable[[Sizes], bool] = lambda sizes: True
    question: Question | None = None
    has_report: bool = False
    drawing: Callable[[], object] | None = None
    more_kernels: tuple[str, ...] = ()
    is_program: bool = False
    folder: Path = FOLDER

    # ---- Texts

    @property
    def file(self) -> Path:
        return self.folder / f"{self.name}.cu"

    def solution(self) -> str:
        return _MARKER.sub("", self.file.read_text())

    def skeleton(self) -> str:
        """The learner's initial source. It compiles."""
        if self.starts_from is not None:
            return self.attempt(self.starts_from)
        text, count = _REGION.subn(
            lambda region: f"{region[1]}// Your code here{': ' if region[2] else '.'}{region[2]}\n",
            self.file.read_text(),
        )
        if count == 0:
            raise ValueError(f"{self.file.name}: expected lines marked BEGIN SOLUTION, got none")
        return text

    def attempt(self, name: str) -> str:
        """The source text of the wrong attempt `name`."""
        edits = self.wrong[name].edits
        if edits is None:
            return (self.folder / f"{self.name}.{name}.cu").read_text()
        text = self.solution()
        for old, new in edits.items():
            if text.count(old) != 1:
                raise ValueError(
                    f"{self.name}, {name}: expected {old!r} once, got it {text.count(old)} times"
                )
            text = text.replace(old, new)
        return text

    # ---- Cases

    def all_sizes(self, seed: str = "") -> list[Sizes]:
        """The sizes to try: the listed ones, random ones, and the budget's. A seed draws the same sizes in
        every run."""
        chosen = random.Random(self.name + seed)
        drawn: list[Sizes] = []
        random_ones = 2 if self.is_program else 6  # each run of a program is a process
        while len(drawn) < random_ones and self.between:
            sizes = {name: chosen.randint(*bounds) for name, bounds in self.between.items()}
            if self.fits(sizes):
                drawn.append(sizes)
        counted = [sizes for sizes in self.counted_sizes(seed) if sizes not in self.sizes]
        return [*self.sizes, *drawn, *counted]

    def counted_sizes(self, seed: str = "") -> list[Sizes]:
        """The sizes for which the budget is counted: those that a learner is told, and others."""
        if self.budget is None:
            return []
        chosen = random.Random(f"{self.name} budget {seed}")
        other = {
            name: chosen.randrange(first, last + 1, step)
            for name, (first, last, step) in self.budget_between.items()
        }
        return [self.budget_sizes, other]

    def limits(self, sizes: Sizes | None = None) -> tuple[Limit, ...]:
        """The budget of a problem of these sizes, by default those that a learner is told."""
        return self.budget(**(sizes or self.budget_sizes)) if self.budget else ()

    def case(self, sizes: Sizes, seed: str = "") -> tuple[Arrays, dict, float]:
        """The inputs, the right outputs (arrays, or the words of an error), and the absolute tolerance of an
        element. MissingToolError if a puzzle needs torch and it is missing."""
        inputs = self.inputs_of(sizes, zlib.crc32(f"{self.name} {sizes}{seed}".encode()))
        outputs = self.right(**self.exact(inputs), **sizes)
        allowed = self.allowed(inputs, sizes) if self.allowed else self.tolerance
        return arrays_of(inputs), arrays_of(outputs), allowed

    def inputs_of(self, sizes: Sizes, seed: int) -> dict:
        """The inputs, made by `inputs()`."""
        if self.in_numpy:
            return self.inputs(sizes, np.random.default_rng(seed))
        return self.inputs(sizes, torch.Generator().manual_seed(seed))

    def exact(self, inputs: Mapping) -> dict:
        """The inputs in float64, for `right()`."""
        if self.in_numpy:
            return {name: x.astype(np.float64) if is_float(x) else x for name, x in inputs.items()}
        return {name: x.double() if x.is_floating_point() else x for name, x in inputs.items()}


def is_float(x: np.ndarray) -> bool:
    return np.issubdtype(x.dtype, np.floating)


def arrays_of(values: Mapping) -> dict:
    """Tensors as numpy arrays with the same memory."""
    return {name: x.numpy() if hasattr(x, "numpy") else x for name, x in values.items()}
