"""Puzzles of one's own: the one that is written works, and what is wrong with another is told."""

import subprocess
import sys

import nbformat
import puzzle_notebooks
import pytest

import fgn
from fgn.native.places import ROOT
from fgn.puzzles import catalogue, grading, own


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a puzzle, which is forgotten afterwards."""
    monkeypatch.setenv("FGN_PUZZLES", str(tmp_path / "progress.json"))
    before = dict(catalogue.TASKS), dict(catalogue.NOTEBOOKS)
    own.write_new(tmp_path / "my_puzzles" / "add_one")
    yield tmp_path / "my_puzzles"
    for now, then in zip((catalogue.TASKS, catalogue.NOTEBOOKS), before, strict=True):
        now.clear()
        now.update(then)


def test_the_puzzle_that_is_written_keeps_its_promises(folder):
    (task,) = own.read(folder)
    for what, is_so, said in own.tried(task):
        assert is_so, f"{what}\n{said}"


def test_it_is_a_puzzle_like_others(folder):
    assert fgn.puzzles.add(folder) == ("add_one",)
    puzzle = fgn.puzzles.get("add_one")
    assert puzzle.check(fgn.kernel((folder / "add_one.cu").read_text()))
    assert "Add one" in str(puzzle) and puzzle.draw().axes and "1024" in str(puzzle)
    # A change counts at once, in the process that checks too.
    text = (folder / "add_one.py").read_text()
    (folder / "add_one.py").write_text(text.replace("x + 1}", "x + 2}"))
    fgn.puzzles.add(folder)
    found = puzzle.check(fgn.kernel((folder / "add_one.cu").read_text()))
    assert found.kind == "wrong numbers"
    assert (
        grading.checked(catalogue.find("add_one"), (folder / "add_one.cu").read_text(), "", 15.0).kind
        == found.kind
    )


def test_a_promise_that_does_not_hold_is_told(folder):
    text = (folder / "add_one.py").read_text()
    (folder / "add_one.py").write_text(text.replace('FAULT, "out of bounds"', 'WRONG, "expected"'))
    (task,) = own.read(folder)
    broken = [what for what, is_so, _ in own.tried(task) if not is_so]
    assert broken == ["no_guard fails (wrong numbers: expected)"]


def test_its_notebook_is_the_only_one_that_is_written(folder):
    written = puzzle_notebooks.write_own(folder)
    assert written == folder / "my_puzzles.ipynb"
    sources = [cell.source for cell in nbformat.read(written, as_version=4).cells]
    assert any('fgn.puzzles.add(".")' in source for source in sources)
    assert any(source.startswith("%%cuda") and "Your code here" in source for source in sources)
    assert {path.suffix for path in folder.iterdir() if path.is_file()} == {".py", ".cu", ".ipynb"}


def test_what_is_wrong_with_a_folder_is_told(folder):
    with pytest.raises(ValueError, match="expected a folder of puzzles"):
        own.read(folder / "none")
    with pytest.raises(ValueError, match="there already"):
        own.write_new(folder / "add_one")
    with pytest.raises(ValueError, match="expected a name of letters"):
        own.write_new(folder / "add-one")
    text = (folder / "add_one.py").read_text()
    for change, said in (
        (text.replace('name="add_one"', 'name="other"'), "expected name='add_one'"),
        (text.replace("TASK =", "task ="), "expected TASK = Task"),
        ("import torch\n1 / 0", "ZeroDivisionError"),
        (text.replace('kernel="add_one_kernel"', 'kernel="relu"'), "guard with the kernel relu already"),
    ):
        (folder / "add_one.py").write_text(change)
        with pytest.raises(ValueError, match=said):
            fgn.puzzles.add(folder)
    (folder / "add_one.py").write_text(text)
    (folder / "add_one.cu").unlink()
    with pytest.raises(ValueError, match=r"expected its solution beside it, in add_one\.cu"):
        own.read(folder)


WITHOUT_TORCH = """
import sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name=name)
sys.meta_path.insert(0, Finder())
import importlib.util
of_all = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "torch" else of_all(name, *rest)
"""

# As where torch is not installed: every process that Python starts reads this first.
USE = """
import sys
from pathlib import Path
import fgn
from fgn.__main__ import main

folder = Path(sys.argv[1])
sys.argv = ["fgn", "puzzle", str(folder)]
main()
fgn.puzzles.add(folder)
puzzle = fgn.puzzles.get("add_one")
kernel = fgn.kernel((folder / "add_one.cu").read_text())
verdict = puzzle.check(kernel)
assert verdict, verdict
assert puzzle.draw().axes and "1024" in str(puzzle)
assert not puzzle.check(fgn.kernel(str(puzzle.skeleton)))
print(puzzle.rank(kernel, n=1 << 16))
sys.argv = ["fgn", "grade", str(folder / "class"), "--puzzles", str(folder), "--out", str(folder / "grades")]
main()
assert (folder / "grades" / "class.png").stat().st_size > 1000
first = fgn.puzzles.get("map")
assert first.draw().axes and first.check(fgn.kernel(first.solution().source))
other = fgn.puzzles.get("transpose")
assert other.draw().axes and other.hint()
try:
    other.check(fgn.kernel(str(other.skeleton)))
except RuntimeError as error:
    assert "torch is not installed" in str(error) and "in_numpy" in str(error)
else:
    raise AssertionError
try:
    fgn.fuse
except ImportError as error:
    assert "torch" in str(error)
assert "torch" not in sys.modules
print("all is well")
"""


def test_without_torch_a_puzzle_is_drawn_checked_tried_ranked_and_graded(folder, tmp_path, monkeypatch):
    answer = nbformat.v4.new_code_cell("%%cuda\n" + (folder / "add_one.cu").read_text())
    (folder / "class").mkdir()
    nbformat.write(nbformat.v4.new_notebook(cells=[answer]), folder / "class" / "ada.ipynb")
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(WITHOUT_TORCH)
    monkeypatch.setenv("PYTHONPATH", f"{site}:{ROOT}")
    ran = subprocess.run(
        [sys.executable, "-c", USE, str(folder)], cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.count("✓ add_one") == 6 and "ada" in ran.stdout and "all is well" in ran.stdout
