"""Plants mistakes in right kernels, one at a time, and records what the checker says of each.

    python lab/planted.py [CORPUS] [--count 260] [--seed 0] [--only NAME ...]

The right kernels are the solutions of fgn's puzzles, the kernels of tests/cudasim/test_planted.py, and, where
CORPUS has their repositories (see lab/corpus.py), public ones that lab/corpus_calls knows how to call. A
mistake is made at a node of the syntax tree, so the text stays CUDA C++. Which nodes, a seed draws. The
result is `lab/records/planted.csv.xz`, where what is there stays and is not tried again:

    told       a fault or a warning: what the checker says
    numbers    nothing is told, and the result is wrong: for an index or a bound that stays inside its array,
               which no checker can know to be another one than was meant
    silent     nothing is told, and the result is right: the mistake is none (EQUIVALENT says why), or missed
    endless    a loop never ends
    refused    it does not compile, or cannot be launched
"""

from __future__ import annotations

import argparse
import collections
import importlib.util
import multiprocessing
import os
import random
import re
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

os.environ.setdefault("CUDASIM_NVCC_JUDGE", "0")  # a mistake stays CUDA

import corpus_runs
import pandas as pd
import torch

import cudasim
from cudasim.building.library import BuildError
from cudasim.live.kernels import Kernel, Program, kernel
from cudasim.live.tree import Node, Source
from fgn.measure.software import when_recorded
from fgn.native.places import ROOT
from fgn.puzzles.catalogue import TASKS
from fgn.puzzles.definition import FAULT, OVER_BUDGET, WRONG
from fgn.puzzles.judge import Here, judge
from fgn.puzzles.verdict import SOLVED

RESULT = ROOT / "lab" / "records" / "planted.csv.xz"
TOLD, NUMBERS, SILENT, ENDLESS, REFUSED = "told", "numbers", "silent", "endless", "refused"
SECONDS = 40
_FORKED = multiprocessing.get_context("fork")

# What was looked at by hand, by the kernel and the line: why the changed kernel is right as well.
EQUIVALENT = {
    ("test bitonic", 193): "two places that are compared are never the same",
    ("test flash_minimal", 167): "its blocks are of one warp",
    ("lzyrapx/LeetGPU: Ordinary Least Squares Regression, cholesky_kernel", 70): "until the next barrier a "
    "thread reads its own row, and what the barrier before has ordered",
    ("lzyrapx/LeetGPU: K-Means Clustering (naive), compute_deltas", 53): "the call has a thread for each",
    ("lzyrapx/LeetGPU: Histogramming, histogram_kernel", 33): "the counter is the block's own",
    ("test last_block_sum", 52): "only thread 0 needs `last`, and the compiler leaves the others' reads out",
    ("lzyrapx/LeetGPU: All-Pairs Shortest Paths, floyd_warshall_kernel", 10): "no two lengths of the call's "
    "are equal",
}

# ------------------------------------------------------------------------------------------------------------
# Right kernels


@dataclass(frozen=True)
class Right:
    """A right kernel. function: the only one of the source that mistakes are made in, or "". judged: what is
    said of such a source."""

    name: str
    source: str
    function: str
    judged: Callable[[str], tuple[str, str]]


def _puzzles() -> Iterator[Right]:
    said = {FAULT: TOLD, WRONG: NUMBERS, SOLVED: SILENT, OVER_BUDGET: SILENT}
    tasks = [replace(task, budget=None) for task in TASKS.values() if not task.is_program]
    for task in tasks:

        def judged(source: str, task=task) -> tuple[str, str]:
            there = kernel(source, task.kernel, f"{task.kernel}.cu")
            verdict = judge(task, Here(there, task.more_kernels))
            if "interrupted" in verdict.sentence:
                return ENDLESS, str(verdict.details[:1])
            return said.get(verdict.kind, REFUSED), f"{verdict.sentence}: {' '.join(verdict.details[:1])}"

        yield Right(f"puzzle {task.name}", task.solution(), "", judged)


def _of_tests() -> Iterator[Right]:
    found = importlib.util.spec_from_file_location("planted", ROOT / "tests" / "cudasim" / "test_planted.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    for name, source in module.sources().items():

        def judged(source: str, name=name) -> tuple[str, str]:
            got, expected = module.launch(source, name)
            near = torch.allclose(got.double(), expected.double(), rtol=1e-4, atol=1e-4)
            return (SILENT, "") if near else (NUMBERS, "")

        yield Right(f"test {name}", source, name, judged)


def _public(corpus: Path) -> Iterator[Right]:
    for repository, runs in corpus_runs.tables().items():
        folder = corpus / repository.replace("/", "+")
        for run in runs if folder.is_dir() else ():
            path = folder / run.file
            if run.bug or run.within or not path.is_file():
                continue

            def judged(source: str, run=run, path=path, folder=folder) -> tuple[str, str]:
                folders = corpus_runs.include_folders(path, folder)
                program = Program(source, f"{run.kernel}.cu", folders, run.kernel, has_warned=True)
                far = corpus_runs._call(Kernel(program, run.kernel), run, unchecked=False)
                return (SILENT, "") if far <= run.tolerance else (NUMBERS, f"difference {far:.1e}")

            name = f"{repository}: {Path(run.file).stem}, {run.kernel}"
            yield Right(name, path.read_text(errors="replace"), run.kernel, judged)


def said_of(right: Right, source: str) -> tuple[str, str]:
    """What is said of a source, by a process of its own, for mistakes make loops that never end."""
    receives, sends = multiprocessing.Pipe(duplex=False)
    process = _FORKED.Process(target=lambda: sends.send(_said_here(right, source)))
    process.start()
    sends.close()
    for seconds, number in ((SECONDS, signal.SIGINT), (5, signal.SIGKILL)):
        if receives.poll(seconds):
            break
        os.kill(process.pid, number)
    try:
        return receives.recv()
    except EOFError:
        return ENDLESS, "a process that does not end, or has crashed"
    finally:
        process.join()


def _said_here(right: Right, source: str) -> tuple[str, str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            said = right.judged(source)
        except cudasim.KernelFault as fault:
            return (ENDLESS if fault.kind == "interrupted" else TOLD), str(fault)
        except KeyboardInterrupt:
            return ENDLESS, f"interrupted after {SECONDS} s"
        except (BuildError, TypeError, ValueError) as error:
            return REFUSED, str(error)
    told = [str(each.message) for each in caught if issubclass(each.category, cudasim.KernelWarning)]
    return (TOLD, f"warning: {told[0]}") if told and said[0] != TOLD else said


# ------------------------------------------------------------------------------------------------------------
# Mistakes

WAITS = re.compile(
    r"__syncthreads|__syncwarp|__threadfence(?:_block)?|__pipeline_(?:wait_prior|commit)|mbarrier_(?:wait|arrive)|"
    r"fence_\w+|cp_async_(?:wait|commit)\w*|\w+(?:\.|->)(?:sync|wait|arrive_and_wait|commit|consumer_wait)"
)
NARROWER = {
    "__syncthreads": "__syncwarp",
    "__threadfence": "__threadfence_block",
    "atomicAdd": "atomicAdd_block",
    "atomicMax": "atomicMax_block",
    "atomicCAS": "atomicCAS_block",
    "atomicExch": "atomicExch_block",
}
OTHER = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}


@dataclass(frozen=True)
class Mistake:
    kind: str
    begin: int
    end: int
    wrong: str

    def planted(self, source: bytes) -> str:
        return (source[: self.begin] + self.wrong.encode() + source[self.end :]).decode()


NONE = Mistake("none", 0, 0, "")
COLUMNS = ["kernel", "byte", "line", "mistake", "was", "is", "outcome", "said", "why"]


def _in_calls(text: Callable[[Node], str], node: Node) -> Iterator[Mistake]:
    function, arguments = node.field("function"), node.field("arguments")
    name = text(function)
    given = [each for each in arguments.children if each.type not in ("(", ")", ",", "comment")]
    statement = node.parent if node.parent and node.parent.type == "expression_statement" else None
    if statement and WAITS.fullmatch(name):
        yield Mistake("wait removed", statement.begin, statement.end, ";")
    if statement and name in ("__syncthreads", "__syncwarp"):
        yield Mistake("barrier in a branch", node.begin, node.end, f"if (threadIdx.x % 2 == 0) {text(node)}")
    if name in NARROWER:
        yield Mistake("narrower", function.begin, function.end, NARROWER[name])
    if statement and name == "atomicAdd" and len(given) == 2:
        yield Mistake("not atomic", node.begin, node.end, f"*({text(given[0])}) += {text(given[1])}")
    if name == "mbarrier_wait" and len(given) == 2:
        yield Mistake("other phase", given[1].begin, given[1].end, f"(({text(given[1])}) ^ 1)")
    if name in ("mbarrier_init", "init") and len(given) == 2:
        for other in ("+", "-"):
            yield Mistake("other count", given[1].begin, given[1].end, f"{text(given[1])} {other} 1")
    if name == "__pipeline_wait_prior":
        yield Mistake("other phase", given[0].begin, given[0].end, f"{text(given[0])} + 1")
    if name.startswith("__shfl") and len(given) > 2:
        yield Mistake("other mask", given[0].begin, given[0].end, "0x0000ffff")


def mistakes(right: Right) -> Iterator[Mistake]:
    source = Source.of(right.source)

    def text(node: Node) -> str:
        return source.text(node).decode()

    def is_meant(node: Node) -> bool:
        if node.type != "function_definition":
            return False
        head = text(node).partition("{")[0]
        on_device = "__global__" in head or "__device__" in head
        return bool(on_device and (not right.function or re.search(rf"\b{right.function}\s*\(", head)))

    for function in filter(is_meant, source.tree.walk()):
        for node in function.field("body").walk():
            if node.type == "call_expression" and node.field("arguments"):
                yield from _in_calls(text, node)
            elif node.type == "subscript_expression" and _is_element(node):
                index = node.field("indices")
                inner = text(index)[1:-1]
                for other in ("+", "-"):
                    yield Mistake("index", index.begin, index.end, f"[({inner}) {other} 1]")
            elif node.type == "binary_expression" and text(node.field("operator")) in OTHER:
                operator = node.field("operator")
                yield Mistake("bound", operator.begin, operator.end, OTHER[text(operator)])
            elif node.type == "if_statement":
                condition = node.field("condition")
                yield Mistake("guard removed", condition.begin, condition.end, "(true)")
            elif node.type == "expression_statement" and _stores(node):
                yield Mistake("store removed", node.begin, node.end, ";")


def _is_element(node: Node) -> bool:
    """Not a row of an array of arrays, whose other element is another array's."""
    return node.parent is None or node.parent.type != "subscript_expression"


def _stores(node: Node) -> bool:
    inner = node.children[0]
    return inner.type == "assignment_expression" and inner.field("left").type == "subscript_expression"


def drawn(rights: list[Right], count: int, seed: int) -> list[tuple[Right, Mistake]]:
    """As many of each kind of mistake, as far as there are so many; and of each, of as many kernels."""
    chance = random.Random(seed)
    by_kind = collections.defaultdict(lambda: collections.defaultdict(list))
    for right in rights:
        for mistake in mistakes(right):
            by_kind[mistake.kind][right.name].append((right, mistake))
    queues = {}
    for kind, of_kernels in sorted(by_kind.items()):
        queues[kind] = []
        for found in of_kernels.values():
            chance.shuffle(found)
        names = sorted(of_kernels)
        while any(of_kernels.values()):
            chance.shuffle(names)
            queues[kind] += [of_kernels[name].pop() for name in names if of_kernels[name]]
    chosen = []
    while len(chosen) < count and any(queues.values()):
        for kind, queue in queues.items():
            many = 3 if kind == "wait removed" else 1
            chosen += queue[:many]
            del queue[:many]
    return chosen[:count]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("corpus", type=Path, nargs="?", default=Path("corpus"))
    parser.add_argument("--count", type=int, default=260)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=[], help="kernels; nothing is recorded")
    options = parser.parse_args()
    rights = [*_puzzles(), *_of_tests(), *_public(options.corpus)]
    if options.only:
        rights = [right for right in rights if right.name in options.only]
    chosen = drawn(rights, options.count, options.seed)
    chosen += [(right, NONE) for right in {right.name: right for right, _ in chosen}.values()]
    table = pd.read_csv(RESULT, keep_default_na=False) if RESULT.is_file() else pd.DataFrame(columns=COLUMNS)
    known = set(zip(table["kernel"], table["byte"], table["is"], strict=True))
    for right, mistake in chosen:
        if (right.name, mistake.begin, mistake.wrong) in known and not options.only:
            continue
        began = time.monotonic()
        outcome, said = said_of(right, mistake.planted(right.source.encode()))
        row = row_of(right, mistake, outcome, said)
        print(*row, f"{time.monotonic() - began:.1f} s", sep=" | ", flush=True)
        if not options.only:
            table = pd.concat([table, pd.DataFrame([row], columns=COLUMNS).assign(**when_recorded())])
            table.to_csv(RESULT, index=False)
    print(pd.crosstab(table["mistake"], table["outcome"], margins=True).to_string())


def row_of(right: Right, mistake: Mistake, outcome: str, said: str) -> tuple:
    source = right.source.encode()
    line = source[: mistake.begin].count(b"\n") + 1
    was = source[mistake.begin : mistake.end].decode()
    why = EQUIVALENT.get((right.name, line), "") if outcome == SILENT else ""
    words = " ".join(said.split())[:200]
    return right.name, mistake.begin, line, mistake.kind, was, mistake.wrong, outcome, words, why


if __name__ == "__main__":
    sys.exit(main())
