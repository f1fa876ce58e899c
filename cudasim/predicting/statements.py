"""In which line of a source each statement begins.

Of a statement of several lines nvcc names the line of the part that an instruction does, and the simulator's
compiler the first one: both are brought to the first.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import replace

from cudasim.counting.places import Place
from cudasim.live.text import blanked, without_directives
from cudasim.predicting.sampling import Sample

_TOKEN = re.compile(r"\n|\w+|\S")
_WITH_HEAD = {"if", "for", "while", "switch"}  # what follows the parentheses is a statement of its own


def _starts(text: str) -> list[int]:
    """For each line, from 1 on, where the statement begins that it begins in."""
    code = without_directives(blanked(text))
    starts, line, first, depth, word = [0, 1], 1, 0, 0, ""  # first: 0 between two statements
    for token in _TOKEN.findall(code):
        if token == "\n":
            line += 1
            starts.append(first or line)
            continue
        if not first:
            first, word = line, token
        depth += (token in "([") - (token in ")]")
        head_ends = word in _WITH_HEAD and token == ")"
        if depth <= 0 and (token in ";{}" or head_ends or word in ("else", "do")):
            first, depth = 0, 0
    return starts


class Statements(Mapping[str, str]):
    """The texts of source files by their names, and where their statements begin."""

    def __init__(self, texts: Mapping[str, str]):
        self.texts = dict(texts)
        self._rows = {file: text.splitlines() for file, text in texts.items()}
        self._starts = {file: _starts(text) for file, text in texts.items()}

    def __getitem__(self, file: str) -> str:
        return self.texts[file]

    def __iter__(self):
        return iter(self.texts)

    def __len__(self) -> int:
        return len(self.texts)

    def start(self, file: str, line: int) -> int:
        starts = self._starts.get(file, ())
        return starts[line] if 0 < line < len(starts) else line

    def text_at(self, file: str, line: int) -> str:
        """The lines of the statement that begins in a line."""
        starts = self._starts[file]
        if not 0 < line < len(starts):
            return ""
        end = bisect_right(starts, line, lo=line)
        return " ".join(self._rows[file][line - 1 : end - 1])

    def of_sample(self, sample: Sample) -> Sample:
        """The sample with every place at the beginning of its statement."""

        def at(place: Place) -> Place:
            return replace(place, line=self.start(place.file, place.line))

        return replace(
            sample,
            launches=tuple(
                replace(
                    launch,
                    instructions=tuple(replace(one, place=at(one.place)) for one in launch.instructions),
                    basic_blocks=tuple(replace(one, place=at(one.place)) for one in launch.basic_blocks),
                )
                for launch in sample.launches
            ),
        )
