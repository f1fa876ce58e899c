"""Questions that a reader answers before a notebook shows the result: input fields, saved answers, and
results that are shown only afterwards.

A question asks where it is displayed. A result that needs an answer first is a `Told`, such as `then()`
returns. Before the answer, a notebook shows a line that tells what is missing; after it, the result appears
under the question, where its reader is.

Answers are kept in `guesses.json` in `$XDG_DATA_HOME/fgn`, by default in `~/.local/share/fgn`; the
environment variable FGN_GUESSES names another file. `FGN_GUESSES=recorded` takes those of
`notebooks/guesses.json`, for notebooks without a reader (the tests, the book).
"""

from __future__ import annotations

import base64
import html
import io
import json
import math
import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

from matplotlib.figure import Figure

from fgn import readers_files
from fgn.native.places import ROOT

RECORDED = "recorded"
Answer = dict[str, object]


def is_recorded() -> bool:
    """Whether the answers are the recorded ones, because there is no reader."""
    return os.environ.get("FGN_GUESSES") == RECORDED


def path() -> Path:
    """The file of answers."""
    named = os.environ.get("FGN_GUESSES")
    if named == RECORDED:
        return ROOT / "notebooks" / "guesses.json"
    if named:
        return Path(named)
    return readers_files.place_of("guesses.json")


_unsaved: dict[str, Answer] = {}  # answers that could not be saved: they are kept until the session ends


def kept() -> dict[str, Answer]:
    """All answers by the names of their questions. An unreadable file counts as empty."""
    content = readers_files.content_of(path())
    answers = {name: answer for name, answer in content.items() if isinstance(answer, dict)}
    return answers | _unsaved


def keep(name: str, answer: Answer):
    """Saves an answer, and replaces an earlier one to the same question. Recorded answers stay as they are.
    Warns once if the file cannot be written."""
    if is_recorded():
        return
    answers = kept() | {name: answer}
    try:
        readers_files.replace(path(), json.dumps(answers, indent=1, sort_keys=True))
    except OSError as error:
        if not _unsaved:
            warnings.warn(f"guesses are not saved: {error}", stacklevel=3)
        _unsaved[name] = answer


def as_html(shown: object) -> str:
    """An object as a notebook shows it, in HTML: a figure as a picture at its own resolution; text as a
    paragraph, unless it has its own HTML, like source text."""
    if isinstance(shown, Figure):
        buffer = io.BytesIO()
        shown.savefig(buffer, format="png", dpi=shown.dpi, metadata={"Software": None})
        data = base64.b64encode(buffer.getvalue()).decode()
        return f'<img style="max-width:100%" src="data:image/png;base64,{data}">'
    of_notebook = getattr(shown, "_repr_html_", lambda: None)()
    if of_notebook:
        return of_notebook
    if isinstance(shown, str):
        return f"<p>{html.escape(shown)}</p>"
    return f"<pre>{html.escape(repr(shown))}</pre>"


def _widgets():
    """ipywidgets, in a notebook that shows them; else None."""
    from IPython import get_ipython

    shell = get_ipython()
    if is_recorded() or shell is None or not hasattr(shell, "kernel"):
        return None
    try:
        import ipywidgets
    except ImportError:
        return None
    return ipywidgets


MEASURED = "what was measured, beside a recorded guess"
EXPECTED = "what was to be expected"


class Told:
    """Something that is shown once a question has an answer. text: printed instead outside a notebook. what:
    its description."""

    def __init__(
        self, question: Question, tell: Callable[[], str], text: Callable[[], str], what: str = MEASURED
    ):
        self.question, self._tell, self._text, self._what = question, tell, text, what

    def _repr_html_(self) -> str:
        if self.question.given is None:
            return f"<em>{html.escape(self.question.missing())}</em>"
        if not is_recorded():
            return self._tell()
        # No reader was asked, so the page keeps this folded, and its reader can still guess.
        summary = f"Make your own guess first. Then open this: {self._what}."
        return f"<details><summary><b>{summary}</b></summary>{self._tell()}</details>"

    def __repr__(self) -> str:
        if self.question.given is None:
            return self.question.missing()
        return f"{self.question.words} (folded)" if is_recorded() else self._text()

    def _ipython_display_(self):
        from IPython.display import display

        widgets = _widgets()
        if widgets is None or self.question.given is not None:
            display({"text/html": self._repr_html_(), "text/plain": repr(self)}, raw=True)
            return
        place = widgets.HTML(self._repr_html_())
        self.question.when_answered(lambda: self._show(place))
        display(place)

    def _show(self, place):
        """Shows the result: under the question, if one is in view, else here."""
        if self.question.below is None:
            place.value = self._repr_html_()
            return
        from IPython.display import HTML

        self.question.below.append_display_data(HTML(self._repr_html_()))
        place.value = "<em>You have answered: this is shown under the question.</em>"


class Question:
    """A question with fields. A notebook shows the fields; `answer()` is the same in code.

    name: the answer's key. words: the question. fields: for each, a type or the choices.
    """

    def __init__(self, name: str, words: str, fields: Mapping[str, type | tuple[str, ...]]):
        self.name, self.words, self.fields = name, words, dict(fields)
        self.given: Answer | None = self._known(kept().get(name))
        self._waiting: list[Callable[[], None]] = []
        self.below = None  # the place under the question's fields, once a notebook shows them

    def _known(self, answer: object) -> Answer | None:
        """A saved answer, if it is still valid for this question."""
        try:
            return self._checked(answer) if isinstance(answer, dict) else None
        except (TypeError, ValueError):
            return None

    def _checked(self, answer: Mapping[str, object]) -> Answer:
        checked: Answer = {}
        for field, kind in self.fields.items():
            if field not in answer:
                raise TypeError(f"{field}: expected an answer, got none")
            value = answer[field]
            if isinstance(kind, tuple):
                if value not in kind:
                    raise ValueError(f"{field}: expected one of {', '.join(kind)}, got {value!r}")
                checked[field] = value
                continue
            try:
                checked[field] = kind(value)
                is_number = math.isfinite(checked[field])
            except (TypeError, ValueError, OverflowError):
                is_number = False
            if not is_number:
                raise ValueError(f"{field}: expected a number, got {value!r}")
        return checked

    def missing(self) -> str:
        return f"This is told when you have answered: {self.words}"

    def answer(self, **fields) -> None:
        """Answers the question, and shows what waits for the answer. ValueError for an invalid answer."""
        self.given = self._checked(fields)
        keep(self.name, self.given)
        waiting, self._waiting = self._waiting, []
        for tell in waiting:
            tell()

    def when_answered(self, tell: Callable[[], None]):
        self._waiting.append(tell)

    def then(self, *shown: object) -> Told:
        """Figures, tables or text that would give the answer away: they are shown after the answer."""
        return Told(
            self,
            lambda: "".join(map(as_html, shown)),
            lambda: "\n".join(map(repr, shown)),
            EXPECTED,
        )

    def said(self) -> str:
        """The answer in words."""
        return ", ".join(f"{field} {value}" for field, value in (self.given or {}).items())

    def _repr_html_(self) -> str:
        words = html.escape(self.words)
        who = "A recorded guess" if is_recorded() else "Your guess"
        said = f" {who}: {html.escape(self.said())}." if self.given and not is_recorded() else ""
        return f"<p><b>Guess.</b> {words}{said}</p>"

    def __repr__(self) -> str:
        return f"{self.words} Answer with .answer({', '.join(f'{field}=…' for field in self.fields)})."

    def _ipython_display_(self):
        from IPython.display import display

        widgets = _widgets()
        if widgets is None:
            display({"text/html": self._repr_html_(), "text/plain": repr(self)}, raw=True)
            return
        inputs = {
            field: widgets.Dropdown(options=("", *kind), description=field)
            if isinstance(kind, tuple)
            else widgets.Text(placeholder="a number", description=field, continuous_update=False)
            for field, kind in self.fields.items()
        }
        words, button = widgets.HTML(self._repr_html_()), widgets.Button(description="That is my guess")
        is_refused = False

        def submit(_):
            nonlocal is_refused
            try:
                self.answer(**{field: box.value for field, box in inputs.items()})
            except ValueError as error:
                is_refused = True
                words.value = f"<p>{html.escape(str(error))}</p>"
            else:
                is_refused = False
                words.value = self._repr_html_()

        def submit_again(change):
            if is_refused:
                submit(change)

        # While the kernel is busy, a click can arrive before text that was typed earlier. So text after a
        # click without a number counts as if it had come first.
        button.on_click(submit)
        for box in inputs.values():
            box.observe(submit_again, "value")
        self.below = widgets.Output()
        display(widgets.VBox([words, widgets.HBox([*inputs.values(), button]), self.below]))
