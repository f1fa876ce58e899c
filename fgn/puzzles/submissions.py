"""What learners have handed in: only the text of their notebooks' `%%cuda` cells.

A notebook is read as JSON and never run. The notebooks are in `FOLDER/STUDENT/...ipynb`, as nbgrader collects
them (`submitted/STUDENT/ASSIGNMENT/...`), or `FOLDER/STUDENT.ipynb`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cudasim.live.text import blanked
from fgn.puzzles.definition import Task


@dataclass(frozen=True)
class Submission:
    """A learner's kernel for a puzzle. notebook: where it was found."""

    student: str
    task: Task
    source: str
    notebook: Path

    @property
    def is_begun(self) -> bool:
        return self.source.split() != self.task.skeleton().split()


def cells_of(notebook: Path) -> list[str]:
    """The sources of a notebook's `%%cuda` cells, in order, without that line. ValueError if it is no
    notebook."""
    try:
        content = json.loads(notebook.read_text(encoding="utf-8", errors="replace"))
        cells = [cell for cell in content["cells"] if cell["cell_type"] == "code"]
        texts = ["".join(cell["source"]) for cell in cells]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{notebook}: expected a notebook, got {type(error).__name__}: {error}") from None
    return [text.lstrip().partition("\n")[2] for text in texts if re.match(r"\s*%%cuda\b", text)]


def students(folder: Path) -> dict[str, list[Path]]:
    """The notebooks of each student, the oldest first."""
    found: dict[str, list[Path]] = {}
    for path in sorted(folder.rglob("*.ipynb"), key=lambda path: (path.stat().st_mtime, path)):
        parts = path.relative_to(folder).parts
        if not any(part.startswith(".") for part in parts):
            found.setdefault(parts[0].removesuffix(".ipynb"), []).append(path)
    return dict(sorted(found.items()))


def submissions(folder: Path, tasks: Iterable[Task]) -> tuple[list[Submission], list[str]]:
    """What each student has handed in for each task, and what could not be read. If several cells have a
    task's kernel, the last one counts."""
    tasks, found, unread = tuple(tasks), {}, []
    for student, notebooks in students(folder).items():
        for notebook in notebooks:
            try:
                texts = cells_of(notebook)
            except ValueError as error:
                unread.append(str(error))
                continue
            for text in texts:
                code = blanked(text)
                for task in tasks:
                    if re.search(rf"__global__[^;{{(]*?\b{task.kernel}\s*\(", code):
                        found[student, task.name] = Submission(student, task, text, notebook)
    return list(found.values()), unread
