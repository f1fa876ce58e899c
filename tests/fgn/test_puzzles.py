"""Puzzles: solutions pass, wrong attempts fail for their reasons, and nothing typed ends a session."""

import json
import re
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import nbformat
import puzzle_notebooks
import pytest

import fgn
from cudasim.building.compilers import find_cpp_compiler, version_of
from fgn.puzzles import helper as helper_module
from fgn.puzzles import store, verdict
from fgn.puzzles.catalogue import NOTEBOOKS, TASKS
from fgn.puzzles.definition import FAULT, FOLDER, MISREAD, OVER_BUDGET, WRONG, Wrong
from fgn.puzzles.helper import Helper
from fgn.puzzles.judge import counted, here, judge

ATTEMPTS = [(task.name, attempt) for task in TASKS.values() for attempt in task.wrong]


@pytest.fixture(autouse=True)
def progress(tmp_path, monkeypatch):
    """A file of its own for the progress that a test makes."""
    monkeypatch.setenv("FGN_PUZZLES", str(tmp_path / "puzzles.json"))
    return tmp_path / "puzzles.json"


def judged(name, source):
    task = TASKS[name]
    return judge(task, here(task, fgn.kernel(source, task.kernel)))


def is_clang():
    return version_of(find_cpp_compiler())[0] == "clang"


# Their float4 or their loop of another length in each lane is more requests with clang (docs/limits.md).
COUNT_MORE_WITH_CLANG = ("vectors", "beat_the_budget", "csr_by_row")


@pytest.mark.parametrize("name", TASKS)
def test_each_solution_passes_its_own_check(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = judged(name, TASKS[name].solution())
    if name in COUNT_MORE_WITH_CLANG and is_clang():
        assert found or (found.kind == OVER_BUDGET and "is clang, which" in str(found)), str(found)
        pytest.skip("clang counts more than a GPU here, and the verdict says so")
    assert found, str(found)
    assert len(found.budget) == len(TASKS[name].limits())


# A skeleton that is a wrong attempt is tried as such.
@pytest.mark.parametrize("name", [task.name for task in TASKS.values() if task.starts_from is None])
def test_each_skeleton_compiles_without_a_warning_and_is_not_solved(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = judged(name, TASKS[name].skeleton())
    assert found.kind in (FAULT, WRONG, OVER_BUDGET, MISREAD), str(found)
    assert "SOLUTION" not in TASKS[name].skeleton()


@pytest.mark.parametrize(("name", "attempt"), ATTEMPTS)
@pytest.mark.filterwarnings("ignore:.*unused")
def test_each_wrong_attempt_fails_for_its_reason(name, attempt):
    task = TASKS[name]
    wrong = task.wrong[attempt]
    found = judged(name, task.attempt(attempt))
    if attempt in ("does_not_wait", "does_not_commit") and wrong.says == "wgmma" and is_clang():
        # clang does not report accesses to an array of the thread's own (docs/limits.md).
        wrong = Wrong(wrong.edits, WRONG, "expected")
    assert found.kind == wrong.kind, str(found)
    if wrong.kind == OVER_BUDGET:
        exceeded = [limit.words for limit in found.budget if not limit.is_kept]
        assert any(wrong.says in words for words in exceeded), str(found)
        # Of a program it is not known which line makes its kernels' requests.
        has_line = re.search(r"→ .*: line \d+ has (most|fewest)", str(found)) or task.is_program
        assert has_line or wrong.says in (
            "barriers",
            "busiest warp",
            "shuffles and votes",
        )
    else:
        assert wrong.says in str(found)
    if wrong.kind == FAULT:
        assert re.search(r"→ line \d+: \S", str(found)), str(found)
    text = str(found) + found._repr_html_()
    assert "Traceback" not in text and "fgn/" not in text


@pytest.mark.parametrize("family", ["gcc", "clang"])
def test_counts_above_the_budget_are_doubted_where_clang_made_them(family, monkeypatch):
    monkeypatch.setattr("fgn.puzzles.judge.version_of", lambda compiler: (family, 99))
    found = judged("vectors", TASKS["vectors"].attempt("one_at_a_time"))
    assert found.kind == OVER_BUDGET
    assert ("is clang, which takes a float4 apart" in str(found)) == (family == "clang")


def test_a_sum_onto_memory_that_nobody_set_was_written():
    task = TASKS["map"]
    found = judged(task.name, task.solution().replace("y[i] =", "y[i] +="))
    assert found.kind == WRONG
    assert "1 of 1 elements of y were computed from what was in y before anybody had written there" in str(
        found
    )
    assert "never written" not in str(found)


def test_a_kernel_for_the_sizes_that_are_told_is_over_budget():
    task = TASKS["coalescing"]
    told = " && ".join(f"{name} == {size}" for name, size in task.budget_sizes.items())
    slow = task.attempt(task.starts_from)
    row, column = "i / columns", "i % columns"
    cheat = slow.replace("i % rows", f"{told} ? {row} : i % rows")
    cheat = cheat.replace("i / rows", f"{told} ? {column} : i / rows")
    found = judged(task.name, cheat)
    assert found.kind == OVER_BUDGET and "sectors for each request" in str(found), str(found)


# Reports are drawn by their notebook, notebooks/puzzles/12_profiles.ipynb.
@pytest.mark.parametrize("name", [task.name for task in TASKS.values() if not task.has_report])
def test_each_puzzle_has_a_drawing(name):
    fgn.puzzles.get(name).draw().canvas.draw()


@pytest.mark.parametrize("name", [task.name for task in TASKS.values() if task.budget])
def test_budgets_fit_all_sizes(name):
    """A solution is within the budget for any sizes that may be drawn, and so for those at the ends."""
    task = TASKS[name]
    assert task.budget_between.keys() == task.budget_sizes.keys() == task.between.keys()
    for end in (0, 1):
        sizes = {size: bounds[end] for size, bounds in task.budget_between.items()}
        assert all(
            (task.budget_sizes[size] - low) % step == 0
            for size, (low, _, step) in task.budget_between.items()
        )
        for limit in counted(task, here(task, fgn.kernel(task.solution(), task.kernel)), sizes):
            with_clang = name in COUNT_MORE_WITH_CLANG and is_clang()
            assert limit.is_kept or with_clang, (sizes, limit)


def test_puzzles_are_complete():
    assert len(TASKS) == sum(map(len, NOTEBOOKS.values())) >= 24
    kernels = [task.kernel for task in TASKS.values()]
    assert len(set(kernels)) == len(kernels), "a notebook would check the kernel of another puzzle"
    attempts = {f"{task.name}.{name}" for task in TASKS.values() for name in task.wrong}
    for path in FOLDER.iterdir():
        assert path.stem in TASKS or path.stem in attempts, path
    for task in TASKS.values():
        assert task.wrong and len(task.hints) >= 3 and task.sizes
        assert all(isinstance(wrong, Wrong) for wrong in task.wrong.values())
        assert len(task.all_sizes()) > len(task.sizes) and task.all_sizes() == task.all_sizes()
        assert not task.budget or task.budget_sizes
        assert task.is_program or all(
            f"{kernel}[" in task.launch for kernel in (task.kernel, *task.more_kernels)
        )


# What ends a process or never ends: an integer division by 0, a large array, calls of the C library, a loop.
HARMFUL = {
    "int zero = (int)(x[0] * 0.0f); y[0] = 7 % zero;": "",
    "volatile float big[1 << 24]; big[threadIdx.x] = 1.0f; y[0] = big[0];": "",
    "exit(3);": "calls exit()",
    "\nfor (volatile int go = 1; go;) {}": "a loop without an end, at line 3",
    "\nfor (int i = 0; i < 3; i++)\n y[0] = i;\nint n = 9;\nwhile (n != 1)\n n = 3;": "line 6: while (",
}


def test_nothing_a_learner_types_ends_the_session(monkeypatch):
    monkeypatch.setenv("CUDASIM_NVCC_JUDGE", "0")  # which refuses the host's functions before they run
    helper = Helper()

    def checked(body, seconds=20.0):
        source = f"#include <stdlib.h>\n__global__ void twice(float *y, const float *x) {{ {body} }}"
        return helper.check("map", "Map", fgn.kernel(source), seconds)

    try:
        for body, words in HARMFUL.items():
            is_endless = "without an end" in words or "while" in words
            found = checked(body, 3.0 if is_endless else 20.0)
            assert not found and words in str(found) and "n = 1" in str(found), str(found)
        assert checked("y[threadIdx.x] = 2 * x[threadIdx.x];")
    finally:
        helper.close()


def test_a_kernel_has_its_seconds_also_on_a_busy_machine(monkeypatch):
    ended, said = threading.Event(), []
    monkeypatch.setattr(helper_module.os, "_exit", lambda status: ended.set())
    monkeypatch.setattr(helper_module.time, "process_time", lambda: 0.0)
    kernel, seconds = SimpleNamespace(file="twice.cu", source=""), 0.2
    limit = helper_module._Limit(SimpleNamespace(send=said.append), "Map", kernel, seconds)
    limit.begins("n = 1")
    assert not ended.wait(2 * seconds) and said == [("case", "n = 1")]
    limit.begins("n = 2")
    begin = time.monotonic()
    assert ended.wait(60) and time.monotonic() - begin >= 7 * seconds
    assert said[-1][1].kind == verdict.ENDLESS and "n = 2" in str(said[-1][1])


@pytest.mark.parametrize(
    ("ending", "words"),
    [("os.kill(os.getpid(), 9)", "ended by SIGKILL"), ("os._exit(3)", "ended with status 3")],
)
def test_a_process_that_ends_is_a_verdict(ending, words):
    helper = Helper()
    pipe = subprocess.PIPE
    helper._process = subprocess.Popen(
        [sys.executable, "-c", f"import os; {ending}"], stdin=pipe, stdout=pipe
    )
    helper._connection = SimpleNamespace(close=lambda: None)
    found = helper._crashed("Map", "n = 1")
    assert not found and words in str(found) and "n = 1" in str(found)


def test_the_stop_button_is_a_verdict(monkeypatch):
    helper = Helper()

    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(helper, "_start", stopped)
    found = helper.check("map", "Map", fgn.kernel(TASKS["map"].solution()), 3.0)
    assert not found and found.kind == verdict.STOPPED and "Traceback" not in found._repr_html_()


def test_what_a_kernel_prints_is_shown(monkeypatch):
    source = (
        '__global__ void twice(float *y, const float *x) { printf("thread %d\\n", threadIdx.x); y[0] = 0; }'
    )
    found = fgn.puzzles.get("map").check(fgn.kernel(source))
    assert not found and "thread 0" in str(found) and "thread 0" in found._repr_html_()


def test_progress_hints_and_solution(progress):
    puzzle = fgn.puzzles.get("map")
    task = TASKS["map"]
    assert str(puzzle.hint()).endswith(task.hints[0]) and str(puzzle.hint()).endswith(task.hints[1])
    found = puzzle.check(fgn.kernel(task.skeleton()))
    assert not found and "0 of" in str(found)
    assert puzzle.check(fgn.kernel(task.solution()))
    kept = json.loads(progress.read_text())["map"]
    assert kept == {
        "checks": 1,
        "solved": True,
        "source": task.solution(),
        "hints": 2,
        "read_solution": False,
    }
    assert task.solution() in str(puzzle.solution())
    assert not store.load()["map"].read_solution  # it had been solved before
    assert fgn.puzzles.progress().axes


@pytest.mark.parametrize("content", ["", "[]", "{", '{"map": 3}', '{"map": {"checks": "x", "solved": 1}}'])
def test_a_damaged_file_of_progress_counts_as_empty(progress, content):
    progress.write_text(content)
    assert store.load().get("map", store.Record()) == store.Record()
    assert fgn.puzzles.get("map").hint(3)
    assert store.load()["map"].hints == 3


def test_progress_that_cannot_be_written_is_kept_for_the_session(progress, monkeypatch):
    progress.write_text("")
    monkeypatch.setenv("FGN_PUZZLES", str(progress / "puzzles.json"))
    monkeypatch.setattr(store, "_unsaved", {})
    with pytest.warns(UserWarning, match="not saved"):
        fgn.puzzles.get("map").hint()
    assert store.load()["map"].hints == 1


def test_who_has_no_home_has_no_progress(monkeypatch):
    for name in ("FGN_PUZZLES", "XDG_DATA_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", lambda: Path("~nobody-of-this-name").expanduser())
    assert store.path().is_relative_to("/nonexistent") and store.load() == {}


def test_pages_say_how_many_puzzles_there_are():
    pages = ("README.md", "docs/start.md", "docs/puzzles.md", "notebooks/00_first_run.ipynb")
    for page in pages:
        text = (puzzle_notebooks.FOLDER.parent / page).read_text()
        said = re.findall(r"(\d+) (?:puzzles|kernels to write)\b", text)
        assert said and {int(number) for number in said} == {len(TASKS)}, (page, said)
    course = (puzzle_notebooks.FOLDER.parent / "docs" / "puzzles.md").read_text()
    for key in NOTEBOOKS:
        assert f"notebooks/puzzles/{key}.ipynb)" in course, f"the course lacks {key}"


@pytest.mark.parametrize("key", NOTEBOOKS)
def test_the_notebooks_are_those_of_the_definitions(key):
    saved = nbformat.read(puzzle_notebooks.TARGET / f"{key}.ipynb", as_version=4)
    made = puzzle_notebooks.learners(key)
    assert [(c.id, c.source) for c in saved.cells] == [(c.id, c.source) for c in made.cells], (
        "run: python tools/puzzle_notebooks.py"
    )
    for cell in saved.cells:
        is_attempt = puzzle_notebooks.ATTEMPT in cell.metadata.get("tags", ())
        assert not (is_attempt or cell.source.startswith("%%cuda")) or cell.outputs == []


@pytest.mark.parametrize("key", NOTEBOOKS)
def test_a_course_has_the_solutions_and_what_learners_begin_with(key):
    cells = puzzle_notebooks.teachers(key).cells
    answers = [cell for cell in cells if cell.metadata.get("nbgrader", {}).get("solution")]
    checks = [cell for cell in cells if cell.metadata.get("nbgrader", {}).get("grade")]
    assert len(answers) == len(checks) == len(NOTEBOOKS[key])
    for task, answer, check in zip(NOTEBOOKS[key], answers, checks, strict=True):
        assert answer.source == f"%%cuda\n{task.solution()}".strip("\n")
        assert answer.metadata["skeleton"] == f"%%cuda\n{task.skeleton()}".strip("\n")
        assert "assert verdict" in check.source and task.name in check.source


def test_a_kernel_of_another_name_is_named(monkeypatch):
    names = {
        "rleu": fgn.kernel("__global__ void rleu(float *y, const float *x, int n) { y[0] = 0; }"),
        "n": 3,
    }
    monkeypatch.setattr("IPython.get_ipython", lambda: SimpleNamespace(user_ns=names))
    said = str(fgn.puzzles.get("guard").check())
    assert "there is rleu" in said and "`__global__ void relu(`" in said and "first" not in said
    names.pop("rleu")
    assert "run the cell that begins with %%cuda first" in str(fgn.puzzles.get("guard").check())


def test_wrong_arguments():
    with pytest.raises(ValueError, match=r"name: expected one of map, guard, .*, got 'mapp'"):
        fgn.puzzles.get("mapp")
    puzzle = fgn.puzzles.get("map")
    with pytest.raises(TypeError, match="kernel: expected a kernel"):
        puzzle.check(3)
    with pytest.raises(ValueError, match="seconds"):
        puzzle.check(seconds=0)
    with pytest.raises(ValueError, match="which: expected 1 to 3, got 9"):
        puzzle.hint(9)
    assert puzzle.check().kind == verdict.NOTHING
    other = fgn.kernel("__global__ void twice(float *y, int n) { y[0] = n; }")
    found = puzzle.check(other)
    assert found.kind == verdict.NOT_LAUNCHED and "twice[1, n](y, x)" in str(found)
    broken = fgn.kernel("__global__ void twice(float *y, const float *x) { y[0] = z; }")
    assert puzzle.check(broken).kind == verdict.NOT_BUILT
