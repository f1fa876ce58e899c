"""Grades of a class: each kernel is checked for newly drawn sizes and inputs, in a separate process.

    python -m fgn grade FOLDER --out grades

Points: 6 of 10 for a right kernel, and the other 4 in proportion to the limits of the budget that it keeps.
With a wrong answer to the task's question there are at most 6. The kernel runs in a separate process, which
gets inputs and returns outputs; only this process knows the right results (cudasim/counting/apart.py).
"""

from __future__ import annotations

import html
import secrets
import signal
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from cudasim.counting.apart import Apart, Stopped
from fgn.puzzles.definition import MISREAD, OVER_BUDGET, Task
from fgn.puzzles.judge import judge
from fgn.puzzles.loops import words_of_loop
from fgn.puzzles.programs import Running
from fgn.puzzles.submissions import Submission, students, submissions
from fgn.puzzles.verdict import CRASHED, ENDLESS, NOTHING, SOLVED, Verdict

POINTS, FOR_RIGHT = 10, 6
NOT_BEGUN, MISSING = "not begun", "not handed in"


@dataclass(frozen=True)
class Grade:
    """What a student gets for a puzzle."""

    student: str
    puzzle: str
    points: float
    verdict: Verdict
    source: str = ""

    @property
    def kind(self) -> str:
        return self.verdict.kind


def points_of(verdict: Verdict) -> float:
    """The points for a check's verdict."""
    if verdict.kind == SOLVED:
        return POINTS
    if verdict.kind != OVER_BUDGET:
        return 0
    kept = sum(limit.is_kept for limit in verdict.budget) / len(verdict.budget)
    return round(FOR_RIGHT + (POINTS - FOR_RIGHT) * kept, 1)


def checked(task: Task, source: str, seed: str, seconds: float) -> Verdict:
    """The verdict about a stranger's source."""
    sizes = ""

    def tell(words: str) -> None:
        nonlocal sizes
        sizes = words

    if task.is_program:  # each of its runs is a process of its own
        return judge(task, Running(task.name, source), tell, seed)
    try:
        with Apart(source, task.kernel, seconds, task.more_kernels) as apart:
            return judge(task, apart, tell, seed)
    except Stopped as stopped:
        if stopped.status is None:
            details = words_of_loop(source, set(stopped.lines))
            return Verdict(task.title, ENDLESS, f"{stopped}, for {sizes}", details)
        status = stopped.status
        how = signal.Signals(-status).name if status < 0 else f"status {status}"
        return Verdict(task.title, CRASHED, f"ended its process, for {sizes}", (f"it ended by {how}",))


def _graded(submission: Submission, seed: str, seconds: float) -> Grade:
    task = submission.task
    if submission.is_begun:
        verdict = checked(task, submission.source, seed, seconds)
    else:
        verdict = Verdict(task.title, NOT_BEGUN, "is what learners begin with")
    points = points_of(verdict)
    if verdict.kind == MISREAD:  # the kernel may be right all the same
        kernel_alone = checked(replace(task, question=None), submission.source, seed, seconds)
        points = min(FOR_RIGHT, points_of(kernel_alone))
    return Grade(submission.student, task.name, points, verdict, submission.source)


def grade(
    folder: Path,
    tasks: Iterable[Task],
    seed: str = "",
    seconds: float = 15.0,
    workers: int = 1,
    tell: Callable[[Grade], None] = lambda grade: None,
) -> tuple[list[Grade], list[str]]:
    """The grades of all students for all submitted tasks, and what could not be read.

    seed: draws sizes and inputs; by default an unpredictable one. seconds: the limit for each launch. tell:
    is called with each grade.
    """
    handed_in, unread = submissions(folder, tasks)
    seed = seed or secrets.token_hex(8)
    grades = {}
    with ThreadPoolExecutor(workers) as pool:
        for found in pool.map(lambda each: _graded(each, seed, seconds), handed_in):
            tell(found)
            grades[found.student, found.puzzle] = found
    asked = [task for task in tasks if any(each.task.name == task.name for each in handed_in)]
    rows = []
    for student in students(folder):
        for task in asked:
            missing = Verdict(task.title, MISSING, "is in none of the notebooks")
            rows.append(grades.get((student, task.name)) or Grade(student, task.name, 0, missing))
    return rows, unread


# ------------------------------------------------------------------------------------------------------------
# What a teacher reads


def table(grades: list[Grade]) -> pd.DataFrame:
    """A row for each student, a column for each puzzle, and the sums."""
    rows: dict[str, dict[str, float]] = {}
    for each in grades:
        rows.setdefault(each.student, {})[each.puzzle] = each.points
    frame = pd.DataFrame.from_dict(rows, orient="index")
    frame["points"] = frame.sum(axis=1)
    frame["of"] = POINTS * (len(frame.columns) - 1)
    return frame.rename_axis("student")


def details(grades: list[Grade]) -> pd.DataFrame:
    """A row for each grade, with the check's verdict in a sentence."""
    return pd.DataFrame(
        [(g.student, g.puzzle, g.points, POINTS, g.kind, g.verdict.sentence) for g in grades],
        columns=["student", "puzzle", "points", "of", "kind", "says"],
    )


def stuck(grades: list[Grade]) -> pd.DataFrame:
    """For each puzzle the number who have solved it and the names of those who have not, the hardest
    first."""
    rows = {}
    for each in grades:
        row = rows.setdefault(each.puzzle, {"solved": 0, "tried": 0, "most said": {}, "stuck": []})
        row["solved"] += each.kind == SOLVED
        if each.kind not in (SOLVED, NOT_BEGUN, MISSING, NOTHING):
            row["tried"] += 1
            row["most said"][each.kind] = row["most said"].get(each.kind, 0) + 1
            row["stuck"].append(each.student)
    for row in rows.values():
        row["most said"] = max(row["most said"], key=row["most said"].get, default="")
        row["stuck"] = ", ".join(row["stuck"])
    frame = pd.DataFrame.from_dict(rows, orient="index").rename_axis("puzzle")
    return frame.sort_values("tried", ascending=False, kind="stable")


def feedback(grades: list[Grade]) -> str:
    """A page for one student: each check's verdict, and its source."""
    parts = [f"<h1>{html.escape(grades[0].student)}</h1>"]
    for each in grades:
        parts.append(f"<h2>{html.escape(each.verdict.title)}: {each.points:g} of {POINTS}</h2>")
        parts.append(each.verdict._repr_html_())
        if each.source:
            parts.append(f"<pre>{html.escape(each.source)}</pre>")
    return f'<!doctype html><meta charset="utf-8"><title>Feedback</title>{"".join(parts)}'


def write(grades: list[Grade], folder: Path) -> None:
    """Writes grades.csv, details.csv, stuck.csv, class.png and a page of feedback for each student."""
    from fgn.plot.puzzles import class_board

    (folder / "feedback").mkdir(parents=True, exist_ok=True)
    table(grades).to_csv(folder / "grades.csv")
    details(grades).to_csv(folder / "details.csv", index=False)
    stuck(grades).to_csv(folder / "stuck.csv")
    class_board(details(grades)).savefig(folder / "class.png", dpi=120)
    by_student: dict[str, list[Grade]] = {}
    for each in grades:
        by_student.setdefault(each.student, []).append(each)
    for student, own in by_student.items():
        (folder / "feedback" / f"{student}.html").write_text(feedback(own), encoding="utf-8")
