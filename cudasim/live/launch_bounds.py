"""Makes a kernel check the block size that its __launch_bounds__ promises.

nvcc compiles for at most that many threads, and a launch with more fails. The first argument may depend on
the template's, so the kernel itself compares.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from cudasim.live.signature import split_at_commas
from cudasim.live.text import blanked, closing, without_directives
from cudasim.live.tree import Change, Source

_WORD = re.compile(r"\b__launch_bounds__\s*(?=\()")


def launch_bounds(source: Source) -> Iterator[Change]:
    """Writes a call of sim_launch_bounds() as the first statement of each kernel with bounds."""
    text = without_directives(blanked(source.data.decode("latin-1")))
    for match in _WORD.finditer(text):
        end = closing(text, match.end())
        inside = text[match.end() + 1 : end]
        bounds = split_at_commas(inside)
        if "<" in inside or not bounds:
            continue  # a comma may be one of a template's arguments
        place = end + 1
        while (following := re.compile(r"[({;]").search(text, place)) and following[0] == "(":
            place = closing(text, following.start()) + 1
        if following and following[0] == "{":
            call = f" sim_launch_bounds((unsigned)({bounds[0]}), __FILE__, __LINE__);"
            yield following.end(), 0, call.encode("latin-1")
