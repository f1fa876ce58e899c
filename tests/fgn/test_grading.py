"""A class is graded from the text of its cells alone, for sizes nobody knows, by a checker nobody reaches."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from cudasim.counting import apart
from fgn.native.places import ROOT
from fgn.puzzles import grading
from fgn.puzzles.catalogue import TASKS
from fgn.puzzles.submissions import cells_of, students, submissions
from fgn.puzzles.verdict import Counted, Verdict

GUARD, REDUCTION = TASKS["guard"], TASKS["block_reduction"]
TWO = (GUARD, REDUCTION)


def notebook(*sources, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    cells = [{"cell_type": "code", "source": source, "outputs": [], "metadata": {}} for source in sources]
    path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))


@pytest.fixture(scope="module")
def grades(tmp_path_factory):
    """The grades of a class in which everybody does something else."""
    folder = tmp_path_factory.mktemp("submitted")
    guard, reduction = f"%%cuda\n{GUARD.solution()}", f"%%cuda\n{REDUCTION.solution()}"
    slow = f"%%cuda\n{REDUCTION.attempt('every_second_thread')}"
    python = "import fgn.puzzles as P\nP.Puzzle.check = lambda *_: True\nopen('/tmp/x', 'w')"
    endless = guard.replace("if (i < n)", "while (i >= 0)\n        i = i % 7;\n    if (i < n)")
    system = guard.replace(
        "__global__", 'extern "C" __device__ int system(const char *);\n__global__', 1
    ).replace("if (i < n)", 'system("true");\n    if (i < n)')
    for student, cells in {
        "ada": (guard, reduction),
        "bob": (f"%%cuda\n{GUARD.skeleton()}", slow),
        "cyd": (python, f"%%cuda\n{GUARD.attempt('guard_one_too_far')}"),
        "dan": (guard.replace("float *y", "flaot *y"), reduction.replace("+ half]", "+ half")),
        "eve": (system, endless),
        "fay": (f"%%cuda\n{GUARD.attempt('block_forgotten')}", guard),  # the last one counts
    }.items():
        notebook("import fgn", *cells, path=folder / student / "puzzles" / "01_threads.ipynb")
    notebook(endless, path=folder / "gus.ipynb")
    (folder / "hal.ipynb").write_text("{")
    found, unread = grading.grade(folder, TWO, "a seed", seconds=4.0)
    assert len(unread) == 1 and "hal.ipynb: expected a notebook" in unread[0]
    return {(each.student, each.puzzle): each for each in found}


def test_each_gets_what_is_due(grades):
    said = {key: (each.points, each.kind) for key, each in grades.items()}
    assert said["ada", "guard"] == said["fay", "guard"] == said["ada", "block_reduction"] == (10, "solved")
    assert said["bob", "guard"] == (0, "not begun") and said["bob", "block_reduction"][1] == "over budget"
    assert grading.FOR_RIGHT < said["bob", "block_reduction"][0] < grading.POINTS
    assert said["cyd", "guard"] == (0, "fault") and said["cyd", "block_reduction"] == (0, "not handed in")
    assert said["dan", "guard"] == said["dan", "block_reduction"] == (0, "does not compile")
    assert said["gus", "guard"] == (0, "does not end") and "while" in str(grades["gus", "guard"].verdict)
    assert said["hal", "guard"] == (0, "not handed in")


def test_what_a_teacher_gets(grades, tmp_path):
    every = list(grades.values())
    table, stuck = grading.table(every), grading.stuck(every)
    assert table.points["ada"] == 20 == table.of["ada"] and table.points["hal"] == 0
    assert stuck.solved["guard"] == 2 and "cyd" in stuck.stuck["guard"] and "bob" not in stuck.stuck["guard"]
    grading.write(every, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        *("grades.csv", "details.csv", "stuck.csv", "class.png", "feedback"),
    }
    page = (tmp_path / "feedback" / "cyd.html").read_text()
    assert "out of bounds" in page and "guard_one" not in page and "Traceback" not in page


def test_a_kernel_calls_nothing_of_the_host(monkeypatch):
    monkeypatch.setenv("CUDASIM_NVCC_JUDGE", "0")  # which refuses it before it is compiled
    declared = 'extern "C" __device__ int system(const char *);\n'
    source = declared + GUARD.solution().replace("if (i < n)", 'system("true");\n    if (i < n)')
    found = grading.checked(GUARD, source, "", 10.0)
    assert not found and "the kernel calls system, which no kernel" in str(found), str(found)
    assert grading.points_of(found) == 0


HIDDEN = (
    '__attribute__((no_sanitize("thread"))) ',
    '[[gnu::no_sani\\\ntize("thread")]] ',
    "\n#define JOIN(a, b) a##b\n__attribute__((JOIN(no_sani, tize)(1))) ",
)


@pytest.mark.parametrize("hiding", HIDDEN)
def test_a_kernel_does_not_hide_its_accesses(hiding):
    task = TASKS["coalescing"]
    slow = task.attempt(task.starts_from)
    found = grading.checked(task, hiding + slow, "", 20.0)
    assert not found and "may hide accesses" in str(found) and grading.points_of(found) == 0, str(found)


def test_the_process_does_not_know_what_is_right(monkeypatch):
    """What is sent has inputs and marked outputs, and the sizes are others with each seed."""
    sent = []
    plain = apart.Apart._asked

    def asked(self, what, expression, arrays, sizes):
        sent.append((what, sizes, {name: array.copy() for name, array in arrays.items()}))
        return plain(self, what, expression, arrays, sizes)

    monkeypatch.setattr(apart.Apart, "_asked", asked)
    assert grading.checked(GUARD, GUARD.solution(), "one", 20.0)
    first = [sizes["n"] for _, sizes, _ in sent]
    for _, _, arrays in sent:
        assert set(arrays) == {"x", "y"} and (arrays["y"].view("int32") == 0x7FA5A5A5).all()
    assert {what for what, _, _ in sent} == {"check", "count"}
    sent.clear()
    assert grading.checked(GUARD, GUARD.solution(), "two", 20.0)
    assert first != [sizes["n"] for _, sizes, _ in sent]
    one, two = (GUARD.case({"n": 100}, seed)[0]["x"] for seed in ("one", "two"))
    assert not (one == two).all()


def test_a_process_that_answers_nonsense_is_no_result(monkeypatch):
    monkeypatch.setattr(apart.json, "loads", lambda _: {"is": "done"})
    machine = apart.Apart("", "f", 1.0)
    machine._connection = SimpleNamespace(poll=lambda _: True, recv_bytes=lambda: b"")
    assert machine._heard(1.0) == {"is": "done"}
    monkeypatch.setattr(apart.json, "loads", lambda _: ["no", "answer"])
    with pytest.raises(apart.Stopped, match="no answer"):
        machine._heard(1.0)


def test_points_are_shared_by_the_limits_that_are_kept():
    kept, broken = (Counted("", "", value, 1) for value in (1, 2))
    assert grading.points_of(Verdict("", "over budget", "", (), (kept, kept, kept, broken))) == 9
    assert grading.points_of(Verdict("", "over budget", "", (), (broken,))) == grading.FOR_RIGHT
    assert (
        grading.points_of(Verdict("", "solved", "")) == 10
        and grading.points_of(Verdict("", "fault", "")) == 0
    )


def test_only_cells_of_cuda_are_read(tmp_path):
    path = tmp_path / "s" / "a.ipynb"
    notebook("x = 1", "%%cuda\nint a;", " \n%%cuda map\nint b;", "%%cudas\nint c;", path=path)
    assert cells_of(path) == ["int a;", "int b;"]
    assert list(students(tmp_path)) == ["s"] and submissions(tmp_path, TWO) == ([], [])


def test_one_command_grades_a_class(tmp_path):
    notebook(f"%%cuda\n{GUARD.solution()}", path=tmp_path / "in" / "ada" / "1.ipynb")
    command = [sys.executable, "-m", "fgn", "grade", "in", "--out", "out", "--puzzle", "guard"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "ada guard: 10" in done.stderr and "ada" in done.stdout
    assert (tmp_path / "out" / "grades.csv").read_text().splitlines()[1].startswith("ada,10")
    none = subprocess.run(
        [*command[:4], "out"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert none.returncode == 1 and "has no notebook" in none.stderr
