"""Guesses and the quiz: nothing is told before there is an answer, and an answer is kept and scored."""

import base64
import html
import json
import re
import warnings

import pandas as pd
import pytest

from fgn.bugs import gallery
from fgn.native.places import ROOT
from fgn.teaching import asking, scored_guesses
from fgn.teaching import lessons as teach


@pytest.fixture(autouse=True)
def own_file(tmp_path, monkeypatch):
    monkeypatch.setenv("FGN_GUESSES", str(tmp_path / "folder" / "guesses.json"))
    asking._unsaved.clear()


def test_nothing_is_told_before_the_guess():
    guess = teach.guess("sectors", "How many?", "a")
    told = guess.reveal(33, "because lanes lie apart", pd.DataFrame({"measured": [1.25]}))
    for text in (told._repr_html_(), repr(told)):
        assert "33" not in text and "because" not in text and "How many?" in text
    guess.answer(32)
    shown = told._repr_html_()
    assert "because lanes lie apart" in shown and "1.25" in shown and "3 of 3 points" in shown
    assert repr(told) == "guess 32 sectors, truth 33 sectors"


def test_a_guess_is_kept_and_scored():
    teach.guess("ms", "How long?", "a").answer("2.5")
    again = teach.guess("ms", "How long?", "a")
    assert again.given == {"number": 2.5}
    again.reveal(5.0)
    other = teach.guess("ms", "And this?", "b")
    other.answer(100)
    other.reveal(1.0)
    score = teach.score()
    assert list(score.points) == [2, 0, 2] and list(score.index) == ["a", "b", "of 6"]


@pytest.mark.parametrize(
    "number, truth, worth",
    [(10, 10.5, 3), (10, 19, 2), (10, 95, 1), (10, 200, 0), (-1, 1, 0), (0, 0, 3), (0, 1, 0), (-4, -5, 2)],
)
def test_points(number, truth, worth):
    assert scored_guesses.points(number, truth) == worth == scored_guesses.points(truth, number)


@pytest.mark.parametrize("wrong", ["many", "", None, float("nan"), "inf", "1e400", 10**400])
def test_what_is_no_number_is_no_guess(wrong):
    guess = teach.guess("ms", "How long?", "a")
    with pytest.raises(ValueError, match="expected a number"):
        guess.answer(wrong)
    assert guess.given is None


def test_a_click_that_comes_before_its_number_still_counts(monkeypatch):
    widgets = pytest.importorskip("ipywidgets")
    displayed = []
    monkeypatch.setattr(asking, "_widgets", lambda: widgets)
    monkeypatch.setattr("IPython.display.display", displayed.append)
    guess = teach.guess("ms", "How long?", "a")
    guess._ipython_display_()
    words, (field, button) = displayed[0].children[0], displayed[0].children[1].children
    field.value = "9"
    assert guess.given is None, "a number is a guess when its reader says so"
    field.value = "many"
    button.click()
    assert "got &#x27;many&#x27;" in words.value and guess.given is None
    field.value = "2.5"
    assert guess.given == {"number": 2.5} and "Your guess" in words.value
    field.value = "3"
    assert guess.given == {"number": 2.5}


def test_a_file_that_says_something_else_is_no_answer():
    path = asking.path()
    path.parent.mkdir()
    for content in ("", "[]", '{"a": 3, "b": {"number": "many"}}'):
        path.write_text(content)
        assert teach.guess("ms", "How long?", "a").given is None
        assert teach.guess("ms", "How long?", "b").given is None


def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FGN_GUESSES", str(tmp_path / "file" / "guesses.json"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        teach.guess("ms", "How long?", "a").answer(3)
        teach.guess("ms", "How long?", "b").answer(3)
    assert len(caught) == 1 and "not saved" in str(caught[0].message)
    assert teach.guess("ms", "How long?", "a").given == {"number": 3.0}


def test_recorded_guesses_are_folded_and_stay_as_they_are(monkeypatch):
    monkeypatch.setenv("FGN_GUESSES", "recorded")
    before = asking.path().read_text()
    name, answer = next((n, a) for n, a in json.loads(before).items() if "number" in a)
    told = teach.guess("ms", "How long?", name).reveal(1.0)
    assert told._repr_html_().startswith("<details>") and f"{answer['number']:.4g}" in told._repr_html_()
    assert asking.path().read_text() == before


def test_every_guess_of_a_notebook_has_a_recorded_one_and_a_name_of_its_own():
    recorded = json.loads((ROOT / "notebooks" / "guesses.json").read_text())
    asked = []
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        for cell in json.loads(path.read_text())["cells"]:
            source = "".join(cell["source"]) if cell["cell_type"] == "code" else ""
            asked += re.findall(r'teach\.guess\(.*?"(\d\d [^"]+)",?\s*\)', source, re.S)
    assert len(asked) == len(set(asked)) and set(asked) == {n for n, a in recorded.items() if "number" in a}


# What a saved notebook shows without opening a fold: text, tables, and the words of drawn pictures.
FOLDED = re.compile(r"<details.*?</details>|<script.*?</script>|<style.*?</style>", re.S)
DRAWN = re.compile(r"data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)")
NUMBER = re.compile(r"(?<![\w.,×])\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?(?![\w,]|\.\d)")


def in_view(output) -> str:
    data = output.get("data", {})
    text = "".join(output.get("text", "")) or "".join(data.get("text/html") or data.get("text/plain", ""))
    text = FOLDED.sub(" ", text)
    drawn = (base64.b64decode(picture).decode() for picture in DRAWN.findall(text))
    return html.unescape(re.sub(r"<[^>]*>", " ", " ".join([DRAWN.sub("", text), *drawn])))


def is_answer(text: str, truth: float, digits_at_least: int = 1) -> bool:
    """Whether a number that a notebook prints is the truth, as exactly as it is printed. digits_at_least: one
    with fewer digits is no answer."""
    digits = text.replace(",", "")
    mantissa = digits.partition("e")[0]
    number, last = float(digits), 10.0 ** -len(mantissa.partition(".")[2])
    scale = abs(number / float(mantissa)) if float(mantissa) else 1.0
    count = len(mantissa.replace(".", "").strip("0"))
    return count >= digits_at_least and abs(number - truth) <= (0.0 if count < 2 else 0.5 * last * scale)


def answers_in_view(notebook) -> list[str]:
    """Each question whose answer stands unfolded between its question and its answer, or below that."""
    asked, truths, found = {}, {}, []
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(cells):
        source = "".join(cell["source"])
        if question := re.search(r"(\w+) = teach\.guess\(", source):
            asked[question[1]] = number
        if answer := re.search(r"(\w+)\.reveal\(", source):
            shown = "".join("".join(o.get("data", {}).get("text/html", "")) for o in cell["outputs"])
            truth = re.search(r'alt="guess [^"]*, truth ([-\d.e+]+) ', shown)
            assert truth and "<details>" in shown, f"cell {number} gives no folded answer: {source}"
            truths[answer[1], number] = float(truth[1])
    for (name, last), truth in truths.items():
        first = max(n for n, c in enumerate(cells[:last]) if f"{name} = teach.guess(" in "".join(c["source"]))
        for number, cell in enumerate(cells[first + 1 :], first + 1):
            least = 1 if number <= last else 3
            for text in map(in_view, cell["outputs"]):
                told = [n for n in NUMBER.findall(text) if is_answer(n, truth, least)]
                found += [f"{truth:g} in: {text.strip()[:300]}"] if told else []
    return found


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem)
def test_no_saved_output_gives_an_answer_away(path):
    assert not answers_in_view(json.loads(path.read_text()))


def test_an_answer_in_view_is_found():
    def cell(source, **data):
        return {"cell_type": "code", "source": source, "outputs": [{"data": data}]}

    picture = base64.b64encode(b"<svg><text>33 sectors</text></svg>").decode()
    told = '<details><img alt="guess 8 sectors, truth 33 sectors">33 in all</details>'
    question, answer = cell("guess = teach.guess("), cell("guess.reveal(n)", **{"text/html": told})
    for shown, count in (
        ("of 32 lanes, 330", 0),
        ("33", 1),
        (f'<img src="data:image/svg+xml;base64,{picture}">', 1),
    ):
        between = cell("shown", **{"text/html": shown})
        assert len(answers_in_view({"cells": [question, between, answer]})) == count, shown


def test_what_is_told_later_appears_under_the_question(monkeypatch):
    widgets = pytest.importorskip("ipywidgets")
    displayed = []
    monkeypatch.setattr(asking, "_widgets", lambda: widgets)
    monkeypatch.setattr("IPython.display.display", displayed.append)
    guess = teach.guess("ms", "How long?", "a")
    guess._ipython_display_()
    guess.then({"expected": 7.5})._ipython_display_()
    guess.reveal(33)._ipython_display_()
    below, *places = displayed[0].children[2], *displayed[1:]
    assert below.outputs == () and all("when you have answered" in place.value for place in places)
    guess.answer(3)
    expected, told = (output["data"]["text/html"] for output in below.outputs)
    assert "7.5" in expected and "truth 33 ms" in told
    assert all("shown under the question" in place.value for place in places)


def test_the_quiz_asks_before_it_tells():
    quiz = gallery.quiz("no_barrier_after_use")
    told = quiz.tell()
    assert "race" not in repr(told) and "barrier" not in told._repr_html_().replace("no_barrier", "")
    assert "__shared__" in quiz._repr_html_()  # the source is there
    line = next(iter(quiz.bug.broken.changed))
    quiz.answer(line=str(line), kind="race")
    assert quiz.is_right() == (True, True)
    shown = told._repr_html_()
    assert "race in" in shown and "Why people make it" in shown
    # The difference keeps its lines.
    assert asking.as_html(gallery.diff(quiz.bug)) == gallery.diff(quiz.bug)._repr_html_() in shown
    quiz.answer(line=line + 9, kind="comparison")
    assert quiz.is_right() == (False, False)
    with pytest.raises(ValueError, match="kind"):
        quiz.answer(line=1, kind="bad luck")


def test_what_is_no_bug_no_name_and_no_truth():
    with pytest.raises(IndexError, match="bug: expected 0 to"):
        gallery.quiz(len(gallery.BUGS))
    with pytest.raises(ValueError, match="name: expected a name"):
        teach.guess("ms", "How long?", "")
    for truth in (None, "x", float("nan")):
        with pytest.raises(ValueError, match="truth: expected a number"):
            teach.guess("ms", "How long?", "of nothing").reveal(truth)


@pytest.mark.parametrize("bug", gallery.BUGS.values(), ids=gallery.BUGS)
def test_every_bug_has_a_wrong_line_that_is_shown(bug):
    lines = bug.broken.changed
    assert lines
    shown = [int(text[:3]) for text in str(gallery.source(bug)).splitlines() if text[:3].strip().isdigit()]
    assert shown[0] <= min(lines) and max(lines) <= shown[-1] + 1
