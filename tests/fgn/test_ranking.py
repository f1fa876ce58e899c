"""Questions of puzzles, and how fast a right kernel is beside the kit's own: measured or predicted."""

import re
from types import SimpleNamespace

import pytest
import torch

import cudasim
import fgn
from fgn.puzzles import grading, verdict
from fgn.puzzles.catalogue import TASKS
from fgn.puzzles.definition import MISREAD, Question
from fgn.puzzles.ranking import BEGUN, FLOOR, KIT, LARGE, YOURS, ranked

ECHOES = TASKS["profile_echoes"]
SMALL = {"row_tiles": 512}


@pytest.fixture(autouse=True)
def progress(tmp_path, monkeypatch):
    monkeypatch.setenv("FGN_PUZZLES", str(tmp_path / "puzzles.json"))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("// CAUSE: conflicts", ""),
        ("  //cause:  Conflicts. ", ""),
        ("// CAUSE: one   lane", "CAUSE: one lane? no"),
        ("// CAUSE: ?", "says “?”: expected one of conflicts, one lane"),
        ("// CAUSE:", "says nothing"),
        ("int x; // CAUSE: conflicts", "says nothing"),
        ("", "says nothing"),
    ],
)
def test_an_answer_is_read_from_the_source(line, words):
    said = Question("CAUSE", "conflicts", {"one lane": "no"}).misread(f"\n{line}\n__global__ void f() {{}}\n")
    assert (words in said) if words else said == ""


def test_no_puzzle_gives_its_answer_away():
    asked = [task for task in TASKS.values() if task.question]
    assert len(asked) >= 5
    for task in asked:
        assert task.question.misread(task.solution()) == "" != task.question.misread(task.skeleton())
        assert not re.search(
            rf"{task.question.word}: *{task.question.right}", task.text + task.skeleton(), re.I
        )
        assert task.question.right not in task.question.others


def test_a_right_kernel_with_a_wrong_answer_has_a_part_of_the_points(monkeypatch):
    def judged(task, source, seed, seconds):
        said = task.question and task.question.misread(source)
        return verdict.Verdict(task.title, MISREAD if said else verdict.SOLVED, "")

    monkeypatch.setattr(grading, "checked", judged)
    for answer, points in (("conflicts", 10), ("bytes", 6)):
        source = ECHOES.solution().replace("CAUSE: conflicts", f"CAUSE: {answer}")
        submission = SimpleNamespace(task=ECHOES, source=source, is_begun=True, student="a")
        assert grading._graded(submission, "", 1.0).points == points


def test_a_ranking_without_a_gpu_is_predicted_and_ordered():
    slow = ECHOES.solution().replace("tile[32][65]", "tile[32][64]")
    found = ranked(ECHOES, slow, SMALL, gpu="RTX 4090")
    times = found.table["µs"]
    assert "predicted for an RTX 4090" in repr(found) and "row_tiles = 512" in found._repr_html_()
    assert set(times.index) == {FLOOR, KIT, BEGUN, YOURS} and times.is_monotonic_increasing
    assert times[FLOOR] < times[KIT] <= times[YOURS] and times[YOURS] == pytest.approx(times[BEGUN])
    rows = 32 * SMALL["row_tiles"]
    moved = 4 * rows * (64 + 16 + 8)
    assert times[FLOOR] == pytest.approx(1e6 * moved / cudasim.card("RTX 4090").dram_bandwidth)
    assert found.table["times the kit's"][KIT] == 1


def test_what_learners_begin_with_is_slow_where_a_profile_is_read():
    times = ranked(ECHOES, ECHOES.solution(), gpu="H100").table["µs"]
    assert times[BEGUN] >= 1.5 * times[KIT]


def test_what_cannot_be_ranked_is_told():
    with pytest.raises(ValueError, match=r"sizes: expected n=…, large enough to fill a GPU, got none"):
        ranked(TASKS["map"], TASKS["map"].solution())
    with pytest.raises(ValueError, match="sizes: expected row_tiles=…, large"):
        ranked(ECHOES, ECHOES.solution(), {"n": 3})
    with pytest.raises(ValueError, match="is a program"):
        ranked(TASKS["host_copies"], "")
    wrong = fgn.kernel("__global__ void relu(float *y, const float *x, int n) { y[0] = 0; }")
    assert fgn.puzzles.get("guard").rank(wrong).kind == "wrong numbers"


def test_large_sizes_are_those_of_their_puzzles():
    for name, sizes in LARGE.items():
        task = TASKS[name]
        assert sizes.keys() == task.sizes[0].keys() and task.fits(sizes), name


@pytest.mark.gpu
def test_a_ranking_on_the_gpu_leaves_wrong_kernels_out():
    found = ranked(ECHOES, ECHOES.solution())
    assert "measured on an" in repr(found) and set(found.table.index) == {FLOOR, KIT, BEGUN, YOURS}
    assert found.table["times the kit's"][BEGUN] >= 1.5
    wrong = ECHOES.solution().replace("scale * sum", "scale + sum")
    assert YOURS not in ranked(ECHOES, wrong).table.index


@pytest.mark.gpu
@pytest.mark.parametrize("name", [name for name in LARGE if not TASKS[name].in_numpy])
def test_a_reference_is_computed_on_the_gpu_where_its_inputs_are(name):
    task = TASKS[name]
    sizes = task.sizes[0]
    there = {key: torch.as_tensor(x).to("cuda") for key, x in task.inputs_of(sizes, 1).items()}
    assert {of.device.type for of in task.right(**task.exact(there), **sizes).values()} == {"cuda"}


@pytest.mark.gpu
def test_a_kernel_with_what_only_its_gpu_has_is_ranked_on_the_gpu():
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("wgmma needs a GPU of compute capability 9.0")
    times = ranked(TASKS["wgmma_tile"], TASKS["wgmma_tile"].solution()).table["µs"]
    assert times[FLOOR] < times[YOURS] and times[YOURS] == pytest.approx(times[KIT], rel=0.5)


def test_a_report_shows_the_lines_of_what_learners_begin_with(monkeypatch):
    monkeypatch.setitem(LARGE, "profile_echoes", SMALL)
    figure = fgn.puzzles.get("profile_echoes").draw()
    words = [text.get_text() for axis in figure.axes for text in axis.texts]
    assert "sum += tile[lane][i] * tile[lane][i + shift];" in words
    assert "32" in words  # wavefronts of that line
    assert "predicted" in figure.axes[0].get_title(loc="left")
