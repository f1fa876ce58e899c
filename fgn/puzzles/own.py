"""A user's own puzzles: in any folder, `NAME.py` with a TASK, `NAME.cu` with its solution, and a file
`NAME.ATTEMPT.cu` for each wrong attempt that is no edit of the solution.

`write_new()` writes a working puzzle as a start; `tried()` tells whether a puzzle works: its solution passes,
the learners' initial source does not, and each wrong attempt fails for its reason.
"""

from __future__ import annotations

import keyword
import types
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from cudasim.live.kernels import kernel
from fgn.puzzles.definition import Task
from fgn.puzzles.judge import here, judge
from fgn.puzzles.verdict import NOT_BUILT, Verdict

TEMPLATE = '''\
"""A puzzle: change the names, the words, the reference, the budget and the wrong attempts."""

import numpy as np

from fgn.plot.sketch import TINTS, Sketch
from fgn.puzzles.definition import FAULT, OVER_BUDGET, STORES, WRONG, Task, Wrong, coalesced, requests


def inputs(sizes, generator):
    """What the kernel is given: arrays by name, for these sizes; generator: a numpy.random.Generator."""
    return {"x": generator.standard_normal(sizes["n"], dtype=np.float32)}


def right(x, n):
    """The reference: what the kernel has to write, from the inputs in float64."""
    return {"y": x + 1}


def drawing():
    """What the notebook shows above the cell; a Figure of matplotlib will do as well."""
    s = Sketch(14, 3, "each thread adds one to its element")
    s.row(3, 0, [f"x[{i}]" for i in range(8)], TINTS[0], size=7)
    s.row(3, 2, [f"y[{i}]" for i in range(8)], TINTS[1], size=7)
    for i in range(8):
        s.arrow((3.5 + i, 1), (3.5 + i, 2))
    return s.done()


TASK = Task(
    name="NAME",
    title="TITLE",
    kernel="NAME_kernel",
    text="""
`y[i]` is `x[i] + 1`. The last block may have threads without an element.
""",
    launch="NAME_kernel[tiles(n, 128), 128](y, x, n)",
    # What it is tried on, and the bounds that random sizes are drawn from.
    sizes=({"n": 1}, {"n": 128}, {"n": 129}),
    between={"n": (2, 1000)},
    inputs=inputs,
    right=right,
    # Both are numpy's, and nobody needs torch. Without this line they have PyTorch's tensors, and a
    # torch.Generator.
    in_numpy=True,
    # Limits as formulas of the sizes; they are counted for these sizes, and for others (from, to, step).
    budget=lambda n: (*coalesced(), requests(STORES, n // 32)),
    budget_sizes={"n": 1024},
    budget_between={"n": (256, 2048, 128)},
    drawing=drawing,
    hints=(
        "Which number has a thread among all threads of all blocks?",
        "int i = blockIdx.x * blockDim.x + threadIdx.x;",
        "if (i < n) y[i] = x[i] + 1.0f;",
    ),
    # Mistakes: what is replaced in the solution, how the check fails, and words that it then says.
    wrong={
        "no_guard": Wrong({"if (i < n)\\n        ": ""}, FAULT, "out of bounds"),
        "twice": Wrong({"x[i] + 1.0f": "2.0f * x[i]"}, WRONG, "expected"),
        "one_thread": Wrong(
            {"if (i < n)": "for (int all = i == 0 ? n : 0; i < all; i++)"},
            OVER_BUDGET,
            "requests of global stores",
        ),
    },
)
'''
SOLUTION = """\
__global__ void NAME_kernel(float *y, const float *x, int n) {
    // BEGIN SOLUTION: every thread writes one element
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = x[i] + 1.0f;
    // END SOLUTION
}
"""


def read(folder: str | Path) -> tuple[Task, ...]:
    """The puzzles of a folder. ValueError names a file without one, and the reason."""
    folder = Path(folder).resolve()
    if not folder.is_dir():
        raise ValueError(f"folder: expected a folder of puzzles, got {folder}")
    tasks = []
    for path in sorted(folder.glob("*.py")):
        # Compiled each time: a cache would miss a change of the same second and length.
        module = types.ModuleType(f"own_puzzle_{path.stem}")
        module.__file__ = str(path)
        try:
            exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), vars(module))
        except Exception as error:  # whatever a teacher's file does
            raise ValueError(f"{path}: {type(error).__name__}: {error}") from error
        task = getattr(module, "TASK", None)
        if not isinstance(task, Task):
            raise ValueError(f"{path}: expected TASK = Task(...), got {type(task).__name__}")
        if task.name != path.stem:
            raise ValueError(f"{path}: expected name={path.stem!r}, as the file is called, got {task.name!r}")
        task = replace(task, folder=folder)
        if not task.file.is_file():
            raise ValueError(f"{path}: expected its solution beside it, in {task.file.name}, got none")
        tasks.append(task)
    if not tasks:
        raise ValueError(f"folder: expected files NAME.py with a TASK, got none in {folder}")
    return tuple(tasks)


def write_new(path: Path) -> tuple[Path, Path]:
    """Writes a working puzzle. path: the folder and the puzzle's name, such as my_puzzles/add_one."""
    name = path.name
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ValueError(f"name: expected a name of letters, digits and _, got {name!r}")
    files = path.with_suffix(".py"), path.with_suffix(".cu")
    for file, text in zip(files, (TEMPLATE, SOLUTION), strict=True):
        if file.exists():
            raise ValueError(f"{file} is there already")
        file.parent.mkdir(parents=True, exist_ok=True)
        title = name.replace("_", " ").capitalize()
        file.write_text(text.replace("NAME", name).replace("TITLE", title))
    return files


def _judged(task: Task, source: str) -> Verdict:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # wrong attempts give rise to them
            return judge(task, here(task, kernel(source, task.kernel)))
    except ValueError as error:  # no kernel of this name
        return Verdict(task.title, NOT_BUILT, "does not compile", (str(error),))


def tried(task: Task) -> Iterator[tuple[str, bool, str]]:
    """What was tried, whether the outcome is as it should be, and the check's verdict."""
    found = _judged(task, task.solution())
    yield "the solution passes", bool(found), str(found)
    found = _judged(task, task.skeleton())
    yield "what learners begin with does not", not found and found.kind != NOT_BUILT, str(found)
    for name, wrong in task.wrong.items():
        found = _judged(task, task.attempt(name))
        said = f"{wrong.kind}: {wrong.says}"
        yield f"{name} fails ({said})", found.kind == wrong.kind and wrong.says in str(found), str(found)
    if task.drawing is not None:
        yield "it is drawn", hasattr(task.drawing(), "savefig"), "drawing() returns a Figure"
