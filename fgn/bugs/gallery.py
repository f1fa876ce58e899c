"""The gallery of broken kernels: mistakes that people make with these chains, each planted in a right kernel.

`bugs/right/` has right kernels for the three chains: a `.cu` file for each kernel, and beside it its host
side, a `.py` file that decides grid and arguments. Each mistake is a `.diff` file in `bugs/`: a text that
explains it, and what it changes in one of these. `bugs/bugs.csv` is the table: the mistake, the data of
data.py that shows it, and what finds it.

    fgn.bugs.gallery.run("unbiased_variance")     runs the chain with it on the simulator; prints as a report
    fgn.bugs.gallery.source("unbiased_variance")  the broken one, which does not tell what is wrong
    fgn.bugs.gallery.diff("unbiased_variance")    what was changed in the right one
    fgn.bugs.gallery.quiz(8)                      asks for the line and the kind; its tell() gives the answer
    fgn.bugs.gallery.run_all()                    all of them: a table

A chain runs under the checkers of `fgn.check()`, and its two parts are then compared with float64.
"""

from __future__ import annotations

import html
from dataclasses import dataclass

import pandas as pd
import torch
from torch import Tensor

from cudasim.counting.counted import check, one_block_at_a_time
from cudasim.counting.faults import KernelFault
from cudasim.source import Source
from fgn.bugs.data import DATA
from fgn.bugs.diagnosis import Diagnosis, diagnose_norm, diagnose_product
from fgn.bugs.hosts import host_of, kernel_of, values_for_hosts
from fgn.bugs.planted import BUGS, COMPARISON, KERNELS, RIGHT, Bug, find_bug, kinds, table
from fgn.chains import find
from fgn.teaching import asking

__all__ = [
    "BUGS",
    "DATA",
    "Bug",
    "Finding",
    "Quiz",
    "diff",
    "find_bug",
    "kinds",
    "quiz",
    "run",
    "run_all",
    "source",
    "story",
    "table",
]

# ------------------------------------------------------------------------------------------------------------
# Running


@dataclass(frozen=True)
class Finding:
    """What was found in a chain. found_by: as in `Bug`; None if nothing was found."""

    found_by: str | None = None
    fault: KernelFault | None = None
    diagnosis: Diagnosis | None = None

    def __str__(self) -> str:
        return str(self.fault or self.diagnosis or "nothing was found")

    def __repr__(self) -> str:
        return str(self)


def run(bug: str | int | Bug | None, chain: str | None = None, data: str | None = None) -> Finding:
    """Runs a chain of right kernels, with the bug in one of them, on the simulator; returns the first
    finding.

    bug: a name in `BUGS`; None for a chain without a bug. chain, data: by default the bug's own.
    """
    planted = find_bug(bug) if bug is not None else None
    chain = chain or (planted.chain if planted else next(iter(KERNELS)))
    described, x, parameters = DATA[data or (planted.data if planted else "ordinary")](find(chain).name)

    def launch(name: str, given: Tensor) -> Tensor:
        host = host_of(*_text_of(planted, f"{name}.py"))
        p = values_for_hosts(described, x, parameters)
        return host.launch(kernel_of(*_text_of(planted, f"{name}.cu")), given, p)

    product, norm = KERNELS[chain]
    # A kernel that writes where it reads must not change the comparison's inputs. Rows far apart are only
    # read, because a copy would have other strides.
    mine = x.clone() if x.is_contiguous() else x
    try:
        with torch.no_grad(), one_block_at_a_time():
            v = check(lambda: launch(product, mine))
            diagnosis = diagnose_product(v, described, x, parameters)
            if diagnosis is None:
                y = check(lambda: launch(norm, v))
                diagnosis = diagnose_norm(y, described, v, parameters)
    except KernelFault as fault:
        return Finding(fault.kind, fault=fault)
    return Finding(COMPARISON, diagnosis=diagnosis) if diagnosis else Finding()


def _text_of(planted: Bug | None, right: str) -> tuple[str, str]:
    """The name and the text of a right file, or of the broken one in its place."""
    if planted and right in planted.files:
        broken = planted.files[right]
        return broken.name, broken.text
    return right, (RIGHT / right).read_text()


def run_all() -> pd.DataFrame:
    """Runs every bug. A row for each: file, mistake, data; found_by, as it happened; where, a line or
    words."""
    rows = []
    for bug in BUGS.values():
        finding = run(bug)
        fault, diagnosis = finding.fault, finding.diagnosis
        where = None
        if fault:
            where = f"{fault.file}:{fault.line}" if fault.line else fault.kernel
        elif diagnosis:
            where = f"as if {diagnosis.as_if}" if diagnosis.as_if else diagnosis.findings[-1]
        row = {name: getattr(bug, name) for name in ("file", "mistake", "data")}
        rows.append(row | {"found_by": finding.found_by, "where": where})
    return pd.DataFrame(rows)


# ------------------------------------------------------------------------------------------------------------
# Looking


def story(bug: str | int | Bug) -> str:
    """The mistake, why people make it, what they see and how it is found."""
    return find_bug(bug).story


class _Code(Source):
    """Python or a diff that a notebook shows highlighted."""

    language = "python"


class _Diff(_Code):
    language = "diff"


def source(bug: str | int | Bug) -> Source:
    """The broken file with the line numbers of reports."""
    broken = find_bug(bug).broken
    numbered = "".join(f"{n:3}  {line}" for n, line in enumerate(broken.text.splitlines(keepends=True), 1))
    return (Source if broken.name.endswith(".cu") else _Code)(numbered)


def diff(bug: str | int | Bug) -> Source:
    """What the mistake changes in the right file."""
    return _Diff(find_bug(bug).diff)


# ------------------------------------------------------------------------------------------------------------
# The quiz: a broken kernel asks for the line and the kind before it tells

NEAR = 2  # lines that an answer may be off


class Quiz(asking.Question):
    """One broken kernel. A notebook shows it with two fields; `answer(line, kind)` is the same in code."""

    def __init__(self, bug: Bug):
        words = "Which line is wrong, and what will find it?"
        super().__init__(f"bug {bug.name}", words, {"line": int, "kind": kinds()})
        self.bug = bug

    def answer(self, line: int, kind: str) -> None:
        """line: by the source's numbers. kind: one of `kinds()`, else ValueError."""
        super().answer(line=line, kind=kind)

    def is_right(self) -> tuple[bool, bool]:
        """Whether the answer's line is at most two from a changed one, and whether its kind is right."""
        near = any(abs(self.given["line"] - line) <= NEAR for line in self.bug.broken.changed)
        return near, self.given["kind"] == self.bug.found_by

    def _repr_html_(self) -> str:
        return source(self.bug)._repr_html_() + super()._repr_html_()

    def tell(self) -> asking.Told:
        """Tells what is wrong: the finding, the mistake as a difference from the right file, and its
        story."""

        def verdict() -> str:
            line, kind = ("right" if right else "not the one" for right in self.is_right())
            return f"line {self.given['line']}: {line}; {self.given['kind']}: {kind}"

        def tell() -> str:
            finding = run(self.bug)
            pieces = (
                f"<p><b>{html.escape(verdict())}</b></p>",
                f"<pre style='white-space:pre-wrap'>{html.escape(str(finding))}</pre>",
                asking.as_html(diff(self.bug)),
                f"<pre style='white-space:pre-wrap'>{html.escape(story(self.bug))}</pre>",
            )
            return "".join(pieces)

        return asking.Told(self, tell, verdict)


def quiz(bug: str | int | Bug) -> Quiz:
    """A broken kernel of the gallery, by name or number, as a question: the answer comes from `tell()`."""
    return Quiz(find_bug(bug))
