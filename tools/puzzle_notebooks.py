"""Writes the notebooks of the puzzles, from their definitions in fgn/puzzles/.

python tools/puzzle_notebooks.py [NAME ...]         notebooks/puzzles/, for learners; by default all
python tools/puzzle_notebooks.py --nbgrader FOLDER  a course for nbgrader: source/ and its configuration
python tools/puzzle_notebooks.py --own FOLDER       a notebook for the puzzles of a folder of one's own

A learner's notebook shows the drawings; the cells of attempts are saved without outputs. In a course the
answer is the solution, which `nbgrader generate_assignment` replaces by what a learner begins with.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Iterable
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from puzzle_units import UNITS, Unit

from fgn.puzzles.catalogue import NOTEBOOKS, TASKS, add
from fgn.puzzles.definition import Task
from fgn.puzzles.puzzle import Puzzle, in_words
from notebooks import FOLDER, run

TARGET = FOLDER / "puzzles"
ATTEMPT = "attempt"  # the tag of cells whose output depends on what a learner does

METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}

HOW = """\
Each puzzle is a kernel to write. Change the cell that begins with `%%cuda`, run it (Shift+Enter), and run the
cell below it: the kernel runs on a simulator, for many sizes; the answer is right or wrong, and why. No GPU
is needed, and nothing that you type can break the session.

- **Right** is compared with a reference in float64. Races, accesses out of bounds, shared memory that nobody
  has written and missed barriers are faults, even if the numbers are right.
- **The budget** is what a kernel may ask of the machine, in the words of Nsight Compute (ncu). 32
  neighbouring threads are a *warp*, and its threads are *lanes*. When the lanes of a warp load, that is one
  *request*. Memory answers in *sectors* of 32 bytes, so 32 floats in a row are 4 sectors for a request. Where
  lanes take different branches (they *diverge*), the warp goes through each with some of its lanes asleep, so
  fewer than 32 threads are active in an instruction. More words are in the
  [glossary](../../docs/glossary.md). The budget is counted for the sizes that are named, and for others.
- `puzzle.hint()` in a new cell gives a hint, each time a clearer one; `puzzle.solution()` shows a solution.
- In a launch `kernel[grid, block](...)`, `grid` is the number of blocks, and `block` the number of threads of
  a block, each a number or up to three, (x, y, z). `tiles(n, 256)` is n / 256, rounded up.
- Lines of faults are counted in the cell, from the line with `%%cuda` on.
"""
SEE_FIRST = (
    "How a puzzle is checked, and how to get a hint, is said in [the first notebook](01_threads.ipynb)."
)
PMPP = "PMPP is *Programming Massively Parallel Processors* by Hwu, Kirk and El Hajj, 4th edition."


IMPORT = "import fgn\n\n%load_ext fgn"
IMPORT_OWN = 'import fgn\n\n%load_ext fgn\nfgn.puzzles.add(".")'


def _cell(make, name: str, source: str, tags=(), slide: str = "-", **metadata):
    """A cell whose identifier depends on its place only, so that a new text changes nothing else."""
    cell = make(source.strip("\n"))
    cell["id"] = hashlib.sha256(name.encode()).hexdigest()[:8]
    if tags:
        cell.metadata["tags"] = list(tags)
    cell.metadata["slideshow"] = {"slide_type": slide}
    cell.metadata.update(metadata)
    return cell


def _text(number: int, task: Task) -> str:
    puzzle = Puzzle(task.name)
    lines = [
        f"## {number} · {task.title}",
        "",
        puzzle.text,
        "",
        f"**{'Run' if task.is_program else 'Launch'}:** `{task.launch}`",
    ]
    if puzzle.budget:
        limits = "; ".join(puzzle.budget)
        lines += ["", f"**Budget** (counted for {in_words(task.budget_sizes)}): {limits}."]
    return "\n".join(lines)


def _unit(key: str) -> Unit | None:
    """What there is to say of a notebook; None for those of one's own folders."""
    return UNITS.get(key.partition("_")[2])


def _first(key: str) -> str:
    unit = _unit(key)
    if unit is None:
        return f"# {key.replace('_', ' ').capitalize()}\n\n{HOW}"
    is_first = key == next(iter(NOTEBOOKS))
    parts = [
        f"# Puzzles {int(key.partition('_')[0])} · {unit.title}",
        f"**You need** {unit.needs}. **Time:** about {unit.minutes} minutes. "
        f"**Afterwards you can** {unit.able}.",
        f"**The idea.** {unit.idea}",
        f"**To read:** {unit.read}.{f' {PMPP}' if is_first else ''}",
        HOW if is_first else SEE_FIRST,
    ]
    return "\n\n".join(parts)


def _last(key: str) -> str:
    keys = list(NOTEBOOKS)
    following = keys[keys.index(key) + 1 :]
    if not following:
        return "That was the last one. The [notebooks about fusion](../00_first_run.ipynb) use all of it."
    number, title = int(following[0].partition("_")[0]), _unit(following[0]).title
    return f"**Next:** [{number} · {title}]({following[0]}.ipynb)"


def _number(task: Task) -> int:
    return 1 + list(TASKS).index(task.name)


def learners(key: str):
    """The notebook that a learner opens, without outputs."""
    cells = [
        _cell(new_markdown_cell, f"{key} first", _first(key), slide="slide"),
        _cell(new_code_cell, f"{key} import", IMPORT if _unit(key) else IMPORT_OWN, slide="skip"),
    ]
    for task in NOTEBOOKS[key]:
        name = task.name
        check = f'puzzle = fgn.puzzles.get("{name}")\npuzzle.check()'
        cells += [
            _cell(new_markdown_cell, f"{name} text", _text(_number(task), task), slide="slide"),
            _cell(new_code_cell, f"{name} drawing", f'fgn.puzzles.get("{name}").draw()'),
            _cell(new_code_cell, f"{name} answer", f"%%cuda\n{task.skeleton()}", slide="subslide"),
            _cell(new_code_cell, f"{name} check", check, [ATTEMPT], "fragment"),
        ]
    if _unit(key) is None:
        return new_notebook(cells=cells, metadata=METADATA)
    cells += [
        _cell(new_markdown_cell, f"{key} last", f"## How far are you?\n\n{_last(key)}", slide="slide"),
        _cell(new_code_cell, f"{key} progress", "fgn.puzzles.progress()", [ATTEMPT]),
    ]
    return new_notebook(cells=cells, metadata=METADATA)


# ------------------------------------------------------------------------------------------------------------
# nbgrader

POINTS = 10


def _nbgrader(name: str, is_answer: bool) -> dict:
    plain = {"grade_id": name, "schema_version": 3, "task": False}
    if is_answer:
        return plain | {"grade": False, "locked": False, "solution": True}
    return plain | {"grade": True, "locked": True, "solution": False, "points": POINTS}


def teachers(key: str):
    """The same for nbgrader: the answers are solutions, and a check that fails fails its cell."""
    notebook = learners(key)
    answers = {f"%%cuda\n{task.skeleton()}".strip("\n"): task for task in NOTEBOOKS[key]}
    checks = {f'puzzle = fgn.puzzles.get("{task.name}")\npuzzle.check()': task for task in NOTEBOOKS[key]}
    for cell in notebook.cells:
        if cell.source in answers:
            task = answers[cell.source]
            cell.metadata["skeleton"] = cell.source
            cell.metadata["nbgrader"] = _nbgrader(task.name, is_answer=True)
            cell.source = f"%%cuda\n{task.solution()}".strip("\n")
        elif cell.source == IMPORT:
            cell.metadata["nbgrader"] = {
                **_nbgrader(f"{key}_import", is_answer=True),
                **{"solution": False, "locked": True},
            }
        elif cell.source in checks:
            cell.metadata["nbgrader"] = _nbgrader(f"{checks[cell.source].name}_check", is_answer=False)
            cell.source = cell.source.replace(
                "puzzle.check()", "verdict = puzzle.check()\nprint(verdict)\nassert verdict"
            )
    return notebook


CONFIGURATION = '''\
"""nbgrader's configuration of the fgn puzzles. Solutions become skeletons when an assignment is generated."""

from nbgrader.converters import Autograde, GenerateAssignment
from nbgrader.preprocessors import ClearSolutions, NbGraderPreprocessor


class OnlyCuda(NbGraderPreprocessor):
    """Of what a learner has handed in, only the text of the answers runs: all other cells that are not locked
    become empty, and so does an answer that is no %%cuda cell."""

    def preprocess_cell(self, cell, resources, cell_index):
        kind = cell.metadata.get("nbgrader", {})
        is_answer = kind.get("solution") and cell.source.lstrip().startswith("%%cuda")
        if cell.cell_type == "code" and not kind.get("locked") and not is_answer:
            cell.source = ""
        return cell, resources


class PutSkeletons(NbGraderPreprocessor):
    """Gives each answer the text that a learner begins with; tools/puzzle_notebooks.py put it beside."""

    def preprocess_cell(self, cell, resources, cell_index):
        if "skeleton" in cell.metadata:
            cell.source = cell.metadata.pop("skeleton")
        return cell, resources


c = get_config()  # noqa: F821
c.CourseDirectory.course_id = "fgn"
c.GenerateAssignment.preprocessors = [
    PutSkeletons if each is ClearSolutions else each for each in GenerateAssignment().preprocessors
]
c.Autograde.autograde_preprocessors = [OnlyCuda, *Autograde().autograde_preprocessors]
c.ExecutePreprocessor.timeout = 600
'''


def write_course(folder: Path) -> None:
    (folder / "source").mkdir(parents=True, exist_ok=True)
    (folder / "nbgrader_config.py").write_text(CONFIGURATION)
    for key in NOTEBOOKS:
        target = folder / "source" / key / f"{key}.ipynb"
        target.parent.mkdir(exist_ok=True)
        nbformat.write(teachers(key), target)


# ------------------------------------------------------------------------------------------------------------


def write_own(folder: Path) -> Path:
    """Writes the notebook of a folder of one's own, and no other; returns its path."""
    add(folder)
    key = folder.resolve().name
    target = folder / f"{key}.ipynb"
    nbformat.write(learners(key), target)
    return target


def write_learners(keys: Iterable[str]) -> None:
    TARGET.mkdir(exist_ok=True)
    for key in keys:
        print(key, file=sys.stderr)
        path, made = TARGET / f"{key}.ipynb", learners(key)
        attempts = {cell.id: cell.source for cell in made.cells if ATTEMPT in cell.metadata.get("tags", ())}
        answers = {cell.id: cell.source for cell in made.cells if cell.source.startswith("%%cuda")}
        for cell in made.cells:
            # What is not kept need not run: neither the checks, nor the answers that learners begin with.
            cell.source = "pass" if cell.id in attempts | answers else cell.source
        nbformat.write(made, path)
        notebook = run(path)
        for cell in notebook.cells:
            cell.source = (attempts | answers).get(cell.id, cell.source)
            if cell.id in attempts:
                cell.outputs, cell.execution_count = [], None
        nbformat.write(notebook, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="of a notebook: 12_profiles")
    parser.add_argument("--nbgrader", type=Path, metavar="FOLDER", help="write a course for nbgrader instead")
    parser.add_argument(
        "--own", type=Path, metavar="FOLDER", help="write the notebook of a folder of puzzles"
    )
    arguments = parser.parse_args()
    if arguments.own:
        print(write_own(arguments.own))
    elif arguments.nbgrader:
        write_course(arguments.nbgrader)
    else:
        unknown = set(arguments.names) - set(NOTEBOOKS)
        if unknown:
            parser.error(f"no notebook {min(unknown)}: expected some of {', '.join(NOTEBOOKS)}")
        write_learners(arguments.names or NOTEBOOKS)


if __name__ == "__main__":
    main()
