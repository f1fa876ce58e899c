"""Predictions that a reader makes: `guess()` asks for a number, `reveal()` draws it beside the truth."""

from __future__ import annotations

import base64
import html
import math

import pandas as pd

from fgn.teaching import asking

# The factor by which a guess may be off, and its points.
POINTS = ((1.1, 3), (2.0, 2), (10.0, 1))
_GUESS_COLOUR, _TRUTH_COLOUR = "#A9C4D9", "#D55E00"


def points(number: float, truth: float) -> int:
    """3 within a tenth, 2 within a factor of 2, 1 within a factor of 10, else 0. For 0 the guess must be
    exact."""
    if number == truth:
        return POINTS[0][1]
    if number * truth <= 0:
        return 0
    factor = max(number / truth, truth / number)
    return next((worth for most, worth in POINTS if factor <= most), 0)


def _bars(number: float, truth: float, unit: str) -> str:
    """Two bars, as a picture that every viewer of notebooks shows."""
    most = max(abs(number), abs(truth)) or 1.0
    rows = []
    for row, (who, value, colour) in enumerate(
        (("guess", number, _GUESS_COLOUR), ("truth", truth, _TRUTH_COLOUR))
    ):
        width, top = 380 * abs(value) / most, 8 + 28 * row
        words = html.escape(f"{value:.4g} {unit}")
        rows.append(
            f'<text x="4" y="{top + 15}" class="t">{who}</text>'
            f'<rect x="52" y="{top}" width="{max(width, 1):.1f}" height="20" fill="{colour}"/>'
            f'<text x="{58 + width:.1f}" y="{top + 15}" class="t">{words}</text>'
        )
    style = "<style>.t{font:13px sans-serif;fill:#1b1f23}</style>"
    picture = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 66" width="640" height="66">{style}'
        f'<rect width="640" height="66" fill="#fff"/>{"".join(rows)}</svg>'
    )
    data = base64.b64encode(picture.encode()).decode()
    words = html.escape(f"guess {number:.4g} {unit}, truth {truth:.4g} {unit}", quote=True)
    return f'<img alt="{words}" style="max-width:100%" src="data:image/svg+xml;base64,{data}">'


class Guess(asking.Question):
    """A number that the reader guesses before it is measured."""

    def __init__(self, name: str, words: str, unit: str):
        super().__init__(name, words, {"number": float})
        self.unit = unit

    def answer(self, number: float) -> None:
        """The guess, in code. ValueError if it is no number."""
        super().answer(number=number)

    def said(self) -> str:
        return f"{self.given['number']:.4g} {self.unit}" if self.given else ""

    def reveal(self, truth: float, *shown: object) -> asking.Told:
        """The guess beside the truth, and below it further results: figures, tables, text.

        All of it is hidden until there is a guess. `score()` is the score of all guesses.
        """
        try:
            is_number = math.isfinite(float(truth))
        except (TypeError, ValueError):
            is_number = False
        if not is_number:
            raise ValueError(f"truth: expected a number, got {truth!r}")
        truth = float(truth)
        self.when_answered(lambda: self._score(truth))
        if self.given:
            self._score(truth)

        def tell() -> str:
            number = self.given["number"]
            got = points(number, truth)
            words = f"<p>{got} of {POINTS[0][1]} points.</p>"
            return _bars(number, truth, self.unit) + words + "".join(map(asking.as_html, shown))

        return asking.Told(self, tell, lambda: f"guess {self.said()}, truth {truth:.4g} {self.unit}")

    def _score(self, truth: float):
        asking.keep(self.name, self.given | {"truth": truth})


def guess(unit: str, words: str, name: str) -> Guess:
    """Asks the reader for a number, in `unit`. name: of the guess, the same in every run of the notebook.

    guess = teach.guess("sectors", "How many sectors does one request touch?", "02 sectors")
    ...
    guess.reveal(counted, figure)

    ValueError for a name that is empty or no text, because it is the answer's key.
    """
    if not isinstance(name, str) or not name:
        raise ValueError(f"name: expected a name for the guess, got {name!r}")
    return Guess(name, words, unit)


def score() -> pd.DataFrame:
    """All guesses with a truth: guess, truth, points (3 within a tenth, 2 within a factor of 2, 1 within a
    factor of 10), and their sum in the last row."""
    rows = {
        name: {"guess": answer["number"], "truth": answer["truth"]}
        for name, answer in sorted(asking.kept().items())
        if {"number", "truth"} <= answer.keys()
    }
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=["guess", "truth"])
    frame["points"] = [points(row.guess, row.truth) for row in frame.itertuples()]
    frame.loc[f"of {POINTS[0][1] * len(rows)}", "points"] = sum(frame.points)
    return frame.astype({"points": int})
