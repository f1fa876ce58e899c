"""Puzzles that are programs, and puzzles of several kernels: what is told when they do not do what they
should."""

import pytest

import fgn
from cudasim.building.places import build_folder
from fgn.puzzles import grading, helper, programs, verdict
from fgn.puzzles.catalogue import TASKS
from fgn.puzzles.definition import WRONG
from fgn.puzzles.judge import here, judge

COPIES = TASKS["host_copies"]


def judged(task, source):
    return judge(task, here(task, fgn.kernel(source, task.kernel)))


def changed(old, new):
    source = COPIES.solution()
    assert source.count(old) == 1
    return source.replace(old, new)


BEFORE = "    compute(y.data()"
PRINTS = 'printf("%.9g\\n", value)'


def test_the_compiler_may_write_what_it_makes_of_the_headers():
    """A first check of a program compiles them in the helper's process, whose files have a limit."""
    assert judged(COPIES, COPIES.solution())
    made = [file.stat().st_size for file in build_folder().rglob("program.hpp.gch")]
    made += [file.stat().st_size for file in build_folder().rglob("program.hpp.pch")]
    assert made and 2 * max(made) < helper._MOST_FILE_BYTES


def test_a_program_without_an_end_is_told(monkeypatch):
    monkeypatch.setattr(programs, "SECONDS", 1)
    found = judged(COPIES, changed(BEFORE, f"    for (volatile int go = 1; go;) {{}}\n{BEFORE}"))
    assert found.kind == verdict.ENDLESS and "n = 1, seed = 1" in str(found), str(found)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (PRINTS, 'printf("y = %.9g\\n", value)', "expected that it prints numbers"),
        (PRINTS, 'printf("%.9g 0\\n", value)', "expected 1 numbers, and it prints 2"),
        (BEFORE, f"    return 3;\n{BEFORE}", "it ends with code 3"),
    ],
)
def test_what_a_program_prints_and_returns_is_told(old, new, words):
    found = judged(COPIES, changed(old, new))
    assert found.kind == WRONG and words in str(found), str(found)


def test_a_program_that_does_not_compile_is_told_with_its_line():
    found = judged(COPIES, changed("float *gpu_x, *gpu_y;", "flaot *gpu_x, *gpu_y;"))
    assert found.kind == verdict.NOT_BUILT and "host_copies.cu:" in str(found) and "/tmp" not in str(found)


def test_a_program_that_was_not_counted_is_not_over_budget(monkeypatch):
    run = programs.Running.run

    def ended(self, mode, sizes, table=""):
        return programs.Ran(None, "", ()) if table else run(self, mode, sizes, table)

    monkeypatch.setattr(programs.Running, "run", ended)
    found = judged(COPIES, COPIES.solution())
    assert found.kind == verdict.STOPPED and "did not come to its end" in str(found), str(found)


def test_a_program_is_graded_for_sizes_of_its_own():
    assert grading.checked(COPIES, COPIES.solution(), "a seed", 15.0)
    told = COPIES.all_sizes()
    assert COPIES.all_sizes("a seed")[len(COPIES.sizes) :] != told[len(COPIES.sizes) :]


def test_a_kernel_that_the_launch_lacks_is_named():
    task = TASKS["scan_blocks"]
    source = task.solution().replace("scan_of_sums(", "scan_sums(")
    found = judged(task, source)
    assert found.kind == verdict.NOT_LAUNCHED and "scan_of_sums" in str(found), str(found)
    assert grading.checked(task, source, "", 15.0).kind == verdict.NOT_LAUNCHED
    assert grading.checked(task, task.solution(), "", 15.0)
