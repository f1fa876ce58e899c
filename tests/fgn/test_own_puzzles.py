"""Puzzles of one's own: the one that is written works, and what is wrong with another is told."""

import nbformat
import puzzle_notebooks
import pytest

import fgn
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
