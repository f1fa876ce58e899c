"""Puzzles: kernels for learners to write, and a check that tells right from wrong, and why. No GPU is needed.

    puzzle = fgn.puzzles.get("guard")
    puzzle                     the task
    puzzle.check(relu)         right or wrong, the faults, the counts beside the budget
    puzzle.hint()              the next hint; puzzle.solution() is the last
    fgn.puzzles.progress()     a drawing of what is solved
    fgn.puzzles.add("folder")  puzzles of one's own

The notebooks of all puzzles are in `notebooks/puzzles/`.
"""

from fgn.puzzles.catalogue import NOTEBOOKS, TASKS, add
from fgn.puzzles.puzzle import Puzzle
from fgn.puzzles.verdict import Verdict

__all__ = ["NAMES", "Puzzle", "Verdict", "add", "get", "progress"]

NAMES = tuple(TASKS)


def get(name: str) -> Puzzle:
    """The puzzle of this name, one of `fgn.puzzles.NAMES`."""
    return Puzzle(name)


def progress():
    """A drawing of all puzzles: which are solved, which were tried, and which are not begun."""
    from fgn.plot.puzzles import board
    from fgn.puzzles import store

    records = store.load()
    states = {
        notebook: [(task.title, records.get(task.name, store.Record())) for task in tasks]
        for notebook, tasks in NOTEBOOKS.items()
    }
    return board(states)
